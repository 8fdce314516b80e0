"""Figures of the screening study: the paper's two, and two more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastsbl.studies._readings import by, spread
from fastsbl.studies._screening_claims import PAPER_RULE, iteration_means, set_up, time_values
from fastsbl.studies.figures import Figure, HeatMap, LineFigure, ScatterFigure, Series
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record

__all__ = ["RATIO_LABEL", "rejection_lines", "screening_figures", "time_lines"]

LABELS = {
    "sphere:paper": "sphere, paper's ball",
    "dome:paper": "dome, paper's ball",
    "two_hyperplanes:paper": "two hyperplanes, paper's ball",
    "two_hyperplanes:diameter": "two hyperplanes, half ball",
    "gap_sphere": "gap sphere",
    "holder": "Hölder dome",
    "auto": "auto",
    "none": "none, timed against itself",
}
RATIO_LABEL = "λ / λ_max"
_MOST_COLUMNS = 20


def screening_figures(store: Store) -> list[Figure]:
    """All figures for which there are results, set-up by set-up."""
    figures: list[Figure] = []
    rejections, times = store.records(task="rejection"), store.records(task="time")
    for (data, scaling, init), rows in by(rejections, "data", "scaling", "init").items():
        tag = f"{data}-{scaling}" + ("" if init == "unit" else f"-{init}")
        figures += [rejection_lines(f"rejection-{tag}", set_up(rows[0]), rows), _iterations(f"iterations-{tag}", rows)]
    for (data, scaling, init, solver), rows in by(times, "data", "scaling", "init", "solver").items():
        tag = f"{data}-{scaling}" + ("" if init == "unit" else f"-{init}")
        figures += [
            time_lines(f"{kind}-{tag}-{solver}", set_up(rows[0]), rows, field)
            for kind, field in (("time", "t_ratio"), ("fit", "fit_ratio"))
            if any(row.get(field) is not None for row in rows)
        ]
    for (data, scaling), rows in by(times, "data", "scaling").items():
        figures.append(_passes(f"passes-{data}-{scaling}", rows))
    return figures


def _label(rule: str) -> str:
    return LABELS.get(rule, rule)


def _line(rule: str, values: dict[float, list[float]], middle: Callable[[list[float]], Any]) -> Series:
    """The line of a rule, in the same colour in all figures."""
    place = list(LABELS).index(rule) if rule in LABELS else None
    return spread(_label(rule), values, middle, emphasis=rule in (PAPER_RULE, "auto"), place=place)


def rejection_lines(name: str, what: str, rows: list[Record]) -> LineFigure:
    """The screening percentage against lambda, one line per rule, of what `count_rejections` returned."""
    rules = [key.removeprefix("rejected ") for key in rows[0] if key.startswith("rejected ")]
    series = []
    for rule in rules:
        percent = {r: [100 * v for v in values] for r, values in iteration_means(rows, rule).items()}
        series.append(_line(rule, percent, np.mean))
    targets = len(by(rows, "target"))
    ends = ", ".join(f"{line.label} {line.y[0]:.0f} to {line.y[-1]:.0f} %" for line in series)
    return LineFigure(
        name=name,
        title=f"Screening percentage: {what}",
        alt=f"Lines of the share of rejected features against lambda over lambda_max, from left to right: {ends}.",
        caption=f"{rows[0]['problem']}. Mean over the outer iterations of Algorithm 1 and over {targets} targets; "
        "bands: 10th to 90th percentile of the targets.",
        x_label=RATIO_LABEL,
        y_label="rejected before solving, % of the features",
        y_limits=(0.0, 100.0),
        series=tuple(series),
    )


def _iterations(name: str, rows: list[Record]) -> HeatMap:
    ratios = sorted({row["ratio"] for row in rows}, reverse=True)
    last = min(max(row["iteration"] for row in rows), _MOST_COLUMNS)
    values = np.full((len(ratios), last), np.nan)
    for (ratio, iteration), group in by(rows, "ratio", "iteration").items():
        if iteration <= last:
            values[ratios.index(ratio), iteration - 1] = 100 * np.mean([row[f"rejected {PAPER_RULE}"] for row in group])
    return HeatMap(
        name=name,
        title=f"Rejection along the outer loop, {_label(PAPER_RULE)}: {set_up(rows[0])}",
        alt=f"Heat map of the percentage that the two-hyperplane test on the paper's ball rejects, over {len(ratios)} "
        f"values of lambda over lambda_max and the first {last} outer iterations.",
        caption=f"{rows[0]['problem']}; {_label(PAPER_RULE)}; mean over the fits that are still going on.",
        values=values,
        rows=tuple(f"{ratio:g}" for ratio in ratios),
        columns=tuple(str(k + 1) for k in range(last)),
        x_label="outer iteration",
        y_label=RATIO_LABEL,
        value_label="rejected, %",
        limits=(0.0, 100.0),
    )


def time_lines(name: str, what: str, rows: list[Record], field: str) -> LineFigure:
    """A time ratio against lambda, one line per rule, of what `time_fits` returned with one solver."""
    solver = rows[0]["solver"]
    series = []
    for (rule,), group in by(rows, "rule").items():
        series.append(_line(rule, time_values(group, field), np.median))
    ends = ", ".join(f"{line.label} from {line.y[0]:.2g} to {line.y[-1]:.2g}" for line in series)
    both = " and bounds" if solver == "working-set" else ""
    of = "inner problems" if field == "t_ratio" else "whole fits"
    return LineFigure(
        name=name,
        title=f"Time reduction, {of}, solver {solver}: {what}",
        alt=f"Lines of the time with screening over the time without against lambda over lambda_max: {ends}.",
        caption=f"{rows[0]['problem']}. Time of {of} with screening{both} over time without, taking turns: below 1 is "
        "good. Median over targets; bands: 10th to 90th percentile.",
        x_label=RATIO_LABEL,
        y_label="t_r / t (time ratio: below 1 is good)",
        y_scale="log",
        series=tuple(series),
        guides=((1.0, "no gain"),),
    )


def _passes(name: str, rows: list[Record]) -> ScatterFigure:
    series = []
    for (solver,), group in by(rows, "solver").items():
        plain = by(group, "target", "ratio").values()
        with_screening = [row for row in group if row["rule"] != "none"]
        series.append(
            Series(
                f"{solver}, without",
                [part[0]["passes_without"] for part in plain],
                [part[0]["fit_without"] for part in plain],
                group=solver,
            )
        )
        if with_screening:
            series.append(
                Series(
                    f"{solver}, with",
                    [row["passes_with"] for row in with_screening],
                    [row["fit_with"] for row in with_screening],
                    group=solver,
                    emphasis=True,
                )
            )
    return ScatterFigure(
        name=name,
        title=f"Time against reads of the dictionary: {set_up(rows[0])}",
        alt="Points: the seconds of whole fits against how often they read the dictionary, with and without screening.",
        caption=f"{rows[0]['problem']}. One point per fit; sweeps of coordinate descent are not counted as reads.",
        x_label="reads of the dictionary (passes)",
        y_label="seconds per fit",
        x_scale="log",
        y_scale="log",
        series=tuple(series),
    )
