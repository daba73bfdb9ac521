"""The memory ``transformer_xl``."""
