"""The lens ``attention_maps``."""
