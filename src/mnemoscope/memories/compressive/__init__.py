"""The memory ``compressive``."""
