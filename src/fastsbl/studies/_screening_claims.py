"""The sentences of the paper's Section 3 beside the results, and the tables behind them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fastsbl.studies._readings import by, judge_each, verdict_of
from fastsbl.studies.claims import Claim, Interval, median_interval
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Table

__all__ = [
    "PAPER_RULE",
    "iteration_means",
    "rejection_table",
    "screening_claims",
    "screening_tables",
    "set_up",
    "time_intervals",
    "time_table",
    "time_values",
]

PAPER_RULE = "two_hyperplanes:paper"
_OURS = "auto"
_SATISFYING = 0.5  # half the time
_NOTHING = 1e-6  # share of ||Y|| below which coefficients only show how far a fit has gone on its way to zero


def set_up(record: Record) -> str:
    """Data, scaling and start in a few words."""
    names = {"mnist": "MNIST", "nytimes": "New York Times", "zipf": "simulated corpus", "digits": "small digits"}
    scaling = {"unit": "unit norm", "raw": "raw counts"}[record["scaling"]]
    start = "" if record["init"] == "unit" else ", start gamma = 0"
    return f"{names.get(record['data'], record['data'])}, {scaling}{start}"


def iteration_means(records: Sequence[Record], rule: str, first: bool = False) -> dict[float, list[float]]:
    """For each ratio, every target's rejected share: mean over outer iterations, or the first one's."""
    found: dict[float, list[float]] = {}
    for (ratio, _), rows in sorted(by(records, "ratio", "target").items()):
        shares = [row[f"rejected {rule}"] for row in rows if not first or row["iteration"] == 1]
        found.setdefault(ratio, []).append(float(np.mean(shares)))
    return found


def time_values(records: Sequence[Record], name: str) -> dict[float, list[float]]:
    """For each ratio, the time ratio of every target that has one (the median of its pairs)."""
    found: dict[float, list[float]] = {}
    for (ratio,), rows in sorted(by(records, "ratio").items()):
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            found[ratio] = values
    return found


def time_intervals(records: Sequence[Record], name: str = "t_ratio") -> dict[float, Interval]:
    """For each ratio, the median over targets of a time ratio, with its interval."""
    return {ratio: median_interval(values) for ratio, values in time_values(records, name).items()}


def screening_claims(store: Store) -> list[Claim]:
    """Every claim; those that were not measured say so."""
    rejections = _split(store.records(task="rejection"))
    times = _split(store.records(task="time"))
    return [
        _grows(rejections),
        _nearly_total(rejections),
        _same_solution(times),
        _faster_with_ratio(times),
        _satisfying_above(times),
        _overcome_below(times),
        *_alike(rejections, times),
        _no_more_than_plain(rejections),
        _promise_cd(times),
        _never_slower(times),
        _half_the_time(times),
    ]


def _split(records: list[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(set_up(record), []).append(record)
    return found


def _some(times: dict[str, list[Record]], **wanted: Any) -> dict[str, list[Record]]:
    picked = {
        name: [row for row in rows if all(row[key] == value for key, value in wanted.items())]
        for name, rows in times.items()
    }
    return {name: rows for name, rows in picked.items() if rows}


def _grows(rejections: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float]:
        means = [100 * float(np.mean(values)) for values in iteration_means(rows, PAPER_RULE).values()]
        drop = max([0.0, *(before - after for before, after in pairwise(means))])
        text = f"{means[0]:.1f} % at the smallest ratio, {means[-1]:.1f} % at the largest, "
        return drop <= 0.5, f"{text}largest step down {drop:.2g} points", drop

    return judge_each(
        '"The acceleration will increase as lambda/lambda_max goes larger": the rejected share (two hyperplanes, the '
        "paper's ball; a step down of more than half a point would refute it).",
        "paper, section 3.3",
        rejections,
        look,
    )


def _nearly_total(rejections: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float] | None:
        last = [row for row in rows if row["ratio"] == 1.0]
        if not last:
            return None
        share = 100 * float(np.mean(iteration_means(last, PAPER_RULE)[1.0]))
        return share >= 99.0, f"{share:.2f} % rejected at ratio 1", share

    return judge_each(
        '"When lambda = lambda_max [...] almost all the features are rejected" (at least 99 %).',
        "paper, section 3.3",
        rejections,
        look,
        min,
    )


def _same_solution(times: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float]:
        differences = [row["difference"] for row in rows]
        relative = max(row["difference"] / max(row["largest_coef"], _NOTHING * row["y_norm"]) for row in rows)
        same = sum(row["same_support"] for row in rows)
        gaps = [abs(row["loss_with"] - row["loss_without"]) for row in rows]
        text = (
            f"max |theta_o - theta_s| {max(differences):.1e} ({relative:.1e} of the largest coefficient), "
            f"Loss differs by at most {max(gaps):.1e}, same support in {same} of {len(rows)} comparisons"
        )
        return relative <= 1e-4 and same == len(rows), text, relative

    return judge_each(
        '"The optimal solution doesn\'t change" (all solvers and rules: same support; coefficients within 1e-4 of the '
        "largest, the tolerance of the outer loop, or of a millionth of ||Y|| where all are smaller).",
        "paper, section 3.3",
        times,
        look,
    )


def _faster_with_ratio(times: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float] | None:
        found = time_intervals(rows)
        if len(found) < 3:
            return None
        rank = _rank(list(found), [value.median for value in found.values()])
        return rank <= -0.9, f"t_r/t {_listed(found)}; rank correlation {rank:.2f}", rank

    return judge_each(
        '"The acceleration will increase as lambda/lambda_max goes larger": the time (solver cd, two hyperplanes, the '
        "paper's ball; rank correlation of t_r/t with the ratio of -.9 or less).",
        "paper, section 3.3",
        _some(times, solver="cd", rule=PAPER_RULE),
        look,
    )


def _satisfying_above(times: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float] | None:
        found = time_intervals(rows)
        below = [value.median for ratio, value in found.items() if ratio < 0.4]
        above = [value.median for ratio, value in found.items() if ratio >= 0.4]
        if not below or not above:
            return None
        held = min(below) > _SATISFYING and max(above) <= _SATISFYING
        return held, f"t_r/t {_listed(found)}", min(below)

    return judge_each(
        '"To obtain a satisfying acceleration, the value of lambda/lambda_max should be no smaller than 0.4" '
        "(satisfying: half the time or less; solver cd, two hyperplanes, the paper's ball).",
        "paper, section 6, third limitation",
        _some(times, solver="cd", rule=PAPER_RULE),
        look,
        min,
    )


def _overcome_below(times: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float] | None:
        found = {ratio: value for ratio, value in time_intervals(rows).items() if 0.05 <= ratio < 0.4}
        if not found:
            return None
        worst = max(value.median for value in found.values())
        return worst <= _SATISFYING, f"t_r/t {_listed(found)}", worst

    return judge_each(
        "With rule auto the acceleration is satisfying from .05 to .4 as well (solver cd).",
        "this library",
        _some(times, solver="cd", rule=_OURS),
        look,
    )


def _listed(found: dict[float, Interval]) -> str:
    return ", ".join(f"{value.median:.3f} at {ratio:g}" for ratio, value in found.items())


def _rank(one: Any, two: Any) -> float:
    """Spearman's rank correlation; 0 if one of them is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(one, two).statistic) if np.ptp(one) > 0 and np.ptp(two) > 0 else 0.0


