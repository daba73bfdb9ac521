"""The lens ``waves``."""
