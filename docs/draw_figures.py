"""Draw the figures of the guide: `make figures`, or those of some results: `… retention hello`.

Each is one figure of the page that `mnemoscope show RESULT` draws, from a result that is shipped;
nothing is trained. Only the page hello.md draws its own: its code, which takes seconds, leaves them
in ``figures``.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemoscope import report, shipped
from mnemoscope.report.document import Figure, Report, Reproduce, Section, slug

FOLDER = Path(__file__).with_name("figures")
# By result: the file of the guide, and the figure on the page that it shows.
FIGURES: dict[str, dict[str, str]] = {
    "check": {
        "check-promises-kept.svg": "promises-kept",
        "check-promises-of-all-models.svg": "promises-of-all-models",
    },
    "retention": {
        "retention-recall-against-age.svg": "recall-against-age",
        "retention-recall-against-bytes.svg": "recall-against-bytes",
        "retention-recall-against-bytes.png": "recall-against-bytes",
        "retention-recall-against-items.svg": "recall-against-items",
        "retention-bytes-against-length.svg": "bytes-against-length",
    },
    "lag": {
        "recall-against-wait.svg": "recall-against-wait",
        "bits-against-learning-rate.svg": "bits-against-learning-rate",
        "lstm-forget-gate-by-unit.svg": "lstm-forget-gate-by-unit",
    },
    "patterns": {
        "bits-per-byte-against-compute.svg": "bits-per-byte-against-compute",
        "bytes-looked-at-by-depth.svg": "bytes-looked-at-by-depth",
        "bytes-looked-at-by-head.svg": "bytes-looked-at-by-head",
        "two-masks-and-their-product.svg": "two-masks-and-their-product",
    },
    "images": {
        "bits-per-dimension-against-compute.svg": "bits-per-dimension-against-compute",
        "images-drawn.svg": "images-drawn",
        "pixels-looked-at-by-depth.svg": "pixels-looked-at-by-depth",
    },
    "infinite": {
        "infinite-loss-along-a-window.svg": "loss-along-a-window",
    },
    "caches": {
        "caches-repeats.svg": "repeats-at-the-bytes-of-2-bits",
        "caches-pairs.svg": "pairs-at-the-bytes-of-2-bits",
    },
    "caches-smollm2": {
        "caches-smollm2-repeats.svg": "repeats-at-the-bytes-of-2-bits",
        "caches-smollm2-facts.svg": "facts-at-the-bytes-of-2-bits",
    },
    "infinite-smollm2": {
        "infinite-smollm2-share-by-memory.svg": "share-of-the-recoverable-gain-by-memory",
        "infinite-smollm2-share-against-vectors.svg": "share-against-vectors",
        "infinite-smollm2-share-by-layers.svg": "share-by-where-the-memory-is",
    },
    "infinite-smollm2-learning": {
        "infinite-smollm2-learning-share-by-memory.svg": "share-of-the-recoverable-gain-by-memory",
    },
    "dialogue": {
        "dialogue-share-by-memory.svg": "share-of-the-recoverable-gain",
        "dialogue-share-by-age.svg": "share-by-age",
        "dialogue-attention-over-the-document.svg": "attention-over-the-document",
    },
    "dialogue-cmu-dog": {
        "dialogue-cmu-dog-share-by-memory.svg": "share-of-the-recoverable-gain",
        "dialogue-cmu-dog-attention.svg": "attention-over-the-document",
    },
    "documents": {
        "documents-selection-and-guidance.svg": "selection-and-strength-of-guidance",
        "documents-between-representations.svg": "from-one-document-s-representation-to-another-s",
    },
    "evolution": {
        "evolution-what-layers-know-of-the-token-read.svg": "what-layers-know-of-the-token-read",
        "evolution-distance-between-objectives.svg": "distance-between-objectives",
        "evolution-what-layers-know-of-a-hidden-token.svg": "what-layers-know-of-a-hidden-token",
        "evolution-neighbours-that-are-the-same-token.svg": "neighbours-that-are-the-same-token",
    },
    "evolution-tatoeba": {
        "evolution-tatoeba-token-read.svg": "what-layers-know-of-the-token-read",
        "evolution-tatoeba-while-training.svg": (
            "nats-about-the-token-read-while-training-side-by-side"
        ),
        "evolution-tatoeba-change.svg": "change-from-layer-to-layer",
        "evolution-tatoeba-hidden-token.svg": "what-layers-know-of-a-hidden-token",
    },
    "books": {
        "bits-saved-against-bytes-read.svg": "bits-saved-against-bytes-read",
        "loss-without-the-state.svg": "loss-without-the-state",
    },
    "books-novels": {
        "books-novels-share.svg": "share-of-the-recoverable-gain",
    },
    "sorting": {
        "sorting-teacher-forced.svg": "teacher-forced-trained-at-1056",
        "sorting-attention-by-age.svg": "attention-by-age",
    },
    "sorting-ablation": {
        "sorting-ablation.svg": "ablation",
    },
    "waves": {
        "waves-relative-scores-mlm.svg": "relative-scores-while-training-mlm",
        "waves-spectrum-lm.svg": "spectrum-of-first-queries-lm",
        "waves-bands-lm.svg": "loss-without-a-band-lm",
        "waves-minilm-spectra.svg": "spectra-by-site-minilm",
        "waves-minilm-components.svg": "singular-components-minilm",
        "waves-minilm-attention.svg": "attention-by-offset-minilm",
        "waves-minilm-scores.svg": "scores-that-depend-on-the-offset-minilm",
        "waves-minilm-delay.svg": "delay-against-attention-minilm",
        "waves-minilm-directions.svg": "positions-in-a-few-directions-minilm",
        "waves-minilm-filters.svg": "what-taking-a-band-out-changes-minilm",
    },
    "lens-information": {
        "information-minilm.svg": "information-about-the-token",
    },
    "lens-evolution": {
        "evolution-smollm2-token.svg": "information-about-the-token-read",
        "evolution-smollm2-next.svg": "probe-of-the-next-token-model-1-smollm2",
        "evolution-smollm2-change.svg": "change-by-frequency-model-1-smollm2",
    },
    "lens-horizon": {
        "horizon-directions.svg": "directions-kept-by-age",
        "horizon-waves.svg": "waves-kept-by-age",
    },
    "lens-similarity": {
        "similarity-minilm.svg": "distance-by-pwcca",
    },
    "translation": {
        "translation-bleu-against-source-length.svg": "bleu-against-source-length",
        "translation-bleu-against-bytes-of-state.svg": "bleu-against-bytes-of-state",
        "translation-alignment-of-bahdanau-attention.svg": "alignment-of-bahdanau-attention",
        "what-each-position-can-see.svg": "what-each-position-can-see",
    },
    "translation-german": {
        "translation-german-bleu-against-source-length.svg": "bleu-against-source-length",
        "translation-german-alignment-of-bahdanau.svg": "alignment-of-bahdanau-attention",
    },
    "translation-korean": {
        "translation-korean-bleu-against-source-length.svg": "bleu-against-source-length",
    },
}


def hello() -> dict[str, Any]:
    """The figures that the code of hello.md makes, by file name without its ending."""
    page = Path(__file__).with_name("hello.md").read_text()
    left: dict[str, Any] = {}
    quiet = contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), quiet:
        for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(code, left)
    figures: dict[str, Any] = left["figures"]
    return figures


def main(wanted: list[str]) -> None:
    """Draw all, or those of the results that are named."""
    if not wanted or "hello" in wanted:
        drawn = [Figure(name, one, name, [{"page": "hello"}]) for name, one in hello().items()]
        made = Report(
            "hello", "", [Section("Figures", drawn)], Reproduce.here("make figures", "", 0, 1)
        )
        report.write_images(made, FOLDER.parent, ["svg"])
    for result, files in FIGURES.items():
        if wanted and result not in wanted:
            continue
        page = shipped.page(shipped.load(result))
        figures = {slug(one.name): one for one in page.figures()}
        chosen = {name: figures[name] for name in files.values()}
        alone = replace(page, sections=[Section("Figures", list(chosen.values()))])
        with tempfile.TemporaryDirectory() as folder:
            report.write_images(alone, folder, sorted({Path(file).suffix[1:] for file in files}))
            for file, name in files.items():
                drawn = Path(folder) / "figures" / f"{name}{Path(file).suffix}"
                (FOLDER / file).write_bytes(drawn.read_bytes())
        print(result, *files)


if __name__ == "__main__":
    main(sys.argv[1:])
