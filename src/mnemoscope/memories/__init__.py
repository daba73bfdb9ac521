"""What is kept: one file or folder a memory, its layer beside its mathematics."""
