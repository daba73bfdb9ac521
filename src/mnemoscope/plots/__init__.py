"""Figures as data. Imports no torch."""
