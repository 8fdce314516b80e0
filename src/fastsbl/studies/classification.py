"""The paper's Section 4: digits classified by the training images that explain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from fastsbl.studies._classification_claims import classification_claims, classification_tables
from fastsbl.studies._classification_figures import classification_figures
from fastsbl.studies._classifiers import Digits, classify
from fastsbl.studies._explained import explain_images, walk_images
from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Figure
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record, Study, Table, Unit

__all__ = ["FINE_RATIOS", "PAPER_RATIOS", "ZERO_RATIO", "ClassificationConfig", "ClassificationStudy", "MethodPlan"]

PAPER_RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The paper's grid of lambda / lambda_max. The answer has no limit at 0, which stands for `ZERO_RATIO`."""

FINE_RATIOS = (0.01, 0.02, 0.05)
"""Where the paper sees the best accuracy: inside (0, .1)."""

ZERO_RATIO = 1e-3
"""What replaces the ratio 0 of the paper's grid."""

Method: TypeAlias = Literal[
    "sbl", "evidence", "evidence-single", "evidence-positive", "lasso", "ridge", "neighbours", "logistic", "svm"
]


@dataclass(frozen=True)
class MethodPlan:
    """One way of classifying, and the values of its parameter.

    Attributes
    ----------
    method : {"sbl", "evidence", "evidence-single", "evidence-positive", "lasso", "ridge", "neighbours", ...}
        "sbl": the paper's fit with the columns of all classes, from u = 1, scored by sums of weights and by class
        residuals; "lasso" is its first inner problem. "evidence": the default of `SparseRepresentationClassifier`,
        averaged over the value, half of it and a quarter of it; "evidence-single" at the value alone;
        "evidence-positive" with weights of at least 0. "ridge": weights of least squares with a ridge, scored like
        "sbl". "neighbours": votes of the nearest by cosine. "logistic" and "svm" (RBF): scikit-learn's.
    values : tuple of float
        lambda / lambda_max for "sbl", "lasso" and the evidences (0 stands for .001), the penalty of "ridge", the
        number of neighbours, the C of "logistic" and "svm".
    choose : bool
        Whether the best value is chosen on held-out training images.
    runs : int, optional
        Only the first so many runs.
    columns : {"drawn", "all"}
        The columns drawn by the study, or the whole training set.
    """

    method: Method
    values: tuple[float, ...]
    choose: bool = True
    runs: int | None = None
    columns: Literal["drawn", "all"] = "drawn"

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.method not in get_args(Method):
            raise ValueError(f"method must be one of {', '.join(map(repr, get_args(Method)))}; got {self.method!r}")
        least = 0.0 if self.method == "sbl" else 1e-9
        if not self.values or any(value < least for value in self.values):
            raise ValueError(f"values of {self.method!r} must be at least {least:g}, got {self.values}")
        if self.runs is not None and self.runs < 1:
            raise ValueError(f"runs must be at least 1, got {self.runs}")

    def cost(self, value: float) -> float:
        """Rough work for one image, in milliseconds on the MNIST columns."""
        one = {
            "evidence": 50.0,
            "evidence-single": 30.0,
            "evidence-positive": 30.0,
            "lasso": 10.0,
            "ridge": 2.0,
            "neighbours": 1.0,
            "svm": 8.0,
        }
        if self.method == "sbl":
            return 150.0 if value == 0.0 else 5.0 + 0.5 / value
        return one.get(self.method, 1.0) * (6.0 if self.columns == "all" else 1.0)


PLANS = (
    MethodPlan("sbl", PAPER_RATIOS, choose=False),
    MethodPlan("neighbours", (1.0, 5.0), choose=False),
    MethodPlan("evidence", (0.02, 0.04)),
    MethodPlan("sbl", FINE_RATIOS),
    MethodPlan("evidence-single", (0.01, 0.02, 0.04)),
    MethodPlan("lasso", (0.01, 0.03, 0.1)),
    MethodPlan("ridge", (0.1, 1.0, 10.0)),
    MethodPlan("svm", (3.0, 10.0)),
    MethodPlan("logistic", (10.0, 100.0)),
    MethodPlan("evidence-positive", (0.02,), choose=False),
    MethodPlan("neighbours", (1.0,), choose=False, runs=5, columns="all"),
    MethodPlan("evidence", (0.02,), choose=False, runs=5, columns="all"),
    MethodPlan("sbl", (0.02,), choose=False, runs=2, columns="all"),
)


