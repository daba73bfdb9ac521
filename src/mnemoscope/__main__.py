"""``python -m mnemoscope`` is the command ``mnemoscope``; torchrun starts it this way."""

import os
import sys

if __name__ == "__main__":
    # Python puts the working folder first of all; nothing that lies there is ours to import.
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    from mnemoscope.cli import main

    main()
