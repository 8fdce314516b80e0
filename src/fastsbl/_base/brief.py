"""Dataclasses that say what they are in one line."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

__all__ = ["Brief"]


class Brief:
    """Base of dataclasses with ``repr=False``: arrays are shown by their shape, long texts are cut.

    Examples
    --------
    >>> import dataclasses, numpy as np
    >>> from fastsbl._base.brief import Brief
    >>> @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    ... class Ball(Brief):
    ...     center: np.ndarray
    ...     radius: float
    >>> Ball(np.zeros((28, 28)), 0.5)
    Ball(center=array of 28 x 28, radius=0.5)
    """

    def __repr__(self) -> str:
        """All fields, each in a few characters."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # what derives from this is a dataclass
        inside = ", ".join(f"{one.name}={_short(getattr(self, one.name))}" for one in fields if one.repr)
        return f"{type(self).__name__}({inside})"


def _short(value: Any, most: int = 60) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        kind = "array" if isinstance(value, np.ndarray) else type(value).__name__
        return f"{kind} of {' x '.join(map(str, shape))}"
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    text = repr(value)
    if len(text) <= most:
        return text
    return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else f"{type(value).__name__}(...)"
