"""What the estimators share: checks of what users pass to ``fit``, one fit on prepared data, its predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight

from fastsbl._base.checks import check_positive_number
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary
from fastsbl.sbl import SBLResult, SupportAverage, fit_sbl, sbl_lambda_max
from fastsbl.sbl.evidence import evidence_of

__all__ = [
    "Fit",
    "Spread",
    "as_dense",
    "check_sample_weight",
    "fit_one",
    "linear_prediction",
    "noise_to_fit",
    "warn_not_converged",
]


@dataclass(frozen=True)
class Spread:
    """What is not known about a prediction: coefficients of some features, and noise."""

    index: IndexArray
    moments: FloatArray
    """Mean squares and products of how far the coefficients are from those that are used."""
    noise: float


@dataclass(frozen=True)
class Scattered:
    """An array of which only some entries are not zero: a long path of fits would not fit beside wide data."""

    index: IndexArray
    values: FloatArray
    size: int

    @classmethod
    def of(cls, values: FloatArray) -> Scattered:
        """Keep the entries (rows, for several targets) that are not zero."""
        index = np.flatnonzero(values if values.ndim == 1 else (values != 0).any(axis=1))
        return cls(index, values[index], values.shape[0])

    def dense(self) -> FloatArray:
        """The whole array."""
        out = np.zeros((self.size, *self.values.shape[1:]))
        out[self.index] = self.values
        return out


@dataclass(frozen=True)
class Fit:
    """One sparse Bayesian fit, without the data it came from."""

    coef: Scattered
    gamma: Scattered
    lam: float
    loss: float
    evidence: float
    n_iter: int = 0
    converged: bool = True
    history: list[dict[str, Any]] = field(default_factory=list)
    sigma: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    spreads: tuple[Spread, ...] = ()
    inclusion: FloatArray | None = None

    @property
    def support(self) -> IndexArray:
        """Features with gamma > 0."""
        return self.gamma.index

    @classmethod
    def of(
        cls, result: SBLResult, n_effective: float, average: SupportAverage | None = None, *, averaged: bool = False
    ) -> Fit:
        """Take what is worth keeping from a result, with its evidence on ``n_effective`` samples.

        ``average`` says what is not known about the support; ``averaged`` takes the coefficients from there, too.
        """
        more = (n_effective - result.n_effective) * result.n_targets * float(np.log(result.lam))
        loss = result.loss + more
        evidence = evidence_of(loss, n_effective, result.n_targets, False)
        sigma = result.posterior().covariance
        coef, inclusion = result.coef, None
        spreads: tuple[Spread, ...] = (Spread(result.support, sigma, result.lam),)
        if average is not None:
            inclusion = np.zeros(average.n_features)
            inclusion[average.index] = average.probability
            coef = average.coef if averaged else coef
            moments = average.spread_about(coef)
            each = moments[None] if moments.ndim == 2 else moments
            spreads = tuple(Spread(average.index, one, average.lam) for one in each)
        return cls(
            Scattered.of(coef), Scattered.of(result.gamma), result.lam, loss, evidence, result.n_iter, result.converged,
            result.history, sigma, spreads, inclusion,
        )  # fmt: skip

    def as_column(self) -> Fit:
        """The same fit of a target of shape (N, 1)."""
        return replace(self, coef=replace(self.coef, values=self.coef.values[:, None]))

    @classmethod
    def of_noise(cls, n_features: int, target: FloatArray, n_effective: float, magnitude: float) -> Fit:
        """The model without features: the target is noise.

        A target that is zero gets the variance of its rounding errors: ``magnitude`` is the largest |y|.
        """
        n_targets = 1 if target.ndim == 1 else target.shape[1]
        total = float(np.vdot(target, target))
        rounding = (float(np.finfo(np.float64).eps) * magnitude) ** 2
        lam = max(total / (n_effective * n_targets), rounding, float(np.finfo(np.float64).tiny))
        loss = n_effective * n_targets * float(np.log(lam)) + total / lam
        evidence = evidence_of(loss, n_effective, n_targets, False)
        none = np.zeros(0, dtype=np.intp)
        nothing = (Spread(none, np.zeros((0, 0)), lam),)
        coef = Scattered(none, np.zeros((0, *target.shape[1:])), n_features)
        return cls(coef, Scattered(none, np.zeros(0), n_features), lam, loss, evidence, spreads=nothing)


def check_sample_weight(sample_weight: Any, X: Any) -> FloatArray | None:
    """Return frequency weights as float64 (N,), or None where every row counts once."""
    if sample_weight is None:
        return None
    weights: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight must be above 0 for at least one row, got zeros only")
    return weights


def noise_to_fit(noise_variance: Any, noise_ratio: Any) -> None:
    """Check the two ways to say how much noise there is."""
    if noise_ratio is not None:
        check_positive_number(noise_ratio, "noise_ratio")
        if not isinstance(noise_variance, str):
            raise ValueError(
                "noise_ratio and noise_variance cannot both be numbers, since each sets the noise; "
                f"got noise_ratio={noise_ratio!r} and noise_variance={noise_variance!r}"
            )
    if isinstance(noise_variance, str):
        if noise_variance != "learn":
            raise ValueError(f"noise_variance must be 'learn' or a number above 0, got {noise_variance!r}")
        return
    check_positive_number(noise_variance, "noise_variance")


def fit_one(
    dictionary: Dictionary,
    target: FloatArray,
    n_effective: float,
    *,
    magnitude: float,
    noise_variance: Any,
    noise_ratio: Any,
    callback: Callable[[dict[str, Any]], object] | None,
    average: bool = False,
    **options: Any,
) -> Fit:
    """Fit prepared data with the noise given, relative to `sbl_lambda_max`, or learned.

    ``average`` takes mean coefficients over supports; a learned fit keeps at least what is not known about its support.
    """
    single = target.ndim == 2 and target.shape[1] == 1  # one target has the faster solvers
    if single:
        target = np.ascontiguousarray(target[:, 0])
    lam = noise_variance
    if noise_ratio is not None or isinstance(lam, str):
        largest = sbl_lambda_max(dictionary, target)
        if largest == 0.0:  # no column reaches the target: nothing to learn from, nothing to be relative to
            fit = Fit.of_noise(dictionary.n_features, target, n_effective, magnitude)
            if average or isinstance(lam, str):
                fit = replace(fit, inclusion=np.zeros(dictionary.n_features))
            return fit.as_column() if single else fit
        if noise_ratio is not None:
            lam = float(noise_ratio) * largest
    result = fit_sbl(dictionary, target, lam, n_effective=n_effective, callback=callback, **options)
    over = result.average(positive=options["positive"]) if average or isinstance(lam, str) else None
    fit = Fit.of(result, n_effective, over, averaged=average)
    return fit.as_column() if single else fit


def warn_not_converged(name: str, what: str) -> None:
    """Tell users of scikit-learn, in the class they filter for."""
    warnings.warn(f"{name} did not converge: {what}", ConvergenceWarning, stacklevel=3)


def linear_prediction(X: Any, coef: FloatArray) -> Array:
    """``X coef`` for coef of shape (n,) or (n, L), reading only the columns that count."""
    used = np.flatnonzero(coef if coef.ndim == 1 else (coef != 0).any(axis=1))
    if 2 * used.size < coef.shape[0]:
        X, coef = X[:, used], coef[used]
    return np.asarray(X @ coef)


def as_dense(rows: Any) -> Array:
    """A few columns as a dense array."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)
