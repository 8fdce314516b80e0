"""Sparse Bayesian learning at the cost of one lasso, with safe screening and a certificate on every answer."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastsbl.estimators import (
        SBLRegressor,
        SBLRegressorCV,
        SBLSelector,
        SparseRepresentationClassifier,
        WeightedLasso,
    )
    from fastsbl.lasso import solve_weighted_lasso
    from fastsbl.sbl import fit_sbl

__all__ = [
    "SBLRegressor",
    "SBLRegressorCV",
    "SBLSelector",
    "SparseRepresentationClassifier",
    "WeightedLasso",
    "fit_sbl",
    "solve_weighted_lasso",
]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Load public names when they are first used, so that importing the package is quick."""
    if name not in __all__:
        raise AttributeError(f"module 'fastsbl' has no attribute {name!r}")
    from importlib import import_module

    home = {"fit_sbl": "fastsbl.sbl", "solve_weighted_lasso": "fastsbl.lasso"}.get(name, "fastsbl.estimators")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
