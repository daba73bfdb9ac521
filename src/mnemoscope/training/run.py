"""A run is a plain folder: config.yaml, metrics.jsonl, checkpoints/, finally model.safetensors.

finished.json beside that says which config it was trained with. A run on text has a vocabulary.json
(one on translation a source-vocabulary.json too) and a text.digest, one that began with given
weights a start.safetensors. Where weights were wanted as they were after certain steps, these lie
in moments/.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.core import bounded
from mnemoscope.core.errors import UserError, first_line
from mnemoscope.core.files import write_whole
from mnemoscope.core.seeds import derive
from mnemoscope.core.trust import UntrustedError
from mnemoscope.data.text import Text
from mnemoscope.data.vocabulary import Vocabulary
from mnemoscope.memories.state import read_tensors, write_tensors
from mnemoscope.models.model import SequenceModel
from mnemoscope.models.seq2seq.source import SourceModel
from mnemoscope.models.translator import Translator
from mnemoscope.training import checkpoint
from mnemoscope.training.config import RunConfig
from mnemoscope.training.metrics import read_metrics
from mnemoscope.training.record import differences, is_record


@dataclass(frozen=True)
class Run:
    """One trained model, or one on its way."""

    folder: Path
    config: RunConfig

    def __repr__(self) -> str:
        ended = "" if self.finished else ", not finished"
        return f"Run({self.folder}: {self.config.task_name} · {self.config.memory}{ended})"

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
                    f"{folder} exists already; choose another --out, or continue it: "
                    f"{cls(folder, config).continuing()}"
                )
            if folder.exists() and (not folder.is_dir() or _foreign(folder)):
                raise UserError(f"{folder} exists already and is not a run; choose another --out")
            folder.mkdir(parents=True, exist_ok=True)
            for name, vocabulary in config.task.vocabularies.items():
                vocabulary.save(folder / name)
            if config.task.digest is not None:
                write_whole(folder / "text.digest", config.task.digest.encode())
            # What a kill left of another beginning must not become this one's.
            (folder / "start.safetensors").unlink(missing_ok=True)
            if start is not None:
                write_tensors(folder / "start.safetensors", dict(start.state_dict()), {})
            # Last, because it makes the folder a run that can be resumed.
            write_whole(folder / "config.yaml", config.to_yaml().encode())
        except OSError as error:
            raise UserError(f"cannot write to {folder}: {error}") from error
        return cls(folder, config)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Open a run that exists. Names that are not ours are imported from trusted modules only
        (`mnemoscope.core.trust`).
        """
        path = Path(folder) / "config.yaml"
        if not os.path.exists(path):  # which never raises, whatever the name
            raise UserError(f"{folder} is not a run: there is no {path}")
        try:
            return cls(Path(folder), RunConfig.from_yaml(bounded.read_text(path), str(path)))
        except UntrustedError:
            raise
        except UserError as error:
            found = checkpoint.recorded(Path(folder) / "checkpoints")
            if found is None:
                raise
            raise UserError(
                f'{error}. What the file said stands under "config" in {found[2]}: put that into '
                "it (JSON is YAML too)"
            ) from error

    def continuing(self, processes: int = 1) -> str:
        """The command that continues this run."""
        words = ["mnemoscope", "resume", str(self.folder)]
        words += [word for module in self.config.modules for word in ("--trust", module)]
        if processes > 1:
            words = ["torchrun", "--nproc-per-node", str(processes), "-m", *words]
        return shlex.join(words)

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie."""
        return self.folder / "checkpoints"

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return (self.folder / "model.safetensors").is_file()

    def metrics(self) -> list[dict[str, Any]]:
        """All that was logged and is whole, one entry a line of metrics.jsonl."""
        return read_metrics(self.folder / "metrics.jsonl")

    @property
    def seconds(self) -> float:
        """How long it was trained so far."""
        return float(sum(entry.get("seconds", 0.0) for entry in self.metrics()))

    @property
    def valid_losses(self) -> dict[int, float]:
        """Loss on validation data, in nats, by step."""
        tests = (entry for entry in self.metrics() if "valid_loss" in entry)
        return {entry["step"]: entry["valid_loss"] for entry in tests}

    @property
    def valid_loss(self) -> float:
        """The last of these."""
        return next(reversed(self.valid_losses.values()))

    def log(self, **values: Any) -> None:
        """Append one line to the metrics."""
        path = self.folder / "metrics.jsonl"
        try:
            with open(path, "a") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise UserError(
                f"cannot write {path}: {error}. Checkpoints written before are intact; make room "
                f"and continue with: {self.continuing()}"
            ) from error

    def rewind(self, step: int) -> None:
        """Drop metrics after ``step``: they will be measured again."""
        kept = [json.dumps(entry) + "\n" for entry in self.metrics() if entry["step"] <= step]
        write_whole(self.folder / "metrics.jsonl", "".join(kept).encode())

    def fresh(self) -> SequenceModel:
        """The model with weights drawn from the seed."""
        torch.manual_seed(derive(self.config.training.seed, "init"))
        return self._build()

    def _build(self) -> SequenceModel:
        try:
            return self.config.model.build()
        # Sizes that no memory holds and no number of torch's counts.
        except (RuntimeError, MemoryError, OverflowError, TypeError, ValueError) as error:
            said = first_line(error)
            raise UserError(f"cannot build the model of {self.folder}: {said}") from error

    def untrained(self) -> SequenceModel:
        """The model before its first step: as it was given, or fresh weights from the seed."""
        model, given = self.fresh(), self.folder / "start.safetensors"
        return self._fill(model, read_tensors(given)[0]) if given.is_file() else model

    def finish(self, model: SequenceModel) -> None:
        """Write what the final weights were trained with, and them; the run is then finished."""
        bounded.write_sealed(self.folder / "finished.json", {"config": self.config.plain()})
        write_tensors(self.folder / "model.safetensors", dict(model.state_dict()), {})

    @property
    def vocabulary(self) -> Vocabulary:
        """The map between text and tokens, for a run on text."""
        if not isinstance(self.config.task, Text):
            raise UserError(f"{self.folder} was trained on {self.config.task_name}, not on text")
        return self._vocabulary("vocabulary.json")

    def _vocabulary(self, name: str) -> Vocabulary:
        """A vocabulary as it was kept; one that was deleted is made from the text again."""
        path = self.folder / name
        if not path.exists():
            self.check_text()
            self.config.task.vocabularies[name].save(path)
        return Vocabulary.load(path, "delete it: it is made again from the text of the run")

    def translator(self) -> Translator:
        """The trained model with its vocabularies, for a run on translation."""
        if self.config.task.models != "translator":
            raise UserError(
                f"{self.folder} was trained on {self.config.task_name}: it cannot translate"
            )
        model = self.model()
        assert isinstance(model, SourceModel)
        files = ("source-vocabulary.json", "vocabulary.json")
        return Translator(model, *(self._vocabulary(name) for name in files))

    def check_text(self) -> None:
        """Raise `UserError` when a run on text would continue with another text."""
        path = self.folder / "text.digest"
        if not path.exists():
            return
        remedy = "delete it, and nobody asks whether the text is still the one the run began with"
        try:
            known = bounded.read_text(path)
        except UserError as error:
            raise UserError(f"{error}: {remedy}") from error
        digest = self.config.task.digest or ""
        if len(known) != len(digest):
            raise UserError(f"{path} is damaged (it holds no digest): {remedy}")
        if known != digest:
            raise UserError(
                f"the text of {self.folder} is not the one it began with: put it back, or train "
                "anew with another --out"
            )

    def check_config(self, recorded: dict[str, Any] | None, when: str) -> None:
        """Raise `UserError` when config.yaml is not what weights were trained with ``when``.

        Versions that recorded nothing are taken at their word. The device is where a run is, not
        what it is; where a text lies does not matter as long as its digest is known.
        """
        if recorded is None:
            return
        free = {"training.device"}
        if (self.folder / "text.digest").is_file():
            free |= {"task.source", "task.corpus", "task.valid", "task.test"}
        found = differences(recorded, self.config, when, free)
        if found:
            raise UserError(
                f"{self.folder / 'config.yaml'} is not what this run was trained with "
                f"({'; '.join(found)}): put the old values back. To train its weights on with "
                "other options, put them back and begin a new run in Python: "
                f"ms.train({self.config.task_name!r}, ms.load({str(self.folder)!r}), "
                "out='another/folder', …)"
            )

    def newest(self, rank: int = 0, processes: int | None = None) -> checkpoint.Checkpoint | None:
        """The newest checkpoint that is whole, if config.yaml is still what it was made with."""
        found = checkpoint.newest(self.checkpoints, rank, processes)
        if found is not None:
            self.check_config(found.config, f"at step {found.step}")
        return found

    def final(self) -> dict[str, Tensor]:
        """The final weights, whole and of the config that lies beside them."""
        self.check_config(self._trained_with(), "at its end")
        try:
            return read_tensors(self.folder / "model.safetensors")[0]
        except UserError as error:
            found = self.newest()
            where = "from the beginning" if found is None else f"from step {found.step}"
            raise UserError(
                f"{error}. Delete it and train the last steps again: {self.continuing()} continues "
                f"{where}"
            ) from error

    def _trained_with(self) -> dict[str, Any] | None:
        """The config of the final weights, None when a version wrote them that kept none."""
        path = self.folder / "finished.json"
        if not path.exists():
            return None
        remedy = "delete it, and config.yaml is trusted to be what the model was trained with"
        facts = bounded.read_sealed(path, remedy)
        recorded = facts.get("config") if isinstance(facts, dict) else None
        if not is_record(recorded):
            raise UserError(f"{path} is damaged (it names no config): {remedy}")
        return recorded

    def model(self) -> SequenceModel:
        """The trained model, or the newest one of a run that is not finished yet."""
        if self.finished:
            weights = self.final()
        else:
            found = self.newest()
            if found is None:
                raise UserError(f"{self.folder} holds no weights yet")
            weights = found.model
        return self._fill(self._build(), weights).eval()

    def keep_moment(self, step: int, model: SequenceModel) -> None:
        """Keep the weights as they are after ``step``, for somebody who looks at them later."""
        path = self._moment(step)
        try:
            path.parent.mkdir(exist_ok=True)
            write_tensors(path, dict(model.state_dict()), {})
        except OSError as error:
            raise UserError(f"cannot write {path}: {error}") from error

    def moment(self, step: int) -> SequenceModel:
        """The model as it was after ``step``: at the beginning, at the end, or at a moment kept."""
        if step == 0:
            return self.untrained().eval()
        if step == self.config.training.steps:
            return self.model()
        if not self._moment(step).is_file():
            raise UserError(
                f"{self.folder} has no weights of step {step}: they are kept while a run is "
                "trained, and deleted when they were looked at. Delete that folder: it is trained "
                "again"
            )
        return self._fill(self._build(), read_tensors(self._moment(step))[0]).eval()

    def forget_moments(self) -> None:
        """Delete the weights that `keep_moment` kept."""
        shutil.rmtree(self.folder / "moments", ignore_errors=True)

    def _moment(self, step: int) -> Path:
        return self.folder / "moments" / f"step-{step:08d}.safetensors"

    def _fill(self, model: SequenceModel, weights: dict[str, Tensor]) -> SequenceModel:
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise UserError(
                f"the weights in {self.folder} are not of the model in its config.yaml: {error}"
            ) from error
        return model


def _foreign(folder: Path) -> bool:
    """Whether a folder holds anything but what a kill while it was made may have left there."""
    ours = {"vocabulary.json", "source-vocabulary.json", "text.digest", "start.safetensors"}
    names = {path.name for path in folder.iterdir()}
    return any(name not in ours and not name.endswith((".part", ".partial")) for name in names)
