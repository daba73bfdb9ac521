"""The memory ``sparse``."""