def _alike(rejections: dict[str, list[Record]], times: dict[str, list[Record]]) -> list[Claim]:
    sentence = '"The two curves are a bit different from those of MNIST, while the tendencies are alike"'
    claims = []
    cd = _some(times, solver="cd", rule=PAPER_RULE)
    for name, curves in (
        ("screening percentage", {k: _mean_curve(iteration_means(v, PAPER_RULE)) for k, v in rejections.items()}),
        ("time ratio, solver cd", {k: {r: i.median for r, i in time_intervals(v).items()} for k, v in cd.items()}),
    ):
        held, texts, numbers = {}, [], []
        digits = curves.get("MNIST, unit norm", {})
        for other, curve in curves.items():
            common = sorted(set(digits) & set(curve))
            if not other.startswith("New York Times") or len(common) < 3:
                continue
            one, two = np.array([digits[r] for r in common]), np.array([curve[r] for r in common])
            rank = _rank(one, two)
            held[other] = rank >= 0.9
            texts.append(f"{other}: rank correlation {rank:.2f}, largest difference {np.abs(one - two).max():.2f}")
            numbers.append(rank)
        claims.append(
            Claim(
                f"{sentence} ({name}, two hyperplanes, the paper's ball; rank correlation of at least .9).",
                "paper, section 3.3",
                "; ".join(texts) or "needs MNIST and the New York Times in one study",
                verdict_of(held),
                min(numbers, default=None),
            )
        )
    return claims


