"""The study ``infinite``."""
