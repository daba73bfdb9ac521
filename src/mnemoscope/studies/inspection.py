"""One lens on one or two models that read a text, as sections of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemoscope.activations.capture import capture, estimate, side_by_side
from mnemoscope.activations.reader import Reader, check_same_tokens, open_reader, to_batches
from mnemoscope.core.errors import UserError
from mnemoscope.core.progress import progress
from mnemoscope.lenses.change import Change, GroupedResult
from mnemoscope.lenses.influence import Influence
from mnemoscope.lenses.information.lens import Information
from mnemoscope.lenses.similarity.lens import Similarity
from mnemoscope.lenses.statistics.groups import Groups, by_frequency, by_tags, counted
from mnemoscope.lenses.waves.lens import look
from mnemoscope.lenses.waves.page import sections
from mnemoscope.lenses.waves.summary import summary
from mnemoscope.report.document import Figure, Section

Ints = NDArray[np.int64]
# Characters of text that a token to be read is worth; most tokens have four.
PER_TOKEN = 64
# How many groups of frequency are compared when nobody says how many tokens each must have.
LARGEST = 4


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a page about one lens needs."""

    title: str
    question: str
    sections: list[Section]


def inspect(
    name: str,
    models: Sequence[Any],
    texts: Sequence[str],
    *,
    sites: Sequence[str] = ("embeddings", "layer.*.out"),
    length: int = 128,
    tokens: int = 50_000,
    clusters: int | None = None,
    samples: int | None = None,
    tags: Sequence[Sequence[str]] | None = None,
    frequencies: int | None = None,
) -> Inspection:
    """Read texts with models and look with the lens ``name``.

    ``tags[text][token]`` groups the tokens of change and influence, which else go by frequency.
    """
    kinds: dict[str, Callable[..., Inspection]] = {
        "information": _information,
        "similarity": _similarity,
        "change": _grouped,
        "influence": _grouped,
    }
    known = [*kinds, "waves"]
    if name not in known:
        raise UserError(f"unknown lens {name!r}; known: {', '.join(known)}")
    if not models or len(models) > (2 if name == "similarity" else 1):
        raise UserError(f"{name} looks at one model{', or two' if name == 'similarity' else ''}")
    readers = [open_reader(model) for model in models]
    check_same_tokens(readers)
    limit = min([length, *(one.limit for one in readers if one.limit is not None)])
    if tags is not None and name not in ("change", "influence"):
        raise UserError(f"tags are for change and influence, not for {name}")
    if tags is not None and len(tags) != len(texts):
        raise UserError(f"{len(tags)} lines of tags for {len(texts)} lines of text")
    lines = _thinned(texts, PER_TOKEN * max(tokens, 2 * limit))
    if name == "waves":
        return _waves(readers, list(lines.values()), limit, tokens, frequencies)
    if readers[0].encode is None:
        raise UserError(f"{readers[0].name} has no vocabulary: it cannot read text")
    ids = dict(zip(lines, readers[0].encode(list(lines.values())), strict=True))
    numbers = list(ids)
    chosen = [numbers[place] for place in _some([len(one) for one in ids.values()], tokens)]
    _check_same_ids(readers, [lines[number] for number in chosen], [ids[n] for n in chosen])
    few = [ids[number][:tokens] for number in chosen]
    print(estimate(readers[0], to_batches(readers[0], few, limit, 32), sites))
    groups = None
    if tags is not None:
        groups = _tagged(readers[0], ids, tags, chosen, limit)
    return kinds[name](
        readers,
        few,
        sites=list(sites),
        length=limit,
        clusters=clusters,
        samples=samples,
        name=name,
        groups=groups,
    )


def _thinned(texts: Sequence[str], most: int) -> dict[int, str]:
    """Texts by their numbers, evenly spread, with about ``most`` characters in all.

    To cut a whole library into tokens, of which a few are read, would take longer than reading.
    """
    step = max(1.0, sum(map(len, texts)) / most)
    places = [int(place * step) for place in range(max(1, int(len(texts) / step)))]
    return {place: texts[place][:most] for place in places}


