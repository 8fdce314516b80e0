"""What all studies need to read their records: groups, spreads, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Series
from fastsbl.studies.study import Record

__all__ = ["by", "judge_each", "spread", "verdict_of"]


def by(records: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    """Group records by the values of some fields, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in names), []).append(record)
    return groups


def spread(
    label: str,
    values: dict[float, list[float]],
    middle: Callable[[list[float]], Any] = np.mean,
    *,
    emphasis: bool = False,
    group: str = "",
    place: int | None = None,
) -> Series:
    """Mean (or median) with the band from the 10th to the 90th percentile of the targets."""
    ratios = sorted(values)
    low, high = (np.array([np.percentile(values[r], q) for r in ratios]) for q in (10, 90))
    line = np.array([middle(values[r]) for r in ratios])
    return Series(label, ratios, line, np.minimum(low, line), np.maximum(high, line), emphasis, group, place=place)


def verdict_of(held: dict[str, bool]) -> str:
    """One verdict out of one per set-up."""
    if not held:
        return "not measured"
    if all(held.values()):
        return "holds"
    if not any(held.values()):
        return "does not hold"
    return f"holds for {'; '.join(name for name, value in held.items() if value)} only"


def judge_each(
    sentence: str,
    source: str,
    groups: dict[str, list[Record]],
    look: Callable[[list[Record]], tuple[bool, str, float] | None],
    worst: Callable[[list[float]], float] = max,
) -> Claim:
    """A claim judged for every set-up on its own."""
    found = {name: answer for name, rows in groups.items() if (answer := look(rows)) is not None}
    held = {name: answer[0] for name, answer in found.items()}
    text = "; ".join(f"{name}: {answer[1]}" for name, answer in found.items()) or "no results for this"
    number = worst([answer[2] for answer in found.values()]) if found else None
    return Claim(sentence, source, text, verdict_of(held), number)
