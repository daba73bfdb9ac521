"""The lens ``influence``."""
