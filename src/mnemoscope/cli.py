"""The command ``mnemoscope``; ``documents`` and ``past`` have files of their own.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cyclopts import App, Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mnemoscope import __version__
from mnemoscope.cli_options import Options, examples, pairs
from mnemoscope.documents_cli import documents
from mnemoscope.errors import InterruptedRunError, UserError, suggestion
from mnemoscope.past_cli import past
from mnemoscope.registry import KINDS, find
from mnemoscope.scope_cli import EXAMPLES, scope

app = App(
    name="mnemoscope",
    version=__version__,
    help_format="plaintext",
    help="Build memory into sequence models, and see what they remember.",
    help_epilogue=(
        "Start with: mnemoscope study retention  ·  What there is: mnemoscope list  ·  "
        "Is all well here: mnemoscope doctor"
    ),
)

app.command(documents)
app.command(past)

PLURALS = {
    "memories": "memory",
    "translators": "translator",
    "encoders": "encoder",
    "tasks": "task",
    "lenses": "lens",
    "studies": "study",
}


@app.command(
    name="list",
    help_epilogue=examples(
        "mnemoscope list",
        "mnemoscope list memories",
        "mnemoscope list lstm",
        "mnemoscope list training",
    ),
)
def list_names(name: str | None = None, /) -> None:
    """Show memories, translators, tasks, lenses and studies, or the options of one of them.

    Parameters
    ----------
    name
        A kind (memories, translators, tasks, lenses, studies), a name from the list, or "training".
    """
    console = Console()
    kinds = [PLURALS[name]] if name in PLURALS else list(KINDS)
    if name is None or name in PLURALS:
        for kind in kinds:
            table = Table(title=_plural(kind), title_justify="left", box=None, show_header=False)
            for key, entry in KINDS[kind].items():
                table.add_row(f"[bold]{key}", escape(entry.line))
            console.print(table, "")
        console.print("Options of one of them: [bold]mnemoscope list NAME")
        return None
    known_as = [kind for kind in ("memory", "translator", "task", "study") if name in KINDS[kind]]
    for kind in known_as:  # a study may have the name of its task
        twice = len(known_as) > 1 or name in KINDS["lens"]
        shown = f"{kind} {name}" if twice else name
        _show_options(console, shown, KINDS[kind][name].line, find(kind, name))
    if name == "retention":
        from mnemoscope.lenses.questions import RetentionOptions

        _show_options(console, "lens retention", KINDS["lens"][name].line, RetentionOptions)
    if known_as:
        return None
    if name in KINDS["lens"]:
        console.print(f"[bold]{name}[/bold]: {KINDS['lens'][name].line}")
        return None
    if name == "training":
        from mnemoscope.training.config import Training

        return _show_options(console, name, "how any model is trained", Training)
    known = [*PLURALS, "training", *itertools.chain(*KINDS.values())]
    raise UserError(f"unknown name {name!r}; {suggestion(name, known)}")


@app.command(
    help_epilogue=examples(
        "mnemoscope train copy --memory gru --lag 30",
        "mnemoscope train characters --memory attention --source book.txt",
        "mnemoscope train recall --pairs 8 --length 64 --out runs/recall",
        "mnemoscope train runs/recall/config.yaml --lr 0.003 --out runs/faster",
    ),
)
def train(
    task: str,
    /,
    *options: Options,
    memory: str | None = None,
    out: Path | None = None,
) -> None:
    """Train a model with some memory on a task.

    Any option of the task, the model or the training can follow by name: see
    "mnemoscope list copy", "mnemoscope list lstm", "mnemoscope list training".
    Several processes: torchrun --nproc-per-node 2 -m mnemoscope train …

    Parameters
    ----------
    task
        What to learn: see "mnemoscope list tasks"; or a YAML file with all of it.
    memory
        What to learn it with: see "mnemoscope list memories" and "mnemoscope list translators";
        by default lstm, for translation transformer.
    out
        A new folder for the run; by default runs/TASK-MEMORY.
    """
    from mnemoscope.api import train as run_training

    _say_trained(run_training(task, memory, out, **pairs(options)))


@app.command(
    help_epilogue=examples(
        "mnemoscope resume runs/copy-gru",
    ),
)
def resume(run: Path, /) -> None:
    """Go on with a run that was stopped, to the same weights as if it had not been.

    Parameters
    ----------
    run
        The folder of the run.
    """
    from mnemoscope.training.run import Run

    Run.open(run)
    from mnemoscope.api import resume as resume_training

    _say_trained(resume_training(run))


@app.command(
    help_epilogue=examples(
        "mnemoscope study retention",
        "mnemoscope study lag --preset paper --out runs/lag-paper",
        "mnemoscope study lag --memories gru,lstm --steps 300 --out runs/lag-short",
    ),
)
def study(
    name: str,
    /,
    *options: Options,
    preset: str = "quick",
    out: Path | None = None,
    jobs: int | None = None,
    images: bool = False,
) -> None:
    """Answer a question: run a study and write its page.

    Any option of the study can follow by name: see "mnemoscope list lag".
    A study that was stopped goes on when the same command is given again.

    Parameters
    ----------
    name
        Which study: see "mnemoscope list studies".
    preset
        How large: quick or paper (some have smoke, which only tries that all works).
    out
        Folder for report.html, result.json and all runs; by default runs/NAME-PRESET.
    jobs
        Trainings at the same time; by default one for each core.
    images
        Write the figures as SVG and PNG too (needs the extra "paper" and a Chromium).
    """
    from mnemoscope.api import study as run_study

    console = Console()
    given = pairs(options)
    if find("study", name).live:
        folder = (out or Path("runs") / f"{name}-{preset}").absolute()
        console.print(f"page so far  {escape(str(folder / 'report.html'))}", soft_wrap=True)
    published = run_study(name, preset, out, jobs, images, **given)
    page = published.page.absolute()
    console.print(f"[bold]page[/bold]    {escape(str(page))}", soft_wrap=True)
    console.print(f"result  {escape(str(page.with_name('result.json')))}", soft_wrap=True)


@app.command(
    name="lens",
    help_epilogue=examples(
        "mnemoscope lens information --model runs/text-attention --text book.txt --out seen",
        "mnemoscope lens similarity --model runs/a --model runs/b --text book.txt --out seen",
        "mnemoscope lens influence --model folder/of/a/model --text book.txt --out seen",
        "mnemoscope lens waves --model folder/of/a/model --text book.txt --length 256 --out seen",
        "mnemoscope lens retention --model runs/recall-gru --model gpt2 --ages 1,8,64 --out seen",
    ),
)
def look(
    name: Literal["information", "similarity", "change", "influence", "waves", "retention"],
    /,
    *options: Options,
    model: list[str],
    out: Path,
    text: Path | None = None,
    sites: str = "embeddings,layer.*.out",
    length: int = 128,
    tokens: int = 50_000,
    clusters: int | None = None,
    samples: int | None = None,
    tags: Path | None = None,
    frequencies: int | None = None,
) -> None:
    """Look inside a model, or at two of them side by side, while they read a text.

    The lens retention needs no text: it tells models things and asks for them later, in bits per
    byte that they carry. Its options (--ages, --items, --overwrites, --values, --episodes …) can
    follow by name: see "mnemoscope list retention".

    Parameters
    ----------
    name
        What to ask: information, similarity, change, influence, waves or retention.
    model
        A run folder, a Hugging Face folder, or a name on its hub; similarity takes two as well,
        retention any number.
    out
        A new folder for report.html and the tables.
    text
        A text file; every line is read on its own, for waves all of them one after the other.
    sites
        Places to look at, parted by commas; globs work.
    length
        Longer lines are read in pieces of so many tokens.
    tokens
        About how many tokens to read at most.
    clusters
        Clusters per layer, for information; by default one for 50 tokens, at most 1000.
    samples
        Tokens per group of frequency, for change and influence; by default as many as allow
        the four largest groups to be compared.
    tags
        A file with a line for every line of the text and in it a tag for every token, such as its
        part of speech: for change and influence by tag instead of by frequency.
    frequencies
        At least so many frequencies, for waves; by default those of windows of 64 tokens.
    """
    if name == "retention":
        if text is not None:
            raise UserError("retention reads no text: leave --text out")
        return _say_page(_ask_retention(model, out, pairs(options)))
    if options:
        raise UserError(f"the lens {name} has no option {options[0]}")
    if text is None:
        raise UserError("give a text to read: --text FILE")
    lines = _lines(text)
    if not lines:
        raise UserError(f"{text} is empty: there is nothing to read")
    tagged = [line.split() for line in _lines(tags)] if tags else None
    from mnemoscope.api import lens as run_lens

    chosen: dict[str, Any] = {
        "clusters": clusters,
        "samples": samples,
        "length": length,
        "tokens": tokens,
        "frequencies": frequencies,
    }
    chosen |= {"tags": tagged} if tagged else {}
    places = [site.strip() for site in sites.split(",")]
    return _say_page(run_lens(name, model, lines, out, sites=places, **chosen))


def _ask_retention(models: list[str], out: Path, options: dict[str, str]) -> Path:
    from mnemoscope.lenses.questions import RetentionOptions

    chosen = RetentionOptions.make(**options)
    from mnemoscope.api import lens as run_lens

    given = {name: getattr(chosen, name) for name in options}
    return run_lens("retention", models, (), out, **given)


def _say_page(page: Path) -> None:
    Console().print(f"[bold]page[/bold]  {escape(str(page.absolute()))}", soft_wrap=True)


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not empty."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    return [line for line in lines if line]


@app.command(
    help_epilogue=examples(
        "mnemoscope state",
        "mnemoscope state lstm --width 128",
        "mnemoscope state runs/recall-gru --tokens 4096",
        "mnemoscope state folder/of/a/model",
    ),
)
def state(
    *words: Options, tokens: int = 256, segment: int = 64, document: str | None = None
) -> None:
    """Measure what a model carries: the bytes from which a fresh process goes on, bit for bit.

    Parameters
    ----------
    words
        Run folders, Hugging Face folders or names, or names of memories; by default every memory
        in its usual size. Options of a memory can follow one of them by name.
    tokens
        How many tokens it reads first.
    segment
        How many of them at once.
    document
        The document that a document memory reads under.
    """
    if tokens < 1 or segment < 1:
        raise UserError("tokens and segment must be at least 1")
    first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    sources, given = list(words[:first]) or list(KINDS["memory"]), pairs(words[first:])
    options: dict[str, Any] = {**given, **({} if document is None else {"document": document})}
    for source in sources:
        if source in KINDS["memory"]:
            find("memory", source).make(**{"vocab": 2, **given})
    import torch

    from mnemoscope.lenses.elsewhere import Case, go_on

    some = torch.zeros(1, tokens, dtype=torch.long)
    found = go_on([Case(source, some, some[:, :8], segment, options) for source in sources])
    console = Console()
    table = Table("model", "bytes", "tensors", "goes on elsewhere", box=None)
    for source, (carried, same) in zip(sources, found, strict=True):
        count = sum(tensor.numel() > 0 for _, tensor in carried.tensors())
        said = "bit for bit" if same else "[red]NOT[/red] the same"
        table.add_row(escape(source), f"{carried.nbytes:,}", str(count), said)
    console.print(f"After {tokens} tokens, read {segment} at a time, one stream carries")
    console.print(table)
    if len(found) == 1:
        for part, tensor in found[0][0].tensors():
            size = tensor.numel() * tensor.element_size()
            kind = str(tensor.dtype).removeprefix("torch.")
            console.print(f"  {part}  {kind} {tuple(tensor.shape)}  {size:,} bytes", soft_wrap=True)
    if not all(same for _, same in found):
        raise UserError("what was saved is not all that goes into the next tokens")


@app.command(
    help_epilogue=examples(
        'mnemoscope generate runs/characters-attention "The "',
        'mnemoscope generate runs/text-lstm "A class" --temperature 0',
    ),
)
def generate(
    run: Path,
    /,
    prompt: str,
    *,
    length: int = 200,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> None:
    """Let a model that was trained on text write on.

    Parameters
    ----------
    run
        The folder of a run on the task text or characters.
    prompt
        What it reads first.
    length
        Tokens to write.
    temperature
        How freely it chooses; 0 always takes the likeliest.
    top_k
        Choose among the k likeliest only.
    top_p
        Choose among the likeliest that together reach this probability only.
    seed
        Root of the randomness.
    """
    from mnemoscope.training.run import Run

    opened = Run.open(run)
    ids = opened.vocabulary.encode(prompt)
    if not ids.size:
        raise UserError("the prompt is empty: give at least one character")
    import torch

    from mnemoscope.models.generation import generate as speak
    from mnemoscope.seeds import derive

    said = speak(
        opened.model(),
        torch.from_numpy(ids)[None],
        length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        generator=torch.Generator().manual_seed(derive(seed, "generate")),
    )
    sys.stdout.write(prompt + opened.vocabulary.decode(said.tokens[0].numpy()) + "\n")


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
    from mnemoscope.progress import progress
    from mnemoscope.training.run import Run

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
    from mnemoscope.data.translation import Translation
    from mnemoscope.progress import progress
    from mnemoscope.training import scores
    from mnemoscope.training.run import Run

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


@app.command(
    help_epilogue=examples(
        "mnemoscope doctor",
        "mnemoscope doctor --device mps",
    ),
)
def doctor(*, device: str = "auto") -> None:
    """Check this machine: versions, threads, the device against the CPU, folders, pages.

    Parameters
    ----------
    device
        The device to compare with the CPU: auto, cpu, cuda or mps.
    """
    from mnemoscope.doctor import examine

    console = Console()
    failed = 0
    for check in examine(device):
        mark = "[green]ok  [/green]" if check.well else "[red]FAIL[/red]"
        console.print(f"{mark} [bold]{check.name:<10}[/bold] {escape(check.found)}", soft_wrap=True)
        failed += not check.well
    if failed:
        raise UserError(f"{failed} checks failed; the lines marked FAIL say what to do")


app.command(
    scope,
    help_epilogue=examples(*EXAMPLES),
    default_parameter=Parameter(negative_iterable=()),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake gives one message and exit code 2, no traceback."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    # Where the user stands, after all that is installed: a memory in a file of their own.
    sys.path.append(os.getcwd())
    complain = partial(Console(stderr=True).print, soft_wrap=True)
    try:
        app(arguments)
    except InterruptedRunError as error:
        complain(escape(str(error)))
        sys.exit(130)
    except UserError as error:
        complain(f"[bold red]error:[/bold red] {escape(str(error))}")
        sys.exit(2)
    except KeyboardInterrupt:
        complain("stopped; what was done is kept, and the same command goes on with it")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone, as in ``mnemoscope list | head``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


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


def _plural(kind: str) -> str:
    return next(plural for plural, one in PLURALS.items() if one == kind)


def _show_options(console: Console, name: str, line: str, kind: Any) -> None:
    console.print(f"[bold]{name}[/bold]: {escape(line)}")
    table = Table(box=None)
    for title in ("option", "type", "default", "meaning"):
        table.add_column(title, overflow="fold")
    for option, *facts in kind.options():
        if option != "memory":
            table.add_row(f"--{option.replace('_', '-')}", *(escape(fact) for fact in facts))
    console.print(table)


def _say_trained(run: Any) -> None:
    if os.environ.get("RANK", "0") != "0":
        return  # torchrun starts several of us; one speaks
    last: dict[str, Any] = {}
    for entry in run.metrics():
        last.update(entry)
    console = Console()
    facts = ", ".join(
        f"{name.replace('_', ' ')} {last[name]:.4g}"
        for name in ("loss", "valid_loss", "valid_accuracy")
        if name in last
    )
    console.print(f"[bold]run[/bold]  {escape(str(run.folder))}  ({facts})", soft_wrap=True)
