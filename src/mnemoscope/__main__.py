"""``python -m mnemoscope`` is the command ``mnemoscope``; torchrun starts it this way."""

from mnemoscope.cli import main

if __name__ == "__main__":
    main()
