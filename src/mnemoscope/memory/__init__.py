"""What is kept: one file a memory, each a few pure functions over an explicit state."""

# Importing them all makes every kind of state known to `State.load`.
from mnemoscope.memory import attention as attention
from mnemoscope.memory import cache as cache
from mnemoscope.memory import continuous as continuous
from mnemoscope.memory import gru as gru
from mnemoscope.memory import kept as kept
from mnemoscope.memory import lstm as lstm
from mnemoscope.memory import rnn as rnn
from mnemoscope.memory import words as words
