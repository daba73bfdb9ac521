"""What pages of studies lead with: verdicts on claims as plain words, and a figure beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from mnemoscope.report.claims import Claim, Gate
from mnemoscope.report.document import Figure, Finding, finding

# Pixels: title, question, sentences and figure are seen together on a screen of 900.
HEIGHT = 320


def lead(sentences: Iterable[str], figure: Figure) -> Finding:
    """The finding of a page; its figure is low enough to be seen with the sentences."""
    figure.figure.update_layout(height=HEIGHT)
    return finding(*sentences, figure=figure)


def how_often(claim: Claim) -> str:
    """In how many trainings a claim is seen, or why it is not judged."""
    effects = np.asarray(claim.effects, dtype=np.float64)
    held, count = int((effects >= claim.least).sum()), effects.size
    trainings = "the one training" if count == 1 else f"all {count} trainings"
    none = f"not seen in {trainings}" if count == 1 else f"seen in none of {count} trainings"
    told = {
        "seen": f"seen in {trainings}",
        "opposite": f"contradicted in {trainings}",
        "not seen": none,
        "unclear": f"unclear: seen in {held} of {count} trainings",
    }
    return told.get(claim.verdict) or f"not judged: {why_not(claim)}"


def why_not(claim: Claim) -> str:
    """What forbids to judge a claim, in short."""
    return claim.ceiling or not_passed(claim.gates) or "not measured in every training"


def not_passed(gates: Iterable[Gate]) -> str:
    """The gates that were not passed, by name; empty where all were."""
    failed = [gate.name for gate in gates if not gate.passed]
    return f"not every training passed its gate ({'; '.join(failed)})" if failed else ""


def counted(claims: Iterable[Claim]) -> str:
    """How many claims got each verdict: ``7 are seen, 5 unclear and 1 not seen``."""
    (verdict, most), *rest = Counter(claim.verdict for claim in claims).most_common()
    first = f"{most} {'is' if most == 1 else 'are'} {verdict}"
    return listed([first, *(f"{count} {verdict}" for verdict, count in rest)])


def listed(names: Iterable[str]) -> str:
    """``A``, ``A and B``, ``A, B and C``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
