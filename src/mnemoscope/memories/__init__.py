"""What is kept: one file a memory, each a few pure functions over an explicit state."""

# Importing them all makes every kind of state known to `State.load`.
from mnemoscope.memories import attention as attention
from mnemoscope.memories import cache as cache
from mnemoscope.memories import continuous as continuous
from mnemoscope.memories import gru as gru
from mnemoscope.memories import kept as kept
from mnemoscope.memories import lstm as lstm
from mnemoscope.memories import rnn as rnn
from mnemoscope.memories import words as words
