from tiny_models import theirs, tokens

__all__ = ["theirs", "tokens"]
