"""The arrays that nearly every file names: one home for their types.

In a dataclass they go to JSON as lists and come back as arrays; see `mnemoscope.core.data`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator


def _floats(values: Any) -> Any:
    if not isinstance(values, list | tuple | np.ndarray):
        raise ValueError("should be a list of numbers")
    try:
        # What is not finite is a word in JSON, and a list of such and of numbers would be text.
        return np.asarray(np.asarray(values, dtype=object), dtype=np.float64)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _ints(values: Any) -> Any:
    found = np.asarray(values)
    if found.size and found.dtype.kind not in "iu":
        raise ValueError("should be whole numbers")
    return found.astype(np.int64)


Floats = Annotated[NDArray[np.float64], PlainValidator(_floats)]
Ints = Annotated[NDArray[np.int64], PlainValidator(_ints)]
