"""What can be seen: capture first, then one file a lens."""
