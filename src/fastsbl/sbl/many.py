"""Many fits on one dictionary: a grid of noise variances for one target, or many separate targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastsbl._base.checks import (
    check_choice,
    check_flag,
    check_learn,
    check_positive_number,
    check_target,
    check_whole_number,
)
from fastsbl._base.parallel import available_threads, quiet_blas
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.sbl.noise import learn_noise
from fastsbl.sbl.outer import Settings, Start, make_inner, run
from fastsbl.sbl.result import SBLResult, gamma_to_start
from fastsbl.sbl.together import run_together
from fastsbl.screening.rules import LAM_ZERO

__all__ = ["fit_sbl_batch", "sbl_path", "sbl_path_batch"]


def sbl_path(
    dictionary: Any,
    y: Any,
    ratios: Sequence[float] | Array,
    *,
    relative_to: str = "lambda_max",
    follow: bool = False,
    warm_start: Any = None,
    groups: Any = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
    **options: Any,
) -> list[SBLResult]:
    """Fit sparse Bayesian models for a grid of noise variances ``lam = ratio * lambda_max``.

    Norms, products, columns in hand and their Gram matrix are shared by all fits.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    y : array of shape (N,) or (N, L)
        The target.
    ratios : sequence of float
        Noise variances relative to the reference, each above 0.
    relative_to : {"lambda_max", "sbl_lambda_max"}
        The reference: ``max_i |phi_i' y|`` as in the paper, or ``max_i |phi_i' y|^2 / ||phi_i||^2``, which scales
        as a variance should.
    follow : bool
        Start each fit from the gamma of the one before it, from the largest ratio down. It takes fewer iterations,
        but may lead to other stationary points than separate fits; without it the answers are those of `fit_sbl`.
    warm_start : SBLResult or array of shape (n,), optional
        With ``follow``, the gamma that the fit of the largest ratio starts from: to go on where a path has ended.
    groups : array of shape (n,), optional
        As in `fit_sbl`.
    callback : callable, optional
        Called with each record of each fit's history.
    **options
        As in `fit_sbl`.

    Returns
    -------
    list of SBLResult
        In the order of ``ratios``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import sbl_path
    >>> path = sbl_path(np.eye(3), np.array([3.0, 1.0, 0.1]), [1.0, 0.1], relative_to="sbl_lambda_max")
    >>> [result.support.tolist() for result in path]
    [[], [0, 1]]
    """
    settings = Settings(callback=callback, **options)
    grid = _check_grid(ratios, relative_to, follow)
    phi = as_dictionary(dictionary).metered()
    target = check_target(y, phi.n_samples)
    gamma = None
    if warm_start is not None:
        if not follow:
            raise ValueError("warm_start needs follow=True, since the fits of a path start alone without it")
        gamma = gamma_to_start(warm_start, phi.n_features)
    with quiet_blas():
        start = Start(phi, target, settings.positive, groups=groups)
        return _fit_grid(start, target, grid, relative_to, follow, settings, gamma)


def _check_grid(ratios: Any, relative_to: Any, follow: Any) -> list[float]:
    check_choice(relative_to, "relative_to", ("lambda_max", "sbl_lambda_max"))
    check_flag(follow, "follow")
    return [check_positive_number(ratio, "ratios") for ratio in np.atleast_1d(np.asarray(ratios)).tolist()]


def _fit_grid(
    start: Start,
    target: Array,
    grid: list[float],
    relative_to: str,
    follow: bool,
    settings: Settings,
    gamma: FloatArray | None = None,
) -> list[SBLResult]:
    """Fit from the largest noise variance down; columns in hand and products in memory stay."""
    reference = start.lambda_max
    if relative_to == "lambda_max":
        reference = float(start.problem.sizes(start.problem.correlations).max())
    if reference == 0.0:  # nothing to explain, whatever the noise
        reference = 1.0
    inner = make_inner(start, target, settings)
    results: dict[int, SBLResult] = {}
    for k in sorted(range(len(grid)), key=lambda k: -grid[k]):
        results[k] = run(start, target, grid[k] * reference, settings, inner=inner, gamma=gamma if follow else None)
        gamma = results[k].gamma
    return [results[k] for k in range(len(grid))]


def fit_sbl_batch(
    dictionary: Any,
    Y: Any,
    lam: Any,
    *,
    n_jobs: int | None = None,
    keep: Callable[[int, SBLResult], Any] | None = None,
    callback: Callable[[int, SBLResult], object] | None = None,
    **options: Any,
) -> list[Any]:
    """Fit a sparse Bayesian model to each column of Y separately, on one dictionary.

    Several fits are at work at a time. Where one needs the product of its residual with the whole dictionary, it
    waits for others that need theirs, and one matrix product serves up to 32 of them, at a fraction of the cost each.
    The results are those of `fit_sbl` on each column.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    Y : array of shape (N, M)
        One target per column.
    lam : float, array of shape (M,) or "learn"
        Noise variance, the same for all or one for each, or learned for each target as in `fit_sbl`.
    n_jobs : int, optional
        Fits that run at the same time; by default one per core. Memory does not depend on it: at most 64 fits
        are begun, fewer if their vectors of length n would take more than about 1 GB.
    keep : callable, optional
        Called as ``keep(number, result)`` when a fit ends, from its thread; what it returns stands in the list in the
        place of the result. With thousands of targets, keep what is needed: a result holds two vectors of length n.
    callback : callable, optional
        Called as ``callback(number, result)`` when a fit ends, from its thread.
    **options
        As in `fit_sbl`.

    Returns
    -------
    list of SBLResult
        One per column of Y (or what ``keep`` made of it).

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import fit_sbl_batch
    >>> results = fit_sbl_batch(np.eye(3), np.array([[3.0, 0.0], [0.0, 2.0], [0.1, 0.1]]), lam=0.1)
    >>> [result.support.tolist() for result in results]
    [[0], [1]]
    """
    settings = Settings(**options)
    phi = as_dictionary(dictionary)
    targets = _check_targets(Y, phi)
    count = targets.shape[1]
    learn = isinstance(lam, str)
    if learn:
        check_learn(lam)
        lam = 1.0
    variances = (
        np.asarray(lam, dtype=np.float64)
        if np.ndim(lam)
        else np.full(count, check_positive_number(lam, "lam", zero=LAM_ZERO))
    )
    if variances.shape != (count,) or not np.isfinite(variances).all() or (variances <= 0).any():
        raise ValueError(
            f"lam must be a number above 0 or {count} of them, one per column of Y, got shape {variances.shape}"
        )

    def fit(view: Dictionary, k: int) -> Any:
        y = np.ascontiguousarray(targets[:, k])
        start = Start(view, y, settings.positive)
        result = learn_noise(start, y, settings) if learn else run(start, y, float(variances[k]), settings, since=0.0)
        result = replace(result, _dictionary=phi)
        if callback is not None:
            callback(k, result)
        return result if keep is None else keep(k, result)

    return _fit_all(phi, count, fit, n_jobs)


def sbl_path_batch(
    dictionary: Any,
    Y: Any,
    ratios: Sequence[float] | Array,
    *,
    relative_to: str = "lambda_max",
    follow: bool = False,
    n_jobs: int | None = None,
    keep: Callable[[int, list[SBLResult]], Any] | None = None,
    **options: Any,
) -> list[Any]:
    """Fit sparse Bayesian models to each column of Y separately, along a grid of noise variances.

    What `sbl_path` shares between the fits of one target (columns in hand, products in memory) and what `fit_sbl_batch`
    shares between targets (reads of the dictionary) come together here. Unless ``follow`` is set, each answer is that
    of `fit_sbl` at its own noise variance: with ``init="unit"``, that of the paper's algorithm. A study that scores
    5,000 images at 11 ratios would keep the class scores only::

        sbl_path_batch(phi, Y, ratios, init="unit", keep=lambda k, fits: [score(fit.coef) for fit in fits])

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    Y : array of shape (N, M)
        One target per column.
    ratios, relative_to, follow
        As in `sbl_path`; the reference is that of each target.
    n_jobs : int, optional
        Fits that run at the same time; by default one per core.
    keep : callable, optional
        Called as ``keep(number, results)`` with the results of one target, in the order of ``ratios``, when
        they are done, from the thread that made them; what it returns stands in the list in their place.
    **options
        As in `fit_sbl`.

    Returns
    -------
    list of list of SBLResult
        For each column of Y, the results in the order of ``ratios`` (or what ``keep`` made of them).

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import sbl_path_batch
    >>> Y = np.array([[3.0, 0.0], [1.0, 2.0], [0.1, 0.1]])
    >>> sbl_path_batch(np.eye(3), Y, [0.5, 0.1], keep=lambda number, fits: [fit.support.tolist() for fit in fits])
    [[[0], [0, 1]], [[1], [1]]]
    """
    settings = Settings(**options)
    grid = _check_grid(ratios, relative_to, follow)
    phi = as_dictionary(dictionary)
    targets = _check_targets(Y, phi)

    def fit(view: Dictionary, k: int) -> Any:
        y = np.ascontiguousarray(targets[:, k])
        start = Start(view, y, settings.positive)
        results = _fit_grid(start, y, grid, relative_to, follow, settings)
        results = [replace(result, _dictionary=phi) for result in results]
        return results if keep is None else keep(k, results)

    return _fit_all(phi, targets.shape[1], fit, n_jobs)


def _check_targets(Y: Any, phi: Dictionary) -> Array:
    targets = check_target(Y, phi.n_samples, "Y")
    if targets.ndim != 2:
        raise ValueError(f"Y must have shape ({phi.n_samples}, M), one target per column, got {targets.shape}")
    return targets


def _fit_all(phi: Dictionary, count: int, fit: Callable[[Dictionary, int], Any], n_jobs: int | None) -> list[Any]:
    cores = available_threads() if n_jobs is None else check_whole_number(n_jobs, "n_jobs")
    phi.column_norms()  # before the fits ask for them all at once
    results: list[Any] = [None] * count

    def task(view: Dictionary, k: int) -> None:
        results[k] = fit(view, k)

    run_together(phi, task, range(count), cores=cores)
    return results
