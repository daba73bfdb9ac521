"""The study ``lag``."""
