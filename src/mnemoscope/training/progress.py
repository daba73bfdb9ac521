"""The progress bar, where training looks for it."""

from mnemoscope.progress import progress as progress
