"""Can a model keep texts by name, and does guidance matter? (Park & Choi 2024, with controls.)

Nothing here imports torch before the study runs, so that a mistyped option shows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from mnemoscope.core.config import DISTINCT
from mnemoscope.report.document import Section
from mnemoscope.studies.study import Study
from mnemoscope.studies.trials import measure_all

SELECTS = ("tanh", "relu", "sigmoid")
ALPHAS = (0.0, 0.1, 0.5, 1.0)
STARTS = ("orthogonal", "random", "small")
DIMS = (2, 16, 128)
DEPTHS = (1, 2, 3, 4)
NEGATIVES = ("other", "random", "zero", "perturbed", "hardest")
ENCODERS = ("tfidf", "shingles", "hidden")
# Looks that follow a training; to record both gradients costs as much as the step itself.
RECORDED = {"frames", "shapes", "gradients"}
NEVER = 1_000_000
CONTROL_LOOKS = ["shapes", "gates", "split", "line"]
# How the texts of many documents are cut, and how large their memory is.
MANY_TEXTS = {"segments": 4, "segment": 64}
MANY_MEMORY = {"entries": 128, "key_dim": 32}

Setting = dict[str, Any]


class DocumentsStudy(Study):
    """Options of the study; presets change them."""

    title: ClassVar[str] = "Can a model keep texts by name?"
    question: ClassVar[str] = (
        "A frozen language model gets entries that each document opens or closes. Does the right "
        "document make its text likelier and the wrong one less likely; how much of that is "
        "guidance, how much masking; and what do the entries do?"
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "quick": {},
        "paper": {
            "model": "EleutherAI/pythia-1b-deduped",
            "source": "hf:EleutherAI/wikitext_document_level/wikitext-103-raw-v1",
            "documents": 100,
            "segments": 10,
            "segment": 128,
            "entries": 32,
            "epochs": 50,
            "batch": 16,
            "lr": 1e-3,
            "layers": (0, 5, 10, 15),
            "seeds": 5,
        },
    }

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
    base_steps: int = Field(400, ge=1, description="training of the small model")
    seeds: int = Field(3, ge=1, description="trainings of each kind, each with its own documents")
    device: str = Field("auto", description="auto, cpu, cuda, mps")

    def settings(self) -> dict[str, Setting]:
        """All that is trained, by name; a name says which figures need it."""
        found: dict[str, Setting] = {}
        texts = {"documents": self.documents, "segments": self.segments, "segment": self.segment}

        def put(name: str, looks: Sequence[str] = (), **options: Any) -> None:
            def take(names: Sequence[str]) -> Setting:
                return {key: options.pop(key) for key in names if key in options}

            guidance = take(("alpha", "negative"))
            fitting = {"epochs": self.epochs, "batch": self.batch, "lr": self.lr}
            fitting |= take(("epochs", "batch", "lr", "optimizer"))
            if not RECORDED.intersection(looks):
                fitting["record"] = NEVER
            cut = {
                **texts,
                "lengths": False,
                **take(("documents", "segments", "segment", "lengths")),
            }
            memory = {"layer": self.layers[-1], "key_dim": self.key_dim, "entries": self.entries}
            found[name] = {
                "options": {**memory, **options},
                "guidance": guidance,
                "fitting": fitting,
                "looks": list(looks),
                "texts": cut,
            }

        for select in SELECTS:
            for alpha in ALPHAS:
                looks = ["map"] if alpha == 0 else []
                if select != "sigmoid" and alpha == 0.1:
                    looks += ["frames", "shapes", "gates", "split"]
                looks += ["line"] if alpha == 0.1 else []
                looks += CONTROL_LOOKS if (select, alpha) == ("tanh", 0.0) else []
                put(f"{select} α={alpha:g}", looks, select=select, alpha=alpha)
            put(f"plane {select}", ["plane"], select=select, alpha=0.1, key_dim=2)
            put(f"lengths {select}", ["sizes"], select=select, alpha=0.1, lengths=True)
        put("plane tanh α=0", ["plane"], alpha=0.0, key_dim=2)
        put("lengths tanh α=0", ["sizes"], alpha=0.0, lengths=True)
        put("fixed", learned=False, alpha=0.1)
        for control in ("random", "all", "disjoint", "bias"):
            # Where documents outnumber entries, none can have entries of its own.
            if control in ("random", "all") or self.entries >= self.documents:
                looks = CONTROL_LOOKS if control in ("random", "all") else []
                put(f"control {control}", looks, control=control, alpha=0.0)
        # Behind the last one stands all that is above; time is compared, so all record alike.
        for layer in self.layers[:-1]:
            put(f"layer {layer}", ["shapes"], layer=layer, alpha=0.1)
            put(f"layer {layer} α=0", layer=layer, alpha=0.0)
            for control in ("random", "all"):
                put(f"layer {layer} {control}", layer=layer, control=control, alpha=0.0)
        for dim in DIMS:
            for start in STARTS:
                if (start, dim) != ("orthogonal", self.key_dim):  # that is tanh α=1
                    put(f"move {start} {dim}", start=start, key_dim=dim, alpha=1.0)
            put(f"move sgd {dim}", key_dim=dim, alpha=1.0, optimizer="sgd", lr=0.1)
        for depth in DEPTHS:
            shared: Setting = {"depth": depth, "select": "relu", "key_dim": 2}
            put(f"depth {depth}", ["gradients", "shapes"], alpha=1.0, negative="random", **shared)
            put(f"depth {depth} α=0", alpha=0.0, **shared)
            if depth in (DEPTHS[0], DEPTHS[-1]):
                # Random negatives never touch the representations of documents; others do.
                put(f"depth {depth} other", ["gradients"], alpha=1.0, **shared)
        for encoder in ENCODERS:
            put(f"encoder {encoder}", ["newcomers"], start=encoder, learned=False, alpha=0.1)
        for negative in NEGATIVES[1:]:
            put(f"negative {negative}", negative=negative, alpha=1.0)
        for count in self.many:
            shared = {**MANY_TEXTS, **MANY_MEMORY, "documents": count, "epochs": self.many_epochs}
            put(f"many {count}", alpha=0.1, **shared)
            put(f"many {count} α=0", alpha=0.0, **shared)
            for control in ("random", "all"):
                put(f"many {count} {control}", control=control, alpha=0.0, **shared)
        return found

    def run(self, folder: Path, jobs: int) -> dict[str, Any]:
        """Train every setting × seed and measure each."""
        from mnemoscope.studies.documents.base import small_model

        self._check()
        if self.model is None:
            small_model(folder / "small", steps=self.base_steps)
        names = [f"{name} seed {seed}" for seed in range(self.seeds) for name in self.settings()]
        found = measure_all(
            names, partial(_measure, self, folder), folder / "fits", jobs, "documents"
        )
        return {
            "fits": {
                name: [found[f"{name} seed {seed}"] for seed in range(self.seeds)]
                for name in self.settings()
            },
            "documents": self.documents,
            "segments": self.segments,
            "segment": self.segment,
            "entries": self.entries,
            "key_dim": self.key_dim,
            "layers": list(self.layers),
            "many": list(self.many),
            "model": self.model or "the small model",
        }

    def _check(self) -> None:
        """Refuse what is not there before anything is trained."""
        from mnemoscope.data.documents import read_documents
        from mnemoscope.huggingface.config import DocumentOptions
        from mnemoscope.huggingface.loading import architecture

        for setting in self.settings().values():
            DocumentOptions.make(**setting["options"])
        if self.source is not None:
            read_documents(self.source)
        if self.model is not None:
            architecture(self.model)

    def tell(self, result: dict[str, Any], folder: Path) -> Sequence[Section]:
        """Say and draw what was seen."""
        from mnemoscope.studies.documents import page as documents_page

        return documents_page.tell(result)


def _measure(study: DocumentsStudy, folder: Path, name: str) -> dict[str, Any]:
    from mnemoscope.studies.documents.fits import measure

    setting, _, seed = name.rpartition(" seed ")
    return measure(study, folder, int(seed), study.settings()[setting])
