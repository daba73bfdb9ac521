"""Can a model keep texts by name, and does guidance matter? (Park & Choi 2024, with controls.)"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mnemoscope.core.config import DISTINCT
from mnemoscope.studies.documents import page
from mnemoscope.studies.documents.result import DocumentsResult, Fit, Trained
from mnemoscope.studies.documents.settings import (
    CONTROL_MASKS,
    MASKS,
    Setting,
    every_setting,
)
from mnemoscope.studies.study import Device, Study
from mnemoscope.studies.trials import measure_all


class DocumentsStudy(Study):
    """Can a model keep texts by name?

    A frozen language model gets entries that each document opens or closes. Does the right document
    make its text likelier and the wrong one less likely, and how much of that is guidance?
    """

    Result = DocumentsResult
    page = staticmethod(page.page)
    presets = {
        "paper": {
            "model": "EleutherAI/pythia-1b-deduped",
            "source": "hf:EleutherAI/wikitext_document_level/wikitext-103-raw-v1", "documents": 100,
            "segments": 10, "segment": 128, "entries": 32, "epochs": 50, "batch": 16, "lr": 1e-3,
            "layers": (0, 5, 10, 15), "seeds": 5,
        },
    }  # fmt: skip

    device: Device = "auto"
    model: str | None = Field(
        None, description="a causal model, folder or name; none = a small one, trained here"
    )
    source: str | None = Field(
        None, description="texts: folder or hf:NAME; none = help topics the small model never saw"
    )
    documents: int = Field(10, ge=3, description="documents learnt at once")
    segments: int = Field(2, ge=1, description="segments of each document")
    segment: int = Field(32, ge=4, description="tokens of a segment")
    entries: int = Field(64, ge=4, description="entries of the memory")
    key_dim: int = Field(16, ge=1, description="numbers that represent a document")
    layers: Annotated[tuple[int, ...], DISTINCT] = Field(
        (0, 1, 2, 3), min_length=1, description="blocks compared; all else stands behind the last"
    )
    epochs: int = Field(70, ge=1, description="times that every segment is learnt")
    batch: int = Field(32, ge=1, description="segments per step")
    lr: float = Field(1e-2, gt=0, description="learning rate")
    many: Annotated[tuple[int, ...], DISTINCT] = Field(
        (20, 100), description="numbers of documents, to be compared"
    )
    many_epochs: int = Field(
        40, ge=1, description="times that segments of many documents are learnt"
    )
    counts: Annotated[tuple[Annotated[int, Field(ge=3)], ...], DISTINCT] = Field(
        (4, 40), description="numbers of documents that the size of representations is held against"
    )
    base_steps: int = Field(400, ge=1, description="training of the small model")
    seeds: int = Field(3, ge=1, description="trainings of each kind, each with its own documents")

    def settings(self) -> tuple[Setting, ...]:
        """All kinds of memory that are trained."""
        # Where documents outnumber entries, none can have entries of its own.
        masks = MASKS if self.entries >= self.documents else CONTROL_MASKS
        return every_setting(masks, self.layers, self.key_dim, self.many, self.counts)

    def trainings(self) -> dict[str, tuple[Setting, int]]:
        """Every setting with every seed, by the name that it has on disk."""
        return {
            f"{setting.name} seed {seed}": (setting, seed)
            for seed in range(self.seeds)
            for setting in self.settings()
        }

    def run(self, folder: Path, jobs: int) -> DocumentsResult:
        """Train every setting × seed and measure each."""
        from mnemoscope.studies.documents.base import small_model
        from mnemoscope.studies.documents.measure import check, measure

        check(self)
        if self.model is None:
            small_model(folder / "small", steps=self.base_steps)
        trainings = self.trainings()
        found = measure_all(
            list(trainings),
            partial(measure, self, folder),
            folder / "fits",
            jobs,
            "documents",
            kind=Fit,
        )
        fits: dict[Setting, list[Fit]] = {}
        for name, (setting, _) in trainings.items():
            fits.setdefault(setting, []).append(found[name])
        return DocumentsResult(
            trained=tuple(Trained(setting, tuple(of)) for setting, of in fits.items()),
            model=self.model or "the small model",
            **self.some("documents", "segments", "segment", "entries", "key_dim", "layers"),
            **self.some("many", "counts"),
        )
