"""The study ``caches``."""
