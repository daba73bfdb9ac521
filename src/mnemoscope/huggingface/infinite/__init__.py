"""The ∞-former's and Transformer-XL's memories attached to models of `transformers`."""
