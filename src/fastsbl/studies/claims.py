"""The paper's sentences beside what was measured, and the small statistics that decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Claim", "Interval", "claims_markdown", "markdown_table", "median_interval"]


@dataclass(frozen=True)
class Claim:
    """One sentence and its verdict.

    Attributes
    ----------
    sentence : str
        What the paper says (or what this library promises), in one sentence.
    source : str
        Where it is said, such as "paper, section 3.3".
    measured : str
        What was measured, with its spread, in one sentence.
    verdict : str
        "holds", "does not hold", "holds for ... only", or "not measured".
    number : float or None
        The number that decided.

    Examples
    --------
    >>> from fastsbl.studies import Claim
    >>> Claim("Screening does not change the solution.", "paper, section 3.3",
    ...       "largest |difference| 3e-9 over 220 fits", "holds", 3e-9).verdict
    'holds'
    """

    sentence: str
    source: str
    measured: str
    verdict: str
    number: float | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        known = ("holds", "does not hold", "not measured")
        partly = self.verdict.startswith("holds for ") and self.verdict.endswith(" only")
        if self.verdict not in known and not partly:
            raise ValueError(
                f"verdict must be one of {', '.join(map(repr, known))} or 'holds for ... only', got {self.verdict!r}"
            )
        if self.number is not None:
            object.__setattr__(self, "number", float(self.number))


@dataclass(frozen=True)
class Interval:
    """A median with the interval that holds the true one with about 95 % confidence.

    Attributes
    ----------
    median, low, high : float
        The median and the ends of its interval.
    size : int
        Values it was made of.
    """

    median: float
    low: float
    high: float
    size: int

    def __str__(self) -> str:
        """Show the median with its interval."""
        return f"{self.median:.3g} [{self.low:.3g}, {self.high:.3g}]"


def median_interval(values: Sequence[float] | Any) -> Interval:
    """Median of independent values, with the order statistics that bracket it at 95 %.

    Exact for any distribution (the binomial count of values below the median); below 6 values no such
    pair exists and the whole range is given.

    Examples
    --------
    >>> from fastsbl.studies import median_interval
    >>> median_interval(range(31))
    Interval(median=15.0, low=9.0, high=21.0, size=31)
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(list(values), dtype=np.float64))
    if ordered.size == 0 or np.isnan(ordered).any():
        raise ValueError(f"values must be at least one number and no NaN, got {ordered}")
    size = ordered.size
    low = max(int(binom.ppf(0.025, size, 0.5)) - 1, 0)
    return Interval(float(np.median(ordered)), float(ordered[low]), float(ordered[size - 1 - low]), size)


def claims_markdown(claims: Sequence[Claim]) -> str:
    """Return the claims as a Markdown table."""
    rows = [
        (
            claim.sentence,
            claim.source,
            claim.measured,
            claim.verdict,
            "" if claim.number is None else f"{claim.number:.4g}",
        )
        for claim in claims
    ]
    return markdown_table(("claim", "source", "measured", "verdict", "number"), rows)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    r"""Return a Markdown table; what would end a cell is escaped.

    Examples
    --------
    >>> from fastsbl.studies import markdown_table
    >>> print(markdown_table(["data", "||Y||"], [["MNIST", 1.0]]), end="")
    | data | \|\|Y\|\| |
    |---|---|
    | MNIST | 1.0 |
    """
    lines = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in (columns, *rows)]
    text = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(columns), *text[1:]]) + "\n"
