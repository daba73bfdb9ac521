"""The lens ``heads``."""