@dataclass(frozen=True)
class ClassificationConfig:
    """Set-up of the classification study.

    Attributes
    ----------
    data : {"mnist", "digits"}
        MNIST, or the small digits that come with scikit-learn.
    runs : int
        The paper's N1: Monte-Carlo runs.
    images : int
        The paper's N3: test images in a run, drawn anew for each, the same for all values of lambda. An image that an
        earlier run has drawn is not fitted again, unless the columns are other ones.
    per_class : int, optional
        Columns per digit; 1,000 by default, and 100 for the small digits.
    redraw_dictionary : bool
        Draw other columns for every run; by default they are drawn once.
    plans : tuple of MethodPlan
        What is compared. The paper's N2 is the number of values of the first one.
    held_out : int
        Training images (not among the columns) on which parameters are chosen.
    explained : int
        Images of the first run whose explanation is kept in full.
    walks : int
        Of these, how many are followed through many values of lambda.
    seed : int
        Of all draws.
    """

    data: Literal["mnist", "digits"] = "mnist"
    runs: int = 50
    images: int = 100
    per_class: int | None = None
    redraw_dictionary: bool = False
    plans: tuple[MethodPlan, ...] = PLANS
    held_out: int = 3_000
    explained: int = 40
    walks: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("runs", "images", "per_class"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("held_out", "explained", "walks", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        if self.explained > self.images:
            raise ValueError(f"explained must be at most images ({self.images}), got {self.explained}")
        if self.walks > self.explained:
            raise ValueError(f"walks must be at most explained ({self.explained}), got {self.walks}")


@dataclass(frozen=True)
class Context:
    """What the units of one process share."""

    config: ClassificationConfig
    digits: Digits


class ClassificationStudy(Study[ClassificationConfig, Context]):
    """Classifies images by sparse representation over a grid of noise variances, beside other classifiers.

    Units of ``task="classify"`` classify one batch of images with one method and one value of its parameter, test
    images for ``set="test"`` and training images that are no columns for ``set="held-out"``. ``task="explain"`` and
    ``task="walk"`` keep the training images behind some answers.
    """

    name = "classification"
    title = "Classification by sparse representation"
    config_type = ClassificationConfig
    timings = frozenset({"seconds"})

    def quick(self, config: ClassificationConfig) -> ClassificationConfig:
        """A few images, fewer columns, fewer values."""
        plans = (
            MethodPlan("sbl", (0.0, 0.1, 0.3, 0.5, 0.7, 1.0), choose=False),
            MethodPlan("neighbours", (1.0, 5.0), choose=False),
            MethodPlan("evidence", (0.02, 0.04)),
            MethodPlan("sbl", (0.01, 0.03)),
            MethodPlan("lasso", (0.03, 0.1)),
            MethodPlan("ridge", (0.1, 1.0)),
            MethodPlan("logistic", (10.0,), choose=False),
            MethodPlan("svm", (10.0,), choose=False),
        )
        images = min(config.images, 20)
        return replace(
            config, runs=min(config.runs, 3), images=images, per_class=min(config.per_class or 100, 100), plans=plans,
            held_out=min(config.held_out, 40), explained=min(config.explained, 20), walks=min(config.walks, 1),
        )  # fmt: skip

    def units(self, config: ClassificationConfig) -> Sequence[Unit]:
        """Method by method, each run by run, so that a part is of use; then the explanations."""
        units: dict[str, Unit] = {}
        batches = -(-config.held_out // config.images)
        for plan in config.plans:
            sets = [("test", run) for run in range(min(plan.runs or config.runs, config.runs))]
            if plan.choose and plan.columns == "drawn":
                sets = [("held-out", run) for run in range(batches)] + sets
            for kind, run in sets:
                for value in plan.values:
                    key = {
                        "task": "classify",
                        "columns": plan.columns,
                        "method": plan.method,
                        "value": value,
                        "set": kind,
                        "run": run,
                    }
                    unit = Unit(key, cost=plan.cost(value) * config.images)
                    units.setdefault(unit.id, unit)
        if config.explained:
            units["explain"] = Unit({"task": "explain"}, cost=60.0 * config.explained)
        if config.walks:
            units["walk"] = Unit({"task": "walk"}, cost=100.0 * config.explained + 3_000.0 * config.walks)
        return list(units.values())

    def prepare(self, config: ClassificationConfig) -> Context:
        """Read the images, and have the kernels compiled."""
        digits = Digits(config.data, config.per_class, config.seed)
        for method, value in (("sbl", 0.05), ("lasso", 0.05), ("evidence", 0.05)):
            classify(digits.columns(0), digits.test_queries(0, 2), method, value)
        return Context(config, digits)

    def run_unit(self, context: Context, unit: Unit) -> list[Record]:
        """Classify a batch, or explain images."""
        key: dict[str, Any] = dict(unit.key)
        config, digits = context.config, context.digits
        if key["task"] == "explain":
            return explain_images(digits, config.images, config.explained)
        if key["task"] == "walk":
            return walk_images(digits, config.images, config.explained, config.walks)
        run, images = key["run"], config.images
        value = ZERO_RATIO if key["method"] == "sbl" and key["value"] == 0.0 else key["value"]
        if key["set"] == "held-out":
            return classify(digits.columns(0), digits.held_out(run, images), key["method"], value)
        redrawn = config.redraw_dictionary and key["columns"] == "drawn"
        columns = digits.columns(None if key["columns"] == "all" else run if redrawn else 0)
        queries = digits.test_queries(run, images) if redrawn else digits.new_queries(run, images)
        drawn = digits.drawn(run, images)
        return [record | {"drawn": drawn} for record in classify(columns, queries, key["method"], value)]

    def claims(self, store: Store) -> list[Claim]:
        """Hold Section 4's sentences against the results."""
        return classification_claims(store, self.config(store))

    def tables(self, store: Store) -> list[Table]:
        """Accuracy, time and what was chosen."""
        return classification_tables(store, self.config(store))

    def figures(self, store: Store) -> list[Figure]:
        """The paper's two figures, time against accuracy, and explanations."""
        return classification_figures(store, self.config(store))
