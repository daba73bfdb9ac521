"""An attached memory as `transformers.Trainer` wants a model: a batch in, its loss out.

Shapes: R rows, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from mnemoscope.core.errors import UserError
from mnemoscope.huggingface.documents.memory import DocumentMemory

if TYPE_CHECKING:
    from mnemoscope.huggingface.attached import Attached


class TrainerModel(nn.Module):
    """Trains the memory and leaves its base as it is; checkpoints hold the memory alone.

    An example has ``input_ids`` and ``labels`` (-100 where nothing is learnt); for a document
    memory also ``document``, the number of its document in ``memory.names``, -1 for none.
    """

    def __init__(self, memory: Attached) -> None:
        super().__init__()
        self.base, self.weights = memory.base.requires_grad_(False), memory.weights
        self.memory = [memory]  # in a list, so that it is no module of this one

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        attention_mask: Tensor | None = None,
        document: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Logits (R, T, V) of tokens (R, T) and, with labels (R, T), the loss."""
        memory: Any = self.memory[0]
        asked: dict[str, Tensor] = {}
        if isinstance(memory, DocumentMemory):
            if document is None:
                raise UserError(
                    "the batch does not say which document each row is from: give every example a "
                    "document, its number in memory.names; and set remove_unused_columns=False "
                    "if the Trainer took it away"
                )
            names = [memory.names[one] if one >= 0 else None for one in document.tolist()]
            with memory.document(names):
                out = memory.base(input_ids=input_ids, attention_mask=attention_mask)
        else:
            mask = None if attention_mask is None else attention_mask.bool()
            out = memory(input_ids, mask=mask)
            asked = out.losses
        if labels is None:
            return {"logits": out.logits}
        each = out.logits[:, :-1].float().transpose(1, 2)
        loss = F.cross_entropy(each, labels[:, 1:], ignore_index=-100)
        return {"loss": sum(asked.values(), loss), "logits": out.logits}

    def train(self, mode: bool = True) -> Self:
        """Train the memory; the base has no dropout, as it is not to learn."""
        super().train(mode)
        self.base.eval()
        return self

    def state_dict(self, *args: Any, **named: Any) -> Any:
        """The weights of the memory."""
        return self.weights.state_dict(*args, **named)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Put back what `state_dict` gave."""
        return self.weights.load_state_dict(state_dict, strict, assign)