def _check_same_ids(readers: Sequence[Reader], texts: list[str], ids: list[Ints]) -> None:
    for other in readers[1:]:
        again = other.encode(texts) if other.encode else []
        if not all(np.array_equal(a, b) for a, b in zip(ids, again, strict=True)):
            raise UserError(f"{readers[0].name} and {other.name} read a text as different tokens")


def _some(lengths: Sequence[int], tokens: int) -> list[int]:
    """Which texts to read: evenly spread, with about so many tokens in all."""
    step = max(1.0, sum(lengths) / tokens)
    return [int(place * step) for place in range(max(1, int(len(lengths) / step)))]


def _tagged(
    reader: Reader,
    ids: Mapping[int, Ints],
    tags: Sequence[Sequence[str]],
    chosen: list[int],
    limit: int,
) -> Groups:
    """Groups by tag; tokens that stand for no piece of the text, such as [CLS], have none."""
    aligned = []
    for place in chosen:
        real = [int(token) not in reader.special for token in ids[place]]
        if len(real) > limit:
            raise UserError(
                f"line {place + 1} has {len(real)} tokens, {limit} are read at once: tagged lines "
                "must be read whole, so give a larger --length or shorter lines"
            )
        if sum(real) != len(tags[place]):
            words = " ".join(
                reader.decode(int(token)) for token, is_real in zip(ids[place], real, strict=True)
                if is_real
            )  # fmt: skip
            raise UserError(
                f"line {place + 1} has {len(tags[place])} tags for {sum(real)} tokens: {words}"
            )
        given = iter(tags[place])
        aligned.append([next(given) if is_real else "" for is_real in real])
    return by_tags(aligned)


def _seen(readers: Sequence[Reader], texts: list[Ints], sites: list[str], length: int) -> Any:
    """Batches of one model, or of several side by side, behind a progress bar."""
    options: dict[str, Any] = {"sites": sites, "length": length}
    if len(readers) == 1:
        stream = capture(readers[0], texts, **options)
    else:
        named = {f"{letter}": one for letter, one in zip("AB", readers, strict=False)}
        stream = side_by_side(named, texts, **options)
    total = len(to_batches(readers[0], texts, length, 32))
    with progress("reading", total) as show:
        for number, seen in enumerate(stream, start=1):
            yield seen
            show(number, "")


def _information(
    readers: list[Reader], texts: list[Ints], *, sites: list[str], length: int,
    clusters: int | None, **rest: Any,
) -> Inspection:  # fmt: skip
    targets = ("token", "next", "previous", "position")
    lens = Information(targets, clusters=clusters)
    for seen in _seen(readers, texts, sites, length):
        lens.observe(seen)
    found = lens.result()
    rows = found.table()
    parts: list[Any] = [
        f"Vectors of every place were put into {found.clusters} clusters, three times; shown is "
        "what the cluster tells, in nats. The band reaches from the lowest seed less its null to "
        "the highest seed.",
    ]
    words = {"next": "next token", "previous": "token before"}
    for target in targets:
        word = words.get(target, target)
        value = found.value[target].mean(1)
        best, worst = int(value.argmax()), int(value.argmin())
        parts += [
            f"Of the {word}, {found.sites[best]} knows most ({value[best]:.2f} nats of "
            f"{found.entropy[target]:.2f}) and {found.sites[worst]} least ({value[worst]:.2f}); "
            f"null {found.null[target].mean():.2f}.",
            Figure(
                f"Information about the {word}",
                found.figure(target),
                f"{found.samples[target]} tokens.",
                [row for row in rows if row["target"] == target],
            ),
        ]
    matrix: list[dict[str, Any]] = [
        {"left": a, "right": b, "nats": float(found.between[i, j])}
        for i, a in enumerate(found.sites)
        for j, b in enumerate(found.sites)
    ]
    caption = "Less what shuffled clusters tell; the diagonal is the entropy of the clusters."
    parts.append(Figure("Information between places", found.between_figure(), caption, matrix))
    question = f"How much does every layer of {readers[0].name} know of what it has read?"
    return Inspection("Information", question, [Section("What was seen", parts)])


