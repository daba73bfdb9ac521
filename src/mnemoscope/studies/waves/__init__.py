"""The study ``waves``."""
