"""Where version 0.1 had `ModelConfig`: memories that others wrote for it import it from here."""

from mnemoscope.memories.config import ModelConfig as ModelConfig
