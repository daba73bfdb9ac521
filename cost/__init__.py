"""What the `paper` presets cost, from measured steps: ``python -m cost`` writes docs/cost.md."""
