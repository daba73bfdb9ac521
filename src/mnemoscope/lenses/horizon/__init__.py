"""The lens ``horizon``."""
