"""Models as plain data: written to JSON by ``fastsbl fit``, read by ``fastsbl predict``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastsbl
from fastsbl._base.types import FloatArray, IndexArray
from fastsbl.cli._tables import Rows

__all__ = ["Model", "read_model", "write_model"]

FORMAT = "fastsbl-model"
VERSION = 1
_NUMBERS = ("intercept", "intercept_share", "noise_variance", "calibration", "log_evidence", "spread_noise")
_LISTS = ("support", "coef", "gamma", "means", "evidence")


@dataclass(frozen=True)
class Model:
    """A fitted sparse Bayesian regression, as much of it as predictions need.

    Attributes
    ----------
    n_rows, n_features : int
        Of the data it was fitted to.
    names : list of str or None
        Names of the features in the support.
    target : str or None
        What the target was called.
    noise : str
        How the noise variance was found.
    intercept : float
        Posterior mean of the intercept.
    intercept_share : float
        Variance of the intercept over the noise variance.
    noise_variance : float
        Variance of the noise.
    calibration : float
        Factor of all predictive variances, from cross-validation; otherwise 1.
    support : list of int
        Features in the model.
    coef, gamma, means : list of float
        For each of them: posterior mean and prior variance of the coefficient, mean of the column.
    sigma : list of list of float
        Posterior covariance of the coefficients.
    evidence : list of float
        For each feature in the model: log evidence less that of the model without it.
    log_evidence : float
        Of the whole model.
    spread_features, spread_names, spread_means, spread_moments, spread_noise
        What standard deviations of predictions are made of: features whose coefficients are not known for sure, their
        names, the means of their columns, mean squares and products of how far the coefficients may be from those
        used (the lower triangle, row after row), and the variance of the noise.
    """

    n_rows: int
    n_features: int
    names: list[str] | None
    target: str | None
    noise: str
    intercept: float
    intercept_share: float
    noise_variance: float
    calibration: float
    support: list[int]
    coef: list[float]
    gamma: list[float]
    means: list[float]
    sigma: list[list[float]]
    evidence: list[float]
    log_evidence: float
    spread_features: list[int]
    spread_names: list[str] | None
    spread_means: list[float]
    spread_moments: list[float]
    spread_noise: float

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviations of the coefficients."""
        return np.sqrt(np.diag(self._covariance))

    @property
    def _covariance(self) -> FloatArray:
        return np.array(self.sigma, dtype=np.float64).reshape(len(self.support), len(self.support))

    @property
    def used_names(self) -> list[str] | None:
        """Names of all features that predictions or their standard deviations look at."""
        return None if self.names is None else list(dict.fromkeys(self.names + (self.spread_names or [])))

    def label(self, place: int) -> str:
        """What the feature at this place of the support is called."""
        return self.names[place] if self.names is not None else str(self.support[place])

    @classmethod
    def of(cls, estimator: Any, rows: Rows, noise: str) -> Model:
        """Take over a fitted `SBLRegressor` or `SBLRegressorCV`."""
        support = estimator.support_
        sigma = np.asarray(estimator.sigma_, dtype=np.float64)
        spread = estimator.spreads_[0]
        coef, gamma = estimator.coef_[support], estimator.gamma_[support]
        return cls(
            n_rows=rows.X.shape[0],
            n_features=rows.X.shape[1],
            names=_names(rows, support),
            target=rows.target,
            noise=noise,
            intercept=float(estimator.intercept_),
            intercept_share=1.0 / rows.X.shape[0] if estimator.fit_intercept else 0.0,
            noise_variance=float(estimator.noise_variance_),
            calibration=float(getattr(estimator, "calibration_", 1.0)),
            support=support.tolist(),
            coef=coef.tolist(),
            gamma=gamma.tolist(),
            means=_means(rows, support, estimator),
            sigma=sigma.tolist(),
            evidence=evidence_without(coef, gamma, np.diag(sigma)).tolist(),
            log_evidence=float(estimator.score_),
            spread_features=spread.index.tolist(),
            spread_names=_names(rows, spread.index),
            spread_means=_means(rows, spread.index, estimator),
            spread_moments=spread.moments[np.tril_indices(spread.index.size)].tolist(),
            spread_noise=float(spread.noise),
        )

    def predict(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of new observations.

        Columns of features that are in doubt may be missing; they are taken to be at their means.
        """
        mean = self._columns(rows, self.support, self.names) @ np.array(self.coef) + self.intercept
        here = self._here(rows)
        names = None if self.spread_names is None else [self.spread_names[k] for k in here]
        away = self._columns(rows, [self.spread_features[k] for k in here], names) - np.array(self.spread_means)[here]
        moments = self._moments[np.ix_(here, here)]
        variance = self.spread_noise * (1.0 + self.intercept_share) + np.einsum("ij,jk,ik->i", away, moments, away)
        return mean, np.sqrt(self.calibration * variance)

    @property
    def _moments(self) -> FloatArray:
        out = np.zeros((len(self.spread_features), len(self.spread_features)))
        out[np.tril_indices(len(out))] = self.spread_moments
        return np.asarray(out + np.tril(out, -1).T)

    def _here(self, rows: Rows) -> IndexArray:
        """Places of the features in doubt that the rows have columns for."""
        if self.spread_names is None or rows.names is None:
            return np.arange(len(self.spread_features))
        found = set(rows.names)
        return np.array([k for k, name in enumerate(self.spread_names) if name in found], dtype=np.intp)

    def _columns(self, rows: Rows, features: list[int], names: list[str] | None) -> FloatArray:
        if names is not None and rows.names is not None:
            place = {name: k for k, name in enumerate(rows.names)}
            missing = [name for name in names if name not in place]
            if missing:
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                raise ValueError(f"the model needs the column {missing[0]!r}{more}, which the data do not have")
            features = [place[name] for name in names]
        elif rows.X.shape[1] != self.n_features:
            raise ValueError(
                f"the model was fitted to {self.n_features} features, the data have {rows.X.shape[1]} "
                "(say --target if one of the columns is the target)"
            )
        columns = rows.X[:, features]
        dense = np.asarray(columns.toarray() if hasattr(columns, "toarray") else columns, dtype=np.float64)
        if not np.isfinite(dense).all():
            raise ValueError("the columns that the model needs must be finite, got NaN or infinite values")
        return dense


def _names(rows: Rows, index: IndexArray) -> list[str] | None:
    return None if rows.names is None else [rows.names[i] for i in index]


def _means(rows: Rows, index: IndexArray, estimator: Any) -> list[float]:
    if not (estimator.fit_intercept and index.size):
        return [0.0] * index.size
    means: list[float] = np.asarray(rows.X[:, index].mean(axis=0), dtype=np.float64).ravel().tolist()
    return means


def evidence_without(coef: FloatArray, gamma: FloatArray, variance: FloatArray) -> FloatArray:
    """Log evidence of the model less that of the model without the feature, for each feature.

    The other gamma and the noise variance stay as they are. The ratio of the two evidences is that of the
    posterior to the prior density of the coefficient at zero.

    Parameters
    ----------
    coef, gamma, variance : array of shape (s,)
        Posterior mean, prior variance and posterior variance of the coefficients.

    Returns
    -------
    array of shape (s,)
        Differences of log evidence.

    Examples
    --------
    >>> import numpy as np
    >>> evidence_without(np.array([3.0]), np.array([9.0]), np.array([0.1])).round(2)
    array([42.75])
    """
    return np.asarray(0.5 * (coef**2 / variance - np.log(gamma / variance)))


def write_model(path: Path, model: Model) -> None:
    """Write a model as JSON."""
    data = {"format": FORMAT, "format_version": VERSION, "fastsbl": fastsbl.__version__, **asdict(model)}
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_model(path: Path) -> Model:
    """Read a model, checking that it is one."""
    if not path.is_file():
        raise ValueError(f"there is no model file {path}")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a model written by `fastsbl fit`: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path} is not a model written by `fastsbl fit`: it lacks the entry format = {FORMAT!r}")
    if data.get("format_version") != VERSION:
        raise ValueError(
            f"{path} has format version {data.get('format_version')!r}; fastsbl {fastsbl.__version__} reads {VERSION}"
        )
    try:
        model = Model(**{name: data[name] for name in Model.__dataclass_fields__})
        _check(model)
    except (KeyError, TypeError, ValueError) as error:
        what = f"the entry {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is a damaged model: {what}") from error
    return model


def _check(model: Model) -> None:
    size = len(model.support)
    for name in _LISTS:
        if np.array(getattr(model, name), dtype=np.float64).shape != (size,):
            raise ValueError(f"{name} must hold {size} numbers")
    if np.array(model.sigma, dtype=np.float64).size != size * size:
        raise ValueError(f"sigma must hold {size} x {size} numbers")
    for name in _NUMBERS:
        if not np.isfinite(getattr(model, name)):
            raise ValueError(f"{name} must be a finite number")
    if model.names is not None and len(model.names) != size:
        raise ValueError(f"names must hold {size} names")
    for features in ("support", "spread_features"):
        if not all(0 <= i < model.n_features for i in getattr(model, features)):
            raise ValueError(f"{features} must hold numbers from 0 to {model.n_features - 1}")
    size = len(model.spread_features)
    lengths = {"spread_means": size, "spread_moments": size * (size + 1) // 2}
    if model.spread_names is not None:
        lengths["spread_names"] = size
    for name, length in lengths.items():
        if len(getattr(model, name)) != length:
            raise ValueError(f"{name} must hold {length} values")
