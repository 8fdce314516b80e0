"""`SBLSelector`: feature selection by sparse Bayesian learning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fastsbl._base.checks import check_whole_number
from fastsbl._base.types import BoolArray
from fastsbl.dictionary import as_dictionary
from fastsbl.estimators._centering import Design
from fastsbl.estimators._fitting import check_sample_weight
from fastsbl.estimators.regressor import SBLRegressor

__all__ = ["SBLSelector"]


class SBLSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Keep the features to which a sparse Bayesian regression gives a prior variance above zero.

    A transformer for pipelines; the regression is kept in ``estimator_``. With several targets, the features that
    they share.

    Parameters
    ----------
    noise_variance : float or "learn"
        Variance of the noise, as in `SBLRegressor`. A larger one keeps fewer features.
    noise_ratio : float, optional
        Noise variance relative to `fastsbl.sbl.sbl_lambda_max`, below 1; replaces ``noise_variance``.
    min_features : int
        Keep at least this many features, so that later steps of a pipeline have something to work on: where the
        regression keeps fewer, those most correlated with its residual are added. 0 adds none.
    fit_intercept, positive, init, screening, tol, max_iter
        As in `SBLRegressor`.

    Attributes
    ----------
    estimator_ : SBLRegressor
        The fitted regression.
    n_iter_ : int
        Outer iterations of the regression.
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array of str
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl import SBLSelector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 200))
    >>> y = 3 * X[:, 7] - 2 * X[:, 42] + 0.1 * rng.standard_normal(60)
    >>> selector = SBLSelector().fit(X, y)
    >>> selector.get_support(indices=True)
    array([ 7, 42])
    >>> selector.transform(X).shape
    (60, 2)
    """

    def __init__(
        self,
        noise_variance: Any = "learn",
        *,
        noise_ratio: Any = None,
        fit_intercept: bool = True,
        positive: bool = False,
        init: Any = "null",
        screening: str | None = "holder",
        tol: float = 1e-4,
        max_iter: int = 1000,
        min_features: int = 1,
    ) -> None:
        self.noise_variance = noise_variance
        self.noise_ratio = noise_ratio
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.init = init
        self.screening = screening
        self.tol = tol
        self.max_iter = max_iter
        self.min_features = min_features

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the regression that selects.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            One row per sample.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target.
        sample_weight : array-like of shape (n_samples,), optional
            Frequency weights, as in `SBLRegressor.fit`.

        Returns
        -------
        SBLSelector
            Itself.
        """
        X, y = validate_data(
            self, X, y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], multi_output=True, y_numeric=True,
            ensure_min_samples=2,
        )  # fmt: skip
        least = check_whole_number(self.min_features, "min_features", least=0)
        options = self.get_params(deep=False)
        del options["min_features"]
        self.estimator_ = SBLRegressor(**options).fit(X, y, sample_weight)
        self.n_iter_ = self.estimator_.n_iter_
        self._mask: BoolArray = self.estimator_.gamma_ > 0
        missing = min(least, X.shape[1]) - int(self._mask.sum())
        if missing > 0:
            weights = check_sample_weight(sample_weight, X)
            y = np.asarray(y, dtype=np.float64)
            design = Design(as_dictionary(X), X, y, weights, fit_intercept=self.fit_intercept)
            residual = design.target - design.dictionary.apply(self.estimator_.coef_.T)
            norms = design.dictionary.column_norms()
            sizes = np.abs(design.dictionary.correlate(residual)).reshape(norms.size, -1).sum(axis=1)
            relevance = np.where(self._mask, -np.inf, sizes / np.where(norms > 0, norms, np.inf))
            self._mask[np.argsort(-relevance, kind="stable")[:missing]] = True
        return self

    def _get_support_mask(self) -> BoolArray:
        check_is_fitted(self)
        return self._mask

    def __sklearn_tags__(self) -> Any:
        """Add what this transformer needs and can do to scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
