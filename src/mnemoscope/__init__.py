"""Build memory into sequence models, and see what they remember."""

__version__ = "0.1.0"
