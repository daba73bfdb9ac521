"""A document memory attached to a causal language model of `transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import blocks as parts
from mnemoscope.huggingface import saved
from mnemoscope.huggingface.config import DocumentOptions, Fitting, Guidance
from mnemoscope.huggingface.documents.representations import first_keys
from mnemoscope.huggingface.documents.store import DocumentStore
from mnemoscope.huggingface.loading import load_tokenizer
from mnemoscope.huggingface.saving import keep
from mnemoscope.huggingface.texts import Documents

if TYPE_CHECKING:
    from mnemoscope.huggingface.documents.contexts import Contexts, Split, Words
    from mnemoscope.huggingface.documents.fitting import Fitted

FILE = saved.DOCUMENTS
read_saved = saved.read_documents
Texts = Documents | Mapping[str, str | Sequence[int]]


class DocumentMemory:
    """Gives a model texts by name: ``with memory.document(name): model.generate(...)``.

    The base is frozen and hooked behind one block. Outside ``document``, and in rows whose
    document is None, the model computes what it always did, bit for bit.
    """

    def __init__(self, model: Any, options: DocumentOptions, tokenizer: Any = None) -> None:
        self.model, self.options = model, options
        self.blocks = parts.find_blocks(model)
        self.index = parts.block_index(len(self.blocks), options.layer)
        self.tokenizer = tokenizer
        self.names: list[str] = []
        self.documents: Documents | None = None
        self.cutting: dict[str, int] = {}  # segment and overlap of what was learnt
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
        """Let the model read and write under a document: one for all rows, or one for each.

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
        """The same under any representations (rows, K), such as zero or one between two."""
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
        return Documents(texts, self._tokenizer(texts), **self.cutting)

    def _tokenizer(self, texts: Mapping[str, Any]) -> Any:
        if self.tokenizer is None and any(isinstance(text, str) for text in texts.values()):
            where = getattr(self.model.config, "_name_or_path", "")
            if not where:
                raise UserError("give the tokenizer: attach(model, 'documents', tokenizer=…)")
            self.tokenizer = load_tokenizer(where, self.model)
        return self.tokenizer

    def fit(
        self,
        texts: Texts,
        guidance: Guidance | None = None,
        **options: Any,
    ) -> Fitted:
        """Learn the documents; see `Fitting` for the options. Forgets what was learnt before."""
        from mnemoscope.huggingface.documents.fitting import fit

        settings = Fitting.make(**options)
        self.cutting = {}
        given = self.read(texts)
        # One document alone has no other that could be the wrong one.
        guidance = guidance or Guidance(negative="other" if len(given) > 1 else "random")
        self.start(given)
        return fit(self, given, guidance, settings)

    def add(
        self,
        name: str,
        text: str | Sequence[int],
        keep: Texts | None = None,
        guidance: Guidance | None = None,
        **options: Any,
    ) -> Fitted:
        """Learn one more document.

        Without ``keep`` only its representation is learnt and nothing changes for the others.
        With ``keep``, the texts of the others, all are learnt on together: more is remembered.
        """
        from mnemoscope.huggingface.documents.fitting import fit

        settings = Fitting.make(**options)
        if name in self.names:
            raise UserError(f"there is a document {name!r} already: forget it first")
        known = self.read(keep).ids if keep is not None else {}
        missing = [one for one in known if one not in self.names]
        if missing:
            raise UserError(f"keep holds {missing[0]!r}, which this memory does not know")
        new = self.read({name: text})
        given = Documents({**known, **new.ids}, **self.cutting)
        self._extend(new)
        held = {} if self.documents is None else self.documents.ids
        self.documents = Documents({**held, **given.ids}, **self.cutting)
        guidance = guidance or Guidance(alpha=0.0 if keep is None else 0.1)
        return fit(self, given, guidance, settings, only_keys=keep is None)

    def forget(self, name: str) -> None:
        """Take a document away: its representation, and the values that only it could open.

        Values that others open too stay, or they would forget as well; `contexts` shows how
        much of the text they still give away.
        """
        place = parts.known(name, self.names, "document")
        self.store.shrink(place)
        self.names.pop(place)
        if self.documents is not None and name in self.documents.ids:
            rest = [one for one in self.documents.names if one != name]
            self.documents = self.documents.pick(rest) if rest else None

    def contexts(self, texts: Texts | None = None, **options: Any) -> Contexts:
        """Losses under the right, wrong, random and no document, and which one is named."""
        from mnemoscope.huggingface.documents.contexts import contexts

        return contexts(self, self._known_texts(texts), **options)

    def selection(self) -> Tensor:
        """How far every document opens every entry, (documents, entries)."""
        return self.store.selection().detach().clone()

    def words(self, entry: int, top: int = 8) -> Words:
        """Which words an entry makes likelier, and which less likely."""
        from mnemoscope.huggingface.documents.contexts import words

        return words(self, entry, top)

    def split(self, name: str, texts: Texts | None = None) -> Split:
        """How much of the gain is raising a document's words, how much lowering others."""
        from mnemoscope.huggingface.documents.contexts import split

        return split(self, name, self._known_texts(texts))

    def _known_texts(self, texts: Texts | None) -> Documents:
        if texts is not None:
            return self.read(texts)
        if self.documents is None:
            raise UserError("the texts are not saved with a memory: give the documents again")
        return self.documents

    def start(self, given: Documents) -> None:
        """Begin with fresh weights and the first representations of these documents."""
        device = self.store.keys.device
        self.store = DocumentStore(self.options, parts.width_of(self.model)).to(device)
        self.names = []
        self._extend(given)
        self.documents = given
        self.cutting = given.cutting

    def _extend(self, given: Documents) -> None:
        self.store.grow(first_keys(self, given))
        self.names += given.names

    def save(self, folder: str | Path) -> Path:
        """Write the memory, not the base, to a folder; `load` puts it back on the same base.

        When that cannot be done, the error says where the memory was written instead.
        """
        about = {
            "options": self.options.model_dump(),
            "names": self.names,
            "cutting": self.cutting,
            **saved.facts_of(self.model),
            "width": parts.width_of(self.model),
        }
        tensors = self.store.state_dict()
        return keep(folder, lambda to: saved.write_memory(to / FILE, tensors, "documents", about))

    @classmethod
    def load(cls, folder: str | Path, model: Any, tokenizer: Any = None) -> DocumentMemory:
        """Attach a memory that was saved to the base that it was learnt on."""
        tensors, about = read_saved(folder)
        saved.check_base(folder, about, model)
        if about["width"] != parts.width_of(model):
            raise saved.damaged(
                Path(folder) / FILE, f"width={about['width']} is not that of its base"
            )
        memory = cls(model, DocumentOptions.make(**about["options"]), tokenizer)
        memory.names, memory.cutting = list(about["names"]), dict(about["cutting"])
        memory.store.keys = nn.Parameter(
            torch.empty_like(tensors["keys"]), requires_grad=memory.options.learned
        )
        memory.store.masks = torch.empty_like(tensors["masks"])
        memory.store.load_state_dict(tensors)
        memory.store.to(next(model.parameters()).device)
        return memory


def _memories(block: nn.Module) -> list[Any]:
    hooks = block._forward_hooks.values()
    return [hook for hook in hooks if isinstance(getattr(hook, "__self__", None), DocumentMemory)]
