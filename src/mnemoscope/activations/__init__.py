"""Taking activations out of running models: sites, hooks, attention inputs, texts of one length."""
