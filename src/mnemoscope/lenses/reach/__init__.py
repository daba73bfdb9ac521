"""The lens ``reach``."""
