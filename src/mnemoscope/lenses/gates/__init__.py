"""The lens ``gates``."""
