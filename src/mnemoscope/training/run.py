"""A run is a plain folder: config.yaml, metrics.jsonl, checkpoints/, finally model.safetensors.

A run on text has a vocabulary.json (one on translation a source-vocabulary.json too) and a
text.digest, one that began with given weights a start.safetensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mnemoscope.data.text import Text
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.errors import UserError
from mnemoscope.files import write_whole
from mnemoscope.memory.state import read_tensors, write_tensors
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.source import SourceModel
from mnemoscope.models.translator import Translator
from mnemoscope.seeds import derive
from mnemoscope.training import checkpoint
from mnemoscope.training.config import RunConfig


@dataclass(frozen=True)
class Run:
    """One trained model, or one on its way."""

    folder: Path
    config: RunConfig

    @classmethod
    def create(
        cls, folder: str | Path, config: RunConfig, start: SequenceModel | None = None
    ) -> Run:
        """Make a new folder for a run; one that holds anything already is never touched.

        ``start`` is the model to begin with when it is not a fresh one drawn from the seed.
        """
        folder = Path(folder)
        try:
            if (folder / "config.yaml").is_file():
                raise UserError(
                    f"{folder} exists already; choose another --out, or go on with it: "
                    f"mnemoscope resume {folder}"
                )
            if folder.exists() and (not folder.is_dir() or _foreign(folder)):
                raise UserError(f"{folder} exists already and is not a run; choose another --out")
            folder.mkdir(parents=True, exist_ok=True)
            for name, vocabulary in config.task.vocabularies.items():
                vocabulary.save(folder / name)
            if config.task.digest is not None:
                write_whole(folder / "text.digest", config.task.digest.encode())
            if start is not None:
                write_tensors(folder / "start.safetensors", dict(start.state_dict()), {})
            # Last, because it makes the folder a run that can be resumed.
            write_whole(folder / "config.yaml", config.to_yaml().encode())
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error}") from error
        return cls(folder, config)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Open a run that exists."""
        path = Path(folder) / "config.yaml"
        if not path.is_file():
            raise UserError(f"{folder} is not a run: there is no {path}")
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {path}: {error}") from error
        return cls(Path(folder), RunConfig.from_yaml(content, str(path)))

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.folder / "checkpoints"

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return (self.folder / "model.safetensors").is_file()

    def metrics(self) -> list[dict[str, Any]]:
        """All that was logged, one entry a line of metrics.jsonl."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        entries = []
        for line in path.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                break  # a line cut short by a kill; resuming writes it again
            if isinstance(entry, dict) and "step" in entry:
                entries.append(entry)
        return entries

    def log(self, **values: Any) -> None:
        """Append one line to the metrics."""
        path = self.folder / "metrics.jsonl"
        try:
            with open(path, "a") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write {path}: {error}. Checkpoints written before are intact; make room "
                f"and go on with: mnemoscope resume {self.folder}"
            ) from error

    def rewind(self, step: int) -> None:
        """Drop metrics after ``step``: they will be measured again."""
        kept = [json.dumps(entry) + "\n" for entry in self.metrics() if entry["step"] <= step]
        write_whole(self.folder / "metrics.jsonl", "".join(kept).encode())

    def untrained(self) -> SequenceModel:
        """The model before its first step: as it was given, or fresh weights from the seed."""
        torch.manual_seed(derive(self.config.training.seed, "init"))
        model = self.config.model.build()
        given = self.folder / "start.safetensors"
        if given.is_file():
            model.load_state_dict(read_tensors(given)[0])
        return model

    def finish(self, model: SequenceModel) -> None:
        """Write the final weights; from here on the run is finished."""
        write_tensors(self.folder / "model.safetensors", dict(model.state_dict()), {})

    @property
    def vocabulary(self) -> Vocabulary:
        """The map between text and tokens, for a run on text."""
        if not isinstance(self.config.task, Text):
            raise UserError(f"{self.folder} was trained on {self.config.task_name}, not on text")
        return Vocabulary.load(self.folder / "vocabulary.json")

    def translator(self) -> Translator:
        """The trained model with its vocabularies, for a run on translation."""
        if self.config.task.models != "translator":
            raise UserError(
                f"{self.folder} was trained on {self.config.task_name}: it cannot translate"
            )
        model = self.model()
        assert isinstance(model, SourceModel)
        files = ("source-vocabulary.json", "vocabulary.json")
        return Translator(model, *(Vocabulary.load(self.folder / name) for name in files))

    def check_text(self) -> None:
        """Raise `UserError` when a run on text would go on with another text."""
        known = self.folder / "text.digest"
        if not known.is_file():
            return
        if known.read_text() != self.config.task.digest:
            raise UserError(
                f"the text of {self.folder} is not the one it began with: put it back, or train "
                "anew with another --out"
            )

    def model(self) -> SequenceModel:
        """The trained model, or the newest one of a run that is not finished yet."""
        if self.finished:
            weights, _ = read_tensors(self.folder / "model.safetensors")
        else:
            found = checkpoint.newest(self.checkpoints)
            if found is None:
                raise UserError(f"{self.folder} holds no weights yet")
            weights = found.model
        model = self.config.model.build()
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise UserError(
                f"the weights in {self.folder} are not of the model in its config.yaml: {error}"
            ) from error
        return model.eval()


def _foreign(folder: Path) -> bool:
    """Whether a folder holds anything but what a kill while it was made may have left there."""
    ours = {"vocabulary.json", "source-vocabulary.json", "text.digest", "start.safetensors"}
    names = {path.name for path in folder.iterdir()}
    return any(name not in ours and not name.endswith((".part", ".partial")) for name in names)
