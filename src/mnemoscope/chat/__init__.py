"""Talk to a model about a document longer than its window: sessions as plain objects."""
