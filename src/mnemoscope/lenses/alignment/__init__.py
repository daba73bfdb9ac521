"""The lens ``alignment``."""
