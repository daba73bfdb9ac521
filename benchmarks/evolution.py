"""Training of the study evolution: tokens per CPU second, against the path it had at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.measure import Row, compared, interleave
from mnemoscope.studies.evolution.result import OBJECTIVES
from mnemoscope.studies.evolution.study import Evolution
from mnemoscope.training.loop import _join, _Trainer
from mnemoscope.training.run import Run

TITLE = "Training the three objectives of the study evolution, 6 layers, width 128"
SETTING = (
    "Steps of a translator, a language model and a masked language model of the size of the preset "
    "tatoeba (4098 tokens, 20 sentences a step) on the made-up language pair, one after the other. "
    "Batches hold sentences of one length, nothing is padded and the readout is tied to the "
    "embeddings, now as before; what changed is that an encoder reads out only what is asked of "
    "it, and that attention learns by products of its own where trainings compute in bfloat16. "
    "*Theirs* is the same code in float32 that reads out every token, as it was when the preset "
    "came. Tokens are those that the layers which read are given."
)
VOCAB, STEPS, ROUNDS = 4098, 5, 7


def run(quick: bool) -> list[Row]:
    """Train all objectives in both ways, in turns, on the same batches."""
    shape = {"width": 8, "heads": 2, "layers": 2, "sentences": 300} if quick else {}
    size = {"width": 128, "heads": 4, "layers": 6, "batch": 20, "steps": 1000, **shape}
    study = Evolution.preset("quick", **size)
    rounds, steps = (2, 1) if quick else (ROUNDS, STEPS)
    configs = {name: study.run_config(name, 0) for name in OBJECTIVES}
    rows: list[Row] = []
    counted = dict.fromkeys(OBJECTIVES, 0)

    def way(
        names: tuple[str, ...], everything: bool, precision: str = "float32"
    ) -> Callable[[], None]:
        trainers = []
        for name in names:
            settings = configs[name].training.model_copy(update={"precision": precision})
            config = replace(configs[name], training=settings)
            wide = {"vocab": VOCAB} | ({"source_vocab": VOCAB} if name == "MT" else {})
            if not quick:
                given = {**config.model.model_dump(), **wide}
                config = replace(config, model=type(config.model).make(**given))
            begun = Run(Path(), config)
            trainer = _Trainer(begun, begun.fresh(), _join(config.training), silent=True)
            trainer.reads_out_asked = trainer.reads_out_asked and not everything
            trainers.append(trainer)

        def work() -> None:
            for trainer in trainers:
                for step in range(steps):
                    trainer.step(step)
                trainer.pending.clear()

        return work

    for name, config in configs.items():
        for step in range(steps):
            batch = config.task.batch(step, config.training.batch, seed=0)
            counted[name] += batch.tokens.size if batch.source is None else batch.source.size
    groups: dict[str, tuple[tuple[str, ...], str]] = {
        "train_tokens_vs_start": (OBJECTIVES, "float32"),
        "train_tokens_bfloat16_vs_start": (OBJECTIVES, "bfloat16"),
        "train_tokens_lm_vs_start": (("LM",), "float32"),
        "train_tokens_mlm_vs_start": (("MLM",), "float32"),
    }
    for key, (names, precision) in groups.items():
        torch.manual_seed(0)
        times = interleave(
            {"ours": way(names, False, precision), "theirs": way(names, True)}, rounds
        )
        tokens = sum(counted[name] for name in names)
        said = f"{' + '.join(names)}, {steps} steps each, {precision}"
        rows.append(compared(key, said, times, tokens=tokens))
    return rows
