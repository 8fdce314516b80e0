"""The sentences of the paper's Section 4 beside the results, and the tables behind them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.studies._readings import by
from fastsbl.studies.claims import Claim
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Table

if TYPE_CHECKING:
    from fastsbl.studies.classification import ClassificationConfig

__all__ = [
    "NAMES",
    "Accuracy",
    "Measured",
    "accuracies",
    "chosen_of",
    "classification_claims",
    "classification_tables",
    "compared",
    "grid_of",
    "ratio_label",
]

NAMES = {
    ("evidence", "evidence"): "evidence, several λ (default)",
    ("evidence-single", "evidence"): "evidence, one λ",
    ("evidence-positive", "evidence"): "evidence, several λ, weights ≥ 0",
    ("sbl", "abs-sum"): "the paper's sum of weights",
    ("sbl", "residual"): "class residuals of the paper's fit",
    ("lasso", "abs-sum"): "lasso, sum of weights",
    ("lasso", "residual"): "lasso, class residuals",
    ("ridge", "abs-sum"): "ridge, sum of weights",
    ("ridge", "residual"): "ridge, class residuals",
    ("neighbours", "vote"): "nearest neighbours by cosine",
    ("logistic", "prediction"): "logistic regression",
    ("svm", "prediction"): "RBF SVM",
}
_CORES = 2
_ROUNDING = 1e-9  # of means that should be equal
_MINUTES = 10.0
_PAPER_FITS = 55_000
_WANTED = 0.975
_SECTION = "paper, section 4.3"


class Accuracy(NamedTuple):
    """A mean over runs with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: FloatArray) -> Accuracy:
        """Take the mean of the runs' values."""
        spread = float(np.std(values, ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
        return cls(float(np.mean(values)), spread)

    def percent(self) -> str:
        """Show it in percent."""
        error = f" ± {100 * self.error:.2f}" if np.isfinite(self.error) else ""
        return f"{100 * self.mean:.2f}{error} %"


class Measured(NamedTuple):
    """One method with one value of its parameter and one score: what each run gave."""

    runs: dict[int, float]
    """Accuracy on the test images of each run."""
    held_out: float
    """Accuracy on held-out training images, NaN if it was not measured."""
    seconds: float
    """Median over runs of the processor time per image."""
    support: float
    undecided: float
    """Share of images without an answer."""

    @property
    def accuracy(self) -> Accuracy:
        """Mean over runs."""
        return Accuracy.of(np.array(list(self.runs.values())))

    def above(self, other: Measured) -> Accuracy:
        """Difference in accuracy, run by run."""
        common = [run for run in self.runs if run in other.runs]
        return Accuracy.of(np.array([self.runs[run] - other.runs[run] for run in common]))


Key: TypeAlias = tuple[str, str, str, float]
"""Columns, method, score, value."""


def accuracies(store: Store) -> dict[Key, Measured]:
    """Everything that was classified so far and has results on test images."""
    found: dict[Key, Measured] = {}
    for key, rows in by(store.records(task="classify"), "columns", "method", "score", "value").items():
        test = [row for row in rows if row["set"] == "test"]
        held_out = [row for row in rows if row["set"] == "held-out"]
        runs = _by_run(test)
        if not runs:
            continue
        found[key] = Measured(
            runs,
            _weighted(held_out) if held_out else float("nan"),
            float(np.median([row["seconds"] for row in test])),
            float(np.mean([row.get("support", np.nan) for row in test])),
            sum(row["undecided"] for row in test) / sum(row["images"] for row in test),
        )
    return found


def _by_run(rows: list[Record]) -> dict[int, float]:
    """Accuracy on all images of each run; those that earlier runs have drawn too stand in the records of these."""
    runs: dict[int, float] = {}
    right: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: row["run"]):
        right.update(zip(row["place"], row["right"], strict=True))
        if all(place in right for place in row["drawn"]):
            runs[row["run"]] = float(np.mean([right[place] for place in row["drawn"]]))
    return runs


def _weighted(rows: list[Record]) -> float:
    return float(np.average([row["accuracy"] for row in rows], weights=[row["images"] for row in rows]))


def chosen_of(found: dict[Key, Measured]) -> dict[tuple[str, str], tuple[float, Measured]]:
    """For each method and score, the value that is best on held-out images (the larger of equal ones).

    Methods with a single value need no choice.
    """
    chosen: dict[tuple[str, str], tuple[float, Measured]] = {}
    for (method, score), values in grid_of(found).items():
        rated = {value: one for value, one in values.items() if np.isfinite(one.held_out)}
        if not rated and len(values) == 1:
            rated = values
        if rated:
            value = max(rated, key=lambda v: (rated[v].held_out, v))
            chosen[method, score] = (value, rated[value])
    return chosen


def grid_of(found: dict[Key, Measured], columns: str = "drawn") -> dict[tuple[str, str], dict[float, Measured]]:
    """Values of the parameter in increasing order, for each method and score."""
    grid: dict[tuple[str, str], dict[float, Measured]] = {}
    for (where, method, score, value), one in sorted(found.items(), key=lambda item: item[0][3]):
        if where == columns:
            grid.setdefault((method, score), {})[value] = one
    return grid


# -- claims -------------------------------------------------------------------------------------------------------
def classification_claims(store: Store, config: ClassificationConfig) -> list[Claim]:
    """Every claim; those that were not measured say so."""
    found = accuracies(store)
    grid, chosen = grid_of(found), chosen_of(found)
    paper = grid.get(("sbl", "abs-sum"), {})
    nearest = grid.get(("neighbours", "vote"), {}).get(1.0)
    default = chosen.get(("evidence", "evidence"))
    return [
        _best_is_small(paper),
        _falls_rises_falls(paper),
        _balance(paper),
        _enough(default, chosen.get(("sbl", "abs-sum"))),
        _above("nearest neighbour (cosine)", default, nearest, 0.01),
        _above("lasso representation", default, _better(chosen, ("lasso", "abs-sum"), ("lasso", "residual")), 0.0),
        _above("RBF support vector machine", default, _better(chosen, ("svm", "prediction")), 0.0),
        _in_minutes(store, config),
    ]


def _better(chosen: dict[tuple[str, str], tuple[float, Measured]], *names: tuple[str, str]) -> Measured | None:
    there = [chosen[name][1] for name in names if name in chosen]
    return max(there, key=lambda one: one.accuracy.mean) if there else None


def _claim(sentence: str, source: str, text: str | None, *, holds: bool = False, number: float | None = None) -> Claim:
    if text is None:
        return Claim(sentence, source, "no results for this", "not measured")
    return Claim(sentence, source, text, "holds" if holds else "does not hold", number)


def _best_is_small(paper: dict[float, Measured]) -> Claim:
    sentence = "The paper's rule is most accurate for lambda/lambda_max in (0, .1)."
    inside = {value: one for value, one in paper.items() if 0.0 < value < 0.1}
    outside = {value: one for value, one in paper.items() if not 0.0 < value < 0.1}
    if not inside or not outside:
        return _claim(sentence, _SECTION, None)
    (best, one), (other, two) = (_best(part) for part in (inside, outside))
    gain = one.above(two)
    text = (
        f"best inside at {best:g}: {one.accuracy.percent()}; best elsewhere at {ratio_label(other)}: "
        f"{two.accuracy.percent()}; difference {gain.percent()}"
    )
    return _claim(sentence, _SECTION, text, holds=gain.mean > 0.0, number=gain.mean)


def _best(part: dict[float, Measured]) -> tuple[float, Measured]:
    value = max(part, key=lambda v: part[v].accuracy.mean)
    return value, part[value]


def ratio_label(value: float) -> str:
    return "0 (as .001)" if value == 0.0 else f"{value:g}"


def _falls_rises_falls(paper: dict[float, Measured]) -> Claim:
    sentence = (
        "With growing lambda the accuracy falls, rises and falls again (each by more than two standard errors of the "
        "difference between the runs)."
    )
    if len(paper) < 4:
        return _claim(sentence, _SECTION, None)
    values, ones = list(paper), list(paper.values())
    rises = np.array([[_moved(one, other) for other in ones] for one in ones])
    turns = [
        (abs(rises[i, j]) + rises[j, k] + abs(rises[k, m]), (i, j, k, m))
        for i, j, k, m in combinations(range(len(ones)), 4)
        if rises[i, j] < 0 < rises[j, k] and rises[k, m] < 0
    ]
    text = "in percent, " + ", ".join(f"{ratio_label(v)}: {100 * one.accuracy.mean:.1f}" for v, one in paper.items())
    if turns:
        text += f"; from {ratio_label(values[max(turns)[1][0]])} over " + ", ".join(
            f"{values[k]:g}" for k in max(turns)[1][1:]
        )
    return _claim(sentence, _SECTION, text, holds=bool(turns))


def _moved(start: Measured, end: Measured) -> float:
    """How much accuracy rises, 0 if that is within two standard errors."""
    change = end.above(start)
    return change.mean if abs(change.mean) > 2.0 * np.nan_to_num(change.error) else 0.0


def _balance(paper: dict[float, Measured]) -> Claim:
    sentence = (
        "There is a lambda that balances speed and accuracy: at least twice as fast as the most accurate one, for at "
        "most one point of accuracy."
    )
    if len(paper) < 2:
        return _claim(sentence, "paper, section 4.4", None)
    best, most = _best(paper)
    near = {
        v: one for v, one in paper.items() if v > best and most.accuracy.mean - one.accuracy.mean <= 0.01 + _ROUNDING
    }
    text = f"most accurate at {ratio_label(best)}: {most.accuracy.percent()} in {1e3 * most.seconds:.0f} ms an image"
    if not near:
        return _claim(sentence, "paper, section 4.4", f"{text}; no larger lambda loses at most one point", number=1.0)
    fast = min(near, key=lambda v: near[v].seconds)
    one = near[fast]
    gain = most.seconds / one.seconds
    text += f"; at {fast:g}: {one.accuracy.percent()} in {1e3 * one.seconds:.0f} ms, {gain:.1f} times as fast"
    return _claim(sentence, "paper, section 4.4", text, holds=gain >= 2.0, number=gain)


def _enough(default: tuple[float, Measured] | None, paper: tuple[float, Measured] | None) -> Claim:
    sentence = (
        f"The default score, at a lambda chosen on held-out training images, is right for at least {_WANTED:.1%}."
    )
    if default is None:
        return _claim(sentence, "this library", None)
    value, one = default
    text = f"lambda/lambda_max {value:g}: {one.accuracy.percent()}"
    if paper is not None:
        text += f"; the paper's own score at {paper[0]:g}: {paper[1].accuracy.percent()}"
    return _claim(sentence, "this library", text, holds=one.accuracy.mean >= _WANTED, number=one.accuracy.mean)


def _above(what: str, default: tuple[float, Measured] | None, other: Measured | None, least: float) -> Claim:
    by_least = f"at least {100 * least:g} point" if least else "no less"
    sentence = f"The default score is {by_least} {'above' if least else 'accurate than'} the {what} on the same images."
    if default is None or other is None:
        return _claim(sentence, "this library", None)
    gain = default[1].above(other)
    text = f"{default[1].accuracy.percent()} against {other.accuracy.percent()}: difference {gain.percent()}"
    return _claim(sentence, "this library", text, holds=gain.mean >= least - _ROUNDING, number=gain.mean)


def _in_minutes(store: Store, config: ClassificationConfig) -> Claim:
    sentence = f"The paper's {_PAPER_FITS:,} fits take at most {_MINUTES:g} minutes on two cores."
    grid = config.plans[0]
    if config.data != "mnist" or config.per_class not in (None, 1_000):
        return _claim(sentence, "this library", None)
    rows = [
        row
        for row in store.records(task="classify", method="sbl", set="test", score="abs-sum", columns="drawn")
        if row["value"] in grid.values
    ]
    times = {value: part for (value,), part in by(rows, "value").items()}
    if grid.method != "sbl" or len(times) < len(grid.values):
        return _claim(sentence, "this library", None)
    fits, drawn = _count(rows)
    shared, alone = np.zeros(len(times)), np.zeros(len(times))
    for k, part in enumerate(times.values()):
        seconds, (different, all_of_them) = _total(part), _count(part)
        shared[k], alone[k] = seconds / all_of_them, seconds / different
    minutes, each = (_PAPER_FITS * float(mean.mean()) / _CORES / 60.0 for mean in (shared, alone))
    text = (
        f"{drawn:,} answers from {fits:,} fits, since an image drawn again is not fitted again, took "
        f"{_total(rows):.0f} s of processor time: {minutes:.1f} minutes for {_PAPER_FITS:,} on two "
        f"({each:.1f} if each were fitted)"
    )
    return _claim(sentence, "this library", text, holds=minutes <= _MINUTES, number=minutes)


def _count(rows: list[Record]) -> tuple[int, int]:
    """Images that were classified, and images drawn."""
    return sum(row["images"] for row in rows), sum(len(row["drawn"]) for row in rows)


def _total(rows: list[Record]) -> float:
    return float(sum(row["seconds"] * row["images"] for row in rows))


# -- tables -------------------------------------------------------------------------------------------------------
def classification_tables(store: Store, config: ClassificationConfig) -> list[Table]:
    """The paper's grid, the methods at their chosen values, and the whole training set."""
    found = accuracies(store)
    tables = [_paper_table(grid_of(found)), _method_table(found), _whole_table(found)]
    return [table for table in tables if table is not None and table.rows]


def _paper_table(grid: dict[tuple[str, str], dict[float, Measured]]) -> Table | None:
    sums, residuals = grid.get(("sbl", "abs-sum"), {}), grid.get(("sbl", "residual"), {})
    rows = tuple(
        (
            ratio_label(value),
            one.accuracy.percent(),
            residuals[value].accuracy.percent(),
            f"{100 * one.undecided:.1f} %",
            round(one.support, 1),
            round(1e3 * one.seconds, 1),
            len(one.runs),
        )
        for value, one in sums.items()
    )
    return Table(
        "ratios",
        "Accuracy of the paper's fit against the noise variance",
        ("λ / λ_max", "sum of weights", "class residuals", "undecided", "images used", "ms per image", "runs"),
        rows,
        "Mean over runs ± standard error; undecided images count as errors. λ = 0 stands for .001 of λ_max. Times are "
        "processor time; the images of a run are fitted together.",
    )


def _method_table(found: dict[Key, Measured]) -> Table:
    nearest = grid_of(found).get(("neighbours", "vote"), {}).get(1.0)
    rows = tuple(
        (
            NAMES[method, score],
            f"{value:g}",
            "" if np.isnan(one.held_out) else f"{100 * one.held_out:.2f} %",
            one.accuracy.percent(),
            "" if nearest is None else one.above(nearest).percent(),
            round(1e3 * one.seconds, 2),
            len(one.runs),
        )
        for method, score, value, one in compared(found)
    )
    return Table(
        "methods",
        "All ways of classifying, on the same columns and images",
        ("method", "parameter", "held out", "test", "above 1 neighbour", "ms per image", "runs"),
        rows,
        "The parameter is the best one on held-out training images. Mean over runs ± standard error; differences are "
        "taken run by run. Fitting logistic regression and the SVM is not in the times.",
    )


def compared(found: dict[Key, Measured]) -> Iterator[tuple[str, str, float, Measured]]:
    """Method, score, value and results of all that is compared: each at its chosen value, and all neighbours."""
    grid, chosen = grid_of(found), chosen_of(found)
    for method, score in NAMES:
        values = grid.get((method, score), {})
        if method == "neighbours":
            yield from ((method, score, value, one) for value, one in values.items())
        elif (method, score) in chosen:
            yield (method, score, *chosen[method, score])


def _whole_table(found: dict[Key, Measured]) -> Table:
    rows = tuple(
        (
            NAMES[method, score],
            f"{value:g}",
            one.accuracy.percent(),
            drawn[value].accuracy.percent() if value in drawn else "",
            round(1e3 * one.seconds, 1),
            round(1e3 * drawn[value].seconds, 1) if value in drawn else None,
            len(one.runs),
        )
        for (method, score), values in grid_of(found, "all").items()
        for drawn in [_same_runs(grid_of(found).get((method, score), {}), values)]
        for value, one in values.items()
    )
    return Table(
        "whole",
        "The whole training set as columns",
        ("method", "parameter", "whole", "drawn columns", "ms per image", "ms, drawn", "runs"),
        rows,
        "The same images of the first runs for both. The whole set is kept in single precision.",
    )


def _same_runs(drawn: dict[float, Measured], whole: dict[float, Measured]) -> dict[float, Measured]:
    """The drawn columns' results in those runs that the whole set was tried in."""
    return {
        value: one._replace(runs={run: one.runs[run] for run in whole[value].runs if run in one.runs})
        for value, one in drawn.items()
        if value in whole
    }
