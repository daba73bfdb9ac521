"""The study ``books``."""
