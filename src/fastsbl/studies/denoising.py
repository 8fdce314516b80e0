"""The paper's Section 5, second half: the image behind the noise, along lambda and beside wavelets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.imaging import StarField, denoise_details, psnr
from fastsbl.studies._denoisers import bm3d_image, missing_package, wavelet_images
from fastsbl.studies._denoising_claims import FOUR_TENTHS, SHOWN, denoising_claims, denoising_tables
from fastsbl.studies._denoising_figures import denoising_figures
from fastsbl.studies._fields import FieldConfig, Fields, by_target, fit_units, image_of, make_small
from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Figure
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Study, Table, Unit

__all__ = ["DenoisingConfig", "DenoisingStudy"]

METHODS = ("noisy", "wavelet", "bm3d", "sbl", "denoise_image")
_COSTS = {"noisy": 0.01, "wavelet": 0.5, "bm3d": 1.0, "sbl": 4.0, "denoise_image": 0.1}


@dataclass(frozen=True)
class DenoisingConfig(FieldConfig):
    """Set-up of the denoising study: star fields, and the noise levels at which methods are compared.

    Attributes
    ----------
    compared_db : tuple of float
        Noise levels of the comparison, in decibels. The paper shows "SNR = .4" without a definition: the default has
        it as a ratio of powers (-3.98 dB) and as decibels.
    factors : tuple of float
        Values of lambda for the comparison, as multiples of the true noise variance.
    """

    compared_db: tuple[float, ...] = (20.0, 15.0, 10.0, 5.0, 0.4, FOUR_TENTHS)
    factors: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0)

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if len(set(self.compared_db)) < len(self.compared_db):
            raise ValueError(f"compared_db must not hold a value twice, got {self.compared_db}")
        if not self.factors or any(factor <= 0 for factor in self.factors):
            raise ValueError(f"factors must be numbers above 0, got {self.factors}")


class DenoisingStudy(Study[DenoisingConfig, Fields]):
    """Fits star fields along a grid of lambda and compares the images they make with the clean ones.

    Units are of two kinds: ``task="fit"`` (one fit, or `denoise_image`, which needs no lambda) and ``task="compare"``
    (one method on one image at one of more noise levels).
    """

    name = "denoising"
    title = "Point sources: denoising along lambda, and beside wavelets"
    config_type = DenoisingConfig
    timings = frozenset({"seconds"})

    def quick(self, config: DenoisingConfig) -> DenoisingConfig:
        """Two images at 10 dB, five values of lambda, few features, three noise levels to compare at."""
        few = tuple(snr for snr in config.compared_db if snr in (15.0, 0.4, FOUR_TENTHS))
        return make_small(config, compared_db=few or config.compared_db[:3], factors=config.factors[:3])

    def units(self, config: DenoisingConfig) -> Sequence[Unit]:
        """Image by image, so that a part of them is of use."""
        units = [
            Unit({"task": "compare", "snr_db": snr, "target": target, "method": method}, _COSTS[method])
            for target in range(config.targets)
            for snr in dict.fromkeys((*config.compared_db, *config.snr_db))
            for method in (METHODS if snr in config.compared_db else ("denoise_image",))
        ]
        return sorted([*units, *fit_units(config)], key=by_target)

    def prepare(self, config: DenoisingConfig) -> Fields:
        """Build the dictionary, and have everything compiled."""
        fields = Fields(config)
        fields.warm_up()
        denoise_details(fields.target(config.snr_db[0], 0).image)
        return fields

    def run_unit(self, context: Fields, unit: Unit) -> list[Record]:
        """Fit, or denoise by another method."""
        key: dict[str, Any] = dict(unit.key)
        field = context.target(key["snr_db"], key["target"])
        if key["task"] == "fit":
            return [context.fit_ratio(field, key)]
        missing = missing_package(key["method"])
        if missing is not None:
            return [{"variant": key["method"], "psnr": None, "skipped": missing}]
        records = []
        start = time.perf_counter()
        for variant, image, more in _denoise(context, field, key["method"]):
            seconds, start = time.perf_counter() - start, time.perf_counter()
            record: Record = {"variant": variant, "psnr": psnr(field.clean, image), "seconds": seconds, **more}
            if key["target"] == SHOWN:
                record["image"] = [float(f"{value:.4g}") for value in image.ravel()]
            records.append(record)
        return records

    def claims(self, store: Store) -> list[Claim]:
        """Hold the sentences on denoising against the results."""
        return denoising_claims(store, self.config(store))

    def tables(self, store: Store) -> list[Table]:
        """PSNR along lambda, and of all methods."""
        return denoising_tables(store, self.config(store))

    def figures(self, store: Store) -> list[Figure]:
        """The paper's figures, and the answers that need no lambda beside them."""
        return denoising_figures(store, self.config(store))


def _denoise(fields: Fields, field: StarField, method: str) -> Iterator[tuple[str, FloatArray, Record]]:
    """What a method makes of an image, in all its variants, with what else is to be kept."""
    noise_variance = float(field.noise_variance)
    if method == "noisy":
        yield method, field.image, {}
    elif method == "wavelet":
        for variant, image in wavelet_images(field.image, noise_variance):
            yield variant, image, {}
    elif method == "bm3d":
        yield method, bm3d_image(field.image, noise_variance), {}
    elif method == "denoise_image":
        answer = denoise_details(field.image)
        learned = float(np.mean(answer.noise_variance))
        yield method, answer.image, {"noise_learned": learned, "noise_variance": noise_variance, "model": answer.method}
    else:
        config = fields.config
        assert isinstance(config, DenoisingConfig)
        for sign in config.signs:
            for factor in config.factors:
                record = fields.fit(field, factor * noise_variance, sign)
                kept = {name: record[name] for name in ("lam", "support", "iterations", "converged")}
                yield f"SBL {sign} {factor:g}", image_of(config, record), {"sign": sign, "factor": factor, **kept}
