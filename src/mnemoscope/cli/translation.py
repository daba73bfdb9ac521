"""``mnemoscope translate`` and ``score``.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import Trust, examples
from mnemoscope.core.errors import UserError
from mnemoscope.core.trust import trusting


@app.command(
    help_epilogue=examples(
        'mnemoscope translate runs/translation-transformer "the old dogs sleep"',
        "mnemoscope translate runs/translation-transformer --file lines.txt --beam 8 --best 3",
        "mnemoscope translate runs/translation-transformer < lines.txt > translated.txt",
    ),
)
def translate(
    run: Path,
    /,
    *lines: str,
    file: Path | None = None,
    beam: int = 4,
    best: int = 1,
    penalty: float = 1.0,
    batch: int = 64,
    trust: Trust = None,
) -> None:
    """Translate lines: those given, those of a file, or those that come in.

    Parameters
    ----------
    run
        The folder of a run on the task translation.
    lines
        What to translate, one sentence each.
    file
        A text file, one sentence a line; without it and without lines, standard input.
    beam
        How many hypotheses are kept at every step; 1 always takes the likeliest token.
    best
        Translations shown per line; with more than one, each follows its score and a tab.
    penalty
        How much longer translations are favoured; 0 not at all.
    batch
        Lines translated at a time.
    """
    if file is not None and lines:
        raise UserError("give lines or a file, not both")
    texts = list(lines) or _read_lines(file)
    from mnemoscope.core.progress import progress
    from mnemoscope.training.run import Run

    with trusting(trust):
        translator = Run.open(run).translator()
    with progress("translate", len(texts)) as show:
        found = translator(texts, beam=beam, best=best, penalty=penalty, batch=batch, show=show)
    for said in found:
        for one in said:
            sys.stdout.write(f"{one.score:.4f}\t{one.text}\n" if best > 1 else f"{one.text}\n")


@app.command(
    help_epilogue=examples(
        "mnemoscope score runs/translation-transformer",
        "mnemoscope score runs/translation-transformer --beam 1 --sentences 500",
    ),
)
def score(
    run: Path,
    /,
    *,
    sentences: int = 1000,
    beam: int = 4,
    penalty: float = 1.0,
    tokenize: str = "13a",
    trust: Trust = None,
) -> None:
    """Score a run on translation: BLEU and chrF (sacreBLEU) on its test part, and by length.

    Parameters
    ----------
    run
        The folder of a run on the task translation.
    sentences
        At most so many source sentences of the test part.
    beam
        How many hypotheses are kept at every step.
    penalty
        How much longer translations are favoured; 0 not at all.
    tokenize
        How sacreBLEU parts words: 13a, intl, char, zh or none.
    """
    if sentences < 1:
        raise UserError(f"sentences must be at least 1, not {sentences}")
    from mnemoscope.core.progress import progress
    from mnemoscope.data.translation import Translation
    from mnemoscope.training import scores
    from mnemoscope.training.run import Run

    with trusting(trust):
        opened = Run.open(run)
    translator = opened.translator()
    opened.check_text()
    assert isinstance(opened.config.task, Translation)
    asked = scores.gather(opened.config.task.pairs("test"), sentences)
    options: dict[str, Any] = {"beam": beam, "penalty": penalty, "tokenize": tokenize}
    with progress("score", len(asked)) as show:
        found = scores.score(translator, asked, ends=(5, 10, 15, 20, 30), show=show, **options)
    console = Console()
    console.print(f"[bold]BLEU[/bold]  {found.bleu.score:.2f} ± {found.bleu.spread:.2f}")
    console.print(f"[bold]chrF[/bold]  {found.chrf:.2f}")
    console.print(f"loss  {found.loss:.4f} nats a token, {found.sentences} sentences")
    table = Table("words", "sentences", "BLEU", box=None)
    for words, count, bleu in found.by_length:
        table.add_row(f"{words:.1f}", str(count), f"{bleu.score:.1f} ± {bleu.spread:.1f}")
    console.print(table)
    for signature in found.signatures:
        console.print(escape(signature), soft_wrap=True)


def _read_lines(file: Path | None) -> list[str]:
    """The lines of a file or of standard input, without their ends."""
    if file is not None:
        from mnemoscope.data.documents import read_text

        if not file.is_file():
            raise UserError(f"there is no file {file}")
        return read_text(file).removesuffix("\n").split("\n")
    if sys.stdin.isatty():
        raise UserError("nothing to translate: give lines, --file FILE, or pipe them in")
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UserError(f"what comes in is not UTF-8 text: {error}") from error
    if not text.strip():
        raise UserError("nothing to translate: what comes in is empty")
    return text.removesuffix("\n").split("\n")
