"""`SBLRegressor`: sparse Bayesian linear regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fastsbl._base.checks import check_choice, check_flag
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.estimators._centering import Design
from fastsbl.estimators._fitting import (
    Fit,
    Spread,
    as_dense,
    check_sample_weight,
    fit_one,
    linear_prediction,
    noise_to_fit,
    warn_not_converged,
)
from fastsbl.estimators._progress import progress
from fastsbl.sbl.outer import Settings

__all__ = ["BaseSBLRegressor", "SBLRegressor"]


class BaseSBLRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predictions of a fitted sparse Bayesian model, and what it keeps."""

    _calibration = 1.0  # factor of all predictive variances

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict, with the standard deviation of new observations if asked for.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New rows.
        return_std : bool
            Whether to return the predictive standard deviation: noise, posterior of the coefficients, and
            posterior of the intercept. Where the noise was learned, also what is not known about the features that
            belong to the model (see `fastsbl.sbl.SBLResult.average`); otherwise they are taken as known.

        Returns
        -------
        mean : array of shape (n_samples,) or (n_samples, n_targets)
            Predictive mean.
        std : array of the same shape
            Only if ``return_std``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], reset=False)
        if return_std:
            return self._predict(X)
        return np.asarray(linear_prediction(X, np.asarray(self.coef_).T) + self.intercept_)

    def _predict(self, X: Any) -> tuple[Array, Array]:
        """Predictive mean and standard deviation of rows that have been checked."""
        mean: Array = linear_prediction(X, np.asarray(self.coef_).T) + self.intercept_
        std = np.column_stack([self._std(X, one) for one in self.spreads_])  # one for each target, or one for all
        return mean, std[:, 0] if mean.ndim == 1 else np.broadcast_to(std, mean.shape).copy()

    def _std(self, X: Any, spread: Spread) -> FloatArray:
        rows = as_dense(X[:, spread.index]) - self._means[spread.index]
        variance = np.einsum("ij,ij->i", rows @ spread.moments, rows)
        return np.asarray(np.sqrt(self._calibration * (spread.noise * (1.0 + self._intercept_share) + variance)))

    def __sklearn_tags__(self) -> Any:
        """Add what these estimators can do to scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _validate(self, X: Any, y: Any) -> tuple[Any, FloatArray]:
        X, y = validate_data(
            self, X, y, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], multi_output=True, y_numeric=True,
            ensure_min_samples=2,
        )  # fmt: skip
        return X, np.asarray(y, dtype=np.float64)

    def _keep(self, fits: list[Fit], design: Design, *, separate: bool) -> None:
        """Set the attributes of a fitted model."""
        one = fits[0]
        self.spreads_ = [spread for fit in fits for spread in fit.spreads]
        self._means = design.means
        self._intercept_share = 1.0 / design.n_rows if self.fit_intercept else 0.0
        followed = [fit.inclusion for fit in fits if fit.inclusion is not None]
        if len(followed) == len(fits):
            self.inclusion_probability_ = np.stack(followed) if separate else followed[0]
        elif hasattr(self, "inclusion_probability_"):
            del self.inclusion_probability_  # of an earlier fit
        names = {"noise_variance_": "lam", "loss_": "loss", "score_": "evidence", "n_iter_": "n_iter"}
        if separate:
            self.coef_ = np.stack([fit.coef.dense() for fit in fits])
            self.gamma_ = np.stack([fit.gamma.dense() for fit in fits])
            self.sigma_: Any = [fit.sigma for fit in fits]
            self.support_: Any = [fit.support for fit in fits]
            self.history_: Any = [fit.history for fit in fits]
            for name, source in names.items():
                setattr(self, name, np.array([getattr(fit, source) for fit in fits]))
        else:
            self.coef_ = np.ascontiguousarray(one.coef.dense().T)
            self.gamma_, self.sigma_ = one.gamma.dense(), one.sigma
            self.support_, self.history_ = one.support, one.history
            for name, source in names.items():
                setattr(self, name, getattr(one, source))
        self.intercept_ = design.target_mean - design.means @ self.coef_.T


class SBLRegressor(BaseSBLRegressor):
    """Sparse Bayesian linear regression: ``y = b + X theta + noise`` with ``theta_i ~ N(0, gamma_i)``.

    Maximises the evidence over gamma, as a sequence of certified weighted lasso problems. Most gamma, and with
    them the coefficients, end at exactly zero.

    Parameters
    ----------
    noise_variance : float or "learn"
        Variance of the noise, in units of y squared. "learn" lets supports along a path compete by evidence, each
        with its own best noise variance.
    noise_ratio : float, optional
        Noise variance relative to `fastsbl.sbl.sbl_lambda_max` of the (centred) data, at and above which nothing is
        explained: 1 gives the empty model. Replaces ``noise_variance``.
    fit_intercept : bool
        Whether the model has an intercept, under a flat prior. Sparse X is centred implicitly.
    positive : bool
        Whether coefficients are at least 0.
    init : {"null", "unit"} or array of shape (n_features,)
        First weights of the features. With "null" the fit is equivariant: scaling y or a column scales the
        coefficients as it should.
    screening : str or None
        Safe screening rule; the answer is the same with all of them.
    tol : float
        Accuracy of the outer loop, see `fastsbl.fit_sbl`.
    max_iter : int
        Most outer iterations.
    average : bool
        Whether ``coef_`` is the mean over supports (`fastsbl.sbl.SBLResult.average`) instead of that of the best one.
        It predicts better where the support is in doubt, but has a hundred nonzero coefficients or more.
    multi_output : {"shared", "separate"}
        For y of shape (n_samples, n_targets): one gamma, one support and one noise variance for all targets, or a
        model for each.
    verbose : int
        Above 0, show a progress bar (with rich or tqdm, otherwise in the log).

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Posterior mean of the coefficients.
    intercept_ : float or array of shape (n_targets,)
        Posterior mean of the intercept.
    gamma_ : array of shape (n_features,); separate targets: (n_targets, n_features)
        Prior variances.
    noise_variance_ : float; separate targets: array of shape (n_targets,)
        Noise variance, given or learned. For a target that nothing is left to explain of, its variance (at least
        that of rounding).
    support_ : int array; separate targets: list of them
        Features with gamma above 0.
    sigma_ : array of shape (n_support, n_support); separate targets: list of them
        Posterior covariance of the coefficients in ``support_``; that of all others is zero.
    inclusion_probability_ : array of shape (n_features,); separate targets: (n_targets, n_features)
        How probable it is that a feature counts (`fastsbl.sbl.SBLResult.average`). Only if the noise is learned or
        ``average``. Features so far from being of use that they were not followed have 0.
    spreads_ : list of Spread
        What standard deviations of predictions are made of, one for all targets or for each: ``index`` of the features,
        ``moments`` (how far their coefficients may be from those used) and ``noise``.
    score_ : float; separate targets: array of shape (n_targets,)
        Log evidence of the centred target (with an intercept, N - 1 samples' worth).
    loss_ : float; separate targets: array of shape (n_targets,)
        ``log|S| + y' S^-1 y``, what is minimised.
    n_iter_ : int; separate targets: array of shape (n_targets,)
        Outer iterations.
    history_ : list of dict; separate targets: list of them
        One record per outer iteration, see `fastsbl.sbl.SBLResult`.
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array of str
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl import SBLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 200))
    >>> y = 5 + 3 * X[:, 7] - 2 * X[:, 42] + 0.1 * rng.standard_normal(60)
    >>> model = SBLRegressor().fit(X, y)
    >>> model.support_
    array([ 7, 42])
    >>> model.coef_[model.support_].round(1)
    array([ 3., -2.])
    >>> mean, std = model.predict(X[:2], return_std=True)
    >>> bool(0.08 < std[0] < 0.12)
    True
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
        average: bool = False,
        multi_output: str = "shared",
        verbose: int = 0,
    ) -> None:
        self.noise_variance = noise_variance
        self.noise_ratio = noise_ratio
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.init = init
        self.screening = screening
        self.tol = tol
        self.max_iter = max_iter
        self.average = average
        self.multi_output = multi_output
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            One row per sample. float32 stays float32, sparse stays sparse; dense data are not copied to centre them.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target.
        sample_weight : array-like of shape (n_samples,), optional
            Frequency weights: a weight of 2 is the row twice, 0 is no row. Their sum is the number of samples that
            the evidence and the noise variance count, so their scale matters.

        Returns
        -------
        SBLRegressor
            Itself.
        """
        noise_to_fit(self.noise_variance, self.noise_ratio)
        check_flag(self.fit_intercept, "fit_intercept")
        check_flag(self.average, "average")
        check_choice(self.multi_output, "multi_output", ("shared", "separate"))
        options = {
            "init": self.init,
            "screening": self.screening,
            "positive": self.positive,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }
        Settings(**options)  # complains before any work is done
        X, y = self._validate(X, y)
        design = Design(as_dictionary(X), X, y, check_sample_weight(sample_weight, X), fit_intercept=self.fit_intercept)
        separate = y.ndim == 2 and self.multi_output == "separate"
        targets = [np.ascontiguousarray(column) for column in design.target.T] if separate else [design.target]
        with progress(self.verbose, type(self).__name__) as advance:

            def report(record: dict[str, Any]) -> None:
                if advance is not None:
                    advance(f"loss {record['loss']:.6g}, {record['support']} features")

            fits = [
                fit_one(
                    design.dictionary, target, design.n_effective, magnitude=design.magnitude, callback=report,
                    noise_variance=self.noise_variance, noise_ratio=self.noise_ratio, average=self.average,
                    **options,
                )
                for target in targets
            ]  # fmt: skip
        self._keep(fits, design, separate=separate)
        if not all(fit.converged for fit in fits):
            warn_not_converged(type(self).__name__, f"gamma still changes after {self.max_iter} iterations")
        return self
