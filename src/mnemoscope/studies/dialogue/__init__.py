"""The study ``dialogue``."""
