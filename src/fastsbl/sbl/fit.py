"""`fit_sbl`: sparse Bayesian learning at a given or learned noise variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastsbl._base.checks import check_learn, check_positive_number, check_target
from fastsbl._base.parallel import quiet_blas
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl.noise import learn_noise
from fastsbl.sbl.outer import Settings, Start, run
from fastsbl.sbl.result import SBLResult, gamma_to_start
from fastsbl.screening.rules import LAM_ZERO

__all__ = ["fit_sbl"]


def fit_sbl(
    dictionary: Any,
    y: Any,
    lam: Any = "learn",
    *,
    init: Any = "null",
    screening: str | None = "holder",
    bounds: bool = True,
    extrapolate: bool = False,
    solver: str = "working-set",
    positive: bool = False,
    groups: Any = None,
    threshold: float = 0.0,
    tol: float = 1e-4,
    max_iter: int = 1000,
    inner_tol: float = 1e-8,
    warm_start: Any = None,
    n_effective: float | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> SBLResult:
    """Fit a sparse Bayesian model ``y = Phi theta + noise`` with ``theta_i ~ N(0, gamma_i)`` by evidence maximisation.

    Minimises ``log|S| + y' S^-1 y``, ``S = lam I + Phi diag(gamma) Phi'``, as a sequence of weighted lasso problems,
    each solved exactly and certified on all features.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    y : array of shape (N,) or (N, L)
        The target; L targets share one gamma, and so one support.
    lam : float or "learn"
        Noise variance. "learn" fits along falling variances, refits each support it meets together with its noise,
        and returns the one with the best evidence (see `learn_noise`): features that plain SBL at the learned
        variance would add, but that do not pay for themselves, stay out.
    init : {"null", "unit"} or array of shape (n,)
        First weights u: "null" starts from gamma = 0 (the fit then scales with y and with each column),
        "unit" is the paper's u = 1, an array is used as it is.
    screening : str or None
        Safe rule used in each inner problem, as in `solve_weighted_lasso`. The answer is the same with all.
    bounds : bool
        Certify most features by bounds instead of computing their weight and correlation. The answer is the
        same without, at many times the cost.
    extrapolate : bool
        Jump ahead along the last steps of gamma while the support stays the same, if that lowers the objective. Fewer
        iterations, but it may end in another stationary point.
    solver : {"working-set", "cd", "cvxpy"}
        Solver of the inner problems.
    positive : bool
        Whether theta >= 0.
    groups : array of shape (n,), optional
        A label for each column: columns with equal labels share one gamma and enter together. Sphere tests screen
        groups; the planes of the other rules have no closed form there.
    threshold : float
        At the end, drop features whose ``gamma_i ||phi_i||^2`` is at most this share of the largest (0 keeps all).
    tol : float
        Stop once no ``gamma_i ||phi_i||^2`` changes by more than this share of the largest, and every feature
        has been checked. At the default the objective is within about 1e-4 of its limit.
    max_iter : int
        Most outer iterations.
    inner_tol : float
        Relative duality gap of inner problems that are not solved exactly ("cd", "cvxpy", several targets, complex).
    warm_start : SBLResult or array of shape (n,), optional
        Start from this gamma instead of ``init``. The objective has several stationary points, and another start
        may lead to another one.
    n_effective : float, optional
        How many samples the rows stand for, if not N: rows and y scaled by the square roots of frequency weights
        stand for the sum of the weights. It matters to the evidence and to a learned noise variance.
    callback : callable, optional
        Called with each record of the history.

    Returns
    -------
    SBLResult
        Coefficients, gamma, posterior, certificate and history.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.sbl import fit_sbl
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((50, 200))
    >>> y = 3 * phi[:, 7] - 2 * phi[:, 42] + 0.1 * rng.standard_normal(50)
    >>> result = fit_sbl(phi, y, lam=0.1)
    >>> result.support
    array([ 7, 42])
    >>> result.coef[result.support].round(1)
    array([ 3., -2.])
    """
    settings = Settings(
        init=init,
        screening=screening,
        bounds=bounds,
        extrapolate=extrapolate,
        solver=solver,
        positive=positive,
        threshold=threshold,
        tol=tol,
        max_iter=max_iter,
        inner_tol=inner_tol,
        callback=callback,
    )
    phi = as_dictionary(dictionary).metered()
    target = check_target(y, phi.n_samples)
    learn = isinstance(lam, str)
    if learn:
        check_learn(lam)
        if warm_start is not None:
            raise ValueError("warm_start needs a given lam, since lam='learn' starts from gamma = 0")
    else:
        lam = check_positive_number(lam, "lam", zero=LAM_ZERO)
    gamma = None if warm_start is None else gamma_to_start(warm_start, phi.n_features)
    with quiet_blas():
        start = Start(phi, target, settings.positive, n_effective=n_effective, groups=groups)
        if learn:
            return learn_noise(start, target, settings)
        return run(start, target, lam, settings, gamma=gamma, since=0.0)
