"""The translator ``encoder_decoder``."""
