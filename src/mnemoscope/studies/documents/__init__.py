"""The study ``documents``."""
