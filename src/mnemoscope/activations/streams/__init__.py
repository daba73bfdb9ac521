"""Models watched while they read a stream: which tokens each layer used, and what it holds."""
