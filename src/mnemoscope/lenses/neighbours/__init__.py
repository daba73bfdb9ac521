"""The lens ``neighbours``."""
