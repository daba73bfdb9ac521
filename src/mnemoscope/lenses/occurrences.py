"""Occurrences of a few tokens, drawn layer by layer: principal components with a slider.

Shapes: n occurrences, S places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mnemoscope.activations.capture import Observed
from mnemoscope.core.errors import UserError
from mnemoscope.lenses.statistics.clusters import standardise
from mnemoscope.lenses.statistics.sample import Sample
from mnemoscope.plots.figure import SERIES, SYMBOLS, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OccurrencesResult:
    """Where each occurrence lies.

    words       (n,) which token it is
    positions   (n,) where in its text it stands
    places      (S, n, 2) its two principal components at every place, turned to follow the place
                before, since the sign and order of components mean nothing
    explained   (S,) share of the variance that the two components hold
    """

    sites: tuple[str, ...]
    words: tuple[str, ...]
    positions: NDArray[np.int64]
    places: Floats
    explained: Floats

    def table(self) -> list[dict[str, str | int | float]]:
        """One row per place and occurrence."""
        return [
            {
                "site": site,
                "token": word,
                "position": int(position),
                "x": float(self.places[s, o, 0]),
                "y": float(self.places[s, o, 1]),
                "explained": float(self.explained[s]),
            }
            for s, site in enumerate(self.sites)
            for o, (word, position) in enumerate(zip(self.words, self.positions, strict=True))
        ]

    def figure(self) -> go.Figure:
        """One dot an occurrence, one colour a token; the slider goes through the places."""
        import plotly.graph_objects as go

        kinds = list(dict.fromkeys(self.words))
        words = np.array(self.words)

        def dots(place: int) -> list[dict[str, object]]:
            return [
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": kind.replace("<", "&lt;"),
                    "x": self.places[place, words == kind, 0],
                    "y": self.places[place, words == kind, 1],
                    "text": [f"position {one}" for one in self.positions[words == kind]],
                    "marker": {
                        "color": SERIES[number % len(SERIES)],
                        "symbol": SYMBOLS[number % len(SYMBOLS)],
                        "size": 6,
                        "opacity": 0.7,
                    },
                }
                for number, kind in enumerate(kinds)
            ]

        reach = float(np.abs(self.places).max()) * 1.08
        steps = [
            {
                "label": f"{site} ({share:.0%})",
                "method": "animate",
                "args": [[site], {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}],
            }
            for site, share in zip(self.sites, self.explained, strict=True)
        ]
        axis = {"range": [-reach, reach]}
        layout = {
            "template": template(),
            "height": 520,
            "xaxis": axis | {"title": {"text": "first component"}},
            "yaxis": axis | {"title": {"text": "second component"}},
            "sliders": [{"steps": steps, "pad": {"t": 60}, "currentvalue": {"prefix": "place: "}}],
        }
        frames = [{"name": site, "data": dots(place)} for place, site in enumerate(self.sites)]
        return go.Figure(data=dots(0), layout=layout, frames=frames)


class Occurrences:
    """Collect chosen tokens: ``observe`` what `capture` gives, then ``result``.

    ``tokens`` are ids and the words to show for them. At most ``samples`` occurrences are kept.
    """

    def __init__(self, tokens: Mapping[int, str], *, samples: int = 1000) -> None:
        if not tokens:
            raise UserError("say which tokens to look at")
        self.tokens, self._sample = tokens, Sample(samples)

    def observe(self, seen: Observed) -> None:
        """Take in one batch."""
        kept = np.isin(seen.tokens, list(self.tokens))
        where = torch.from_numpy(np.flatnonzero(kept))
        columns = {
            name: getattr(seen, name)[kept]
            for name in ("tokens", "positions", "rows", "left", "right", "labels")
        }
        sites = {name: values[where.to(values.device)] for name, values in seen.sites.items()}
        self._sample.add(Observed(**columns, sites=sites))

    def result(self) -> OccurrencesResult:
        """What was seen so far."""
        if len(self._sample) < 3:
            words = ", ".join(repr(word) for word in self.tokens.values())
            raise UserError(f"{words} occurred {len(self._sample)} times: read more text")
        places: list[Floats] = []
        explained: list[float] = []
        for values in self._sample.sites.values():
            left, scale, _ = torch.linalg.svd(standardise(values).double(), full_matrices=False)
            drawn = torch.zeros(len(left), 2, dtype=torch.float64)
            drawn[:, : min(2, len(scale))] = left[:, :2] * scale[:2]
            drawn /= drawn.square().mean().sqrt()
            if places:
                # The rotation or reflection that brings it nearest to the place before.
                u, _, v = torch.linalg.svd(drawn.T @ torch.from_numpy(places[-1]))
                drawn = drawn @ u @ v
            places.append(drawn.numpy())
            explained.append(float(scale[:2].square().sum() / scale.square().sum()))
        return OccurrencesResult(
            tuple(self._sample.sites),
            tuple(self.tokens[int(token)] for token in self._sample.columns["tokens"]),
            self._sample.columns["positions"],
            np.stack(places),
            np.array(explained),
        )
