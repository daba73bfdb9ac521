"""The study ``past``."""
