"""Conversations about documents: readers, a made-up corpus, their tokens and the task."""
