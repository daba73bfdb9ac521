"""The live page: runs and studies, and models watched while they read."""
