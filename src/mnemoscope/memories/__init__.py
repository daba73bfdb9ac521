"""What is kept: one file a memory, each a few pure functions over an explicit state."""
