"""Models that read a source before they speak."""
