"""What a solver hands to the certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastsbl._base.types import Array

__all__ = ["Answer"]


@dataclass
class Answer:
    """Coefficients found by a solver, before they are certified."""

    coef: Array
    n_epochs: int
    history: list[dict[str, Any]] = field(default_factory=list)
    whole_read: tuple[Array, Array] | None = None
    """The residual of ``coef`` and its products with all columns, if the solver ended by making them."""
