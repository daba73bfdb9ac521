"""What goes in: tokens, pairs, documents, images, synthetic streams."""
