"""The lens ``change``."""
