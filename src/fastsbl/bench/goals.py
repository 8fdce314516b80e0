"""The lines by which we judge our own speed, from the rows of a report, with what was found for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fastsbl.bench.costs import Cost

__all__ = ["Line", "speed_lines"]

LASSO_GAP = 1e-6
_SBL_PEERS = {"loop over celer": 30.0, "MNE gamma_map": 1000.0, "ARDRegression": 1000.0}
_LARGE = 10_000  # features from which the slow packages are compared
_PRODUCTS = {0.01: 40.0, 0.05: 15.0}  # the most products that a fit may take, by ratio; 10 from .1 on
_SLACK = 1.1  # how much faster another package may be


@dataclass(frozen=True)
class Line:
    """One goal: what is compared, what was asked for, what was found, and the time in products."""

    what: str
    asked: str
    found: str
    holds: bool
    products: str = "-"


def speed_lines(records: list[dict[str, Any]], costs: list[Cost], slope: float | None) -> list[Line]:
    """All lines for which there are rows; ``records`` are those of `BenchReport.ratios`."""
    return [*_lassos(records), *_nobody_faster(records), *_peers(records), *_own(costs, slope)]


def _range(values: Iterable[float | None]) -> str:
    found = sorted(value for value in values if value is not None)
    if not found:
        return "-"
    low, high = f"{found[0]:.1f}", f"{found[-1]:.1f}"
    return low if low == high else f"{low} to {high}"


def _lassos(records: list[dict[str, Any]]) -> list[Line]:
    sets: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        if record["task"] == "lasso" and record["goal"] == LASSO_GAP and record["faster"] is not None:
            sets.setdefault(record["title"], []).append(record)
    lines = []
    for title, group in sets.items():
        worst = min(group, key=lambda record: record["faster"])
        lines.append(
            Line(
                f"lasso, {title}: best other / ours",
                "3 or more",
                f"{_range(record['faster'] for record in group)}, least at {worst['ratio']:g} ({worst['best']})",
                worst["faster"] >= 3.0,
                _range(record["products"] for record in group),
            )
        )
    return lines


def _nobody_faster(records: list[dict[str, Any]]) -> list[Line]:
    known = [record for record in records if record["faster"] is not None]
    if not known:
        return []
    worst = min(known, key=lambda record: record["faster"])
    where = f"{worst['task']}, {worst['title']}, {worst['ratio']:g}, {worst['best']}"
    return [
        Line(
            "best other / ours, in all rows",
            f"{1 / _SLACK:.1f} or more",
            f"least {worst['faster']:.1f} ({where})",
            worst["faster"] >= 1.0 / _SLACK,
        )
    ]


def _peers(records: list[dict[str, Any]]) -> list[Line]:
    lines = []
    for name, asked in _SBL_PEERS.items():
        times, products, bound = [], [], False
        for record in records:
            rows = {row.solver: row for row in record["rows"]}
            other = rows.get(name)
            if record["task"] != "sbl" or record["ours"] is None or other is None or not other.seconds:
                continue
            if other.n_features < _LARGE:
                continue
            times.append(other.seconds / record["ours"])
            products.append(record["products"])
            bound |= other.status == "slow"
        if times:
            found = f"{'more than ' if bound else ''}{_range(times)}"
            what = f"sparse Bayesian fit, {_LARGE:,} features or more: {name} / ours"
            lines.append(Line(what, f"{asked:g} or more", found, min(times) >= asked, _range(products)))
    return lines


def _own(costs: list[Cost], slope: float | None) -> list[Line]:
    lines = []
    for cost in costs:
        products = f"{cost.products:.1f}"
        if cost.what.endswith("one by one"):
            most = _PRODUCTS.get(cost.ratio, 10.0)
            what = f"sparse Bayesian fit, {cost.what}, at {cost.ratio:g}: products"
            lines.append(Line(what, f"{most:g} or less", products, cost.products <= most, products))
            if cost.passes is not None and cost.ratio >= 0.1:
                what = what.replace(": products", ": passes")
                lines.append(Line(what, "10 or less", f"{cost.passes:.1f}", cost.passes <= 10.0, products))
        elif "batch" in cost.what and cost.passes is not None:
            for kind, value in (("passes", cost.passes), ("products", cost.products)):
                what = f"sparse Bayesian fit, {cost.what}, at {cost.ratio:g}: {kind}"
                lines.append(Line(what, "3 or less", f"{value:.1f}", value <= 3.0, products))
    if slope is not None:
        lines.append(Line("slope of log time against log n", "1.1 or less", f"{slope:.2f}", slope <= 1.1))
    return lines
