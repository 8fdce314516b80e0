"""How fits of star fields are named, grouped and averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fastsbl.studies._fields import ZERO, FieldConfig, place_of
from fastsbl.studies._readings import by
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record

__all__ = [
    "RATIO_LABEL",
    "best_of",
    "fit_groups",
    "level_groups",
    "mean_curve",
    "mean_in",
    "ratio_text",
    "scaling_name",
    "sign_name",
    "snr_name",
    "snr_tag",
    "true_ratio",
]

RATIO_LABEL = f"λ / λ_max (0 is replaced by {ZERO:g})"
_SIGNS = {"signed": "signed", "nonnegative": "θ ≥ 0"}


def snr_name(snr_db: float) -> str:
    """A noise level in a few words."""
    power = 10 ** (snr_db / 10)
    return f"{snr_db:.3g} dB" if abs(power - 0.4) > 1e-9 else f"{snr_db:.3g} dB (power ratio 0.4)"


def snr_tag(snr_db: float) -> str:
    """A noise level as part of a file name."""
    return f"{snr_db:.3g}dB".replace("-", "minus").replace(".", "p")


def sign_name(sign: str) -> str:
    """Which coefficients are allowed, in a few words."""
    return _SIGNS[sign]


def scaling_name(config: FieldConfig, scaling: str) -> str:
    """The unit of the images, in a few words."""
    return f"weights up to {config.scale:g}" if scaling == "weights" else "‖Y‖ = 1"


def level_groups(records: Iterable[Record], config: FieldConfig) -> dict[str, list[Record]]:
    """Records by noise level and, if they have one, by unit of the images."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        scaling = f", {scaling_name(config, record['scaling'])}" if "scaling" in record else ""
        groups.setdefault(snr_name(record["snr_db"]) + scaling, []).append(record)
    return groups


def ratio_text(ratio: float) -> str:
    """A value of lambda / lambda_max, with what stands for 0."""
    return f"{ratio:g}" if ratio > 0 else f"0 (as {ZERO:g})"


def mean_curve(rows: Iterable[Record], name: str, over: str = "ratio") -> dict[Any, float]:
    """For each value of ``over``, the mean over images of a field; images without a value are left out."""
    found: dict[Any, float] = {}
    for (value,), group in sorted(by(rows, over).items()):
        values = [row[name] for row in group if row[name] is not None]
        if values:
            found[value] = float(np.mean(values))
    return found


def true_ratio(rows: Sequence[Record]) -> float:
    """Where the true noise variance stands on the axis of lambda / lambda_max: the median over images."""
    return float(np.median([row["noise_variance"] / (row["lam"] / place_of(row["ratio"])) for row in rows]))


def fit_groups(store: Store, config: FieldConfig) -> dict[str, list[Record]]:
    """Fits with the first of the signs by noise level and unit."""
    return level_groups(store.records(task="fit", sign=config.signs[0]), config)


def best_of(curve: Mapping[Any, float]) -> Any:
    """Where a curve is highest."""
    return max(curve, key=lambda ratio: curve[ratio])


def mean_in(curve: Mapping[float, float], low: float, high: float) -> float | None:
    """The mean of a curve between two ratios, both included, if there is any."""
    values = [value for ratio, value in curve.items() if low <= ratio <= high]
    return float(np.mean(values)) if values else None
