"""Many fits on one dictionary: a grid of noise variances for one target, or many separate targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fastsbl._base.checks import check_choice, check_flag, check_positive_number, check_target, check_whole_number
from fastsbl._base.parallel import available_threads, one_thread_each, quiet_blas
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl.noise import learn_noise
from fastsbl.sbl.outer import Settings, Start, make_inner, run
from fastsbl.sbl.result import SBLResult
from fastsbl.screening.rules import LAM_ZERO

__all__ = ["fit_sbl_batch", "sbl_path"]

_PRODUCTS_BYTES = 2**27


def sbl_path(
    dictionary: Any,
    y: Any,
    ratios: Sequence[float] | Array,
    *,
    relative_to: str = "lambda_max",
    follow: bool = False,
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
    check_choice(relative_to, "relative_to", ("lambda_max", "sbl_lambda_max"))
    check_flag(follow, "follow")
    phi = as_dictionary(dictionary).metered()
    target = check_target(y, phi.n_samples)
    grid = [check_positive_number(ratio, "ratios") for ratio in np.atleast_1d(np.asarray(ratios)).tolist()]
    start = Start(phi, target, settings.positive, groups=groups)
    reference = start.lambda_max
    if relative_to == "lambda_max":
        reference = float(start.problem.sizes(start.problem.correlations).max())
    if reference == 0.0:  # nothing to explain, whatever the noise
        reference = 1.0
    inner = make_inner(start, target, settings)
    results: dict[int, SBLResult] = {}
    gamma: FloatArray | None = None
    for k in sorted(range(len(grid)), key=lambda k: -grid[k]):
        with quiet_blas():
            results[k] = run(start, target, grid[k] * reference, settings, inner=inner, gamma=gamma if follow else None)
        gamma = results[k].gamma
    return [results[k] for k in range(len(grid))]


def fit_sbl_batch(
    dictionary: Any,
    Y: Any,
    lam: Any,
    *,
    n_jobs: int | None = None,
    callback: Callable[[int, SBLResult], object] | None = None,
    **options: Any,
) -> list[SBLResult]:
    """Fit a sparse Bayesian model to each column of Y separately, on one dictionary.

    One product gives the correlations of many targets at once; the fits then run on one thread each. The results
    are those of `fit_sbl` on each column.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    Y : array of shape (N, M)
        One target per column.
    lam : float, array of shape (M,) or "learn"
        Noise variance, the same for all or one for each, or learned for each target as in `fit_sbl`.
    n_jobs : int, optional
        Threads; by default one per core.
    callback : callable, optional
        Called as ``callback(number, result)`` when a fit ends, from its thread.
    **options
        As in `fit_sbl`.

    Returns
    -------
    list of SBLResult
        One per column of Y.

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
    targets = check_target(Y, phi.n_samples, "Y")
    if targets.ndim != 2:
        raise ValueError(f"Y must have shape ({phi.n_samples}, M), one target per column, got {targets.shape}")
    count = targets.shape[1]
    learn = isinstance(lam, str)
    if learn:
        check_choice(lam, "lam", ("learn",))
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
    jobs = available_threads() if n_jobs is None else check_whole_number(n_jobs, "n_jobs")
    norms = phi.column_norms()
    results: list[SBLResult | None] = [None] * count
    chunk = max(jobs, _PRODUCTS_BYTES // (16 * phi.n_features))
    with ThreadPoolExecutor(jobs) as pool, one_thread_each():
        for low in range(0, count, chunk):
            part = range(low, min(low + chunk, count))
            products = phi.correlate(targets[:, part.start : part.stop])

            def fit(k: int, products: Array = products, first: int = low) -> None:
                view = phi.metered()
                y = np.ascontiguousarray(targets[:, k])
                start = Start(view, y, settings.positive, (norms, np.ascontiguousarray(products[:, k - first])))
                result = learn_noise(start, y, settings) if learn else run(start, y, float(variances[k]), settings)
                results[k] = result
                if callback is not None:
                    callback(k, result)

            for _ in pool.map(fit, part):
                pass
    return [result for result in results if result is not None]