def _similarity(
    readers: list[Reader], texts: list[Ints], *, sites: list[str], length: int, **rest: Any
) -> Inspection:
    lens = Similarity()
    for seen in _seen(readers, texts, sites, length):
        lens.observe(seen)
    found = lens.result()
    rows = found.table()
    parts: list[Any] = [
        f"{found.samples} tokens, {found.per_dimension:.1f} for each dimension of the widest "
        "place. Distances of the CCA kind say little below ten."
    ]
    for measure in ("pwcca", "cka", "procrustes"):
        values = found.distance[measure]
        near, far = int(np.nanargmin(values)), int(np.nanargmax(values))
        parts += [
            f"By {measure}, the nearest are {' and '.join(found.pairs[near])} "
            f"({values[near]:.3f}), the farthest {' and '.join(found.pairs[far])} "
            f"({values[far]:.3f}); paired at random: {np.mean(found.null[measure]):.3f}.",
            Figure(
                f"Distance by {measure}",
                found.figure(measure),
                "0 = the same up to what the measure ignores.",
                [row for row in rows if row["measure"] == measure],
            ),
        ]
    names = ", ".join(f"{letter} = {one.name}" for letter, one in zip("AB", readers, strict=False))
    question = f"How far apart are the layers of {names if len(readers) > 1 else readers[0].name}?"
    return Inspection("Similarity", question, [Section("What was seen", parts)])


def _grouped(
    readers: list[Reader], texts: list[Ints], *, sites: list[str], length: int,
    samples: int | None, name: str, groups: Groups | None, **rest: Any,
) -> Inspection:  # fmt: skip
    (reader,) = readers
    tagged = groups is not None
    groups = groups or by_frequency(counted(reader, texts, length=length))
    quota = samples or _fitting(groups)
    found: GroupedResult
    if name == "change":
        change = Change(groups, samples=quota)
        for seen in _seen(readers, texts, sites, length):
            change.observe(seen)
        found = change.result()
        question = f"How much do tokens change from layer to layer of {reader.name}?"
    else:
        influence = Influence(groups, samples=quota)
        influence.observe(reader, texts, length=length)
        found = influence.result()
        question = f"How much do tokens change each other in every layer of {reader.name}?"
    left_out = ", ".join(f"{group} ({count})" for group, count in found.left_out.items())
    mean = found.distance.mean(1)
    most, least = found.groups[int(mean.argmax())], found.groups[int(mean.argmin())]
    said = [
        f"{found.samples} tokens of every group, {found.per_dimension:.1f} for each dimension. "
        + (f"Groups with fewer tokens were left out: {left_out}." if left_out else ""),
        f"The most {name} is that of {most} ({mean.max():.4f} in the mean over layers), the least "
        f"that of {least} ({mean.min():.4f}).",
    ]
    caption = "Band: two standard errors."
    caption += "" if tagged else " Rank 1 is the most frequent token."
    title = f"{name.capitalize()} by {'tag' if tagged else 'frequency'}"
    figure = Figure(title, found.figure(), caption, found.table())
    return Inspection(name.capitalize(), question, [Section("What was seen", [*said, figure])])


def _waves(
    readers: list[Reader], texts: list[str], length: int, tokens: int, frequencies: int | None
) -> Inspection:
    (reader,) = readers
    found = look(reader, texts, length=length, texts=max(2, tokens // length),
                 frequencies=frequencies)  # fmt: skip
    question = f"How do the heads of {reader.name} know how far away a token is?"
    return Inspection("Position waves", question, sections(summary(found)))


def _fitting(groups: Groups) -> int:
    """As many tokens as the fourth largest group has."""
    sizes = np.sort(groups.counts)[::-1]
    return max(4, int(sizes[min(LARGEST, len(sizes)) - 1]))
