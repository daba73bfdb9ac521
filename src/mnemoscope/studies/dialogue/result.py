"""The result of the study `dialogue`, as data.

Shapes: C conversations of the test, G groups of tokens (see `groups`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mnemoscope.studies.study import Diverged

Grid = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Replies:
    """How replies that a model gave compare with what was said: scores in [0, 1], BLEU in [0, 100].

    how      greedy or sampled
    count    replies
    stems    whether METEOR matches stems too, not exact words alone as in older results
    """

    how: str
    count: int
    f1: float
    rouge_1: float
    rouge_l: float
    meteor: float
    bleu: float
    stems: bool = False


@dataclass(frozen=True)
class Spoken:
    """The scores of a contestant's replies, greedy and sampled."""

    replies: tuple[Replies, ...]


@dataclass(frozen=True)
class Attended:
    """Attention on the document while replies were read: masses per scored token of a reply.

    A mass is the share of all attention, mean over heads and layers. Rows are the first
    conversations of the test.

    positions  on each of B equal stretches of the document, the first one read first
    sections   on each section of the document, as many as the longest has
    about      on the section that the turn is about, NaN where nobody knows which that is
    uniform    on the whole document, were attention the same on all tokens read so far
    by_chance  on the section that the turn is about, were it so
    """

    positions: Grid
    sections: Grid
    about: tuple[float, ...]
    uniform: tuple[float, ...]
    by_chance: tuple[float, ...]


@dataclass(frozen=True)
class Examined:
    """A trained model on the conversations of the test.

    nats       by control (own, none, another), (C, G) loss of the replies, summed over the tokens
               of each group; controls other than the first have the groups of `KINDS` alone
    right      the same for tokens whose likeliest prediction was right
    valid      loss per token on the valid part, by which rates are chosen
    shown      per shown conversation, loss of every token of its turns; 0 where none is due
    replies    scores of what it says itself; empty where nobody asked for that
    attended   where attention fell on the document; None where a memory attends to no tokens
    """

    nats: dict[str, Grid]
    right: dict[str, Grid]
    valid: float
    seconds: float
    shown: Grid = ()
    replies: tuple[Replies, ...] = ()
    attended: Attended | None = None


@dataclass(frozen=True)
class Warmed:
    """Running text read before conversations: loss per token on pieces that were held out."""

    valid: float
    seconds: float


@dataclass(frozen=True)
class Learnt:
    """Documents that a document memory learnt by name before any conversation.

    documents  how many, of so many tokens
    recited    of which every token is the likeliest one
    none       loss per token of the documents without the memory
    right      the same with it
    """

    documents: int
    tokens: int
    recited: int
    none: float
    right: float
    steps: int
    seconds: float


@dataclass(frozen=True)
class DialogueTrial:
    """One training at one rate, and what became of it."""

    model: str
    lr: float
    seed: int
    run: str
    outcome: Examined | Diverged


@dataclass(frozen=True)
class DialogueModel:
    """A contestant's size, bytes that one conversation carries in the end, and the chosen rate."""

    label: str
    parameters: int
    width: int
    state_bytes: int
    lr: float


@dataclass(frozen=True)
class ReadConversation:
    """A conversation of the test: tokens of its document and turns, words of its replies.

    rating  how good the corpus says it is, None where it does not
    counts  (G,) tokens in each group
    """

    name: str
    document_tokens: int
    turn_tokens: int
    words: int
    rating: int | None
    counts: tuple[float, ...]


@dataclass(frozen=True)
class ShownConversation:
    """A conversation to read: what its document says, and its turns token by token.

    speakers  of every turn
    tokens    text of every token of the turns
    turns     the number of the turn that each token is in
    due       whether it was to be predicted
    """

    name: str
    sections: tuple[str, ...]
    speakers: tuple[str, ...]
    tokens: tuple[str, ...]
    turns: tuple[int, ...]
    due: tuple[bool, ...]


@dataclass(frozen=True)
class DialogueResult:
    """Floor, ceiling and all contestants.

    source      what was read; empty = made up
    window      tokens read at once by all but floor and ceiling
    vectors     that a layer carries
    chance      share of the answers that guessing gets right, None where answers are free
    unigram     loss per token of who knows how often words are said, and nothing else
    least_gain  nats per token of document words that the ceiling must save, see the stop rule
    stopped     whether contestants were not trained for that
    groups      (G,) names
    trials      of all rates tried; ``models`` says which rate counts
    pretrained  the model that read with memories that need no training; empty = all were trained
    warm_steps  steps on running text before conversations: documents, and what ``texts`` names
    warmed      what came of them, by the name of the run
    learnt      what a document memory learnt beforehand, None where none took part
    corpus      the format of the source, such as cmu_dog; empty where that is not known
    """

    source: str
    window: int
    vectors: int
    chance: float | None
    unigram: float
    least_gain: float
    stopped: bool
    seeds: int
    groups: tuple[str, ...]
    conversations: tuple[ReadConversation, ...]
    warnings: tuple[str, ...]
    models: dict[str, DialogueModel]
    trials: tuple[DialogueTrial, ...]
    shown: tuple[ShownConversation, ...] = ()
    pretrained: str = ""
    dtype: str = "float32"
    warm_steps: int = 0
    texts: str = ""
    corpus: str = ""
    warmed: dict[str, Warmed] = field(default_factory=dict)
    learnt: Learnt | None = None
