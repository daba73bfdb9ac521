"""The study ``patterns``."""
