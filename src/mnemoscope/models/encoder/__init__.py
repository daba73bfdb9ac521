"""The encoder ``encoder``."""
