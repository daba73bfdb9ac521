"""What the page of the study `waves` leads with: how heads find a relative position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.report.claims import Claim
from mnemoscope.studies.findings import counted, how_often, listed, why_not
from mnemoscope.studies.waves.claims import BECOME, PREDICTED, SHIFTED, most
from mnemoscope.studies.waves.result import WavesResult


def sentences(result: WavesResult, claims: Sequence[Claim]) -> list[str]:
    """Whether positions steer heads, what models without them have, and what is still unclear."""
    by_text = {claim.text: claim for claim in claims}
    told = [*_steered(by_text), *_relative(result)]
    if not claims:  # without positions there is nothing to expect
        return told
    sharp = by_text.get(BECOME)
    more = f"; that learned positions become waves is {how_often(sharp)}" if sharp else ""
    asked = f"Of {len(claims)} expectations after Yamamoto and Matsuzaki (2023)"
    return [*told, f"{asked}, {counted(claims)}{more}."]


def _steered(by_text: dict[str, Claim]) -> list[str]:
    """Of models whose positions are added to what attention is given."""
    if PREDICTED not in by_text:
        return []
    pair = fit, shift = by_text[PREDICTED], by_text[SHIFTED]
    unjudged = [one for one in pair if one.verdict == "not judged"]
    if unjudged:
        return [f"How heads look back cannot be told: {why_not(unjudged[0])}."]
    seen = all(one.verdict == "seen" for one in pair)
    begun = "" if seen else "That heads look back by positions alone is unclear: "
    often = list(dict.fromkeys(map(how_often, pair)))
    return [
        f"{begun}{'p' if begun else 'P'}ositions alone predict where the strongest head attends "
        f"(R² {np.mean(fit.effects):.2f}), and shifted by k tokens they move "
        f"{100 * np.mean(shift.effects):.0f} % of its attention "
        f"by k; {'both ' if len(often) == 1 else ''}{', then '.join(often)}."
    ]


def _relative(result: WavesResult) -> list[str]:
    """How far scores of masked language models depend on the offset, by kind of positions."""
    found = {
        kind: f"{np.mean([most(one.last) for one in result.examined('MLM', kind)]):.2f}"
        for kind in result.positions
    }
    without = found.pop("none", None)
    of = "of the scores of the strongest head in masked language models"
    if not found:
        return [f"Without positions the offset explains {without} {of}."]
    control = f"; without positions, the control, {without}" if without else ""
    return [
        f"With {listed(found)} positions the offset alone explains {listed(found.values())} "
        f"{of}{control}."
    ]
