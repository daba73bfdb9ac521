"""What reads and writes: recurrent models, Transformers, and the one call they share."""
