"""The paper's Section 5, first half: where the sources of an image are, as lambda grows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fastsbl.imaging import locate_sources, psnr
from fastsbl.studies import _screening_measures as measures
from fastsbl.studies._fields import (
    FieldConfig,
    Fields,
    by_target,
    fit_units,
    make_small,
    position_scores,
    unit_of,
)
from fastsbl.studies._localization_claims import localization_claims, localization_tables
from fastsbl.studies._localization_figures import localization_figures
from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Figure
from fastsbl.studies.screening import RULES, SolverPlan
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Study, Table, Unit

__all__ = ["LocalizationConfig", "LocalizationStudy"]

PLANS = (
    SolverPlan("working-set", RULES, pairs=1),
    SolverPlan("cd", ("two_hyperplanes:paper", "auto"), targets=5, pairs=1, columns=1_000),
)


@dataclass(frozen=True)
class LocalizationConfig(FieldConfig):
    """Set-up of the localisation study: star fields, and what is counted and timed on them.

    Attributes
    ----------
    box : float
        Side in pixels of the boxes whose overlap is scored.
    screened_db : tuple of float
        Noise levels at which rejections are counted and times taken.
    screened_ratios : tuple of float
        Values of lambda / lambda_max for these, above 0: at 0 nothing can be rejected.
    rejection : bool
        Whether to count what every rule rejects in every outer iteration.
    plans : tuple of SolverPlan
        What is timed.
    """

    box: float = 3.0
    screened_db: tuple[float, ...] = (10.0,)
    screened_ratios: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    rejection: bool = True
    plans: tuple[SolverPlan, ...] = PLANS

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if self.box <= 0:
            raise ValueError(f"box must be above 0, got {self.box}")
        if any(not 0 < ratio <= 1 for ratio in self.screened_ratios):
            raise ValueError(f"screened_ratios must be numbers above 0 and at most 1, got {self.screened_ratios}")


class LocalizationStudy(Study[LocalizationConfig, Fields]):
    """Fits star fields along a grid of lambda and scores where the chosen features are.

    Units are of four kinds: ``task="fit"`` (one fit), ``task="refined"`` (`locate_sources` on the same image, which
    needs no lambda), ``task="rejection"`` and ``task="time"`` (as in the screening study, for signed coefficients).
    """

    name = "localization"
    title = "Point sources: localisation along lambda"
    config_type = LocalizationConfig
    timings = measures.TIMINGS | {"seconds"}

    def quick(self, config: LocalizationConfig) -> LocalizationConfig:
        """Two images at 10 dB, five values of lambda, few features."""
        return make_small(
            config,
            screened_db=(10.0,),
            screened_ratios=(0.1, 0.3, 0.6),
            plans=(
                SolverPlan("working-set", ("two_hyperplanes:paper", "auto"), pairs=1),
                SolverPlan("cd", ("two_hyperplanes:paper", "auto"), targets=1, pairs=1),
            ),
        )

    def units(self, config: LocalizationConfig) -> Sequence[Unit]:
        """Image by image, so that a part of them is of use."""
        units = list(fit_units(config))
        units += [
            Unit({"task": "refined", "snr_db": snr, "target": target}, 0.1)
            for target in range(config.targets)
            for snr in config.snr_db
        ]
        for snr, scaling in product(config.screened_db, config.scalings):
            where = {"snr_db": snr, "scaling": scaling}
            if config.rejection:
                units += [
                    Unit({"task": "rejection", **where, "target": target, "ratio": ratio}, 0.5)
                    for target in range(config.targets)
                    for ratio in config.screened_ratios
                ]
            for plan in config.plans:
                units += [
                    Unit({"task": "time", **where, **plan.key(), "target": target, "ratio": ratio}, plan.cost(0.5))
                    for target in range(min(plan.targets or config.targets, config.targets))
                    for ratio in plan.ratios or config.screened_ratios
                ]
        return sorted(units, key=by_target)

    def prepare(self, config: LocalizationConfig) -> Fields:
        """Build the dictionary, and have everything compiled."""
        fields = Fields(config)
        fields.warm_up()
        image = fields.target(config.snr_db[0], 0).image
        locate_sources(image)
        measures.warm_up(fields.matrix, image.ravel(), {plan.solver for plan in config.plans})
        return fields

    def run_unit(self, context: Fields, unit: Unit) -> list[Record]:
        """Fit, refine, count rejections, or time fits."""
        key: dict[str, Any] = dict(unit.key)
        config = context.config
        assert isinstance(config, LocalizationConfig)
        field = context.target(key["snr_db"], key["target"])
        if key["task"] == "refined":
            return [_refined(field, config.box)]
        if key["task"] == "fit":
            record = context.fit_ratio(field, key)
            found = np.column_stack([record["x"], record["y"]])
            return [{**record, **position_scores(found, field.xy, config.box)}]
        matrix, y = context.matrix, field.image.ravel() / unit_of(field, key["scaling"])
        ratio = key["ratio"]
        label = config.label
        records: list[Record]
        if key["task"] == "rejection":
            records = measures.count_rejections(matrix, y, ratio, "unit", RULES)
        else:
            if key["columns"] is not None:
                matrix = matrix[:, :: max(matrix.shape[1] // key["columns"], 1)]
                label += f", of which {matrix.shape[1]} are used"
            options = (ratio, "unit", key["solver"], tuple(key["rules"].split(",")), key["pairs"])
            records = measures.time_fits(matrix, y, *options)
        return [{"problem": label, **record} for record in records]

    def claims(self, store: Store) -> list[Claim]:
        """Hold the sentences on localisation against the results."""
        return localization_claims(store, self.config(store))

    def tables(self, store: Store) -> list[Table]:
        """Scores against lambda, and what was rejected."""
        return localization_tables(store, self.config(store))

    def figures(self, store: Store) -> list[Figure]:
        """The paper's figures, and the answers that need no lambda beside them."""
        return localization_figures(store, self.config(store))


def _refined(field: Any, box: float) -> Record:
    """What `locate_sources` finds, with the noise level learned."""
    start = time.perf_counter()
    catalog = locate_sources(field.image)
    seconds = time.perf_counter() - start
    assert catalog.model is not None
    return {
        "noise_variance": float(field.noise_variance),
        "noise_learned": float(catalog.meta["noise_variance"]),
        "support": len(catalog),
        "psnr": psnr(field.clean, catalog.model),
        "seconds": seconds,
        "x": catalog.xy[:, 0],
        "y": catalog.xy[:, 1],
        **position_scores(catalog.xy, field.xy, box),
    }
