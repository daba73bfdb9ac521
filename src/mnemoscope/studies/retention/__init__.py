"""The study ``retention``."""
