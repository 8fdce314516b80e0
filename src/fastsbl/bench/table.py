"""What a benchmark found, as plain values, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from fastsbl.bench.costs import Cost
from fastsbl.bench.goals import Line, speed_lines
from fastsbl.bench.timing import Row

__all__ = ["BenchReport"]

OURS = "fastsbl"


@dataclass(frozen=True)
class BenchReport:
    """Results of `run_benchmark`.

    Attributes
    ----------
    rows : list of Row
        One per problem, goal and solver.
    costs : list of Cost
        What our fits cost by themselves.
    memory : list of dict
        Peak memory of each solver in a fresh process: data, title, solver, matrix and peak in bytes.
    slope : float or None
        Of log time against log n, for sparse Bayesian fits.
    environment : dict
        Python, platform, cores, threads and versions.
    skipped : list of str
        Packages that are not installed, each with the pip line that brings it.
    """

    rows: list[Row] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    slope: float | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def merged(self, other: BenchReport) -> BenchReport:
        """Both reports in one; where they measured the same, the other's numbers stay."""

        def newest(ours: Iterable[Any], theirs: Iterable[Any], key: Any) -> list[Any]:
            return list({**{key(item): item for item in ours}, **{key(item): item for item in theirs}}.values())

        return BenchReport(
            newest(self.rows, other.rows, lambda row: (row.task, row.data, row.ratio, row.goal, row.solver)),
            newest(self.costs, other.costs, lambda cost: (cost.what, cost.ratio)),
            newest(self.memory, other.memory, lambda item: (item["task"], item["data"], item["solver"])),
            self.slope if other.slope is None else other.slope,
            {**self.environment, **other.environment},
            other.skipped,
        )

    # -- files --------------------------------------------------------------------------------
    def to_json(self) -> str:
        """Everything, as JSON that `from_json` reads."""
        found = {
            "environment": self.environment,
            "skipped": self.skipped,
            "rows": [row.as_dict() for row in self.rows],
            "costs": [cost.as_dict() for cost in self.costs],
            "slope": self.slope,
            "memory": self.memory,
        }
        return json.dumps(found, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        found = json.loads(text)
        return cls(
            [Row(**row) for row in found["rows"]],
            [Cost(**cost) for cost in found["costs"]],
            found["memory"],
            found["slope"],
            found["environment"],
            found["skipped"],
        )

    # -- tables -------------------------------------------------------------------------------
    def ratios(self) -> list[dict[str, Any]]:
        """One record per problem and goal: our time, the best other's, and how many times faster ours is.

        ``faster`` is a lower bound where ``bound`` is true: every other package ran out of time.
        """
        problems: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            problems.setdefault((row.task, row.data, row.ratio, row.goal), []).append(row)
        records = []
        for group in problems.values():
            ours = next((row for row in group if row.solver == OURS and row.status == "ok"), None)
            done = [row for row in group if row.solver != OURS and row.status == "ok" and row.seconds is not None]
            late = [row for row in group if row.solver != OURS and row.status == "slow" and row.seconds is not None]
            best = min(done or late, key=lambda row: row.seconds or 0.0, default=None)
            faster = None
            if ours is not None and best is not None and ours.seconds and best.seconds:
                faster = best.seconds / ours.seconds
            records.append(
                {
                    "task": group[0].task,
                    "data": group[0].data,
                    "title": group[0].title,
                    "ratio": group[0].ratio,
                    "goal": group[0].goal,
                    "ours": ours.seconds if ours else None,
                    "products": ours.seconds / ours.product if ours and ours.seconds and ours.product else None,
                    "passes": ours.passes if ours else None,
                    "best": best.solver if best else None,
                    "theirs": best.seconds if best else None,
                    "faster": faster,
                    "bound": not done,
                    "rows": group,
                }
            )
        return records

    def to_markdown(self) -> str:
        """All tables, with the machine and the versions."""
        parts = [_about(self.environment)]
        if self.skipped:
            parts.append("Left out: " + "; ".join(self.skipped) + ".")
        lines = speed_lines(self.ratios(), self.costs, self.slope)
        if lines:
            parts += ["## Goals", _goals(lines)]
        for task, title in (("lasso", "Weighted lasso"), ("sbl", "Sparse Bayesian learning")):
            records = [record for record in self.ratios() if record["task"] == task]
            if records:
                parts += [f"## {title}", _intro(task), _comparison(records)]
        if self.costs:
            parts += ["## What a sparse Bayesian fit costs", _costs(self.costs, self.slope)]
        if self.memory:
            parts += ["## Peak memory", _memory(self.memory)]
        return "\n\n".join(parts) + "\n"


def _about(environment: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in environment.get("versions", {}).items())
    return (
        f"Python {environment.get('python', '?')}, {environment.get('platform', '?')}, "
        f"{environment.get('cores', '?')} cores, threads: {environment.get('threads', '?')}. {versions}."
    )


def _intro(task: str) -> str:
    if task == "lasso":
        return (
            "Milliseconds to a relative duality gap (median; the gap is computed from the coefficients, outside the "
            "solvers; each at the loosest of its own tolerances that gets there)."
        )
    return (
        "Milliseconds to a Loss within 1e-6 of the lowest that any of them found (median; the Loss is computed from "
        "the variances, outside). `+x` is how far above that a solver ended, in another local minimum."
    )


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    value = 1e3 * seconds
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _cell(row: Row | None) -> str:
    if row is None or row.status == "failed":
        return "-" if row is None else "failed"
    if row.status == "ok":
        return _milliseconds(row.seconds)
    if row.status == "slow":
        return f"> {_milliseconds(row.seconds)}"
    return f"+{row.reached:.1g}" if row.task == "sbl" else f"stays at {row.reached:.0e}"


def _comparison(records: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(row.solver for record in records for row in record["rows"]))
    others = [name for name in names if name != OURS]
    head = ["data", "ratio", "gap", OURS, *others, "best other / ours", "in products", "passes"]
    if records[0]["task"] == "sbl":
        head.remove("gap")
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    before = ""
    for record in records:
        rows = {row.solver: row for row in record["rows"]}
        cells = ["" if record["title"] == before else record["title"], f"{record['ratio']:g}"]
        if record["task"] == "lasso":
            cells.append(f"{record['goal']:.0e}")
        cells += [_cell(rows.get(name)) for name in (OURS, *others)]
        faster = record["faster"]
        cells.append("-" if faster is None else f"{'> ' if record['bound'] else ''}{faster:.1f}")
        cells.append("-" if record["products"] is None else f"{record['products']:.1f}")
        cells.append("-" if record["passes"] is None else f"{record['passes']:.1f}")
        before = record["title"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _goals(lines: list[Line]) -> str:
    rows = ["| what | asked for | found | holds | time in products |", "|---|---:|---|---|---:|"]
    for line in lines:
        rows.append(
            f"| {line.what} | {line.asked} | {line.found} | {'yes' if line.holds else 'no'} | {line.products} |"
        )
    return "\n".join(rows)


def _costs(costs: list[Cost], slope: float | None) -> str:
    lines = ["| what | ratio | ms | in products | passes | most | |", "|---|---:|---:|---:|---:|---:|---|"]
    for cost in costs:
        passes = ["-" if value is None else f"{value:.1f}" for value in (cost.passes, cost.most_passes)]
        lines.append(
            f"| {cost.what} | {cost.ratio:g} | {_milliseconds(cost.seconds)} | {cost.products:.1f} | "
            f"{passes[0]} | {passes[1]} | {cost.note} |"
        )
    if slope is not None:
        lines.append(f"\nSlope of log time against log n: {slope:.2f}.")
    return "\n".join(lines)


def _memory(memory: list[dict[str, Any]]) -> str:
    lines = ["| data | solver | matrix MB | peak MB | above 1.3 x matrix, MB |", "|---|---|---:|---:|---:|"]
    for item in memory:
        matrix, peak = item["matrix"] / 1e6, item["peak"] / 1e6
        numbers = f"{matrix:.0f} | {peak:.0f} | {peak - 1.3 * matrix:.0f}"
        lines.append(f"| {item['title']} | {item['solver']} | {numbers} |")
    return "\n".join(lines)
