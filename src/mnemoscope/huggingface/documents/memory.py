"""A document memory attached to a causal language model of `transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface import saved
from mnemoscope.huggingface.attached import Attached, Tensors
from mnemoscope.huggingface.config import DocumentOptions, Fitting, Guidance
from mnemoscope.huggingface.documents import contexts as measured
from mnemoscope.huggingface.documents import fitting, forgetting, prompting
from mnemoscope.huggingface.documents.representations import first_keys
from mnemoscope.huggingface.documents.store import DocumentStore
from mnemoscope.huggingface.texts import Documents
from mnemoscope.memories.documents.tfidf import Frequencies

read_saved = saved.read_documents
Texts = Documents | Mapping[str, str | Sequence[int]]


class DocumentMemory(Attached):
    """Gives a model texts by name: ``with memory.document(name): model.generate(...)``.

    The base is frozen and hooked behind one block. Outside ``document``, and in rows whose
    document is None, the model computes what it always did, bit for bit.
    """

    kind, file = "documents", saved.DOCUMENTS

    def __init__(self, model: Any, options: DocumentOptions, tokenizer: Any = None) -> None:
        super().__init__(model, options, tokenizer)
        self.model = model
        self.blocks = parts.find_blocks(model)
        self.index = parts.block_index(len(self.blocks), options.layer)
        self.names: list[str] = []
        self.documents: Documents | None = None
        self.cutting: dict[str, int] = {}  # segment and overlap of what was learnt
        self.guidance, self.fitting = Guidance(), Fitting()  # as it was learnt
        self.beginnings: dict[str, tuple[int, int]] = {}  # first token, and how many there are
        self.frequencies: Frequencies | None = None  # of words in the documents, for TF-IDF
        block = self.blocks[self.index]
        if _memories(block):
            raise UserError(
                f"block {self.index} has a document memory already: detach() that one, or fit both "
                "sets of documents into one memory"
            )
        self.store = DocumentStore(options, parts.width_of(model))
        self.store.to(next(model.parameters()).device)
        self._chosen: Tensor | None = None  # (rows, E) while a document is set
        self._present: Tensor | None = None  # (rows,) false where the document is None
        self._trainable = {weight: weight.requires_grad for weight in model.parameters()}
        model.requires_grad_(False)
        self._hook: Any = block.register_forward_hook(self._add)

    def detach(self) -> None:
        """Take the memory off; the model is what it was, its weights trainable as they were."""
        if self._hook is None:
            raise UserError("this memory is detached already")
        self._hook.remove()
        self._hook = None
        for weight, trainable in self._trainable.items():
            weight.requires_grad_(trainable)

    @contextmanager
    def document(self, names: str | Sequence[str | None] | None) -> Iterator[None]:
        """Give the model a document to read and write with: one for all rows, or one for each.

        Beams and returned sequences of a row follow its document. Backward through gradient
        checkpointing belongs inside the block, because it computes the forward pass again.
        """
        rows = [names] if names is None or isinstance(names, str) else list(names)
        if not rows:
            raise UserError("no documents are given: name one, or one for each row")
        places = [None if n is None else parts.known(n, self.names, "document") for n in rows]
        if all(place is None for place in places):
            with self.under(None, None):
                yield
            return
        chosen = self.store.selection()[[place or 0 for place in places]]
        present = torch.tensor([place is not None for place in places], device=chosen.device)
        with self.under(chosen, None if bool(present.all()) else present):
            yield

    @contextmanager
    def representation(self, keys: Tensor) -> Iterator[None]:
        """The same with any representations (rows, K), such as zero or one between two."""
        size = self.options.key_dim
        if keys.dim() != 2 or keys.shape[1] != size or not bool(keys.isfinite().all()):
            raise UserError(
                f"representations must be finite numbers of shape (rows, {size}), not "
                f"{tuple(keys.shape)}"
            )
        with self.under(self.store.chosen(keys.to(self.store.values)), None):
            yield

    @contextmanager
    def opening(self, chosen: Tensor) -> Iterator[None]:
        """The same with entries (rows, E) opened by hand."""
        if chosen.dim() != 2 or chosen.shape[1] != self.options.entries:
            raise UserError(
                f"open entries must have shape (rows, {self.options.entries}), not "
                f"{tuple(chosen.shape)}"
            )
        with self.under(chosen.to(self.store.values), None):
            yield

    @contextmanager
    def under(self, chosen: Tensor | None, present: Tensor | None = None) -> Iterator[None]:
        """Open entries (rows, E), but leave rows alone where ``present`` (rows,) is false."""
        if self._hook is None:
            raise UserError("this memory is detached: attach it again, or load it")
        before = self._chosen, self._present
        self._chosen, self._present = chosen, present
        try:
            yield
        finally:
            self._chosen, self._present = before

    def _add(self, block: nn.Module, inputs: Any, output: Any) -> Any:
        if self._chosen is None:
            return output
        hidden = parts.hidden_of(output)
        chosen = self._rows(self._chosen, len(hidden))
        changed = hidden + self.store(hidden, chosen).to(hidden.dtype)
        if self._present is not None:
            present = self._rows(self._present, len(hidden))
            changed = torch.where(present[:, None, None], changed, hidden)
        return parts.with_hidden(output, changed)

    @staticmethod
    def _rows(values: Tensor, batch: int) -> Tensor:
        """One value for each row of the batch; `generate` repeats rows, each beside itself."""
        if batch % len(values):
            raise UserError(f"{len(values)} documents are set for a batch of {batch} rows")
        return values.repeat_interleave(batch // len(values), 0)

    def read(self, texts: Texts) -> Documents:
        """Turn texts into `Documents` with the tokenizer of the model."""
        if isinstance(texts, Documents):
            return texts
        if not isinstance(texts, Mapping):
            raise UserError("documents are given as a dict from name to text, or as Documents")
        written = any(isinstance(text, str) for text in texts.values())
        return Documents(texts, self.text_tokenizer() if written else None, **self.cutting)

    def fit(
        self,
        texts: Texts,
        guidance: Guidance | None = None,
        **options: Any,
    ) -> fitting.Fitted:
        """Learn the documents; see `Fitting` for the options. Forgets what was learnt before."""
        settings = Fitting.make(**options)
        self.cutting = {}
        given = self.read(texts)
        # One document alone has no other that could be the wrong one.
        guidance = guidance or Guidance(negative="other" if len(given) > 1 else "random")
        self.start(given)
        self.guidance, self.fitting = guidance, settings
        return fitting.fit(self, given, guidance, settings)

    def add(
        self,
        name: str,
        text: str | Sequence[int],
        keep: Texts | None = None,
        guidance: Guidance | None = None,
        **options: Any,
    ) -> fitting.Fitted:
        """Learn one more document.

        Without ``keep`` only its representation is learnt and nothing changes for the others.
        With ``keep``, the texts of the others, all are learnt on together: more is remembered.
        """
        settings = Fitting.make(**options)
        if name in self.names:
            raise UserError(f"there is a document {name!r} already: forget it first")
        known = self.read(keep).ids if keep is not None else {}
        missing = [one for one in known if one not in self.names]
        if missing:
            raise UserError(f"keep holds {missing[0]!r}, which this memory does not know")
        new = self.read({name: text})
        given = Documents({**known, **new.ids}, **self.cutting)
        self.extend(new)
        held = {} if self.documents is None else self.documents.ids
        self.documents = Documents({**held, **given.ids}, **self.cutting)
        guidance = guidance or Guidance(alpha=0.0 if keep is None else 0.1)
        return fitting.fit(self, given, guidance, settings, only_keys=keep is None)

    def forget(self, name: str, keep: Texts | None = None, **options: Any) -> forgetting.Forgotten:
        """Take a document away as if it had never been given, and say what that changed.

        Documents share entries, so the others are learnt anew from their texts, without it and as
        all were learnt before; options of `Fitting` can be given to change that. A memory that
        was loaded has no texts: give those of the others as ``keep``. If the text to be forgotten
        is among them, it is tried whether a new representation brings it back.
        """
        parts.known(name, self.names, "document")
        held = {} if self.documents is None else self.documents.ids
        held = {**held, **(self.read(keep).ids if keep is not None else {})}
        settings = Fitting.make(**{**self.fitting.model_dump(), **options})
        return forgetting.forget(self, name, held, settings)

    def recite(self, name: str) -> str:
        """The whole document as the memory says it; nothing of it is needed but its name."""
        return str(
            self.text_tokenizer().decode(prompting.recite(self, name), skip_special_tokens=True)
        )

    def ask(
        self, prompt: str, document: str | None = None, length: int = 60, plain: bool = False
    ) -> str:
        """What the model says to a prompt, in at most ``length`` tokens.

        A model whose tokenizer has a chat template answers; the document is recited from the memory
        and stands before the prompt. Any other, or if ``plain``, continues the prompt as it would
        continue the document.
        """
        return prompting.ask(self, prompt, document, length, plain)

    def contexts(self, texts: Texts | None = None, **options: Any) -> measured.Contexts:
        """Losses with the right, wrong, random and no document, and which one has the lowest."""
        return measured.contexts(self, self._known_texts(texts), **options)

    def selection(self) -> Tensor:
        """How far every document opens every entry, (documents, entries)."""
        return self.store.selection().detach().clone()

    def words(self, entry: int, top: int = 8) -> measured.Words:
        """Which words an entry makes likelier, and which less likely."""
        return measured.words(self, entry, top)

    def split(self, name: str, texts: Texts | None = None) -> measured.Split:
        """How log p of a document's words changes with it, and that of other words."""
        return measured.split(self, name, self._known_texts(texts))

    def _known_texts(self, texts: Texts | None) -> Documents:
        if texts is not None:
            return self.read(texts)
        if self.documents is None:
            raise UserError("the texts are not saved with a memory: give the documents again")
        return self.documents

    def empty(self) -> None:
        """Begin with fresh weights and no documents."""
        device = self.store.keys.device
        self.store = DocumentStore(self.options, parts.width_of(self.model)).to(device)
        self.names, self.documents, self.frequencies = [], None, None
        self.beginnings = {}

    def start(self, given: Documents) -> None:
        """Begin with fresh weights and the first representations of these documents."""
        self.empty()
        self.extend(given)
        self.documents = given
        self.cutting = given.cutting

    def extend(self, given: Documents) -> None:
        """Give more documents the representations that they begin with."""
        self.store.grow(first_keys(self, given))
        self.names += given.names
        self.beginnings |= {name: (ids[0], len(ids)) for name, ids in given.ids.items()}

    @property
    def weights(self) -> DocumentStore:
        """Entries, representations and the map between them."""
        return self.store

    def _about(self) -> tuple[Tensors, dict[str, Any]]:
        tensors = self.store.state_dict()
        if self.frequencies is not None:
            tensors[saved.FREQUENCIES] = self.frequencies.tensor()
        about = {
            "kind": "documents",
            "options": self.options.model_dump(),
            "names": self.names,
            "beginnings": self.beginnings,
            "cutting": self.cutting,
            "guidance": self.guidance.model_dump(),
            "fitting": self.fitting.model_dump(),
        }
        return tensors, about

    def _restore(self, path: Path, tensors: Tensors, about: dict[str, Any]) -> None:
        if about["width"] != parts.width_of(self.base):
            raise saved.damaged(path, f"width={about['width']} is not that of its base")
        self.names, self.cutting = list(about["names"]), dict(about["cutting"])
        self.beginnings = dict(about["beginnings"])
        self.guidance = Guidance.make(**about["guidance"])
        self.fitting = Fitting.make(**about["fitting"])
        if (counted := tensors.pop(saved.FREQUENCIES, None)) is not None:
            self.frequencies = Frequencies.from_tensor(counted, len(self.names))
        store, device = self.store, self.store.keys.device
        store.keys = nn.Parameter(torch.empty_like(tensors["keys"]), self.options.learned)
        store.masks = torch.empty_like(tensors["masks"])
        store.load_state_dict(tensors)
        store.to(device)


def _memories(block: nn.Module) -> list[Any]:
    hooks = block._forward_hooks.values()
    return [hook for hook in hooks if isinstance(getattr(hook, "__self__", None), DocumentMemory)]
