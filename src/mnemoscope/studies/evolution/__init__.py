"""The study ``evolution``."""
