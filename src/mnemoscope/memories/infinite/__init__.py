"""The memory ``infinite``."""
