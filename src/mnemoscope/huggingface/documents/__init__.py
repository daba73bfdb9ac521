"""Document memory attached to models of `transformers`."""
