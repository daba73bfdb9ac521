"""The lens ``information``."""
