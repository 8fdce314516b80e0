"""The paper's Section 3: what screening tests reject inside sparse Bayesian learning, and the time they save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from fastsbl.screening.rules import find_rules
from fastsbl.studies import _screening_measures as measures
from fastsbl.studies._screening_claims import screening_claims, screening_tables
from fastsbl.studies._screening_figures import screening_figures
from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Figure
from fastsbl.studies.problems import DATA, Data, Problem, Scaling, make_problem
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Study, Table, Unit

__all__ = ["RATIOS", "RULES", "ScreeningConfig", "ScreeningStudy", "SolverPlan"]

RATIOS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
"""The paper's grid has eleven values from 0 to 1; lambda must be positive, and small values are where fits are slow."""

RULES = (
    "sphere:paper",
    "dome:paper",
    "two_hyperplanes:paper",
    "two_hyperplanes:diameter",
    "gap_sphere",
    "holder",
    "auto",
)

Solver: TypeAlias = Literal["working-set", "cd", "cvxpy"]
Init: TypeAlias = Literal["unit", "null"]


def _check_ratios(ratios: tuple[float, ...]) -> None:
    if not ratios or any(not 0 < ratio <= 1 for ratio in ratios):
        raise ValueError(f"ratios must be numbers above 0 and at most 1, got {ratios}")


