"""The study ``sorting``."""
