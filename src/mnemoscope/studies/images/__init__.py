"""The study ``images``."""
