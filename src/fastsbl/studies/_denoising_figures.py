"""Figures of the denoising study: the paper's, and the answers that need no lambda beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastsbl.imaging import psnr
from fastsbl.studies._denoising_claims import FOUR_TENTHS, OURS, SHOWN, chosen_variants, compared_levels
from fastsbl.studies._field_readings import (
    RATIO_LABEL,
    best_of,
    mean_curve,
    ratio_text,
    scaling_name,
    sign_name,
    snr_name,
    snr_tag,
    true_ratio,
)
from fastsbl.studies._fields import field_of, image_of, place_of
from fastsbl.studies._readings import by, spread
from fastsbl.studies.figures import Figure, ImageGrid, ImagePanel, LineFigure, Series
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record

if TYPE_CHECKING:
    from fastsbl.studies.denoising import DenoisingConfig

__all__ = ["denoising_figures"]

_SNR_LABEL = "SNR = 10 log10(mean f² / noise variance), dB"


def denoising_figures(store: Store, config: DenoisingConfig) -> list[Figure]:
    """All figures for which there are results."""
    figures: list[Figure] = []
    ours = {snr: rows for (snr,), rows in by(store.records(task="compare", method=OURS), "snr_db").items()}
    for (snr, scaling), rows in by(store.records(task="fit"), "snr_db", "scaling").items():
        figures.append(_psnr(f"psnr-{snr_tag(snr)}-{scaling}", config, rows, ours.get(snr, [])))
    for (snr,), rows in by(
        store.records(task="fit", sign=config.signs[0], scaling=config.scalings[0]), "snr_db"
    ).items():
        shown = [row for row in rows if row["target"] == SHOWN]
        if shown:
            image = next((row["image"] for row in ours.get(snr, []) if row["target"] == SHOWN), None)
            figures.append(_recovery(f"recovery-{snr_tag(snr)}", config, shown, rows, image))
            figures.append(_walk(f"walk-{snr_tag(snr)}", config, shown))
    levels = compared_levels(store)
    if len(levels) > 1:
        figures.append(_compare(config, levels))
    if levels:
        figures.append(_factors(config, levels))
    for rows in levels.values():
        panels = _method_panels(config, rows)
        if panels is not None:
            figures.append(panels)
    return figures


def _values(rows: list[Record]) -> dict[float, list[float]]:
    return {place_of(ratio): [row["psnr"] for row in group] for (ratio,), group in by(rows, "ratio").items()}


def _psnr(name: str, config: DenoisingConfig, rows: list[Record], ours: list[Record]) -> LineFigure:
    series, ends = [], [place_of(ratio) for ratio in (min(config.ratios), max(config.ratios))]
    for (sign,), group in by(rows, "sign").items():
        curve = mean_curve(group, "psnr")
        best = best_of(curve)
        series.append(spread(sign_name(sign), _values(group), emphasis=True, group=sign))
        label = f"best: {curve[best]:.1f} dB at {ratio_text(best)}"
        series.append(Series(label, [place_of(best)], [curve[best]], group=sign, emphasis=True))
    if ours:
        series.append(Series("denoise_image (no λ)", ends, [np.mean([row["psnr"] for row in ours])] * 2))
    noisy = float(np.mean([row["psnr_noisy"] for row in rows]))
    series.append(Series("noisy image", ends, [noisy] * 2))
    truth = true_ratio(rows)
    texts = ", ".join(f"{line.label} from {line.y[0]:.1f} to {line.y[-1]:.1f} dB" for line in series if line.x.size > 1)
    return LineFigure(
        name=name,
        title=f"PSNR of raw answers along λ: {_what(config, rows[0])}",
        alt=f"Lines of the PSNR against lambda over lambda_max: {texts}; the true noise variance is at {truth:.2g}.",
        caption=f"{config.label}. Mean over images; bands: 10th to 90th percentile. {_SNR_LABEL}.",
        x_label=RATIO_LABEL,
        y_label="PSNR, dB",
        x_scale="log",
        series=tuple(series),
        places=((truth, f"true noise variance ({truth:.2g})"),),
        stretches=((0.5, 0.6, "best in the paper"),),
    )


def _recovery(
    name: str, config: DenoisingConfig, shown: list[Record], rows: list[Record], refined: list[float] | None
) -> ImageGrid:
    sign, snr = shown[0]["sign"], shown[0]["snr_db"]
    curve = mean_curve(rows, "psnr")
    at = {row["ratio"]: row for row in shown}
    best = max(at, key=lambda ratio: curve[ratio])
    field = field_of(config, snr, SHOWN)
    panels = [
        ImagePanel(field.clean, "original"),
        ImagePanel(field.image, "blurred (noisy)", f"PSNR {at[best]['psnr_noisy']:.1f} dB"),
        ImagePanel(image_of(config, at[best]), f"SBL, λ/λ_max {ratio_text(best)}", f"PSNR {at[best]['psnr']:.1f} dB"),
    ]
    if refined is not None:
        image = np.reshape(refined, field.clean.shape)
        panels.append(ImagePanel(image, OURS, f"PSNR {psnr(field.clean, image):.1f} dB"))
    return ImageGrid(
        name=name,
        title=f"Original, noisy and reconstructed, {snr_name(snr)}",
        alt=f"{len(panels)} grey images of one star field: {'; '.join(f'{p.title} {p.note}'.strip() for p in panels)}.",
        caption=f"Image {SHOWN} of {config.label}. SBL: raw answer, {sign_name(sign)}, at the λ with the best mean "
        "PSNR. denoise_image: no λ, no noise level given. The paper calls the noisy image blurred.",
        panels=tuple(panels),
        columns=4,
        shared_scale=True,
    )


def _walk(name: str, config: DenoisingConfig, shown: list[Record]) -> ImageGrid:
    """All values of lambda, to walk through: the reconstructed image and its error."""
    field = field_of(config, shown[0]["snr_db"], SHOWN)
    panels = []
    for row in sorted(shown, key=lambda row: row["ratio"]):
        text, image = ratio_text(row["ratio"]), image_of(config, row)
        panels.append(ImagePanel(image, f"reconstructed, {text}", f"PSNR {row['psnr']:.1f} dB", step=text))
        panels.append(ImagePanel(image - field.clean, "less the clean image", step=text))
    return ImageGrid(
        name=name,
        title=f"Walk along λ/λ_max: {_what(config, shown[0])}, {sign_name(shown[0]['sign'])}",
        alt="The reconstructed image, and its difference from the clean one: too much is bright, too little dark.",
        caption=f"Image {SHOWN} of {config.label}.",
        panels=tuple(panels),
        columns=4,
        shared_scale=True,
        slider="λ / λ_max",
    )


def _what(config: DenoisingConfig, record: Record) -> str:
    return f"{snr_name(record['snr_db'])}, {scaling_name(config, record['scaling'])}"


def _compare(config: DenoisingConfig, levels: dict[str, list[Record]]) -> LineFigure:
    ordered = sorted(levels.values(), key=lambda rows: float(rows[0]["snr_db"]))
    chosen = [chosen_variants(rows) for rows in ordered]
    series = []
    for name in dict.fromkeys(name for names in chosen for name in names):
        points = [
            (rows[0]["snr_db"], np.mean([row["psnr"] for row in rows if row["variant"] == names[name]]))
            for rows, names in zip(ordered, chosen, strict=True)
            if name in names
        ]
        x, y = zip(*points, strict=True)
        series.append(Series(name, x, y, emphasis=name in ("SBL, best λ", OURS)))
    texts = ", ".join(f"{line.label} from {line.y[0]:.1f} to {line.y[-1]:.1f} dB" for line in series)
    found = {rows[0]["snr_db"] for rows in ordered}
    readings = ((FOUR_TENTHS, ".4 as a ratio of powers"), (0.4, ".4 in dB"))
    return LineFigure(
        name="compare",
        title="PSNR of denoising methods",
        alt=f"Lines of the mean PSNR against the noise level: {texts}.",
        caption=f"{config.label}. Means over images. Wavelet and λ with 'best': picked in hindsight at each noise "
        "level. Cycle-spun wavelets and BM3D are given the noise level; default wavelets and denoise_image are not.",
        x_label=_SNR_LABEL,
        y_label="PSNR, dB",
        series=tuple(series),
        places=tuple(reading for reading in readings if reading[0] in found),
    )


def _factors(config: DenoisingConfig, levels: dict[str, list[Record]]) -> LineFigure:
    series = []
    for name, rows in levels.items():
        values = mean_curve([row for row in rows if row.get("sign") == config.signs[0]], "psnr", "factor")
        series.append(Series(name, list(values), list(values.values())))
    texts = (f"{line.label} best at {line.x[int(np.argmax(line.y))]:g}" for line in series if line.x.size)
    return LineFigure(
        name="factors",
        title=f"PSNR against λ, {sign_name(config.signs[0])}",
        alt=f"Lines of the mean PSNR against lambda over the true noise variance: {', '.join(texts)}.",
        caption=f"{config.label}. Means over images.",
        x_label="λ / true noise variance",
        y_label="PSNR, dB",
        x_scale="log",
        series=tuple(line for line in series if line.x.size),
        places=((1.0, "true noise variance"),),
    )


def _method_panels(config: DenoisingConfig, rows: list[Record]) -> ImageGrid | None:
    """What all methods make of one image, at a noise level."""
    snr = rows[0]["snr_db"]
    field = field_of(config, snr, SHOWN)
    shown = {row["variant"]: row for row in rows if row["target"] == SHOWN}
    panels = [ImagePanel(field.clean, "original")]
    for name, variant in chosen_variants(rows).items():
        if variant in shown:
            image = np.reshape(shown[variant]["image"], field.clean.shape)
            panels.append(ImagePanel(image, name, f"PSNR {shown[variant]['psnr']:.1f} dB"))
    if len(panels) < 3:
        return None
    return ImageGrid(
        name=f"methods-{snr_tag(snr)}",
        title=f"One image by all methods, SNR = {snr_name(snr)}",
        alt=f"Grey images of one star field: {'; '.join(f'{p.title} {p.note}'.strip() for p in panels)}.",
        caption=f"Image {SHOWN} of {config.label}. {_SNR_LABEL}; a ratio of powers of {10 ** (snr / 10):.3g}.",
        panels=tuple(panels),
        columns=3,
        shared_scale=True,
    )
