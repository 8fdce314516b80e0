"""The set-up of the paper's Section 5: star fields, a dictionary of sampled sources, fits along a grid of lambda."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.types import FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.imaging import (
    GaussianPSF,
    SourceDictionary,
    StarField,
    build_source_dictionary,
    group_iou,
    make_starfield,
    match_sources,
    matched_iou,
    psnr,
    render_sources,
)
from fastsbl.sbl import fit_sbl
from fastsbl.studies.study import Record, Unit

__all__ = [
    "RATIOS",
    "ZERO",
    "FieldConfig",
    "Fields",
    "Scaling",
    "Sign",
    "by_target",
    "candidates",
    "field_of",
    "fit_units",
    "image_of",
    "make_small",
    "place_of",
    "position_scores",
    "unit_of",
]

ZERO = 1e-3
"""What stands for lambda = 0, where the problem is degenerate, as a share of lambda_max."""

RATIOS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The paper's eleven values, and three small ones: with weights of at most 1 the true noise variance lies there."""

TOLERANCE = 1.5
"""Largest distance in pixels at which a found source counts as a true one, in one-to-one matching."""

Sign: TypeAlias = Literal["signed", "nonnegative"]
Scaling: TypeAlias = Literal["weights", "unit"]
_TOL = 1e-4
_MOST_ITERATIONS = 1_000


