"""The memory ``documents``, which is attached to models of transformers."""
