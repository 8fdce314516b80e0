"""`SBLRegressorCV`: the noise variance chosen by cross-validation, the whole path kept."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed

from fastsbl._base.checks import check_flag, check_positive_number
from fastsbl._base.parallel import one_thread_each
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.estimators._centering import Design
from fastsbl.estimators._fitting import Fit, check_sample_weight, fit_one, warn_not_converged
from fastsbl.estimators._progress import progress
from fastsbl.estimators.regressor import BaseSBLRegressor, SBLRegressor
from fastsbl.sbl import sbl_lambda_max, sbl_path
from fastsbl.sbl.outer import Settings

__all__ = ["SBLRegressorCV"]

_N_RATIOS = 25
_AT_ONCE = 3  # ratios of the default grid that all folds fit before the next are asked for
_CROWDED = 1 / 6  # of the features in the model: from here on bounds on the others cost more than the others
_ROUGH = 10.0  # times tol, for the fits that only compare
_PATIENCE = 5  # of them without a better mean score, and the default grid ends


class SBLRegressorCV(BaseSBLRegressor):
    """Sparse Bayesian linear regression whose noise variance is chosen by cross-validation.

    For each fold a path of fits over falling noise variances, each started from the one before (``follow=True`` of
    `fastsbl.sbl.sbl_path`); then a path on all data, and a fit at the chosen variance as `SBLRegressor` makes it. The
    grid is relative to `fastsbl.sbl.sbl_lambda_max` of the whole (centred) data, so the choice does not depend on
    the units of y or of the columns; the noise variances are the same in every fold. Folds are weightings of one X,
    which is not copied.

    The chosen value is the one that predicts best, which need not be the variance of the noise. Predictive standard
    deviations are therefore calibrated: the held-out errors say by which factor the model's variances are too large
    or too small (``calibration_``).

    Parameters
    ----------
    ratios : array of float, optional
        Noise variances relative to `sbl_lambda_max`; by default 25 on a logarithmic grid from 1 (the empty model) to
        0.01 over the number of samples, which ends early where at least 5 in a row have brought no better score.
    cv : int, splitter or iterable of (train, test)
        As everywhere in scikit-learn.
    one_standard_error : bool
        Whether to choose the largest noise variance, and so the sparsest model, whose mean score is within one
        standard error of the best.
    scoring : str or callable, optional
        A scikit-learn scorer; by default the negative mean squared error. Sample weights of the held-out rows are
        passed to the default and to scorers given by name, not to callables.
    fit_intercept, positive, init, screening, tol, max_iter
        As in `SBLRegressor`; paths are fitted to ten times ``tol``.
    n_jobs : int, optional
        Folds at a time, in threads unless joblib is told otherwise.
    verbose : int
        Above 0, show a progress bar over the folds (with rich or tqdm, otherwise in the log).

    Attributes
    ----------
    ratio_ : float
        The chosen ratio.
    ratios_ : array of shape (n_ratios,)
        The grid, from the largest down, as far as it was needed.
    calibration_ : float
        Mean of the squared errors of held-out rows over their predicted variances, at the chosen ratio: ``predict``
        with ``return_std=True`` multiplies variances by it. (``noise_variance_`` and ``sigma_`` are the model's own.)
    noise_variances_ : array of shape (n_ratios,)
        The noise variances they stand for.
    cv_results_ : dict of arrays
        ``ratio``, ``noise_variance``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``, ``n_support``
        (of the fit to all data) and ``split0_test_score``, ..., each of shape (n_ratios,).
    coefs_path_ : array of shape (n_ratios, n_features) or (n_ratios, n_targets, n_features)
        Coefficients of the fits to all data, for plotting.
    coef_, intercept_, gamma_, noise_variance_, support_, sigma_, score_, loss_, n_iter_, history_
        Of the model fitted to all data at the chosen ratio, as in `SBLRegressor` (targets share their support).
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array of str
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl import SBLRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 200))
    >>> y = 5 + 3 * X[:, 7] - 2 * X[:, 42] + 0.1 * rng.standard_normal(60)
    >>> model = SBLRegressorCV(ratios=np.logspace(0, -4, 9), one_standard_error=True).fit(X, y)
    >>> model.coef_[[7, 42]].round(1)
    array([ 3., -2.])
    >>> model.cv_results_["mean_test_score"].shape
    (9,)
    """

    def __init__(
        self,
        ratios: Any = None,
        *,
        cv: Any = 5,
        one_standard_error: bool = False,
        scoring: Any = None,
        fit_intercept: bool = True,
        positive: bool = False,
        init: Any = "null",
        screening: str | None = "holder",
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.ratios = ratios
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.scoring = scoring
        self.fit_intercept = fit_intercept
        self.positive = positive
        self.init = init
        self.screening = screening
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Choose the noise variance and fit the model to all data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            One row per sample.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The target.
        sample_weight : array-like of shape (n_samples,), optional
            Frequency weights, as in `SBLRegressor.fit`; they count in the fits and in the scores. A row is in one fold
            whatever its weight.
        **params : dict
            Routed to the splitter, such as ``groups``, if metadata routing is enabled.

        Returns
        -------
        SBLRegressorCV
            Itself.
        """
        _raise_for_params(params, self, "fit")
        check_flag(self.fit_intercept, "fit_intercept")
        check_flag(self.one_standard_error, "one_standard_error")
        options = {
            "init": self.init,
            "screening": self.screening,
            "positive": self.positive,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }
        Settings(**options)  # complains before any work is done
        rough = options | {"tol": _ROUGH * self.tol}
        X, y = self._validate(X, y)
        weights = check_sample_weight(sample_weight, X)
        base = as_dictionary(X)
        design = Design(base, X, y, weights, fit_intercept=self.fit_intercept)
        self.ratios_ = _grid(self.ratios, design.n_rows)
        largest = sbl_lambda_max(design.dictionary, design.target)
        grid = self.ratios_ * (largest or 1.0)

        splitting: dict[str, Any] = {}
        if _routing_enabled():
            splitting = process_routing(self, "fit", sample_weight=sample_weight, **params).splitter.split
        folds = list(check_cv(self.cv).split(X, y, **splitting))
        scorer = None if self.scoring is None else check_scoring(SBLRegressor(), self.scoring)
        part = _AT_ONCE if self.ratios is None else grid.size
        parts = [grid[low : low + part] for low in range(0, grid.size, part)]
        crowded = effective_n_jobs(self.n_jobs) > 1
        scores, misfits = np.empty((0, len(folds))), np.empty((0, len(folds)))
        reached: list[FloatArray | None] = [None] * len(folds)  # gamma at the last ratio, for each fold
        with (
            progress(self.verbose, type(self).__name__, len(parts) * len(folds) + 1) as advance,
            one_thread_each() if crowded else nullcontext(),
        ):
            parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
            for variances in parts:
                tasks = (
                    delayed(_score_fold)(
                        base, X, y, weights, train, test, variances, gamma, self.fit_intercept, scorer,
                        isinstance(self.scoring, str), rough,
                    )
                    for (train, test), gamma in zip(folds, reached, strict=True)
                )  # fmt: skip
                found = []
                for k, of_fold in enumerate(parallel(tasks)):
                    found.append(of_fold)
                    if advance is not None:
                        advance(f"fold {k + 1} of {len(folds)}, best score {of_fold[0].max():.4g}")
                scores = np.vstack([scores, np.column_stack([of_fold[0] for of_fold in found])])
                misfits = np.vstack([misfits, np.column_stack([of_fold[1] for of_fold in found])])
                reached = [of_fold[2] for of_fold in found]
                if scores.shape[0] - 1 - int(np.argmax(scores.mean(axis=1))) >= _PATIENCE:
                    break
            grid, self.ratios_ = grid[: scores.shape[0]], self.ratios_[: scores.shape[0]]
            best = _choose(scores, one_standard_error=self.one_standard_error)
            fits = _path(design, grid, rough)
            if largest > 0.0:
                fits[best] = fit_one(
                    design.dictionary, design.target, design.n_effective, magnitude=design.magnitude, callback=None,
                    noise_variance=grid[best], noise_ratio=None, **options,
                )  # fmt: skip
            if advance is not None:
                advance(f"chose ratio {self.ratios_[best]:.3g}")
        self.ratio_ = float(self.ratios_[best])
        self.noise_variances_ = grid
        self.calibration_ = self._calibration = float(misfits[best].mean()) or 1.0
        self._keep([fits[best]], design, separate=False)
        self.coefs_path_: FloatArray = np.empty((len(fits), *self.coef_.shape))
        for k, fit in enumerate(fits):
            self.coefs_path_[k] = fit.coef.dense().T
        self.cv_results_ = _table(self.ratios_, grid, scores, fits)
        if not fits[best].converged:
            warn_not_converged(type(self).__name__, f"gamma still changes after {self.max_iter} iterations")
        return self

    def get_metadata_routing(self) -> Any:
        """Describe how metadata is routed: sample weights here, the rest to the splitter."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=check_cv(self.cv), method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )


def _grid(ratios: Any, n_rows: float) -> FloatArray:
    """The ratios to try, from the largest down."""
    if ratios is None:
        return np.logspace(0, -2 - np.log10(n_rows), _N_RATIOS)
    values = [check_positive_number(ratio, "ratios") for ratio in np.atleast_1d(np.asarray(ratios)).tolist()]
    if not values:
        raise ValueError("ratios must hold at least one number above 0, got none")
    return np.sort(np.array(values))[::-1]


def _path(design: Design, grid: FloatArray, options: dict[str, Any], gamma: FloatArray | None = None) -> list[Fit]:
    """Fit at each noise variance of the grid, from ``gamma``; models without features if nothing is to explain."""
    target = design.target
    column = target.ndim == 2 and target.shape[1] == 1
    if column:
        target = np.ascontiguousarray(target[:, 0])
    largest = sbl_lambda_max(design.dictionary, target)
    if largest == 0.0:
        fits = [Fit.of_noise(design.dictionary.n_features, target, design.n_effective, design.magnitude)] * grid.size
    else:
        fits = []
        for low in range(0, grid.size, _AT_ONCE):
            crowded = gamma is not None and np.count_nonzero(gamma) > _CROWDED * gamma.size
            path = sbl_path(
                design.dictionary, target, grid[low : low + _AT_ONCE] / largest, relative_to="sbl_lambda_max",
                follow=True, warm_start=gamma, bounds=not crowded, **options,
            )  # fmt: skip
            fits += [Fit.of(result, design.n_effective) for result in path]
            gamma = path[-1].gamma
    return [fit.as_column() for fit in fits] if column else fits


def _score_fold(
    base: Dictionary, X: Any, y: FloatArray, weights: FloatArray | None, train: Any, test: Any, grid: FloatArray,
    gamma: FloatArray | None, fit_intercept: bool, scorer: Any, scorer_takes_weights: bool, options: dict[str, Any],
) -> tuple[FloatArray, FloatArray, FloatArray]:  # fmt: skip
    """Scores of one fold, one per noise variance, mean squares of its errors over predicted variances, and last gamma.

    Rows outside ``train`` are there with weight zero.
    """
    every = np.arange(y.shape[0])
    counts = np.bincount(every[train], minlength=y.shape[0]).astype(np.float64)
    design = Design(base, X, y, counts if weights is None else counts * weights, fit_intercept=fit_intercept)
    X_test, y_test = X[test], y[test]
    weights_test = None if weights is None else weights[test]
    scores, misfits = np.empty(grid.size), np.empty(grid.size)
    fits = _path(design, grid, options, gamma)
    for k, fit in enumerate(fits):
        model = SBLRegressor(fit_intercept=fit_intercept)
        model.n_features_in_ = X.shape[1]
        model._keep([fit], design, separate=False)
        mean, std = model._predict(X_test)
        squares = (y_test - mean) ** 2
        misfits[k] = np.average(np.average(squares / std**2, axis=0, weights=weights_test))
        if scorer is None:
            scores[k] = -np.average(np.average(squares, axis=0, weights=weights_test))
            continue
        extra = {"sample_weight": weights_test} if scorer_takes_weights and weights is not None else {}
        scores[k] = scorer(model, X_test, y_test, **extra)
    return scores, misfits, fits[-1].gamma.dense()


def _choose(scores: FloatArray, *, one_standard_error: bool) -> int:
    """The place of the best mean score, or of the largest noise variance within one standard error of it."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    if one_standard_error and scores.shape[1] > 1:
        error = float(scores[best].std(ddof=1)) / np.sqrt(scores.shape[1])
        best = int(np.flatnonzero(means >= means[best] - error)[0])
    return best


def _table(ratios: FloatArray, grid: FloatArray, scores: FloatArray, fits: list[Fit]) -> dict[str, Array]:
    means = scores.mean(axis=1)
    table: dict[str, Array] = {
        "ratio": ratios,
        "noise_variance": grid,
        "mean_test_score": means,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": 1 + (means[None, :] > means[:, None]).sum(axis=1),
        "n_support": np.array([fit.support.size for fit in fits]),
    }
    return table | {f"split{k}_test_score": scores[:, k] for k in range(scores.shape[1])}
