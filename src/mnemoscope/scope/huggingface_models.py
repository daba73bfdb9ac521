"""Models of `transformers` for the page: causal ones, alone or with a memory attached; encoders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mnemoscope.activations.streams.huggingface_stream import HuggingFacePageStream
from mnemoscope.activations.streams.infinite_stream import InfinitePageStream
from mnemoscope.core.errors import UserError
from mnemoscope.data.batch import NO_QUESTION
from mnemoscope.huggingface import saved
from mnemoscope.huggingface.documents.memory import DocumentMemory
from mnemoscope.huggingface.infinite.memory import InfiniteMemory
from mnemoscope.huggingface.loading import load_config, load_masked, load_tokenizer
from mnemoscope.open import Reader, open_attached, open_model
from mnemoscope.scope.encoder_stream import EncoderPageStream
from mnemoscope.scope.episodes import Phrase
from mnemoscope.scope.folder import inside
from mnemoscope.scope.served import ServedModel, about_model
from mnemoscope.scope.token_text import BRACKETED, BRACKETS, TokenText, following, hidden_phrase

# How families of tokenizers write a space and a line break inside a token.
SHOWN = {"Ġ": " ", "▁": " ", "Ċ": "\n", "<0x0A>": "\n"}


def served(source: str, name: str) -> ServedModel:
    """A model in a folder or on the hub."""
    config = load_config(source)
    named = " ".join(getattr(config, "architectures", None) or [])
    if any(word in named for word in ("CausalLM", "LMHeadModel")):
        reader = open_model(source, text=True)
        return _causal(reader, name, type(reader.model).__name__)
    if getattr(config, "is_encoder_decoder", False) or not named:
        raise UserError(
            f"{Path(source).name} ({named or 'unknown'}) is neither a causal language model nor an "
            "encoder: look at it with mnemoscope lens"
        )
    if "MaskedLM" not in named:
        reader = open_model(source, text=True, head=False)
    else:
        model = load_masked(source)
        reader = open_model(model, tokenizer=load_tokenizer(source, model))
    return _encoder(reader, name, type(reader.model).__name__)


def attached(folder: Path, name: str, kind: str, allowed: list[str] | None) -> ServedModel:
    """A saved memory on its base, which must be one of those ``allowed``; None allows any."""
    base = allowed_base(folder, name, kind, allowed)
    reader = open_attached(folder, kind, base, text=True)
    if isinstance(reader.memory, InfiniteMemory):
        xl = not reader.memory.options.signal
        label = f"{'Transformer-XL' if xl else '∞-former'} memory on {Path(base).name}"
        return _causal(reader, name, label)
    return _causal(reader, name, f"Document memory on {Path(base).name}")


def allowed_base(folder: Path, name: str, kind: str, allowed: list[str] | None) -> str:
    """Where the base of a saved memory is; it must be one of those ``allowed``, None allows any."""
    base: str = saved.base_of(folder, kind)
    # The file says which model it is for; it may not choose one that nobody put here.
    if allowed is not None and not any(_same(base, one) for one in allowed):
        raise UserError(
            f"{name} was learnt on {base}, which is not in the folder of runs: start scope with "
            "--model and that model"
        )
    return base


def _same(base: str, allowed: str) -> bool:
    try:
        inside(Path(allowed), str(Path(base).resolve()))
    except UserError:
        return base == allowed
    return True


def _causal(reader: Reader, name: str, label: str) -> ServedModel:
    memory, encode, show = reader.memory, reader.encode, _shown(reader)
    assert encode is not None

    def parse(text: str) -> TokenText:
        tokens: list[int] = encode([text])[0].tolist()
        return TokenText(tokens, [show(one) for one in tokens], following(tokens))

    if isinstance(memory, InfiniteMemory):
        window = memory.windows.size
        # So that a window can be seen before it is full and written.
        about = about_model(name, label, memory, segment=min(32, max(1, window // 2)))
        return ServedModel(about, parse, show, lambda _: InfinitePageStream(memory), None, window)
    names = list(memory.names) if isinstance(memory, DocumentMemory) else []
    about = about_model(name, label, reader.model, documents=names)
    return ServedModel(
        about,
        parse,
        show,
        lambda document: HuggingFacePageStream(reader.model, memory, document),
        reader.limit,
    )


def _encoder(reader: Reader, name: str, label: str) -> ServedModel:
    show, tokenizer = _shown(reader), reader.tokenizer
    hidden = tokenizer.mask_token_id

    def parse(text: str) -> TokenText:
        asked: list[tuple[int, int]] = []  # where hidden words stand once brackets are gone
        if hidden is not None:
            for number, found in enumerate(BRACKETS.finditer(text)):
                asked.append((found.start() - 2 * number, found.end() - 2 * number - 2))
            text = BRACKETS.sub(r"\1", text)
        cut = tokenizer(text, return_offsets_mapping=bool(asked))
        tokens = [*cut["input_ids"]]
        targets, phrases = [NO_QUESTION] * len(tokens), list[Phrase]()
        for at, (begin, end) in enumerate(cut.get("offset_mapping", [])):
            if begin < end and any(low <= begin and end <= high for low, high in asked):
                targets[at], tokens[at] = tokens[at], hidden
                phrases.append(hidden_phrase(at, targets[at]))
        names = [show(one) for one in tokens]
        return TokenText(tokens, names, targets, phrases, (0, len(tokens)))

    hint = BRACKETED if hidden is not None else None
    about = about_model(name, label, reader.model, kind="encoder", hint=hint)
    return ServedModel(about, parse, show, lambda _: EncoderPageStream(reader.model), reader.limit)


def _shown(reader: Reader) -> Callable[[int], str]:
    def show(token: int) -> str:
        text = reader.decode(token)
        for mark, meant in SHOWN.items():
            text = text.replace(mark, meant)
        return text

    return show
