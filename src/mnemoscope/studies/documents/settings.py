"""The kinds of memory that the study `documents` trains. Pages ask for results by these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

SELECTS = ("tanh", "relu", "sigmoid")
ALPHAS = (0.0, 0.1, 0.5, 1.0)
STARTS = ("orthogonal", "random", "small")
# Of these, size is varied against the number of documents.
SIZED = STARTS[:2]
DIMS = (2, 16, 128)
DEPTHS = (1, 2, 3, 4)
NEGATIVES = ("other", "random", "zero", "perturbed", "hardest")
ENCODERS = ("tfidf", "shingles", "hidden")
# Masks that nobody learns; with some of them every claim is compared.
CONTROL_MASKS = ("random", "all")
MASKS = (*CONTROL_MASKS, "disjoint", "bias")
# Texts of many documents: segments each, tokens of a segment.
MANY_SEGMENTS, MANY_SEGMENT = 4, 64

# Strength of guidance and control that blocks, and numbers of documents, are compared with.
COMPARED = ((0.1, "none"), (0.0, "none"), (0.0, "random"), (0.0, "all"))
_CONTROLLED = ("shapes", "gates", "split", "line")


@dataclass(frozen=True)
class Setting:
    """One kind of training; ``name`` is also that of its files, a seed each.

    What is None is as the options of the study say. ``documents`` is set where there are many,
    ``count`` where there are more or fewer of the usual size.
    ``measures`` are the fields of `Fit` that are measured in addition.
    """

    name: str
    select: str = "tanh"
    alpha: float = 0.1
    negative: str = "other"
    control: str = "none"
    start: str = "orthogonal"
    learned: bool = True
    depth: int = 1
    key_dim: int | None = None
    layer: int | None = None
    optimizer: str = "adam"
    lr: float | None = None
    lengths: bool = False
    documents: int | None = None
    count: int | None = None
    measures: tuple[str, ...] = field(default=(), compare=False)


def guided(select: str = "tanh", alpha: float = 0.1) -> Setting:
    """A way to open entries, and the strength of guidance."""
    measures: tuple[str, ...] = ()
    if alpha == 0:
        measures = ("map", *(_CONTROLLED if select == "tanh" else ()))
    elif alpha == 0.1:
        measures = ("line",) if select == "sigmoid" else ("frames", "paths", *_CONTROLLED)
    return Setting(f"{select} α={alpha:g}", select, alpha, measures=measures)


def plane(select: str, alpha: float = 0.1) -> Setting:
    """Representations of two numbers, over which losses can be drawn."""
    name = f"plane {select}{_variant(alpha)}"
    return Setting(name, select, alpha, key_dim=2, measures=("plane",))


def lengths(select: str, alpha: float = 0.1) -> Setting:
    """Documents of different lengths."""
    name = f"lengths {select}{_variant(alpha)}"
    return Setting(name, select, alpha, lengths=True, measures=("sizes",))


FIXED = Setting("fixed", learned=False)


def masked(control: str) -> Setting:
    """Masks that nobody learns, without guidance."""
    measures = _CONTROLLED if control in CONTROL_MASKS else ()
    return Setting(f"control {control}", alpha=0.0, control=control, measures=measures)


def behind(
    layer: int, alpha: float = 0.1, control: str = "none", negative: str = "other"
) -> Setting:
    """The memory behind another block than the last; behind the last too with other negatives."""
    if negative != "other":
        return Setting(f"layer {layer} {negative} negatives", negative=negative, layer=layer)
    name = f"layer {layer}{_variant(alpha, control)}"
    # Time is compared with the plain setting, which records its training too.
    measures = ("shapes",) if alpha else ()
    return Setting(name, alpha=alpha, control=control, layer=layer, measures=measures)


def moving(start: str, dim: int, count: int | None = None) -> Setting:
    """Representations of ``dim`` numbers with another start; "sgd" is another optimiser.

    ``count`` documents are learnt, if not as many as usual.
    """
    name = f"move {start} {dim}" + ("" if count is None else f" of {count}")
    if start == "sgd":
        return Setting(name, alpha=1.0, key_dim=dim, optimizer="sgd", lr=0.1, count=count)
    drawn = count is None and start in SIZED and dim in (DIMS[0], DIMS[-1])
    measures = ("paths",) if drawn else ()
    return Setting(name, alpha=1.0, key_dim=dim, start=start, count=count, measures=measures)


def deep(depth: int, alpha: float = 1.0, negative: str = "random") -> Setting:
    """A map of several layers from representations to entries."""
    plain = Setting(f"depth {depth}", "relu", alpha, depth=depth, key_dim=2)
    if not alpha:
        return replace(plain, name=f"{plain.name} α=0")
    # Random negatives never touch the representations of documents; others do.
    if negative == "random":
        return replace(plain, negative=negative, measures=("gradients", "shapes"))
    name = f"{plain.name} {negative}"
    return replace(plain, name=name, negative=negative, measures=("gradients",))


def encoded(encoder: str) -> Setting:
    """Representations that are read off the text."""
    return Setting(f"encoder {encoder}", start=encoder, learned=False, measures=("newcomers",))


def against(negative: str) -> Setting:
    """Another kind of wrong document."""
    return Setting(f"negative {negative}", alpha=1.0, negative=negative)


def many(documents: int, alpha: float = 0.1, control: str = "none") -> Setting:
    """More documents."""
    name = f"many {documents}{_variant(alpha, control)}"
    return Setting(name, alpha=alpha, control=control, documents=documents)


def _variant(alpha: float, control: str = "none") -> str:
    """How a name goes on where there is no guidance."""
    return f" {control}" if control != "none" else "" if alpha else " α=0"


# What every claim of guidance or of a learned selection has to be compared with.
GUIDED, FREE, RANDOM, ALL_ON = guided(), guided(alpha=0.0), masked("random"), masked("all")
CONTROLS = {
    FREE: "control: α = 0",
    RANDOM: "control: random masks",
    ALL_ON: "control: all entries on",
}


def every_setting(
    masks: Sequence[str],
    layers: Sequence[int],
    key_dim: int,
    many_of: Sequence[int],
    counts: Sequence[int],
) -> tuple[Setting, ...]:
    """All kinds of memory: with these masks, behind these blocks, of so many documents."""
    found: list[Setting] = []
    for select in SELECTS:
        found += [guided(select, alpha) for alpha in ALPHAS]
        found += [plane(select), lengths(select)]
    found += [plane("tanh", 0.0), lengths("tanh", 0.0), FIXED, *map(masked, masks)]
    found += [behind(layer, *one) for layer in layers[:-1] for one in COMPARED]
    found += [behind(layer, negative="random") for layer in layers]
    for dim in DIMS:
        # The orthogonal start of the usual size is tanh with α = 1.
        starts = [one for one in STARTS if (one, dim) != ("orthogonal", key_dim)]
        found += [moving(start, dim) for start in (*starts, "sgd")]
        found += [moving(start, dim, count) for start in SIZED for count in counts]
    for depth in DEPTHS:
        found += [deep(depth), deep(depth, alpha=0.0)]
        found += [deep(depth, negative="other")] if depth in (DEPTHS[0], DEPTHS[-1]) else []
    found += [*map(encoded, ENCODERS), *map(against, NEGATIVES[1:])]
    found += [many(count, *one) for count in many_of for one in COMPARED]
    return tuple(found)
