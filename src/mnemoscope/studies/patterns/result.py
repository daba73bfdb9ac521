"""The result of the study `patterns`."""

from __future__ import annotations

from dataclasses import dataclass

from mnemoscope.studies.contest.result import ContestResult

# Tokens of the map that is drawn: more would only make its grid too fine to see.
DRAWN = 64


@dataclass(frozen=True)
class PatternsResult:
    """``counted`` has bits per byte of models that only count; maps are (DRAWN, DRAWN) weights."""

    contest: ContestResult
    counted: dict[str, float]
