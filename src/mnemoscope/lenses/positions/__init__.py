"""What lenses on positions share: spectra, means over texts, position tables."""
