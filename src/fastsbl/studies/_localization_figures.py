"""Figures of the localisation study: the paper's, and the answers that need no lambda beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastsbl.imaging import GaussianPSF, render_sources
from fastsbl.studies._field_readings import (
    RATIO_LABEL,
    best_of,
    mean_curve,
    ratio_text,
    scaling_name,
    sign_name,
    snr_name,
    snr_tag,
)
from fastsbl.studies._fields import candidates, field_of, image_of, place_of
from fastsbl.studies._localization_claims import SCORES
from fastsbl.studies._readings import by, spread
from fastsbl.studies._screening_figures import rejection_lines, time_lines
from fastsbl.studies.figures import Figure, ImageGrid, ImagePanel, LineFigure, Marks, Series
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record

if TYPE_CHECKING:
    from fastsbl.studies.localization import LocalizationConfig

__all__ = ["localization_figures"]

_SHOWN = 0  # the image that is drawn
_STRETCHES = {
    "group_iou": ((0.1, 0.2, "highest in the paper"), (0.5, 0.7, "looks better in the paper")),
    "f1": ((0.1, 0.2, "highest group-IoU in the paper"), (0.5, 0.7, "looks better in the paper")),
}


def localization_figures(store: Store, config: LocalizationConfig) -> list[Figure]:
    """All figures for which there are results."""
    figures: list[Figure] = [_set_up(config)]
    fits = store.records(task="fit")
    firsts = [row for row in fits if row["sign"] == config.signs[0]]
    for (snr, scaling), every in by(firsts, "snr_db", "scaling").items():
        rows = [row for row in every if row["target"] == _SHOWN]
        if rows:
            tag = f"{snr_tag(snr)}-{scaling}"
            figures += [_stages(f"stages-{tag}", config, rows, every), _walk(f"walk-{tag}", config, rows)]
    for (snr, scaling), rows in by(store.records(task="rejection"), "snr_db", "scaling").items():
        figures.append(rejection_lines(f"rejection-{snr_tag(snr)}-{scaling}", _what(config, rows[0]), rows))
    for (snr, scaling, solver), rows in by(store.records(task="time"), "snr_db", "scaling", "solver").items():
        figures += [
            time_lines(f"{kind}-{solver}-{snr_tag(snr)}-{scaling}", _what(config, rows[0]), rows, field)
            for kind, field in (("time", "t_ratio"), ("fit", "fit_ratio"))
            if any(row.get(field) is not None for row in rows)
        ]
    refined = store.records(task="refined")
    for (scaling,), rows in by(fits, "scaling").items():
        figures += [_scores(f"{score.replace('_', '-')}-{scaling}", config, score, rows, refined) for score in SCORES]
    return figures


def _set_up(config: LocalizationConfig) -> ImageGrid:
    """A target, the same with noise, and four features: the paper's first figures."""
    snr = 10.0 if 10.0 in config.snr_db else config.snr_db[0]
    field = field_of(config, snr, _SHOWN)
    x, y, sigma = (values[:4] for values in candidates(config))
    shape = (config.side, config.side)
    truth = Marks("true", field.x, field.y, style="truth")
    panels = [ImagePanel(field.clean, "target", f"{config.sources} sources", (truth,))]
    panels.append(ImagePanel(field.image, "with noise", snr_name(snr)))
    for k in range(x.size):
        one = slice(k, k + 1)
        feature = render_sources(shape, x[one], y[one], np.ones(1), psf=GaussianPSF(1.0), sigma=sigma[one])
        panels.append(ImagePanel(feature, f"feature {k + 1}", f"width {sigma[k]:.2f} px"))
    return ImageGrid(
        name="set-up",
        title="A target, the target with noise, and four of the features",
        alt=f"Grey images of {config.side} by {config.side} pixels: {config.sources} blurred spots, the same under "
        f"noise, and {x.size} images of one spot each.",
        caption=f"{config.label}. Noise: 10 log10(mean f^2 / variance) = {snr:g} dB.",
        panels=tuple(panels),
        columns=3,
    )


def _panel(config: LocalizationConfig, record: Record, title: str, step: str = "") -> ImagePanel:
    """The noisy image with true and found sources."""
    field = field_of(config, record["snr_db"], record["target"])
    marks = (Marks("true", field.x, field.y, style="truth"), Marks("found", record["x"], record["y"], style="found"))
    note = f"{record['support']} found, group-IoU {record['group_iou']:.2f}"
    return ImagePanel(field.image, title, note, marks, step)


