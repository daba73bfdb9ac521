"""The lens ``retention``."""
