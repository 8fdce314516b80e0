"""A first look: a sparse Bayesian fit beside the truth it was made from, and what screening proves on the way.

Run it with ``python -m fastsbl.example``.
"""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.datasets import SparseRegression, make_sparse_regression
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import lambda_max, weighted_lasso_path
from fastsbl.sbl import SBLResult, fit_sbl, sbl_lambda_max
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

_SHARE = 0.2
_RATIOS = (0.9, 0.7, 0.5, 0.3, 0.2)
_STATIC = {"sphere": sphere_test, "dome": dome_test, "two hyperplanes": two_hyperplane_test}
_DYNAMIC = {"gap sphere": gap_sphere_test, "gap dome": gap_dome_test, "Hoelder dome": holder_dome_test}


def main() -> None:
    """Simulate a problem, fit it with the noise learned and with the noise given, and screen it."""
    problem = make_sparse_regression(200, 5000, n_nonzero=8, design="ar", snr_db=20, rng=0)
    rows, columns = problem.dictionary.shape
    print(f"{rows} samples, {columns} features, {problem.support.size} of them in the truth")  # noqa: T201
    for lines in (_learned(problem), _given(problem), _screening_table(problem)):
        print()  # noqa: T201
        print("\n".join(lines))  # noqa: T201


def _learned(problem: SparseRegression) -> list[str]:
    phi = as_dictionary(problem.dictionary)
    result = fit_sbl(phi, problem.y)
    posterior = result.posterior()
    rows = zip(posterior.support, posterior.mean, posterior.std, strict=True)
    missed = np.setdiff1d(problem.support, posterior.support).size
    found = f"{posterior.support.size} features, {missed} of the true ones missed"
    return [
        "Sparse Bayesian learning, noise variance learned",
        f"  {'feature':>9}{'mean':>9}{'std':>8}{'truth':>9}",
        *(f"  {i:>9}{mean:>9.3f}{std:>8.3f}{problem.coef[i]:>9.3f}" for i, mean, std in rows),
        f"  {'found':<24}{found}",
        f"  {'noise variance':<24}{result.lam:.3f}, true one {problem.noise_variance:.3f}",
        f"  {'log evidence':<24}{result.evidence:.1f}, best of {len(result.noise_path)} supports that were tried",
        _cost(result, phi.passes),
    ]


def _given(problem: SparseRegression) -> list[str]:
    phi = as_dictionary(problem.dictionary)
    result = fit_sbl(phi, problem.y, _SHARE * sbl_lambda_max(phi, problem.y))
    reads = phi.passes
    certificate = result.certificate()
    gap = max(record["gap"] for record in result.history)
    return [
        f"Sparse Bayesian learning, noise variance given as {result.lam:.4g} ({_SHARE:g} sbl_lambda_max)",
        f"  {'found':<24}{result.support.size} features",
        f"  {'largest gap':<24}{gap:.1e} in any weighted lasso of the fit, 0.5 ||y||^2 is {_half_square(problem):.4g}",
        f"  {'certificate':<24}features outside reach {certificate.largest_outside:.3f} of what it takes to enter",
        _cost(result, reads),
    ]


def _cost(result: SBLResult, reads: float) -> str:
    return f"  {'cost':<24}{result.n_iter} weighted lassos, {reads:.1f} reads of the dictionary"


def _half_square(problem: SparseRegression) -> float:
    return 0.5 * float(problem.y @ problem.y)


def _screening_table(problem: SparseRegression) -> list[str]:
    phi = as_dictionary(problem.dictionary)
    weights: FloatArray = phi.column_norms()  # so that the scale of a column does not matter
    largest = lambda_max(phi, problem.y, weights)
    path = weighted_lasso_path(phi, problem.y, _RATIOS, weights)
    before = [np.zeros(phi.n_features), *(solution.coef for solution in path[:-1])]
    lines = [
        "One weighted lasso: features proved to be zero before solving, in percent",
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
