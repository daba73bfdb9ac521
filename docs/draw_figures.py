"""Draw the figures of the guide from the results that are shipped: `make figures`. Trains nothing.

Each is one figure of the page that `mnemoscope show RESULT` draws.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from mnemoscope import report, shipped
from mnemoscope.report.document import Section, slug

FOLDER = Path(__file__).with_name("figures")
# By result: the file of the guide, and the figure on the page that it shows.
FIGURES: dict[str, dict[str, str]] = {
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
    "books": {
        "bits-saved-against-bytes-read.svg": "bits-saved-against-bytes-read",
        "what-the-state-is-worth.svg": "what-the-state-is-worth",
    },
    "sorting": {
        "sorting-teacher-forced.svg": "teacher-forced",
        "sorting-attention-by-age.svg": "attention-by-age",
    },
    "waves": {
        "waves-relative-scores-mlm.svg": "relative-scores-while-training-mlm",
        "waves-spectrum-lm.svg": "spectrum-of-first-queries-lm",
        "waves-bands-lm.svg": "what-a-band-is-worth-lm",
        "waves-minilm-spectra.svg": "spectra-by-site-minilm",
        "waves-minilm-components.svg": "singular-components-minilm",
        "waves-minilm-attention.svg": "attention-by-offset-minilm",
        "waves-minilm-scores.svg": "scores-that-depend-on-the-offset-minilm",
        "waves-minilm-delay.svg": "delay-against-attention-minilm",
        "waves-minilm-directions.svg": "positions-in-a-few-directions-minilm",
        "waves-minilm-filters.svg": "what-a-band-is-worth-minilm",
    },
    "translation": {
        "translation-bleu-against-source-length.svg": "bleu-against-source-length",
        "translation-bleu-against-bytes-of-state.svg": "bleu-against-bytes-of-state",
        "translation-alignment-of-bahdanau-attention.svg": "alignment-of-bahdanau-attention",
        "what-each-position-can-see.svg": "what-each-position-can-see",
    },
}


def main(wanted: list[str]) -> None:
    """Draw all, or those of the results that are named."""
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
