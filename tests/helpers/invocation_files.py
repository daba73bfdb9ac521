"""The files and folders that `bad_invocations.txt` speaks of: real ones, and ones with damage."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

WORDS = "the quick brown fox jumps over the lazy dog. "
CONFIG = "task: {name: copy}\nmodel: {name: gru}\ntraining: {steps: 1}\n"
# Words in braces that stand for no file.
LETTERS = {"nul": "\0", "long": "a" * 5000, "control": "\x1b[31m\x07", "newline": "a\nb"}


def make(folder: Path) -> None:
    """Make everything; a path in ``folder`` is written in braces in the table."""
    folder.mkdir()
    _texts(folder)
    _configs(folder)
    _runs(folder)
    _models(folder)


def _texts(folder: Path) -> None:
    (folder / "book").write_text(f"{WORDS}\n" * 60)
    (folder / "short").write_text("abc")
    (folder / "empty").write_bytes(b"")
    (folder / "blank").write_text(" \n\t\n")
    (folder / "binary").write_bytes(bytes(range(256)) * 16)
    (folder / "latin").write_bytes("Bücher über Käse. ".encode("latin-1") * 50)
    (folder / "cut.gz").write_bytes(gzip.compress(WORDS.encode() * 60)[:-20])
    (folder / "one.tsv").write_text("only one column\n" * 20)
    (folder / "uneven").write_text("a line\nanother\n")
    (folder / "cut-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + b"\0\0\0\x09" * 3 + b"few")
    (folder / "folder").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "something").write_text("of somebody else")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    (folder / "texts").mkdir()
    for name in ("one.txt", "two.txt", "three.md"):
        (folder / "texts" / name).write_text(f"{name}: {WORDS}" * 3)
    (folder / "texts-binary").mkdir()
    (folder / "texts-binary" / "one.txt").write_bytes(b"\0\xff" * 9)
    os.mkfifo(folder / "fifo")
    os.mkfifo(folder / "fifo.yaml")
    os.symlink("loop", folder / "loop")


def _configs(folder: Path) -> None:
    for name, text in {
        "good": CONFIG,
        "deep": "[" * 20_000,
        "alias": "a: &a [1, 1]\nb: &b [*a, *a]\ntask: *b\nmodel: *b\n",
        "broken": "task: {name: copy\nmodel: gru",
        "tab": "task:\n\tname: copy\n",
        "list": "- task\n- model\n",
        "empty": "",
        "number": "3\n",
        "tag": "task: !!python/object/apply:os.getcwd []\nmodel: {name: gru}\n",
        "part": CONFIG + "trainin: {}\n",
        "nameless": "task: {lag: 3}\nmodel: {name: gru}\n",
        "strange": CONFIG.replace("copy", "cpoy"),
        "inf": CONFIG.replace("steps: 1", "lr: .inf"),
        "nan": CONFIG.replace("steps: 1", "clip: .nan"),
        "wide": CONFIG.replace("gru", "gru, width: 999999999"),
        "digits": CONFIG.replace("steps: 1", f"steps: {'9' * 9000}"),
        "date": CONFIG.replace("steps: 1", "steps: 2024-13-45"),
        "nested": CONFIG.replace("steps: 1", "steps: [[1]]"),
        "option": CONFIG.replace("steps", "stepz"),
        "large": CONFIG + "#" * 300_000,
        "module": CONFIG.replace("gru", "os.path:join"),
    }.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\0task")


def _runs(folder: Path) -> None:
    import mnemoscope as ms

    small: dict[str, Any] = {"steps": 2, "batch": 2, "width": 8}
    ms.train("characters", "gru", folder / "run", source=str(folder / "book"), segment=8, **small)
    ms.train("copy", "rnn", folder / "copy", lag=2, **small)
    ms.train("translation", "vector", folder / "translator", sentences=300, **small)

    def damaged(name: str, of: str = "run") -> Path:
        return Path(shutil.copytree(folder / of, folder / name))

    (damaged("run-config") / "config.yaml").write_bytes(b"\xff\xfe\0")
    (damaged("run-deep") / "config.yaml").write_text("[" * 20_000)
    (damaged("run-empty-config") / "config.yaml").write_text("")
    wide = damaged("run-wide") / "config.yaml"
    wide.write_text(wide.read_text().replace("width: 8", "width: 999999999"))
    wider = damaged("run-wider") / "config.yaml"
    wider.write_text(wider.read_text().replace("width: 8", "width: 16"))
    model = damaged("run-cut") / "model.safetensors"
    model.write_bytes(model.read_bytes()[:100])
    (damaged("run-noise") / "model.safetensors").write_bytes(os.urandom(999))
    bare = damaged("run-bare")
    (bare / "model.safetensors").unlink()
    shutil.rmtree(bare / "checkpoints", ignore_errors=True)
    (damaged("run-vocabulary") / "vocabulary.json").write_text("{}")
    (damaged("run-vocabulary-cut") / "vocabulary.json").write_text('{"kind": ')
    (damaged("translator-vocabulary", "translator") / "vocabulary.json").write_bytes(b"\0")
    cut = damaged("translator-cut", "translator") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:100])


def _models(folder: Path) -> None:
    from hf_families import save_whole

    import mnemoscope as ms
    from mnemoscope.huggingface.loading import load_model
    from mnemoscope.huggingface.texts import Documents

    save_whole(folder / "hf", WORDS * 9, 280)
    model, tokenizer = load_model(str(folder / "hf"))
    memory = ms.attach(model, "documents", tokenizer=tokenizer, entries=4)
    texts = Documents.from_folder(str(folder / "texts"), tokenizer, segment=16)
    memory.fit(texts, None, epochs=1, silent=True)
    memory.save(folder / "memory")
    memory.detach()
    past = ms.attach(model, "infinite", window=8, basis=4)
    past.save(folder / "past")

    def damaged(name: str, of: str = "hf") -> Path:
        return Path(shutil.copytree(folder / of, folder / name))

    for path in damaged("hf-words").glob("token*"):
        path.unlink()
    (damaged("hf-config") / "config.json").write_text("{")
    (damaged("hf-list") / "config.json").write_text("[]")
    (damaged("hf-typeless") / "config.json").write_text(json.dumps({"hidden_size": 16}))
    weights = damaged("hf-cut") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    (damaged("hf-bare") / "model.safetensors").unlink()
    other = damaged("hf-other") / "config.json"
    other.write_text(other.read_text().replace('"hidden_size": 16', '"hidden_size": 32'))
    for name in ("memory", "past"):
        for path in damaged(f"{name}-cut", name).rglob("*.safetensors"):
            path.write_bytes(path.read_bytes()[:64])
        for path in damaged(f"{name}-noise", name).rglob("*.safetensors"):
            path.write_bytes(os.urandom(500))
