"""The lens ``similarity``."""
