"""Statistics that several lenses keep while texts go by."""
