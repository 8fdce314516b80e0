"""A first look: one sparse regression problem, solved with a certificate, and what screening proves about it.

Run it with ``python -m fastsbl.example``.
"""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.datasets import SparseRegression, make_sparse_regression
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import LassoSolution, lambda_max, solve_weighted_lasso, weighted_lasso_path
from fastsbl.screening import (
    Screening,
    dome_test,
    gap_dome_test,
    gap_sphere_test,
    holder_dome_test,
    sphere_test,
    two_hyperplane_test,
)

__all__ = ["main"]

_RATIOS = (0.9, 0.7, 0.5, 0.3, 0.2)
_STATIC = {"sphere": sphere_test, "dome": dome_test, "two hyperplanes": two_hyperplane_test}
_DYNAMIC = {"gap sphere": gap_sphere_test, "gap dome": gap_dome_test, "Hoelder dome": holder_dome_test}


def main() -> None:
    """Simulate, solve, screen, and print two short tables."""
    problem = make_sparse_regression(200, 5000, n_nonzero=8, design="ar", snr_db=20, rng=0)
    phi = as_dictionary(problem.dictionary)
    weights = phi.column_norms()  # so that the scale of a column does not matter
    largest = lambda_max(phi, problem.y, weights)

    solution = solve_weighted_lasso(phi, problem.y, 0.2 * largest, weights)
    print("\n".join(_describe(problem, solution)))  # noqa: T201
    print()  # noqa: T201
    print("\n".join(_screening_table(problem, largest, weights)))  # noqa: T201


def _describe(problem: SparseRegression, solution: LassoSolution) -> list[str]:
    rows, columns = problem.dictionary.shape
    scale = 0.5 * float(problem.y @ problem.y)
    found = np.intersect1d(solution.support, problem.support).size
    return [
        f"Weighted lasso: {rows} samples, {columns} features, {problem.support.size} of them in the truth",
        f"  penalty                 {solution.lam:.4g}  (0.2 of the smallest one whose answer is zero)",
        f"  nonzero coefficients    {solution.support.size}, {found} of them true",
        f"  objective               {solution.primal:.6g}",
        f"  certified to within     {solution.gap:.2g}  ({solution.gap / scale:.1e} of 0.5 ||y||^2)",
        f"  reads of the dictionary {solution.passes:.1f}",
    ]


def _screening_table(problem: SparseRegression, largest: float, weights: FloatArray) -> list[str]:
    phi = as_dictionary(problem.dictionary)
    path = weighted_lasso_path(phi, problem.y, _RATIOS, weights)
    before = [np.zeros(phi.n_features), *(solution.coef for solution in path[:-1])]
    lines = [
        "Features proved to be zero before solving, in percent",
        f"  {'penalty / largest penalty':<28}" + "".join(f"{ratio:>7}" for ratio in _RATIOS),
        "  from the target alone",
    ]
    for name, static in _STATIC.items():
        tests = [static(phi, problem.y, ratio * largest, weights) for ratio in _RATIOS]
        lines.append(_row(name, tests))
    lines.append("  from the answer at the penalty to the left")
    for name, dynamic in _DYNAMIC.items():
        tests = [
            dynamic(phi, problem.y, ratio * largest, weights, coef=coef)
            for ratio, coef in zip(_RATIOS, before, strict=True)
        ]
        lines.append(_row(name, tests))
    zeros = [100 * (1 - solution.support.size / phi.n_features) for solution in path]
    lines.append(f"  {'zero in the answer':<28}" + "".join(f"{share:7.1f}" for share in zeros))
    return lines


def _row(name: str, tests: list[Screening]) -> str:
    return f"    {name:<26}" + "".join(f"{100 * test.share:7.1f}" for test in tests)


if __name__ == "__main__":
    main()
