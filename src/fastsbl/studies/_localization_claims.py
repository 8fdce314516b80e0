"""The paper's sentences on source localisation beside the results, and the tables behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastsbl.studies._field_readings import (
    best_of,
    fit_groups,
    level_groups,
    mean_curve,
    mean_in,
    ratio_text,
    sign_name,
    snr_name,
    true_ratio,
)
from fastsbl.studies._readings import by, judge_each
from fastsbl.studies._screening_claims import (
    PAPER_RULE,
    iteration_means,
    rejection_table,
    time_intervals,
    time_table,
)
from fastsbl.studies.claims import Claim
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Table

if TYPE_CHECKING:
    from fastsbl.studies.localization import LocalizationConfig

__all__ = ["SCORES", "localization_claims", "localization_tables"]

SCORES = {
    "group_iou": "group-IoU",
    "matched_iou": "matched IoU",
    "f1": "F1 within 1.5 px",
    "support": "sources found",
}
_MORE = {"rmse": "RMSE of matches, px", "mean_distance": "distance to nearest truth, px"}
_PAPER = "paper, section 5.3"
_OURS = "this library"

Answer = tuple[bool, str, float]


def localization_claims(store: Store, config: LocalizationConfig) -> list[Claim]:
    """Every claim; those that were not measured say so."""
    fits = fit_groups(store, config)
    rejections = level_groups(store.records(task="rejection"), config)
    times = store.records(task="time")
    return [
        _rises_beyond(rejections),
        _no_gain_below(
            level_groups([row for row in times if (row["solver"], row["rule"]) == ("cd", PAPER_RULE)], config)
        ),
        _auto_gains_below(level_groups([row for row in times if row["rule"] == "auto"], config)),
        _gathers(fits),
        _iou_peaks(fits, config),
        _looks_better(fits),
        _best_near_truth(fits),
        _refined_is_better(fits, store.records(task="refined")),
    ]


def _levels(records: list[Record]) -> dict[str, list[Record]]:
    return {snr_name(snr): rows for (snr,), rows in by(records, "snr_db").items()}


def _rises_beyond(groups: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        means = {ratio: 100 * float(np.mean(values)) for ratio, values in iteration_means(rows, PAPER_RULE).items()}
        if not {0.3, 0.6} <= set(means):
            return None
        below, beyond = means[0.3] - means[min(means)], means[0.6] - means[0.3]
        text = ", ".join(f"{value:.1f} % at {ratio:g}" for ratio, value in means.items())
        return beyond >= 30.0 and beyond > below, text, beyond

    return judge_each(
        "The screening percentage increases rapidly as lambda/lambda_max becomes larger than .3 (two hyperplanes, the "
        "paper's ball: it gains at least 30 points from .3 to .6, and more than up to .3).",
        _PAPER,
        groups,
        look,
        min,
    )


def _no_gain_below(groups: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        found = time_intervals([row for row in rows if row["solver"] == "cd"])
        below = {ratio: value.median for ratio, value in found.items() if ratio <= 0.3}
        if not below:
            return None
        text = ", ".join(f"{value.median:.2f} at {ratio:g}" for ratio, value in found.items())
        return min(below.values()) > 1.0, f"t_r/t {text}", min(below.values())

    return judge_each(
        "When lambda/lambda_max is no larger than .3, the reduced time t_r is larger than the time t without screening "
        "(two hyperplanes, the paper's ball, solver cd).",
        _PAPER,
        groups,
        look,
        min,
    )


def _auto_gains_below(groups: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        texts: list[str] = []
        worst: list[float] = []
        kinds = (("cd", "t_ratio", "cd, t_r/t"), ("working-set", "fit_ratio", "working sets, whole fits"))
        for solver, field, of in kinds:
            found = time_intervals([row for row in rows if row["solver"] == solver], field)
            below = {ratio: value.median for ratio, value in found.items() if ratio <= 0.3}
            worst += below.values()
            if below:
                numbers = ", ".join(f"{value:.2f} at {ratio_text(ratio)}" for ratio, value in below.items())
                texts.append(f"{of}: {numbers}")
        return (max(worst) < 1.0, "; ".join(texts), max(worst)) if worst else None

    return judge_each(
        "With rule auto (working sets: and bounds) there is a gain up to .3 as well.", _OURS, groups, look
    )


def _gathers(groups: dict[str, list[Record]]) -> Claim:
    from scipy.stats import spearmanr

    def look(rows: list[Record]) -> Answer | None:
        found = {ratio: value for ratio, value in mean_curve(rows, "mean_distance").items() if ratio <= 0.7}
        if len(found) < 3:
            return None
        values = list(found.values())
        rank = float(spearmanr(list(found), values).statistic) if np.ptp(values) > 0 else 0.0
        text = f"{values[0]:.2f} px at {ratio_text(min(found))}, {values[-1]:.2f} px at {max(found):g}"
        return rank <= -0.8, f"{text}, rank correlation {rank:.2f}", rank

    return judge_each(
        "The sparse representation gathers around the true sources as lambda grows (mean distance of a found source to "
        "the nearest true one, up to .7: rank correlation with lambda of at most -.8).",
        _PAPER,
        groups,
        look,
    )


def _iou_peaks(groups: dict[str, list[Record]], config: LocalizationConfig) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        curve = mean_curve(rows, "group_iou")
        if mean_in(curve, 0.1, 0.2) is None or len(curve) < 3:
            return None
        best = best_of(curve)
        text = f"highest at {ratio_text(best)} ({curve[best]:.2f}); {mean_in(curve, 0.1, 0.2):.2f} from .1 to .2"
        return 0.1 <= best <= 0.2, text, best

    return judge_each(
        f"Group-IoU (boxes of {config.box:g} x {config.box:g} px) is highest for lambda/lambda_max in (.1, .2).",
        _PAPER,
        groups,
        look,
    )


def _looks_better(groups: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        curves = {name: mean_curve(rows, name) for name in ("f1", "matched_iou", "support")}
        low, high = (
            {name: mean_in(curve, *ends) for name, curve in curves.items()} for ends in ((0.1, 0.2), (0.5, 0.7))
        )
        if low["f1"] is None or high["f1"] is None:
            return None
        parts = (f"{SCORES[name]} {low[name]:.2f} against {high[name]:.2f}" for name in curves)
        difference = high["f1"] - low["f1"]
        return difference >= 0.05, ", ".join(parts), difference

    return judge_each(
        "The results for lambda/lambda_max in (.5, .7) look a lot better than those in (.1, .2), whatever group-IoU "
        "says (F1 of a one-to-one matching within 1.5 px: at least .05 higher).",
        _PAPER,
        groups,
        look,
        min,
    )


def _best_near_truth(groups: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        curve = mean_curve(rows, "matched_iou")
        if len(curve) < 3:
            return None
        best, truth = best_of(curve), true_ratio(rows)
        factor = max(best, 1e-3) / truth
        return 0.5 <= factor <= 2.0, f"best at {ratio_text(best)}, true variance at {truth:.2g}", factor

    return judge_each(
        "The best lambda is the true variance of the noise, in theory; in practice the two may differ (matched IoU: "
        "within a factor of 2).",
        _PAPER,
        groups,
        look,
    )


def _refined_is_better(groups: dict[str, list[Record]], refined: list[Record]) -> Claim:
    levels = _levels(refined)

    def look(rows: list[Record]) -> Answer | None:
        ours = levels.get(snr_name(rows[0]["snr_db"]))
        if not ours:
            return None
        curve = mean_curve(rows, "matched_iou")
        mean = float(np.mean([row["matched_iou"] for row in ours]))
        best = best_of(curve)
        return mean > curve[best], f"{mean:.2f} against {curve[best]:.2f} at {ratio_text(best)}", mean - curve[best]

    return judge_each(
        "locate_sources, which needs no lambda and no noise level, scores a higher matched IoU than the raw answers at "
        "any lambda, the best one picked in hindsight.",
        _OURS,
        groups,
        look,
        min,
    )


def localization_tables(store: Store, config: LocalizationConfig) -> list[Table]:
    """Scores of the raw answers along lambda and of the refined ones; what was rejected, and the times."""
    refined = _levels(store.records(task="refined"))
    tables = []
    for (sign,), rows in by(store.records(task="fit"), "sign").items():
        for name, group in level_groups(rows, config).items():
            ours = refined.get(snr_name(group[0]["snr_db"]), [])
            tables.append(_score_table(f"Scores: {name}, {sign_name(sign)}", config, group, ours))
    for task, table in (("rejection", rejection_table), ("time", time_table)):
        groups = level_groups(store.records(task=task), config)
        tables += [table(name, rows) for name, rows in groups.items()]
    return tables


def _score_table(title: str, config: LocalizationConfig, rows: list[Record], refined: list[Record]) -> Table:
    ratios = sorted({row["ratio"] for row in rows})
    lines = []
    for field, label in {**SCORES, **_MORE}.items():
        curve = mean_curve(rows, field)
        values = [row[field] for row in refined if row[field] is not None]
        cells = (f"{curve[ratio]:.2f}" if ratio in curve else "" for ratio in ratios)
        lines.append((label, *cells, f"{np.mean(values):.2f}" if values else ""))
    caption = (
        f"Means over images. {config.label}. Columns are values of lambda/lambda_max; boxes of {config.box:g} x "
        f"{config.box:g} px; the true noise variance is at {true_ratio(rows):.2g}. locate_sources: no lambda, no noise "
        "level given."
    )
    return Table("scores", title, ("score", *map(ratio_text, ratios), "locate_sources"), tuple(lines), caption)
