"""Where version 0.1 had `Positions`: memories that others wrote for it import it from here."""

from mnemoscope.memories.positions import Positions as Positions
