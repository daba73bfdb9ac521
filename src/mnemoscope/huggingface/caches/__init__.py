"""Caches of models of transformers that hold less than all keys and values read."""