def _mean_curve(values: dict[float, list[float]]) -> dict[float, float]:
    return {ratio: float(np.mean(shares)) for ratio, shares in values.items()}


def _no_more_than_plain(rejections: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float] | None:
        more, less, total, differences = 0, 0, 0, []
        for (start,), part in by(rows, "init").items():
            if start != "unit":
                continue
            for group in by(part, "ratio", "target").values():
                later = [row[f"rejected {PAPER_RULE}"] for row in group if row["iteration"] > 1]
                if not later:
                    continue
                difference = 100 * (float(np.mean(later)) - group[0][f"rejected {PAPER_RULE}"])
                differences.append(difference)
                more, less, total = more + (difference > 0.01), less + (difference < -0.01), total + 1
        if not total:
            return None
        mean = float(np.mean(differences))
        text = (
            f"in the weighted problems of iterations 2 and later it rejects more in {more} and less in {less} of "
            f"{total} fits, {mean:+.1f} points on average"
        )
        return more == 0, text, mean

    return judge_each(
        'The weighted test "is no better than" the two-hyperplane test on the plain lasso (iteration 1, where u = 1).',
        "paper, section 6, second limitation",
        rejections,
        look,
    )


def _promise_cd(times: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float] | None:
        found = {ratio: value for ratio, value in time_intervals(rows).items() if ratio >= 0.05}
        if not found:
            return None
        limits = {ratio: 0.1 if ratio == 0.9 else 0.2 if ratio == 0.5 else 1.0 for ratio in found}
        held = all(value.median <= limits[ratio] and value.median < 1.0 for ratio, value in found.items())
        return held, f"t_r/t {_listed(found)}", max(value.median for value in found.values())

    return judge_each(
        "Plain coordinate descent with rule auto: t_r/t (inner problems) is below 1 from .05 on, at most .2 at .5 and "
        "at most .1 at .9.",
        "this library",
        _some(times, solver="cd", rule=_OURS),
        look,
    )


