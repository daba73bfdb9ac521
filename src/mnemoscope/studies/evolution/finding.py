"""What the page of the study `evolution` leads with: which layers still hold what was read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnemoscope.report.claims import Claim
from mnemoscope.studies.evolution.result import EvolutionResult
from mnemoscope.studies.findings import counted, why_not

DEPTH, MORE = "LM loses the input with depth", "LM loses more of it than MT and MLM"


def sentences(result: EvolutionResult, claims: Sequence[Claim]) -> list[str]:
    """What becomes of the token read in each objective, and how many orderings are seen."""
    by_text = {claim.text: claim for claim in claims}
    return [
        _of_language_models(result, by_text[DEPTH]),
        *_of_others(result, by_text[MORE]),
        f"Of {len(claims)} orderings that Voita, Sennrich and Titov (2019) report, "
        f"{counted(claims)} here.",
    ]


def _of_language_models(result: EvolutionResult, claim: Claim) -> str:
    what = "the language model (LM) loses what it reads with depth"
    if claim.verdict == "not judged":
        return f"Whether {what} cannot be told: {why_not(claim)}."
    known = result.curves("LM", lambda seen: seen.information["token"]).mean(0)
    null = np.mean([one.null["token"] for one in result.examined("LM")])
    begun = {
        "seen": "The language model (LM) loses what it reads with depth",
        "not seen": "The language model (LM) does not lose what it reads with depth",
        "opposite": "The language model (LM) tells more of what it reads with depth",
        "unclear": f"Seeds differ in whether {what}",
    }
    return (
        f"{begun[claim.verdict]}: about the token read its top layer tells {known[-1]:.2f} nats, "
        f"the embeddings {known[0]:.2f}, shuffled clusters {null:.2f}."
    )


def _of_others(result: EvolutionResult, claim: Claim) -> list[str]:
    if claim.verdict == "not judged":
        return []
    translator, masked = (
        result.curves(objective, lambda seen: seen.information["token"])[:, -1].mean()
        for objective in ("MT", "MLM")
    )
    ends = f"{translator:.2f} and {masked:.2f} nats in their top layers"
    if claim.verdict == "seen":
        return [f"The translator (MT) and the masked language model (MLM) keep more: {ends}."]
    return [
        f"That translator and masked language model keep more of it is {claim.verdict}: {ends}."
    ]
