"""What can be said of any model that reads a source before it speaks. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from mnemoscope.memories.config import ModelConfig


class Sourced(ModelConfig):
    """An encoder reads the source; what it remembers is the state the decoder starts from."""

    reads_source: ClassVar[bool] = True

    source_vocab: int = Field(ge=2, description="how many token ids the source has")
    embeddings: Literal["separate", "tied", "shared"] = Field(
        "tied", description="tied = read out as it reads; shared = the source's too"
    )
    width: int = Field(128, ge=1, description="size of the vector per token")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.embeddings == "shared" and self.source_vocab != self.vocab:
            raise ValueError(
                f"shared embeddings need one vocabulary, but the source has {self.source_vocab} "
                f"tokens and the target {self.vocab}: take embeddings=tied or vocabulary=joint"
            )
        if self.embeddings != "separate" and self.outputs not in (None, self.vocab):
            raise ValueError("a tied readout says what it reads: leave outputs unset")
        return self

    @property
    def table_rows(self) -> int:
        """Tokens of the target and of the source, and those said unless they are tied."""
        if self.embeddings == "shared":
            return self.vocab
        read = self.vocab + self.source_vocab
        return read if self.embeddings == "tied" else read + (self.outputs or self.vocab)
