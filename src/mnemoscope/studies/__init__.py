"""The questions: one file a study."""
