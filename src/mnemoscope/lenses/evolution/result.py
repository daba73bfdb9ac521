"""What becomes of tokens on their way through models: options, result and page of the lens.

Shapes: S sites, R seeds of the clustering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from mnemoscope.core.arrays import Floats
from mnemoscope.core.errors import UserError, suggestion
from mnemoscope.lenses.change.result import GroupedResult
from mnemoscope.lenses.extremes import band, differences
from mnemoscope.lenses.information.result import (
    LEAST,
    ClusterOptions,
    InformationResult,
    beyond_chance,
)
from mnemoscope.lenses.lens import MOST_TOKENS, Part, Records, Result, by_site
from mnemoscope.lenses.similarity.result import SimilarityResult
from mnemoscope.plots.figure import Plot, Reference, Series, lines
from mnemoscope.report.claims import Claim
from mnemoscope.report.document import Figure, Finding, finding

# Models that a finding tells of one by one.
FEW = 2
WORDS = {"token": "token read", "next": "next token"}


class EvolutionOptions(ClusterOptions):
    """How much is read, how it is clustered, and how many tokens of a group change is taken of."""

    samples: int | None = Field(
        None,
        ge=4,
        le=MOST_TOKENS,
        description="tokens per group of frequency; by default as many as the four largest have",
    )


@dataclass(frozen=True, eq=False)
class Looked:
    """What was seen of one model: information of its sites, and change by frequency."""

    information: InformationResult
    change: GroupedResult

    def falls(self, name: str) -> Claim:
        """Whether the last site tells less of the token read than the first, in every seed."""
        value, null = self.information.value["token"], self.information.null["token"]
        effects = beyond_chance(value[0], value[-1], null[0], null[-1])
        return self._claim(f"{name} loses the token read", "token", effects)

    def rises(self, name: str) -> Claim:
        """Whether some site tells more of the next token than the first, in every seed."""
        return self._claim(f"{name} builds the next token", "next", self._gained()[self.best])

    @property
    def best(self) -> int:
        """The site that tells most of the next token, beyond what chance adds."""
        return int(self._gained().mean(1).argmax())

    def _gained(self) -> Floats:
        """What sites tell of the next token more than the first one, (S, R)."""
        value, null = self.information.value["next"], self.information.null["next"]
        return beyond_chance(value, value[0], null, null[0])

    def reads(self, name: str) -> Claim:
        """Whether a linear reader finds more of the next token at some site than at the first.

        It is asked about texts that it was not fitted on, so chance adds nothing.
        """
        probe, error = self.information.probe["next"], self.information.probe_error["next"]
        best = self.read
        around = 2 * float(np.hypot(error[best], error[0]))
        effects = [probe[best] - probe[0] - around, probe[best] - probe[0] + around]
        text = f"a linear reader finds more of the next token in {name}"
        return Claim(text, effects, LEAST, "nats, both ends of 95 %")

    @property
    def read(self) -> int:
        """The site where a linear reader finds most of the next token."""
        return int(self.information.probe["next"].argmax())

    def _claim(self, text: str, target: str, effects: Floats) -> Claim:
        limited = self.information.at_ceiling(target)
        sites = self.information.sites
        at = ", ".join(site for site, full in zip(sites, limited, strict=True) if full)
        ceiling = f"clusters at {at} tell nearly all that so many can: take more" if at else ""
        return Claim(text, effects, LEAST, "nats", ceiling=ceiling)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two models that read the same tokens: distances of sites at the same depth."""

    left: str
    right: str
    similarity: SimilarityResult


