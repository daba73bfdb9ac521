"""``mnemoscope infinite``: attach a memory of all that was read, and measure what it saves.

Nothing here imports torch before a command has understood what it was asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cyclopts import App
from rich.console import Console
from rich.markup import escape

from mnemoscope.cli.options import Options, check_file, configs, examples, pairs, within
from mnemoscope.core.aliases import canonical
from mnemoscope.core.errors import UserError, suggestion

MOST_TOKENS = 1 << 40

infinite = App(
    # "past" is what it was called first.
    name=("infinite", "past"),
    help_format="plaintext",
    help="Attach an ∞-former's or Transformer-XL's memory to a Hugging Face model.",
)


@infinite.command(
    name="fit",
    help_epilogue=examples(
        "mnemoscope infinite fit --model models/small --text books/one.txt --out memories/infinite",
        "mnemoscope infinite fit --model models/small --text books/one.txt --out memories/both "
        "--layers 1,3 --window 64 --mem-len 32 --steps 500",
        "mnemoscope infinite fit --model models/small --text books/one.txt --out memories/xl "
        "--memory transformer_xl --mem-len 128 --steps 0",
    ),
)
def infinite_fit(
    *options: Options,
    model: str,
    text: list[Path],
    out: Path,
    memory: str = "infinite",
) -> None:
    """Attach a memory of all that was read before, and train it on long texts.

    Options of the memory (--window, --basis, --layers, --mem-len, --sticky, --kl …) and of its
    training (--steps, --lr, --learn, --tbptt, --rows) can follow by name.

    Parameters
    ----------
    model
        A causal language model: a folder or a name on the hub.
    text
        What to learn from; several are read one after the other.
    out
        A new folder for the memory, and for the model if it learns too (--learn all).
    memory
        infinite, the signal of the ∞-former; or transformer_xl, the last keys and values.
    """
    from mnemoscope.huggingface.config import InfiniteFitting, InfiniteOptions, TransformerXLOptions

    kinds = {"infinite": InfiniteOptions, "transformer_xl": TransformerXLOptions}
    if (name := canonical("attached", memory)) not in kinds:
        raise UserError(f"unknown memory {memory!r}; {suggestion(memory, kinds)}")
    chosen, fitting = configs(pairs(options), kinds[name], InfiniteFitting)
    fitting.check(chosen)
    from mnemoscope.huggingface.saving import check_destination

    check_destination(out)
    from mnemoscope.data.documents import read_text
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory
    from mnemoscope.huggingface.limits import check_options
    from mnemoscope.huggingface.loading import load_config, load_model

    for path in text:
        check_file(path)
    check_options(load_config(model), chosen)
    texts = [read_text(path) for path in text]
    base, tokenizer = load_model(model)
    attached = InfiniteMemory(base, chosen, tokenizer)
    learnt = attached if fitting.learn == "all" else attached.readers
    check_destination(out, sum(one.numel() * one.element_size() for one in learnt.parameters()))
    losses = attached.fit(texts, **fitting.model_dump())

    home = attached.save_pretrained(out, base=fitting.learn == "all")
    said = f"{len(losses)} steps"
    if losses:
        said += f", loss of the last {losses[-1]:.3f}"
    Console().print(f"[bold]memory[/bold]  {escape(str(home))}  ({said})", soft_wrap=True)


@infinite.command(
    help_epilogue=examples(
        "mnemoscope infinite worth memories/infinite --text books/two.txt --text books/three.txt"
    )
)
def worth(
    memory: Path, /, *, text: list[Path], model: str | None = None, most: int | None = None
) -> None:
    """Measure how much loss the memory saves on texts, in nats per token.

    Every window is read after its own text, after nothing and after another
    text. What the own text saves over another is memory of its content; what
    any text saves over nothing may be no more than getting used to text.

    Parameters
    ----------
    memory
        The folder of the memory.
    text
        A text, such as a book; several are read side by side, each to its end.
    model
        The model; by default the one it was trained with.
    most
        Read at most so many tokens of each.
    """
    within("most", most, 2, MOST_TOKENS)
    for path in text:
        check_file(path)
    from mnemoscope.data.documents import read_text
    from mnemoscope.huggingface.infinite.memory import InfiniteMemory
    from mnemoscope.open import open_attached

    opened = open_attached(memory, "infinite", model, text=True)
    attached = opened.memory
    assert isinstance(attached, InfiniteMemory)
    found = attached.worth([read_text(path) for path in text], most=most)
    sys.stdout.write(f"{found}\n")
