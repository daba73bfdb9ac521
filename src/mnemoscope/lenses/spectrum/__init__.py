"""The lens ``spectrum``."""