@dataclass(frozen=True)
class SolverPlan:
    """Which fits are timed with one solver.

    Attributes
    ----------
    solver : {"working-set", "cd", "cvxpy"}
        Solver of the inner problems.
    rules : tuple of str
        Screening rules. All are compared with a fit without screening (and, with "working-set", without bounds), which
        need not be named; "none" times that fit against itself, and so measures the noise of the comparison.
    targets : int, optional
        The first so many targets (all by default).
    ratios : tuple of float, optional
        Values of lambda / lambda_max (those of the study by default).
    pairs : int
        Rounds: how often each fit is timed, all of them taking turns.
    columns : int, optional
        Use only so many columns, spread evenly.
    """

    solver: Solver
    rules: tuple[str, ...] = RULES
    targets: int | None = None
    ratios: tuple[float, ...] | None = None
    pairs: int = 3
    columns: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        for rule in self.rules:
            find_rules(None if rule == "none" else rule)
        _check_ratios(self.ratios or (1.0,))
        for name in ("targets", "pairs", "columns"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def key(self) -> dict[str, str | int | None]:
        """What the units of this plan have in common."""
        return {"solver": self.solver, "rules": ",".join(self.rules), "columns": self.columns, "pairs": self.pairs}

    def cost(self, ratio: float) -> float:
        """Rough work of one unit, in seconds on the MNIST dictionary."""
        plain = {"working-set": 0.2, "cd": 0.5 + 0.5 / ratio, "cvxpy": 15.0}[self.solver]
        return self.pairs * plain * (1.0 + 0.3 * len(self.rules))


PLANS = (
    SolverPlan("working-set"),
    SolverPlan("cd", ("two_hyperplanes:paper", "auto"), targets=5, ratios=RATIOS[1:], pairs=1),
    SolverPlan("cvxpy", ("two_hyperplanes:paper", "auto"), targets=1, ratios=(0.5, 0.9), pairs=1, columns=500),
)


@dataclass(frozen=True)
class ScreeningConfig:
    """Set-up of the screening study.

    Attributes
    ----------
    data : tuple of {"mnist", "nytimes", "zipf", "digits", "simulated"}
        See `fastsbl.studies.problems.make_problem`.
    targets : int
        Targets, drawn at random from what is not among the columns.
    ratios : tuple of float
        Values of lambda / lambda_max, with lambda_max = max |phi_i' y|.
    scalings : tuple of {"unit", "raw"}, optional
        Unit-norm columns and targets, or raw counts; word counts are run both ways by default.
    inits : tuple of {"unit", "null"}
        Start of the outer loop: "unit" is the paper's.
    rejection : bool
        Whether to count what every rule rejects in every outer iteration.
    plans : tuple of SolverPlan
        What is timed.
    n_rows, n_columns : int, optional
        Another size of the dictionary.
    seed : int
        Of all random choices.
    """

    data: tuple[Data, ...] = ("mnist",)
    targets: int = 20
    ratios: tuple[float, ...] = RATIOS
    scalings: tuple[Scaling, ...] | None = None
    inits: tuple[Init, ...] = ("unit",)
    rejection: bool = True
    plans: tuple[SolverPlan, ...] = PLANS
    n_rows: int | None = None
    n_columns: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_ratios(self.ratios)
        if not self.data or any(name not in DATA for name in self.data):
            raise ValueError(f"data must be a tuple of {', '.join(map(repr, DATA))}; got {self.data!r}")
        if self.targets < 1:
            raise ValueError(f"targets must be at least 1, got {self.targets}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")

    def set_ups(self) -> list[tuple[Data, Scaling]]:
        """Each data set in each scaling asked for, or in those that suit it."""
        own: dict[str, tuple[Scaling, ...]] = {"nytimes": ("unit", "raw"), "zipf": ("unit", "raw")}
        return [(data, scaling) for data in self.data for scaling in self.scalings or own.get(data, ("unit",))]


class ScreeningStudy(Study[ScreeningConfig, "dict[tuple[str, str], Problem]"]):
    """Counts what every rule rejects along Algorithm 1, and times whole fits with and without screening.

    Units are of two kinds. ``task="rejection"`` runs Algorithm 1 once for a target and a ratio and applies every rule
    to every weighted lasso on the way, before it is solved, as the paper does. ``task="time"`` fits with and without
    screening in turn.
    """

    name = "screening"
    title = "Screening tests inside sparse Bayesian learning"
    config_type = ScreeningConfig
    timings = measures.TIMINGS

    def quick(self, config: ScreeningConfig) -> ScreeningConfig:
        """Two targets, four ratios, fewer columns."""
        counts = bool({"nytimes", "zipf"} & set(config.data))
        plans = (
            SolverPlan("working-set", ("none", "two_hyperplanes:paper", "auto")),
            SolverPlan("cd", ("two_hyperplanes:paper", "auto"), targets=1, ratios=(0.1, 0.5, 0.9), pairs=1),
        )
        return replace(
            config,
            targets=min(config.targets, 2),
            ratios=(0.1, 0.3, 0.5, 0.9),
            n_columns=min(config.n_columns or 1_000, 1_000),
            n_rows=min(config.n_rows or 1_000, 1_000) if counts else config.n_rows,
            plans=plans,
        )

    def units(self, config: ScreeningConfig) -> Sequence[Unit]:
        """Rejections first, then the timings plan by plan; one target after the other, so that a part is of use."""
        units = []
        for data, scaling in config.set_ups():
            for init in config.inits:
                where = {"data": data, "scaling": scaling, "init": init}
                if config.rejection:
                    units += [
                        Unit({"task": "rejection", **where, "target": target, "ratio": ratio})
                        for target in range(config.targets)
                        for ratio in config.ratios
                    ]
                for plan in config.plans:
                    timing = {"task": "time", **where, **plan.key()}
                    units += [
                        Unit({**timing, "target": target, "ratio": ratio}, plan.cost(ratio))
                        for target in range(min(plan.targets or config.targets, config.targets))
                        for ratio in plan.ratios or config.ratios
                    ]
        return units

    def prepare(self, config: ScreeningConfig) -> dict[tuple[str, str], Problem]:
        """Build the dictionaries, and have everything compiled."""
        problems: dict[tuple[str, str], Problem] = {}
        for data, scaling in config.set_ups():
            problems[data, scaling] = problem = make_problem(
                data,
                n_targets=config.targets,
                scaling=scaling,
                seed=config.seed,
                n_rows=config.n_rows,
                n_columns=config.n_columns,
            )
            measures.warm_up(problem.matrix, problem.targets[0], {plan.solver for plan in config.plans})
        return problems

    def run_unit(self, context: dict[tuple[str, str], Problem], unit: Unit) -> list[Record]:
        """Count rejections, or time fits."""
        key: dict[str, Any] = dict(unit.key)
        problem = context[key["data"], key["scaling"]]
        matrix, target = problem.matrix, problem.targets[key["target"]]
        if key["task"] == "rejection":
            records = measures.count_rejections(matrix, target, key["ratio"], key["init"], RULES)
        else:
            if key["columns"] is not None:
                matrix = matrix[:, :: max(matrix.shape[1] // key["columns"], 1)]
            options = (key["ratio"], key["init"], key["solver"], tuple(key["rules"].split(",")), key["pairs"])
            records = measures.time_fits(matrix, target, *options)
        return [{"problem": problem.label, **record} for record in records]

    def claims(self, store: Store) -> list[Claim]:
        """Hold Section 3's sentences against the results."""
        return screening_claims(store)

    def tables(self, store: Store) -> list[Table]:
        """Rejection and time ratios against lambda / lambda_max."""
        return screening_tables(store)

    def figures(self, store: Store) -> list[Figure]:
        """The paper's figures, and two more."""
        return screening_figures(store)
