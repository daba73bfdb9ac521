"""``mnemoscope translate`` and ``score``.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope.cli.app import app
from mnemoscope.cli.options import Trust, examples
from mnemoscope.core.errors import UserError
from mnemoscope.core.trust import trusting

if TYPE_CHECKING:
    from mnemoscope.data.parallel import Pair
    from mnemoscope.training.run import Run

TranslationRun = Annotated[Path, Parameter(help="The folder of a run on the task translation.")]
Beam = Annotated[
    int,
    Parameter(
        help="How many hypotheses are kept at every step; 1 always takes the likeliest token."
    ),
]
Penalty = Annotated[
    float, Parameter(help="How much longer translations are favoured; 0 not at all.")
]


@app.command(
    help_epilogue=examples(
        'mnemoscope translate runs/translation-transformer "the old dogs sleep"',
        "mnemoscope translate runs/translation-transformer --file lines.txt --beam 8 --best 3",
        "mnemoscope translate runs/translation-transformer < lines.txt > translated.txt",
    ),
)
def translate(
    run: TranslationRun,
    /,
    *lines: str,
    file: Path | None = None,
    beam: Beam = 4,
    best: int = 1,
    penalty: Penalty = 1.0,
    batch: int = 64,
    trust: Trust = None,
) -> None:
    """Translate lines: those given, those of a file, or those that come in.

    Parameters
    ----------
    lines
        What to translate, one sentence each.
    file
        A text file, one sentence a line; without it and without lines, standard input.
    best
        Translations shown per line; with more than one, each follows its score and a tab.
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
        "mnemoscope score runs/translation-transformer --test newstest.en,newstest.de",
    ),
)
def score(
    run: TranslationRun,
    /,
    *,
    test: str | None = None,
    columns: str | None = None,
    sentences: int | None = None,
    beam: Beam = 4,
    penalty: Penalty = 1.0,
    tokenize: str = "13a",
    trust: Trust = None,
) -> None:
    """Score a run on translation: BLEU and chrF (sacreBLEU) on a test, and by length.

    Parameters
    ----------
    test
        Other pairs than the test part of the run, given as the option corpus of the task is.
    columns
        Which two of these are source and target; by default as the run has them.
    sentences
        At most so many source sentences; by default all of a test that is given, to this command
        or to the run, and 1000 of a part of the corpus.
    tokenize
        How sacreBLEU parts words: 13a, intl, char, zh or none.
    """
    if sentences is not None and sentences < 1:
        raise UserError(f"sentences must be at least 1, not {sentences}")
    from mnemoscope.core.progress import progress
    from mnemoscope.data.parallel import read_pairs
    from mnemoscope.data.translation import Translation
    from mnemoscope.training import scores
    from mnemoscope.training.run import Run

    with trusting(trust):
        opened = Run.open(run)
    translator = opened.translator()
    task = opened.config.task
    assert isinstance(task, Translation)
    if test is None and columns is not None:
        raise UserError("columns are of the pairs that --test names: give both")
    if test is None:
        opened.check_text()
        pairs = task.pairs("test")
    else:
        pairs = read_pairs(test, task.columns if columns is None else columns.split(","))
        _say_overlap(opened, pairs)
    if sentences is None and test is None and task.test is None:
        sentences = 1000
    asked = scores.gather(pairs, sentences)
    options: dict[str, Any] = {"beam": beam, "penalty": penalty, "tokenize": tokenize}
    with progress("score", len(asked)) as show:
        found = scores.score(translator, asked, ends=(5, 10, 15, 20, 30), show=show, **options)
    console = Console()
    console.print(f"[bold]BLEU[/bold]  {found.bleu.value:.2f} ± {found.bleu.spread:.2f}")
    console.print(f"[bold]chrF[/bold]  {found.chrf:.2f}")
    console.print(f"loss  {found.loss:.4f} nats a token, {found.sentences} sentences")
    table = Table("words", "sentences", "BLEU", box=None)
    for words, count, bleu in found.by_length:
        table.add_row(f"{words:.1f}", str(count), f"{bleu.value:.1f} ± {bleu.spread:.1f}")
    console.print(table)
    for signature in found.signatures:
        console.print(escape(signature), soft_wrap=True)


def _say_overlap(run: Run, pairs: Sequence[Pair]) -> None:
    """How much of a test was seen in training, as far as it can be known."""
    task: Any = run.config.task
    try:
        run.check_text()
        said = f"{task.seen(pairs)} of {len(pairs)} pairs have a source seen in training"
    except UserError as error:
        said = f"whether a source was seen in training is not known: {error}"
    Console(stderr=True).print(escape(said), soft_wrap=True)


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
