"""The lens ``evolution``."""
