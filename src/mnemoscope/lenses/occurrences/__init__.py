"""The lens ``occurrences``."""
