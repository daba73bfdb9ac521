"""What reads and writes: the one call, its size, and models that read a source first."""
