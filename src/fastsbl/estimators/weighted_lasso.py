"""`WeightedLasso`: the lasso with a penalty of its own for each feature, and a certificate."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fastsbl._base.checks import as_numbers, check_flag, check_positive_number
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.estimators._centering import Design
from fastsbl.estimators._fitting import check_sample_weight, linear_prediction, warn_not_converged
from fastsbl.lasso import solve_weighted_lasso

__all__ = ["WeightedLasso"]


class WeightedLasso(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Lasso with feature weights, safe screening and a duality gap computed on all features.

    Minimises::

        1 / (2 W) * sum_i s_i (y_i - b - x_i' theta)^2 + alpha * sum_j w_j |theta_j|

    with s the sample weights (ones by default), W their sum (the number of samples) and w the feature weights. With
    w = 1 it is scikit-learn's ``Lasso``.

    Parameters
    ----------
    alpha : float
        Penalty, above 0.
    feature_weights : array of shape (n_features,), optional
        Weights w of the features (ones by default): 0 leaves a feature unpenalised, inf excludes it.
    positive : bool
        Whether coefficients are at least 0.
    fit_intercept : bool
        Whether the model has an intercept b, which is not penalised. Sparse X is centred implicitly.
    tol : float
        The solver stops once the duality gap is at most ``tol`` times the objective at theta = 0.
    max_iter : int
        Most coordinate-descent epochs.
    screening : str or None
        Safe screening rule; the answer is the same with all of them.
    solver : {"working-set", "cd", "cvxpy"}
        See `fastsbl.solve_weighted_lasso`.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        theta.
    intercept_ : float
        b.
    dual_gap_ : float
        Duality gap, recomputed at the end on all features: the objective above is within it of its minimum.
    n_iter_ : int
        Coordinate-descent epochs.
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array of str
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl import WeightedLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 4))
    >>> y = X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(50)
    >>> model = WeightedLasso(alpha=0.1, feature_weights=[0, 1, 1, 1]).fit(X, y)
    >>> model.coef_.round(1) + 0.0
    array([1. , 0.9, 0. , 0. ])
    >>> model.dual_gap_ < 1e-5
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        feature_weights: Any = None,
        positive: bool = False,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 100_000,
        screening: str | None = "holder",
        solver: str = "working-set",
    ) -> None:
        self.alpha = alpha
        self.feature_weights = feature_weights
        self.positive = positive
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.screening = screening
        self.solver = solver

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            One row per sample. float32 stays float32, sparse stays sparse; dense data are not copied to centre them.
        y : array-like of shape (n_samples,)
            The target.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 is no row. Their scale does not matter.

        Returns
        -------
        WeightedLasso
            Itself.
        """
        alpha = check_positive_number(self.alpha, "alpha")
        check_flag(self.fit_intercept, "fit_intercept")
        X, y = validate_data(
            self, X, y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], y_numeric=True,
            ensure_min_samples=2 if self.fit_intercept else 1,
        )  # fmt: skip
        y = np.asarray(y, dtype=np.float64)
        weights = check_sample_weight(sample_weight, X)
        if weights is not None:
            weights = weights * (weights.size / weights.sum())
        design = Design(as_dictionary(X), X, y, weights, fit_intercept=self.fit_intercept)
        solution = solve_weighted_lasso(
            design.dictionary, design.target, alpha * design.n_rows, _feature_weights(self.feature_weights, X.shape[1]),
            positive=self.positive, screening=self.screening, solver=self.solver, tol=self.tol, max_iter=self.max_iter,
        )  # fmt: skip
        self.coef_ = solution.coef
        self.intercept_ = float(design.target_mean - design.means @ solution.coef)
        self.dual_gap_ = solution.gap / design.n_rows
        self.n_iter_ = max(solution.n_epochs, 1)
        if not solution.converged:
            warn_not_converged("WeightedLasso", f"its duality gap is {self.dual_gap_:.3g} after {self.n_iter_} epochs")
        return self

    def predict(self, X: Any) -> Array:
        """Predict ``b + X theta``, of shape (n_samples,), for X of shape (n_samples, n_features)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], reset=False)
        return np.asarray(linear_prediction(X, self.coef_) + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        """Add what this estimator can do to scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _feature_weights(weights: Any, n_features: int) -> FloatArray | None:
    if weights is None:
        return None
    array = as_numbers(weights, "feature_weights")
    if array.shape != (n_features,) or array.dtype.kind == "c" or np.isnan(array).any() or (array < 0).any():
        raise ValueError(
            f"feature_weights must be {n_features} numbers of at least 0, one per feature (inf excludes one), got "
            f"shape {array.shape}" + (f" and a smallest of {float(array.min())}" if array.size else "")
        )
    return array.astype(np.float64)
