"""The memory ``transformer``."""
