"""Time what the README prints, in a fresh folder, and write the times beside it: `make times`.

Every command runs to its end in a process of its own, as a reader would run it, except those that
set something up or serve until they are stopped. A time stands at the end of the comment of its
line; one that is there already is replaced.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Set something up, or serve until they are stopped; and what takes no time.
SKIPPED, UNTIMED = re.compile(r"(make|\.|mnemoscope scope) "), re.compile(r"mkdir|echo")
BLOCK = re.compile(r"(?<=```sh\n).*?(?=```)", re.DOTALL)
TIME = re.compile(r"(?:\s+#)?\s+\([\d.]+ (?:s|min)\)$")


def main() -> None:
    """Run all blocks of commands in one folder, then write the page."""
    page = ROOT / "README.md"
    with tempfile.TemporaryDirectory() as folder:
        for path in ROOT.iterdir():
            if path.name != "runs":
                (Path(folder) / path.name).symlink_to(path)
        timed = BLOCK.sub(lambda block: _timed(block[0], Path(folder)), page.read_text())
    page.write_text(timed)


def _timed(block: str, folder: Path) -> str:
    return "".join(f"{_line(line, folder)}\n" for line in block.splitlines())


def _line(line: str, folder: Path) -> str:
    if SKIPPED.match(line):
        return line
    bare = TIME.sub("", line)
    seconds = _seconds(bare, folder)
    if UNTIMED.match(line):
        return line
    said = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    sys.stderr.write(f"{said:>7}  {bare}\n")
    return f"{bare}{'' if '  #' in bare else '   #'} ({said})"


def _seconds(command: str, folder: Path) -> float:
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "BROWSER": "true"}
    began = time.perf_counter()
    subprocess.run(["bash", "-ec", command], cwd=folder, env=environment, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
