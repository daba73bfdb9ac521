"""What attached memories have in common: a base, a tokenizer, and how they are kept and shared.

Saving, loading and pushing have the names and habits that they have in `transformers`.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface import bases, saved
from mnemoscope.huggingface.folder import find_folder
from mnemoscope.huggingface.loading import explained, load_causal, load_tokenizer
from mnemoscope.huggingface.quiet import quiet
from mnemoscope.huggingface.saving import keep

Tensors = dict[str, Tensor]
# The page of a memory on the hub.
CARD = """---
library_name: mnemoscope
tags: [mnemoscope, {kind}]
{base}---
# A memory of kind `{kind}` for {name}

Made with mnemoscope. It belongs to the model named above and is refused by any other:

```python
from mnemoscope.huggingface import {memory}

memory = {memory}.from_pretrained("{repository}")
```
"""


class Attached(ABC):
    """A memory that was given to a causal language model of `transformers`, its ``base``."""

    tokenizer: Any
    # What `saved` knows it by, and the file of its tensors.
    kind: ClassVar[str]
    file: ClassVar[str]

    def __init__(self, base: Any, options: Any, tokenizer: Any = None) -> None:
        super().__init__()
        self.base, self.options, self.tokenizer = base, options, tokenizer

    def __repr__(self) -> str:
        """What it is and what it is attached to, in a line; the base has a long one of its own."""
        learnt = sum(one.numel() for one in self.weights.parameters())
        kind = type(self.base).__name__
        return f"{type(self).__name__}({learnt:,} parameters of its own, attached to {kind})"

    @property
    @abstractmethod
    def weights(self) -> nn.Module:
        """What the memory itself learns, the base apart."""

    @abstractmethod
    def _about(self) -> tuple[Tensors, dict[str, Any]]:
        """What is saved: tensors, and what the config says beside the base."""

    @abstractmethod
    def _restore(self, path: Path, tensors: Tensors, about: dict[str, Any]) -> None:
        """Take in what `_about` gave, from the file ``path``."""

    @abstractmethod
    def detach(self) -> None:
        """Take the memory off; the model is what it was."""

    def text_tokenizer(self) -> Any:
        """The tokenizer that was given, else the one that lies beside the base."""
        if self.tokenizer is None:
            where = getattr(self.base.config, "_name_or_path", "")
            if not where:
                raise UserError(
                    "give the tokenizer of the model: attach(model, …, tokenizer=…), or token ids "
                    "in the place of text"
                )
            self.tokenizer = load_tokenizer(where, self.base)
        return self.tokenizer

    def for_trainer(self) -> nn.Module:
        """The memory as `transformers.Trainer` wants a model; see `TrainerModel`."""
        from mnemoscope.huggingface.trainer import TrainerModel

        return TrainerModel(self)

    def save_pretrained(self, folder: str | Path, *, base: bool = False) -> Path:
        """Write weights and config of the memory to a folder; returns the file of the weights.

        The base is named in the config, with a fingerprint; with ``base`` it is written too, with
        its tokenizer, as one that learnt must be. When writing fails, the error says where the
        memory was written instead.
        """
        return keep(folder, lambda to: self._write(to, base))

    def save(self, folder: str | Path) -> Path:
        """Do as `save_pretrained` does."""
        return self.save_pretrained(folder)

    def _write(self, folder: Path, base: bool) -> Path:
        if base:
            where = folder / bases.BESIDE
            with quiet():
                self.base.save_pretrained(where)
                with suppress(UserError):  # a base that has read token ids only has none
                    self.text_tokenizer().save_pretrained(where)
        tensors, about = self._about()
        return saved.write_memory(folder / self.file, tensors, about, self.base)

    @classmethod
    def from_pretrained(
        cls, source: str | Path, base: Any = None, *, tokenizer: Any = None
    ) -> Self:
        """Attach a memory from a folder, or by its name on the hub, to the base it belongs to.

        ``base`` is the model, its folder or its name; by default the one that the memory names,
        which is known by its fingerprint and may have been moved beside the memory.
        """
        folder = _local(source, cls)
        # Read first, so that a damaged memory shows before a model is loaded.
        tensors, about = saved.READ[cls.kind](folder)
        where = bases.find(folder, about) if base is None else base
        if isinstance(where, str | Path):
            base = load_causal(str(where))
        bases.check(folder, about, base)
        options = saved.OPTIONS[about["kind"]].make(**about["options"])
        memory = cls(base, options, tokenizer)
        try:
            memory._restore(folder / cls.file, tensors, about)
        except UserError:
            memory.detach()
            raise
        return memory

    @classmethod
    def load(cls, folder: str | Path, model: Any, tokenizer: Any = None) -> Self:
        """Do as `from_pretrained` does, with the base given."""
        return cls.from_pretrained(folder, model, tokenizer=tokenizer)

    def push_to_hub(
        self,
        name: str,
        *,
        base: bool = False,
        private: bool | None = None,
        token: str | bool | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        commit_message: str = "Upload a memory",
    ) -> Any:
        """Put the memory on the hub as OWNER/NAME: what `save_pretrained` writes, and a card."""
        from huggingface_hub import HfApi

        with tempfile.TemporaryDirectory() as made:
            self.prepare(made, name, base=base)
            with explained(f"push the memory to {name!r}", remote=True):
                hub = HfApi(token=token)
                hub.create_repo(name, private=private, exist_ok=True)
                return hub.upload_folder(
                    repo_id=name,
                    folder_path=made,
                    revision=revision,
                    create_pr=create_pr,
                    commit_message=commit_message,
                )

    def prepare(self, folder: str | Path, name: str, *, base: bool = False) -> Path:
        """Write all that `push_to_hub` uploads as ``name`` to a folder."""
        self._write(Path(folder), base)
        model = bases.facts_of(self.base)["base_model_name_or_path"]
        # A folder of this machine is nothing that the hub could link to.
        linked = f"base_model: {model}\n" if model and not Path(model).is_absolute() else ""
        card = CARD.format(
            kind=self._about()[1]["kind"],
            base=linked,
            name=Path(model).name or "a model without a name",
            memory=type(self).__name__,
            repository=name,
        )
        (Path(folder) / "README.md").write_text(card, "utf-8")
        return Path(folder)


def _local(source: str | Path, kind: type[Attached]) -> Path:
    """The folder that a memory is in; one by its name on the hub is fetched."""
    if saved.kind_of(source) is not None:
        return Path(source)
    folder = find_folder(str(source))
    if folder is not None:
        return folder
    from huggingface_hub import snapshot_download

    wanted = [kind.file, saved.CONFIGS[kind.file], f"{bases.BESIDE}/*"]
    with explained(f"load the memory {str(source)!r}", remote=True):
        return Path(snapshot_download(str(source), allow_patterns=wanted))