@dataclass(frozen=True)
class FieldConfig:
    """Star fields and the dictionary that is to explain them; the defaults are the paper's, as far as it says.

    Attributes
    ----------
    targets : int
        Images.
    ratios : tuple of float
        Values of lambda / lambda_max, with lambda_max = max |phi_i' y|. A 0 is replaced by 0.001: lambda has to be
        positive.
    snr_db : tuple of float
        Noise levels, as 10 log10(mean f^2 / noise variance), with f the clean image. The sources are the same at all.
    signs : tuple of {"signed", "nonnegative"}
        "signed" is what the paper solves, "nonnegative" what its footnote on intensities would allow. Claims are held
        against the first.
    scalings : tuple of {"weights", "unit"}
        Unit of the images as they are fitted, on which lambda / lambda_max depends and which the paper does not state:
        as the weights are, or with ||Y|| = 1, as in its Section 3.
    side : int
        Pixels of the square images along one side.
    sources : int
        True sources in each image.
    features : int
        Candidate sources, drawn from the same priors as the true ones.
    sigma_range : tuple of two floats
        Widths are uniform between these.
    margin : float
        Positions are uniform from here to ``side - 1 - margin``, counted from 0.
    scale : float
        Largest weight of a source; weights are uniform from half of it, and a weight is the value of a pixel at the
        centre of its source.
    seed : int
        Of all random choices.
    """

    targets: int = 20
    ratios: tuple[float, ...] = RATIOS
    snr_db: tuple[float, ...] = (20.0, 10.0, 0.0)
    signs: tuple[Sign, ...] = ("signed", "nonnegative")
    scalings: tuple[Scaling, ...] = ("weights", "unit")
    side: int = 28
    sources: int = 4
    features: int = 10_000
    sigma_range: tuple[float, ...] = (1.0, 3.0)
    margin: float = 2.0
    scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        if not self.ratios or any(not 0 <= ratio <= 1 for ratio in self.ratios):
            raise ValueError(f"ratios must be numbers from 0 to 1, got {self.ratios}")
        if 0.0 in self.ratios and ZERO in self.ratios:
            raise ValueError(f"ratios must not hold both 0 and {ZERO:g}, which stands for it; got {self.ratios}")
        for name in ("ratios", "snr_db", "signs", "scalings"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must be at least one value, none of them twice; got {values}")
        for name in ("targets", "sources", "features"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if len(self.sigma_range) != 2 or not 0 < self.sigma_range[0] <= self.sigma_range[1]:
            raise ValueError(f"sigma_range must be two numbers, 0 < smallest <= largest, got {self.sigma_range}")
        if not 0 <= self.margin < (self.side - 1) / 2:
            raise ValueError(f"margin must lie from 0 to half of side, got {self.margin} with side {self.side}")
        if self.scale <= 0:
            raise ValueError(f"scale must be above 0, got {self.scale}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")

    @property
    def label(self) -> str:
        """The set-up in a line, for captions."""
        low, high = self.sigma_range
        return (
            f"{self.targets} images of {self.side} x {self.side} pixels with {self.sources} sources, widths U({low:g}, "
            f"{high:g}), positions U({self.margin:g}, {self.side - 1 - self.margin:g}), weights "
            f"U({self.scale / 2:g}, {self.scale:g}); {self.features} features from the same priors"
        )


Config = TypeVar("Config", bound=FieldConfig)


def make_small(config: Config, **more: Any) -> Config:
    """Return the same set-up with two images, one noise level, few features and few values of lambda."""
    few = tuple(ratio for ratio in (0.01, 0.1, 0.3, 0.5, 0.7) if ratio in config.ratios) or config.ratios[:4]
    return replace(
        config,
        targets=min(config.targets, 2),
        ratios=few,
        snr_db=tuple(snr for snr in config.snr_db if snr == 10.0) or config.snr_db[:1],
        features=min(config.features, 1_500),
        **more,
    )


def fit_units(config: FieldConfig) -> Iterator[Unit]:
    """Fits for every image, noise level, sign, unit and lambda."""
    for target in range(config.targets):
        for snr in config.snr_db:
            for sign in config.signs:
                for scaling in config.scalings:
                    where: dict[str, str | float] = {"snr_db": snr, "sign": sign, "scaling": scaling, "target": target}
                    for ratio in config.ratios:
                        cost = _cost(snr, sign, ratio if scaling == "weights" else 1.0)
                        yield Unit({"task": "fit", **where, "ratio": ratio}, cost)


def by_target(unit: Unit) -> int:
    """Order of the units: image by image."""
    target = unit.key["target"]
    assert isinstance(target, int)
    return target


def _cost(snr_db: float, sign: str, ratio: float) -> float:
    """Rough seconds of a fit: below the noise variance, hundreds of features take part."""
    below = 0.01 * 10 ** (-snr_db / 10) / max(ratio, ZERO)
    return 0.15 + (2.5 if sign == "signed" else 0.1) * max(below, 0.0)


def candidates(config: FieldConfig) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Positions x and y and widths of the features."""
    rng = np.random.default_rng([config.seed, 0])
    ends = config.margin, config.side - 1 - config.margin
    low, high = config.sigma_range
    x, y = (rng.uniform(*ends, config.features) for _ in "xy")
    return x, y, rng.uniform(low, high, config.features)


class Fields:
    """Images and the dictionary of one configuration, and what is measured on them."""

    def __init__(self, config: FieldConfig) -> None:
        self.config = config
        x, y, sigma = candidates(config)
        shape = (config.side, config.side)
        self.sources: SourceDictionary = build_source_dictionary(shape, x, y, sigma=sigma, storage="dense")
        self.matrix: FloatArray = np.asarray(self.sources.matrix)
        self._phi = as_dictionary(self.matrix)

    def target(self, snr_db: float, target: int) -> StarField:
        """One image."""
        return field_of(self.config, snr_db, target)

    def largest(self, image: FloatArray) -> float:
        """lambda_max of an image, for u = 1."""
        return float(np.abs(self.matrix.T @ image.ravel()).max())

    def fit_ratio(self, field: StarField, key: Mapping[str, Any]) -> Record:
        """Fit as the key of a unit says."""
        unit = unit_of(field, key["scaling"])
        lam = place_of(key["ratio"]) * self.largest(field.image) / unit
        return self.fit(field, lam, key["sign"], unit)

    def fit(self, field: StarField, lam: float, sign: str, unit: float = 1.0) -> Record:
        """Fit the image divided by ``unit`` once with noise variance ``lam``; fluxes are of the image as it was."""
        start = time.perf_counter()
        result = fit_sbl(
            self._phi,
            field.image.ravel() / unit,
            lam,
            init="unit",
            positive=sign == "nonnegative",
            screening="auto",
            tol=_TOL,
            max_iter=_MOST_ITERATIONS,
        )
        seconds = time.perf_counter() - start
        chosen, sources = result.support, self.sources
        return {
            "lam": lam,
            "noise_variance": float(field.noise_variance) / unit**2,
            "y_norm": float(np.linalg.norm(field.image)) / unit,
            "support": int(chosen.size),
            "iterations": result.n_iter,
            "converged": bool(result.converged),
            "psnr": psnr(field.clean, sources.image(unit * result.coef)),
            "psnr_noisy": psnr(field.clean, field.image),
            "seconds": seconds,
            "x": sources.x[chosen],
            "y": sources.y[chosen],
            "sigma": sources.sigma[chosen],
            "flux": (unit * result.coef / sources.norms)[chosen],
        }

    def warm_up(self) -> None:
        """Fit a small problem, so that no timing holds a compilation."""
        field = self.target(self.config.snr_db[0], 0)
        few = as_dictionary(np.asfortranarray(self.matrix[:, :50]))
        for positive in (False, True):
            fit_sbl(few, field.image.ravel(), 0.3 * self.largest(field.image), init="unit", positive=positive)


def place_of(ratio: float) -> float:
    """Where a ratio stands on an axis."""
    return ratio if ratio > 0 else ZERO


def field_of(config: FieldConfig, snr_db: float, target: int) -> StarField:
    """Image number ``target``: the same sources and the same noise, up to its size, for all noise levels."""
    low, high = config.sigma_range
    return make_starfield(
        (config.side, config.side),
        config.sources,
        sigma_range=(low, high),
        weight_range=(config.scale / 2, config.scale),
        position_margin=config.margin,
        snr_db=snr_db,
        rng=np.random.default_rng([config.seed, 1, target]),
    )


def unit_of(field: StarField, scaling: str) -> float:
    """By what an image is divided before it is fitted."""
    return 1.0 if scaling == "weights" else float(np.linalg.norm(field.image))


def image_of(config: FieldConfig, record: Mapping[str, Any]) -> FloatArray:
    """The image of the sources that a record lists."""
    columns = (np.asarray(record[name], dtype=np.float64) for name in ("x", "y", "flux", "sigma"))
    x, y, flux, sigma = columns
    return render_sources((config.side, config.side), x, y, flux, psf=GaussianPSF(1.0), sigma=sigma)


def position_scores(found_xy: ArrayLike, true_xy: ArrayLike, box: float) -> Record:
    """How well positions agree with the truth."""
    found, true = np.asarray(found_xy, dtype=np.float64).reshape(-1, 2), np.asarray(true_xy, dtype=np.float64)
    match = match_sources(found, true, TOLERANCE)
    distance = np.linalg.norm(found[:, None] - true[None], axis=2).min(axis=1) if len(found) else np.empty(0)
    return {
        "group_iou": group_iou(found, true, box),
        "matched_iou": matched_iou(found, true, box),
        "precision": match.precision,
        "recall": match.recall,
        "f1": match.f1,
        "rmse": match.rmse,
        "mean_distance": float(distance.mean()) if distance.size else None,
    }
