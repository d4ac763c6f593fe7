"""Arrays that cannot be written to, for what a fit has found."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["ReadOnly", "read_only", "tensor_of"]


class ReadOnly:
    """What a frozen dataclass takes over to keep its arrays as they are: they cannot be written to, also if unpickled.

    Examples:
        >>> from eiv.model.record import Record
        >>> Record(*np.zeros((5, 2, 2))).x_spread.flags.writeable
        False

    """

    def __post_init__(self) -> None:
        """Take copies of arrays that can be written to."""
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled; arrays come back as ones that can be written to."""
        vars(self).update(state)
        ReadOnly.__post_init__(self)


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """The array if it cannot be written to, else a copy that cannot.

    Examples:
        >>> read_only(np.zeros(3)).flags.writeable
        False

    """
    if values.flags.writeable:
        values = values.copy()
        values.setflags(write=False)
    return values


def tensor_of(
    values: ArrayLike | Tensor, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> Tensor:
    """A tensor of some values; of an array it is a copy, because tensors can be written to.

    Examples:
        >>> tensor_of(read_only(np.zeros(2)))
        tensor([0., 0.], dtype=torch.float64)

    """
    own = values.copy() if isinstance(values, np.ndarray) else values
    return torch.as_tensor(own, dtype=dtype, device=device)
