"""Faults on purpose: ``python -m campaign`` tries them by the hundred and says what was lost."""
