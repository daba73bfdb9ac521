"""``mnemoscope check``: ask a model, or every family of `transformers`, for its promises.

Nothing here imports torch before the command has understood what it was asked for.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.app import app
from mnemoscope.cli.options import Options, Trust, examples, pairs, within
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.core.registry import MEMORIES, find
from mnemoscope.core.trust import trusting
from mnemoscope.huggingface.saving import check_destination

if TYPE_CHECKING:
    from mnemoscope.checks.page import Check
    from mnemoscope.checks.result import CheckResult, Row

MOST_JOBS = 256
BROKEN = 1


@app.command(
    help_epilogue=examples(
        "mnemoscope check lstm --width 128",
        "mnemoscope check folder/of/a/model --out checked",
        "mnemoscope check runs/recall-gru --only pieces,selected --json",
        "mnemoscope check --all --jobs 2 --out families",
        "mnemoscope check --all --family mamba,llama",
    ),
)
def check(
    *words: Options,
    all: bool = False,
    family: str | None = None,
    only: str | None = None,
    jobs: int = 1,
    json: Annotated[bool, Parameter(name="--json")] = False,
    out: Path | None = None,
    tokens: int = 24,
    seed: int = 0,
    document: str | None = None,
    trust: Trust = None,
) -> None:
    """Check whether a model keeps its promises about state; exit code 1 when one is broken.

    Parameters
    ----------
    words
        A run folder, a Hugging Face folder or name, or the name of a memory, whose options can
        follow by name.
    all
        Every causal family of the installed transformers, tiny, instead of one model.
    family
        With --all, only these, separated by commas.
    only
        Some of the promises, separated by commas.
    jobs
        With --all, how many families at once.
    json
        Print the result as JSON.
    out
        A new folder for report.html and result.json.
    tokens
        How long the texts are that it reads.
    seed
        Root of the randomness.
    document
        Which of its documents a document memory uses.
    """
    from mnemoscope.checks.page import Check

    chosen = Check.make(tokens=tokens, seed=seed)
    within("jobs", jobs, 1, MOST_JOBS)
    names = _named(only)
    if out is not None:
        check_destination(out)
    began = time.perf_counter()
    if all:
        result = _all(words, family, names, jobs, quiet=json)
    else:
        result = _one(words, family, jobs, document, names, chosen, trust)
    spent = time.perf_counter() - began
    _shown(result, as_json=json)
    if out is not None:
        from mnemoscope.publish import keep_check

        command = shlex.join(["mnemoscope", "check", *_command(words, all, family, only, chosen)])
        cpu = sum(row.seconds for row in result.rows)
        page = keep_check(result, out, f"{command} --out {out}", chosen, (spent, cpu))
        said = f"[bold]page[/bold]  {escape(str(page.absolute()))}"
        Console(stderr=json).print(said, soft_wrap=True)
    if not result.kept:
        sys.exit(BROKEN)


def _named(only: str | None) -> list[str] | None:
    """The promises that are meant; some have a comma in their names, ``left padded, ids``."""
    if only is None:
        return None
    from mnemoscope.checks.promises import PROMISES

    names = [word.strip() for word in only.replace(", ids", "; ids").split(",")]
    names = [name.replace("; ids", ", ids") for name in names]
    for name in names:
        if name not in PROMISES:
            raise UserError(f"unknown promise {name!r}; {suggestion(name, PROMISES)}")
    return names


def _one(
    typed: tuple[str, ...],
    family: str | None,
    jobs: int,
    document: str | None,
    only: list[str] | None,
    chosen: Check,
    trust: list[str] | None,
) -> CheckResult:
    if family is not None or jobs != 1:
        raise UserError(f"--{'family' if family is not None else 'jobs'} goes with --all")
    if not typed or typed[0].startswith("-"):
        raise UserError("name a model: mnemoscope check MODEL, or --all")
    source, given = typed[0], pairs(typed[1:])
    if source in MEMORIES:
        find("memory", source).make(**{"vocab": 2, **given})
    options: dict[str, Any] = {**given, **({} if document is None else {"document": document})}
    from mnemoscope.checks.measure import check as measure

    with trusting(trust):
        return measure(source, only=only, tokens=chosen.tokens, seed=chosen.seed, **options)


def _all(
    typed: tuple[str, ...], family: str | None, only: list[str] | None, jobs: int, quiet: bool
) -> CheckResult:
    if typed:
        raise UserError(f"--all checks every family: leave {typed[0]!r} out")
    if only is not None:
        raise UserError("--all asks for every promise: leave --only out")
    from mnemoscope.checks.survey import survey

    names = None if family is None else [one.strip() for one in family.split(",")]
    console = Console(stderr=True)

    def said(row: Row) -> None:
        if not quiet:
            bad = ", ".join(cell.promise for cell in row.bad)
            console.print(f"{row.name}: {row.missing or bad or 'kept'}", highlight=False)

    return survey(names, jobs, said)


def _shown(result: CheckResult, as_json: bool) -> None:
    if as_json:
        from mnemoscope.core.data import to_plain

        sys.stdout.write(json.dumps(to_plain(result)) + "\n")
        return
    sys.stdout.write(result.text() + "\n")
    if len(result.rows) == 1:
        for row in result.built:
            for cell in row.bad:
                if cell.snippet:
                    sys.stdout.write(f"\n# {cell.promise}\n{cell.snippet}\n")


def _command(
    typed: tuple[str, ...], every: bool, family: str | None, only: str | None, chosen: Check
) -> list[str]:
    again = [*(["--all"] if every else []), *typed]
    again += [] if family is None else ["--family", family]
    again += [] if only is None else ["--only", only]
    again += [] if chosen.tokens == 24 else ["--tokens", str(chosen.tokens)]
    return again + ([] if chosen.seed == 0 else ["--seed", str(chosen.seed)])