@dataclass(frozen=True, eq=False)
class EvolutionResult(Result):
    """What was seen of every model, of pairs that could be compared, and why others could not."""

    looked: Mapping[str, Looked]
    pairs: tuple[Pair, ...]
    apart: tuple[str, ...]

    def table(self) -> Records:
        """One row per model, target, site and seed."""
        return [
            {"model": name} | row
            for name, one in self.looked.items()
            for row in one.information.table()
        ]

    def figure(self, target: str = "token") -> Plot:
        """Nats about the token read or the next one by depth, one curve a model, with its null."""
        if target not in WORDS:
            raise UserError(f"{target!r} was not asked for; {suggestion(target, WORDS)}")
        curves = []
        for number, (name, one) in enumerate(self.looked.items()):
            known = one.information
            depth, value = _depth(len(known.sites)), known.value[target].mean(1)
            curves.append(Series(name, depth, value, *known.interval(target), number))
        null = np.mean([one.information.null[target].mean() for one in self.looked.values()])
        references = [Reference(float(null), "null: shuffled")]
        if len(self.looked) == 1:
            known = next(iter(self.looked.values())).information
            references.append(Reference(known.entropy[target], "all there is to know"))
        return lines(
            curves, "depth (0: first site, 1: last)", f"nats about the {WORDS[target]}",
            references=references,
        )  # fmt: skip

    def finding(self) -> Finding:
        """What models keep of the token read, and make of the next one."""
        said = [_told(name, one) for name, one in list(self.looked.items())[:FEW]]
        rest = len(self.looked) - FEW
        if rest > 0:
            said.append(f"What was seen of {rest} more models is in the evidence.")
        elif self.apart:
            said.append(self.apart[0])
        elif self.pairs:
            said.append(_told_of_pair(self.pairs[0]))
        return finding(*said, figure=self._known("token"))

    def parts(self) -> list[Part]:
        """Claims, the other figures of every model, and pairs of models."""
        claims = [
            claim
            for name, one in self.looked.items()
            for claim in (one.falls(name), one.rises(name), one.reads(name))
        ]
        return [
            "Vectors of every site are put into clusters; shown is what the cluster tells of a "
            "token, in nats. Values of two models can be compared where both read the same "
            "tokens; else each model is compared with itself.",
            *self.apart,
            differences(claims),
            self._known("next"),
            *self._of_models(),
            *(_distance(*one) for one in enumerate(self.pairs, start=1)),
        ]

    def _known(self, target: str) -> Figure:
        word = WORDS[target]
        return Figure(
            f"Information about the {word}",
            self.figure(target),
            "Line: mean over clusterings; band: from the lowest less its null to the highest.",
            [row for row in self.table() if row["target"] == target],
        )

    def _of_models(self) -> Iterator[Part]:
        """Of every model the linear probe beside the clusters, and change by frequency."""
        for number, (name, one) in enumerate(self.looked.items(), start=1):
            known, change = one.information, one.change
            for target, word in WORDS.items():
                yield Figure(
                    f"Probe of the {word}, model {number}: {name}",
                    known.figure(target),
                    f"{known.samples[target]} tokens, {known.clusters} clusters. A linear probe "
                    "finds at least as much as it shows, in texts that it was not fitted on.",
                    [{"model": name} | row for row in known.table() if row["target"] == target],
                )
            few = ", ".join(f"{group} ({count})" for group, count in change.left_out.items())
            yield Figure(
                f"Change by frequency, model {number}: {name}",
                change.figure(),
                f"{change.samples} tokens of every group, {change.per_dimension:.1f} for each "
                "dimension; bands: two standard errors. Rank 1 is the most frequent token."
                + (f" Left out, with too few tokens: {few}." if few else ""),
                [{"model": name} | row for row in change.table()],
            )


def _depth(sites: int) -> Floats:
    found: Floats = np.linspace(0, 1, sites)
    return found


def _told(name: str, one: Looked) -> str:
    """Both curves of one model in a sentence."""
    known = one.information
    token, following = (known.value[target].mean(1) for target in WORDS)
    lost = {
        "seen": "falls with depth",
        "opposite": "rises with depth",
        "not seen": "does not fall with depth",
        "unclear": "differs among clusterings",
        "not judged": "is at the ceiling of the clusters",
    }
    built = {**lost, "seen": "rises", "not seen": "does not rise beyond chance"}
    probe, best = known.probe["next"], known.sites[one.best]
    risen = f", {following[0]:.2f} at first, {following[one.best]:.2f} at {best}"
    return (
        f"In {name} information about the token read {lost[one.falls(name).verdict]}, "
        f"{token[0]:.2f} nats at first, {token[-1]:.2f} at last; about the next token it "
        f"{built[one.rises(name).verdict]}{risen if one.best else ''}. A linear reader: "
        f"{probe[0]:.2f}, then {probe[one.read]:.2f} at {known.sites[one.read]}."
    )


def _told_of_pair(pair: Pair) -> str:
    distance = pair.similarity.distance["pwcca"]
    null = pair.similarity.null["pwcca"]
    return (
        f"Between {pair.left} and {pair.right} the PWCCA distance is {distance[0]:.2f} at the "
        f"first site and {distance[-1]:.2f} at the last; tokens paired at random would be at "
        f"{null.mean():.2f}."
    )


def _distance(number: int, pair: Pair) -> Figure:
    found = pair.similarity
    names = [f"{a.partition('/')[2]} – {b.partition('/')[2]}" for a, b in found.pairs]
    curve = band(found.distance["pwcca"], found.error["pwcca"])
    null = Reference(float(found.null["pwcca"].mean()), "null: tokens paired at random")
    return Figure(
        f"Distance of pair {number}: {pair.left} and {pair.right}",
        by_site({"PWCCA": curve}, names, "", "PWCCA distance", references=[null]),
        f"Sites at the same depth, {found.samples} tokens, {found.per_dimension:.1f} for each "
        "dimension; band: two standard errors.",
        found.table(),
    )