def _stages(name: str, config: LocalizationConfig, rows: list[Record], every: list[Record]) -> ImageGrid:
    """Four panels from the smallest lambda to the best one, as in the paper."""
    ratios = sorted(row["ratio"] for row in rows)
    at = {row["ratio"]: row for row in rows}
    best = best_of(mean_curve([row for row in every if row["ratio"] in at], "matched_iou"))
    until = ratios.index(best)
    steps = sorted({round(until * k / 3) for k in range(4)})
    titles = [*(f"stage {k}" for k in range(1, len(steps))), "final"]
    panels = tuple(
        _panel(config, at[ratios[step]], f"{title}: {ratio_text(ratios[step])}")
        for title, step in zip(titles, steps, strict=True)
    )
    ends = f"from {panels[0].note} to {panels[-1].note}"
    return ImageGrid(
        name=name,
        title=f"Stages: {_what(config, rows[0])}, box {_box(config)}",
        alt=f"{len(panels)} images with the true sources as green crosses and the found ones as red circles, {ends}.",
        caption=f"Image {_SHOWN} of {config.label}. Values of λ/λ_max above each image; the last is the one with the "
        f"highest mean matched IoU. IoU of boxes of {_box(config)}.",
        panels=panels,
        columns=4,
    )


def _walk(name: str, config: LocalizationConfig, rows: list[Record]) -> ImageGrid:
    """All values of lambda, to walk through: what was found, and the image it makes."""
    panels = []
    for row in sorted(rows, key=lambda row: row["ratio"]):
        text = ratio_text(row["ratio"])
        panels.append(_panel(config, row, f"found at {text}", text))
        note = f"PSNR {row['psnr']:.1f} dB"
        panels.append(ImagePanel(image_of(config, row), "reconstructed", note, step=text))
    return ImageGrid(
        name=name,
        title=f"Walk along λ/λ_max: {_what(config, rows[0])}, box {_box(config)}",
        alt="The noisy image with the true sources as green crosses and the found ones as red circles, and the image "
        "that the found sources make.",
        caption=f"Image {_SHOWN} of {config.label}. IoU of boxes of {_box(config)}.",
        panels=tuple(panels),
        columns=4,
        slider="λ / λ_max",
    )


def _scores(name: str, config: LocalizationConfig, score: str, rows: list[Record], refined: list[Record]) -> LineFigure:
    series = []
    for (snr,), group in by(rows, "snr_db").items():
        level = snr_name(snr)
        for sign in config.signs:
            values: dict[float, list[float]] = {}
            for row in group:
                if row["sign"] == sign:
                    values.setdefault(place_of(row["ratio"]), []).append(row[score])
            line = spread(f"{level}, {sign_name(sign)}", values, group=level, emphasis=sign == config.signs[0])
            series.append(line if line.emphasis else Series(line.label, line.x, line.y, group=level))
        ours = [row[score] for row in refined if row["snr_db"] == snr]
        if ours:
            ends = [place_of(min(config.ratios)), max(config.ratios)]
            series.append(Series(f"{level}, locate_sources", ends, [np.mean(ours)] * 2, group=level))
    label = SCORES[score]
    texts = (f"{line.label} from {line.y[0]:.2f} to {line.y[-1]:.2f}" for line in series)
    return LineFigure(
        name=name,
        title=f"{label}: {scaling_name(config, rows[0]['scaling'])}"
        + (f", box {_box(config)}" if "iou" in score else ""),
        alt=f"Lines of {label} against lambda over lambda_max: {', '.join(texts)}.",
        caption=f"{config.label}. Mean over images; bands: 10th to 90th percentile ({sign_name(config.signs[0])}). "
        "locate_sources needs no λ.",
        x_label=RATIO_LABEL,
        y_label=label,
        x_scale="log",
        y_scale="log" if score == "support" else "linear",
        series=tuple(series),
        stretches=_STRETCHES.get(score, ()),
    )


def _what(config: LocalizationConfig, record: Record) -> str:
    return f"{snr_name(record['snr_db'])}, {scaling_name(config, record['scaling'])}"


def _box(config: LocalizationConfig) -> str:
    return f"{config.box:g} x {config.box:g} px"
