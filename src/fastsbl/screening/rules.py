"""The rules by name, and the public tests.

To add a rule: write a function that returns a region and a mask, and add one line to `_STATIC` (needs
only the target) or `_DYNAMIC` (needs a primal point). The contract tests then run over it by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastsbl._base.checks import (
    check_choice,
    check_coefficients,
    check_flag,
    check_positive_number,
    check_target,
    check_weights,
)
from fastsbl.dictionary import as_dictionary
from fastsbl.screening.dynamic import Tested, gap_dome_region, gap_sphere_region, holder_region
from fastsbl.screening.problem import DualProblem, PrimalPoint
from fastsbl.screening.region import Screening
from fastsbl.screening.static import BALLS, dome_region, sphere_region, two_hyperplane_region

__all__ = [
    "Rule",
    "dome_test",
    "find_rules",
    "gap_dome_test",
    "gap_sphere_test",
    "holder_dome_test",
    "rule_names",
    "sphere_test",
    "two_hyperplane_test",
]

LAM_ZERO = (
    "at lam = 0 the problem is a weighted basis pursuit: nothing can be screened, and sparse Bayesian learning "
    "degenerates; take a small positive lam instead"
)

_STATIC: dict[str, Callable[[DualProblem, str], Tested]] = {
    "sphere": sphere_region,
    "dome": dome_region,
    "two_hyperplanes": two_hyperplane_region,
}
_DYNAMIC: dict[str, Callable[[DualProblem, PrimalPoint], Tested]] = {
    "gap_sphere": gap_sphere_region,
    "gap_dome": gap_dome_region,
    "holder": holder_region,
}
_UNIONS = {"auto": ("two_hyperplanes", "holder")}


@dataclass(frozen=True)
class Rule:
    """One named test.

    Attributes
    ----------
    name : str
        As written in ``screening=``, with the ball of a static rule.
    dynamic : bool
        Whether it needs coefficients, and gains from better ones.
    """

    name: str
    dynamic: bool

    def test(self, problem: DualProblem, point: PrimalPoint | None = None) -> Screening:
        """Run the test on a problem, at a primal point if the rule is dynamic."""
        clock = time.thread_time()
        before = problem.dictionary.passes
        kind, _, ball = self.name.partition(":")
        if self.dynamic:
            if point is None:
                point = PrimalPoint(problem.anchor, problem.anchor_correlations, 0.0)  # only unpenalised coefficients
            region, rejected = _DYNAMIC[kind](problem, point)
        else:
            region, rejected = _STATIC[kind](problem, ball)
        problem.dictionary.note_seconds("screening", time.thread_time() - clock)
        return Screening(rejected, self.name, region, problem.dictionary.passes - before)


def rule_names() -> tuple[str, ...]:
    """Every name that ``screening=`` takes, the static rules on each of their balls."""
    static = tuple(f"{name}:{ball}" for name in _STATIC for ball in BALLS)
    return (*_STATIC, *static, *_DYNAMIC, *_UNIONS)


def find_rules(screening: str | None) -> tuple[Rule, ...]:
    """Rules behind a ``screening=`` argument: none, one, or the union that "auto" means."""
    if screening is None:
        return ()
    if isinstance(screening, str):
        if screening in _UNIONS:
            return tuple(rule for name in _UNIONS[screening] for rule in find_rules(name))
        if screening in _DYNAMIC:
            return (Rule(screening, dynamic=True),)
        kind, _, ball = screening.partition(":")
        if kind in _STATIC and (ball in BALLS or screening == kind):
            return (Rule(f"{kind}:{ball or BALLS[0]}", dynamic=False),)
    raise ValueError(f"screening must be None or one of {', '.join(map(repr, rule_names()))}; got {screening!r}")


def _problem(dictionary: Any, y: Any, lam: Any, weights: Any, positive: Any) -> DualProblem:
    phi = as_dictionary(dictionary).metered()
    target = check_target(y, phi.n_samples)
    limit = check_positive_number(lam, "lam", zero=LAM_ZERO)
    limits = limit * check_weights(weights, phi.n_features)
    positive = check_flag(positive, "positive")
    if positive and (phi.is_complex or np.iscomplexobj(target) or target.ndim == 2):
        raise ValueError("positive=True needs a real dictionary and one real target")
    return DualProblem(phi, target, limits, positive=positive)


def _static_test(kind: str, dictionary: Any, y: Any, lam: Any, weights: Any, positive: Any, ball: Any) -> Screening:
    check_choice(ball, "ball", BALLS)
    problem = _problem(dictionary, y, lam, weights, positive)
    return Rule(f"{kind}:{ball}", dynamic=False).test(problem)


def _dynamic_test(kind: str, dictionary: Any, y: Any, lam: Any, weights: Any, positive: Any, coef: Any) -> Screening:
    problem = _problem(dictionary, y, lam, weights, positive)
    theta = check_coefficients(coef, problem.dictionary.n_features, "coef")
    if theta.ndim != problem.y.ndim:
        raise ValueError(f"coef must have as many columns as y, got shapes {theta.shape} and {problem.y.shape}")
    if np.iscomplexobj(theta) and not problem.vector_valued:
        raise ValueError("coef must be real for a real problem, got complex values")
    if positive and (theta < 0).any():
        raise ValueError(f"coef must be at least 0 with positive=True, got a smallest of {float(theta.min())!r}")
    size = np.abs(theta) if theta.ndim == 1 else np.abs(theta).max(axis=1)
    excluded = np.isinf(problem.limits) & (size > 0)
    if excluded.any():
        raise ValueError(f"coef must be 0 where weights are inf, got {np.count_nonzero(excluded)} nonzero values there")
    return Rule(kind, dynamic=True).test(problem, problem.point(theta))


def sphere_test(
    dictionary: Any, y: Any, lam: float, weights: Any = None, *, positive: bool = False, ball: str = "diameter"
) -> Screening:
    """Screen the weighted lasso with a ball around its dual optimum.

    The problem is ``min 0.5 ||y - Phi theta||^2 + lam sum_i weights_i |theta_i|``. A rejected column
    has a zero coefficient in every solution, whatever solver finds it.

    Parameters
    ----------
    dictionary : array-like, sparse matrix, operator or Dictionary of shape (N, n)
        Phi.
    y : array of shape (N,) or (N, L)
        The target; with L targets the penalty is on the norms of the coefficients' rows.
    lam : float
        Penalty, above 0.
    weights : array of shape (n,), optional
        Feature weights (ones by default); 0 is unpenalised, inf excluded.
    positive : bool
        Whether the coefficients are constrained to be at least 0.
    ball : {"diameter", "full", "paper"}
        "diameter" has the target and its largest feasible multiple as ends of a diameter; "full" is
        centred at the target and twice as wide; "paper" scales the target by the smallest weight.

    Returns
    -------
    Screening
        The mask ``rejected``, the ``region`` it came from, and what it cost in ``passes``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.screening import sphere_test
    >>> phi = np.eye(3)
    >>> sphere_test(phi, np.array([1.0, 0.2, 0.1]), lam=0.9).rejected
    array([False,  True,  True])
    """
    return _static_test("sphere", dictionary, y, lam, weights, positive, ball)


def dome_test(
    dictionary: Any, y: Any, lam: float, weights: Any = None, *, positive: bool = False, ball: str = "diameter"
) -> Screening:
    """Screen the weighted lasso with a ball cut by the dual constraint that cuts it deepest.

    Parameters and result are those of `sphere_test`; one more read of the dictionary. For several
    targets or complex data there is no closed form, and the ball alone is used.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.screening import dome_test
    >>> dome_test(np.eye(3), np.array([1.0, 0.2, 0.1]), lam=0.5).rejected
    array([False,  True,  True])
    """
    return _static_test("dome", dictionary, y, lam, weights, positive, ball)


def two_hyperplane_test(
    dictionary: Any, y: Any, lam: float, weights: Any = None, *, positive: bool = False, ball: str = "diameter"
) -> Screening:
    """Screen the weighted lasso with a ball cut by two dual constraints (the paper's test).

    Parameters and result are those of `sphere_test`; two more reads of the dictionary. With
    ``ball="paper"`` this is the paper's Algorithm 2 with its formulas corrected and rounding margins
    added. For several targets or complex data the ball alone is used.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.screening import two_hyperplane_test
    >>> result = two_hyperplane_test(np.eye(3), np.array([1.0, 0.7, 0.1]), lam=0.5)
    >>> result.rejected, len(result.region.half_spaces)
    (array([False, False,  True]), 2)
    """
    return _static_test("two_hyperplanes", dictionary, y, lam, weights, positive, ball)


def gap_sphere_test(
    dictionary: Any, y: Any, lam: float, weights: Any = None, *, coef: Any, positive: bool = False
) -> Screening:
    """Screen the weighted lasso with the ball of radius sqrt(2 gap) around the scaled residual.

    Parameters
    ----------
    dictionary, y, lam, weights, positive
        As in `sphere_test`.
    coef : array of shape (n,) or (n, L)
        Any coefficients, from any solver; the better they are, the more is rejected.

    Returns
    -------
    Screening
        As in `sphere_test`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.screening import gap_sphere_test
    >>> gap_sphere_test(np.eye(3), np.array([1.0, 0.2, 0.1]), lam=0.5, coef=np.array([0.5, 0, 0])).rejected
    array([False,  True,  True])
    """
    return _dynamic_test("gap_sphere", dictionary, y, lam, weights, positive, coef)


def gap_dome_test(
    dictionary: Any, y: Any, lam: float, weights: Any = None, *, coef: Any, positive: bool = False
) -> Screening:
    """Screen the weighted lasso with the gap dome, which lies inside the gap sphere.

    Parameters and result are those of `gap_sphere_test`. For several targets or complex data the
    ball that the dome is cut from is used alone.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.screening import gap_dome_test
    >>> gap_dome_test(np.eye(3), np.array([1.0, 0.2, 0.1]), lam=0.5, coef=np.array([0.5, 0, 0])).rejected
    array([False,  True,  True])
    """
    return _dynamic_test("gap_dome", dictionary, y, lam, weights, positive, coef)


def holder_dome_test(
    dictionary: Any, y: Any, lam: float, weights: Any = None, *, coef: Any, positive: bool = False
) -> Screening:
    """Screen the weighted lasso with the Hoelder dome, which lies inside the gap dome.

    Parameters and result are those of `gap_sphere_test`. For several targets or complex data the
    ball that the dome is cut from is used alone.

    References
    ----------
    Tran, Elvira, Dang, Herzet, "Beyond GAP screening for Lasso by exploiting new dual cutting
    half-spaces", EUSIPCO 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.screening import holder_dome_test
    >>> holder_dome_test(np.eye(3), np.array([1.0, 0.2, 0.1]), lam=0.5, coef=np.array([0.5, 0, 0])).rejected
    array([False,  True,  True])
    """
    return _dynamic_test("holder", dictionary, y, lam, weights, positive, coef)