def _never_slower(times: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> tuple[bool, str, float]:
        found = time_intervals(rows, "fit_ratio")
        pairs = min(sum(len(row["fit_ratios"]) for row in part) for part in by(rows, "ratio").values())
        text = ", ".join(f"{value} at {ratio:g}" for ratio, value in found.items())
        held = all(value.low <= 1.0 for value in found.values())
        return held, f"{text} ({pairs} pairs each)", max(value.median for value in found.values())

    return judge_each(
        "Working sets, whole fits, screening and bounds on against both off: the time ratio is never above 1 beyond "
        "its interval.",
        "this library",
        _some(times, solver="working-set", rule=_OURS),
        look,
    )


def _half_the_time(times: dict[str, list[Record]]) -> Claim:
    held, texts, numbers = {}, [], []
    for name, rows in _some(times, solver="working-set", rule=_OURS).items():
        found = {r: value.median for r, value in time_intervals(rows, "fit_ratio").items() if r >= 0.1}
        # at ratio 1 nothing is solved: there, fits are one read of the dictionary instead of two
        for where, part in (
            (f"{name}, below 1", {r: value for r, value in found.items() if r < 1.0}),
            (f"{name}, at 1", {r: value for r, value in found.items() if r == 1.0}),
        ):
            if part:
                worst = max(part.values())
                held[where] = worst <= _SATISFYING
                texts.append(f"{where}: at most {worst:.3f}")
                numbers.append(worst)
    return Claim(
        "Working sets, whole fits, screening and bounds on against both off: the time ratio is at most .5 from .1 on.",
        "this library",
        "; ".join(texts) or "no results for this",
        verdict_of(held),
        max(numbers, default=None),
    )


def screening_tables(store: Store) -> list[Table]:
    """Set-ups with their norms, rejection per rule, time ratios per solver and rule."""
    rejections, times = store.records(task="rejection"), store.records(task="time")
    return [
        *_norm_table(rejections or times),
        *[rejection_table(name, rows) for name, rows in _split(rejections).items()],
        *[time_table(name, rows) for name, rows in _split(times).items()],
    ]


def _norm_table(records: list[Record]) -> list[Table]:
    rows = []
    for (label,), group in by(records, "problem").items():
        norms = [part[0]["y_norm"] for part in by(group, "target").values()]
        largest = [part[0]["lam"] / part[0]["ratio"] for part in by(group, "target").values()]
        cells = (f"{f(values):.4g}" for values in (norms, largest) for f in (np.min, np.median, np.max))
        rows.append((label, len(norms), *cells))
    columns = (
        "problem",
        "targets",
        *(f"{name}, {f}" for name in ("||Y||", "lambda_max") for f in ("least", "median", "most")),
    )
    caption = (
        "lambda is a variance and lambda_max is not: the same lambda/lambda_max is another problem for another ||Y||."
    )
    return [Table("norms", "Problems", columns, tuple(rows), caption)] if rows else []


def rejection_table(name: str, records: list[Record]) -> Table:
    """Rejected shares of every rule against lambda, of what `count_rejections` returned."""
    rules = [key.removeprefix("rejected ") for key in records[0] if key.startswith("rejected ")]
    curves = {rule: _mean_curve(iteration_means(records, rule)) for rule in rules}
    firsts = {rule: _mean_curve(iteration_means(records, rule, first=True)) for rule in rules}
    ratios = sorted({record["ratio"] for record in records})
    rows = tuple(
        (rule, *(f"{100 * firsts[rule][r]:.1f} / {100 * curves[rule][r]:.1f}" for r in ratios)) for rule in rules
    )
    caption = (
        "Percentage of the features rejected before each weighted lasso is solved: first outer iteration / mean over "
        "all. Columns are values of lambda/lambda_max. Rules that need coefficients use those of the iteration before."
    )
    return Table("rejection", f"Rejected: {name}", ("rule", *(f"{r:g}" for r in ratios)), tuple(rows), caption)


def time_table(name: str, records: list[Record]) -> Table:
    """Time ratios of every solver and rule against lambda, of what `time_fits` returned."""
    ratios = sorted({record["ratio"] for record in records})
    rows = []
    for (solver, rule), group in by(records, "solver", "rule").items():
        for of, field in (("inner problems", "t_ratio"), ("whole fits", "fit_ratio")):
            found = time_intervals(group, field)
            if found:
                rows.append((solver, rule, of, *(str(found[r]) if r in found else "" for r in ratios)))
    caption = (
        "Time with screening over time without; below 1 is good. Inner problems: the paper's t_r/t = (t_scr + "
        "t_red)/t_ori, without what both fits do besides (weights, the certificate on all features). Median over "
        "targets, in brackets the interval of the median."
    )
    columns = ("solver", "rule", "time of", *(f"{r:g}" for r in ratios))
    return Table("times", f"Time ratio: {name}", columns, tuple(rows), caption)
