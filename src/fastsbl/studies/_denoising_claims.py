"""The paper's sentences on denoising beside the results, and the tables behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fastsbl.studies._field_readings import (
    best_of,
    fit_groups,
    mean_curve,
    ratio_text,
    scaling_name,
    sign_name,
    snr_name,
    true_ratio,
)
from fastsbl.studies._readings import by, judge_each
from fastsbl.studies.claims import Claim, median_interval
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Table

if TYPE_CHECKING:
    from fastsbl.studies.denoising import DenoisingConfig

__all__ = ["FOUR_TENTHS", "OURS", "SHOWN", "chosen_variants", "denoising_claims", "denoising_tables"]

FOUR_TENTHS = float(10 * np.log10(0.4))
SHOWN = 0
"""The image that is drawn."""

OURS = "denoise_image"
_LOW, _HIGH = 0.4, 15.0
_PAPER = "paper, section 5.4"
_THIS = "this library"

Answer = tuple[bool, str, float]


def denoising_claims(store: Store, config: DenoisingConfig) -> list[Claim]:
    """Every claim; those that were not measured say so."""
    fits = fit_groups(store, config)
    compared = compared_levels(store)
    return [
        _best_from_half(fits, config),
        _best_near_truth(compared),
        _on_par(compared),
        _better(compared),
        _at_four_tenths(compared),
        _ours_is_best(compared),
        _ours_at_any_lambda(fits, store.records(task="compare", method=OURS)),
    ]


def compared_levels(store: Store) -> dict[str, list[Record]]:
    """Results of the comparison by noise level, those without a value left out."""
    rows = [row for row in store.records(task="compare") if row["psnr"] is not None]
    levels = {snr_name(snr): group for (snr,), group in by(rows, "snr_db").items()}
    return {name: group for name, group in levels.items() if len(by(group, "method")) > 1}


def chosen_variants(rows: Sequence[Record]) -> dict[str, str]:
    """The variants that are shown, by their names: of wavelets and of SBL the best in hindsight at this noise level."""
    means = mean_curve(rows, "psnr", "variant")
    chosen = {
        OURS: OURS,
        "wavelet, default": "wavelet",
        "best cycle-spun wavelet": _best(means, "cycle-spun"),
        "BM3D": "bm3d",
        "SBL, λ = true variance": "SBL signed 1",
        "SBL, best λ": _best(means, "SBL signed"),
        "SBL, θ ≥ 0, best λ": _best(means, "SBL nonnegative"),
        "noisy": "noisy",
    }
    return {name: variant for name, variant in chosen.items() if variant in means}


def _best(means: dict[str, float], start: str) -> str:
    those = [variant for variant in means if variant.startswith(start)]
    return max(those, key=lambda variant: means[variant], default="")


def _gain(rows: Sequence[Record], one: str, other: str) -> list[float]:
    """By how many decibels a variant is better than another, image by image."""
    values = {
        variant: {row["target"]: row["psnr"] for row in rows if row["variant"] == variant} for variant in (one, other)
    }
    return [values[one][target] - values[other][target] for target in values[one] if target in values[other]]


def _best_from_half(fits: dict[str, list[Record]], config: DenoisingConfig) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        curve = mean_curve(rows, "psnr")
        if not any(0.5 <= ratio <= 0.6 for ratio in curve) or len(curve) < 3:
            return None
        best = best_of(curve)
        half = max(value for ratio, value in curve.items() if 0.5 <= ratio <= 0.6)
        text = f"highest at {ratio_text(best)} ({curve[best]:.1f} dB), {half:.1f} dB from .5 to .6"
        if 0 < best < 0.5 and rows[0]["scaling"] == "weights":
            text += f"; with weights of up to {config.scale * 0.55 / best:.2g} the same lambda would stand at .55"
        return 0.5 <= best <= 0.6, text, best

    return judge_each("lambda/lambda_max in (.5, .6) yields the best PSNR.", _PAPER, fits, look)


def _best_near_truth(compared: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        means = mean_curve([row for row in rows if row.get("sign") == "signed"], "psnr", "factor")
        if len(means) < 3:
            return None
        best = best_of(means)
        at_truth = f", {means[1.0]:.1f} dB at the true variance" if 1.0 in means else ""
        return 0.5 <= best <= 2.0, f"best at {best:g} times ({means[best]:.1f} dB{at_truth})", best

    return judge_each(
        "The best lambda is near the true noise variance (within a factor of 2 of it, signed coefficients).",
        "paper, sections 5.3 and 5.4",
        compared,
        look,
    )


def _against_wavelets(rows: list[Record]) -> dict[str, list[float]]:
    chosen = chosen_variants(rows)
    sbl = chosen.get("SBL, best λ")
    names = ("wavelet, default", "best cycle-spun wavelet", "BM3D")
    return {name: _gain(rows, sbl, chosen[name]) for name in names if name in chosen} if sbl else {}


def _gains_text(gains: dict[str, list[float]]) -> str:
    return ", ".join(f"{np.mean(values):+.1f} dB on {name}" for name, values in gains.items())


def _on_par(compared: dict[str, list[Record]]) -> Claim:
    low = {name: rows for name, rows in compared.items() if rows[0]["snr_db"] <= _LOW}

    def look(rows: list[Record]) -> Answer | None:
        gains = _against_wavelets(rows)
        if "wavelet, default" not in gains:
            return None
        interval = median_interval(gains["wavelet, default"])
        par = interval.low <= 0.0 <= interval.high or abs(interval.median) <= 1.0
        return par, _gains_text(gains), interval.median

    return judge_each(
        "When the SNR is small (at most .4 dB here), there is no significant difference between wavelets and SBL "
        "(default wavelets, raw SBL with the best lambda: median difference within 1 dB or not significant).",
        _PAPER,
        low,
        look,
    )


def _better(compared: dict[str, list[Record]]) -> Claim:
    high = {name: rows for name, rows in compared.items() if rows[0]["snr_db"] >= _HIGH}

    def look(rows: list[Record]) -> Answer | None:
        gains = _against_wavelets(rows)
        wavelets = [values for name, values in gains.items() if "wavelet" in name]
        if not wavelets:
            return None
        worst = min(median_interval(values).low for values in wavelets)
        return worst > 0.0, _gains_text(gains), worst

    return judge_each(
        "When the SNR is large (15 dB and more here), SBL outperforms wavelets (raw SBL with the best lambda, against "
        "default and cycle-spun wavelets: median difference above 0 beyond its interval).",
        _PAPER,
        high,
        look,
        min,
    )


def _at_four_tenths(compared: dict[str, list[Record]]) -> Claim:
    both = {name: rows for name, rows in compared.items() if rows[0]["snr_db"] in (0.4, FOUR_TENTHS)}

    def look(rows: list[Record]) -> Answer | None:
        gains = _against_wavelets(rows)
        if "wavelet, default" not in gains:
            return None
        interval = median_interval(gains["wavelet, default"])
        return interval.low > 0.0, _gains_text(gains), interval.median

    return judge_each(
        'At "SNR = .4", in either reading, SBL denoises better than wavelets (default wavelets).',
        _PAPER,
        both,
        look,
        min,
    )


def _ours_is_best(compared: dict[str, list[Record]]) -> Claim:
    def look(rows: list[Record]) -> Answer | None:
        chosen = chosen_variants(rows)
        gains = {name: _gain(rows, OURS, variant) for name, variant in chosen.items() if name not in (OURS, "noisy")}
        if OURS not in chosen or not gains:
            return None
        worst = min(gains, key=lambda name: float(np.mean(gains[name])))
        least = float(np.mean(gains[worst]))
        return (
            least > 0.0,
            f"{mean_curve(rows, 'psnr', 'variant')[OURS]:.1f} dB, {least:+.1f} dB on the next best, {worst}",
            least,
        )

    return judge_each(
        "denoise_image, which is given neither lambda nor the noise level, has a higher mean PSNR than all others: "
        "wavelets (cycle-spun too), BM3D, raw SBL with the best lambda.",
        _THIS,
        compared,
        look,
        min,
    )


def _ours_at_any_lambda(fits: dict[str, list[Record]], ours: list[Record]) -> Claim:
    levels = {snr: group for (snr,), group in by(ours, "snr_db").items()}

    def look(rows: list[Record]) -> Answer | None:
        group = levels.get(rows[0]["snr_db"])
        if not group:
            return None
        curve = mean_curve(rows, "psnr")
        mean, best = float(np.mean([row["psnr"] for row in group])), best_of(curve)
        return (
            mean > curve[best],
            f"{mean:.1f} dB against {curve[best]:.1f} dB at {ratio_text(best)}",
            mean - curve[best],
        )

    return judge_each(
        "denoise_image has a higher mean PSNR than the raw answer at any lambda of the grid.", _THIS, fits, look, min
    )


def denoising_tables(store: Store, config: DenoisingConfig) -> list[Table]:
    """PSNR of all methods at all noise levels; PSNR along lambda."""
    compared, fits = compared_levels(store), by(store.records(task="fit"), "snr_db", "sign", "scaling")
    skipped = {row["skipped"] for row in store.records(task="compare") if row.get("skipped")}
    tables = [_compare_table(config, compared, skipped)] if compared else []
    return [*tables, _psnr_table(config, fits)] if fits else tables


def _compare_table(config: DenoisingConfig, compared: dict[str, list[Record]], skipped: set[str]) -> Table:
    levels = sorted(compared, key=lambda name: -compared[name][0]["snr_db"])
    chosen = {level: chosen_variants(compared[level]) for level in levels}
    means = {level: mean_curve(compared[level], "psnr", "variant") for level in levels}
    rows = []
    for name in dict.fromkeys(name for level in levels for name in chosen[level]):
        cells = []
        for level in levels:
            variant = chosen[level].get(name)
            last = variant.rpartition(" ")[2] if variant and "best" in name else ""
            detail = f" ({last}{' times' if 'SBL' in name else ''})" if last else ""
            cells.append(f"{means[level][variant]:.1f}{detail}" if variant else "")
        rows.append((name, *cells))
    caption = (
        f"Mean PSNR in dB, with the peak of the clean image. {config.label}. SNR = 10 log10(mean f^2 / noise "
        "variance). In brackets: the wavelet, or lambda as a multiple of the true noise variance, that was best in "
        "hindsight. Cycle-spun wavelets and BM3D are given the true noise level, default wavelets and denoise_image "
        "estimate it."
    )
    caption += "".join(f" Skipped: {word}." for word in sorted(skipped))
    return Table("compare", "PSNR of all methods", ("method", *levels), tuple(rows), caption)


def _psnr_table(config: DenoisingConfig, fits: dict[tuple[Any, ...], list[Record]]) -> Table:
    ratios = sorted({row["ratio"] for rows in fits.values() for row in rows})
    lines = []
    for (snr, sign, scaling), rows in fits.items():
        curve = mean_curve(rows, "psnr")
        cells = (f"{curve[ratio]:.1f}" if ratio in curve else "" for ratio in ratios)
        lines.append((snr_name(snr), scaling_name(config, scaling), sign_name(sign), f"{true_ratio(rows):.2g}", *cells))
    columns = ("SNR", "unit", "coefficients", "true variance at", *map(ratio_text, ratios))
    caption = f"Mean PSNR in dB of the raw answers. {config.label}. Columns are values of lambda/lambda_max."
    return Table("psnr", "PSNR along lambda", columns, tuple(lines), caption)
