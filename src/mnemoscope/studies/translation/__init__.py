"""The study ``translation``."""
