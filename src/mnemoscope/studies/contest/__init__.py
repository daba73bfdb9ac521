"""Sparse patterns against each other at equal compute: what `images` and `patterns` share."""
