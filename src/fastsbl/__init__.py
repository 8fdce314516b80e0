"""Sparse Bayesian learning at the cost of one lasso, with safe screening and a certificate on every answer."""

from typing import Any

__version__ = "0.1.0.dev0"

_HOMES = {
    "SBLRegressor": "fastsbl.estimators",
    "SBLRegressorCV": "fastsbl.estimators",
    "SBLSelector": "fastsbl.estimators",
    "SparseRepresentationClassifier": "fastsbl.estimators",
    "WeightedLasso": "fastsbl.estimators",
    "fit_sbl": "fastsbl.sbl",
    "solve_weighted_lasso": "fastsbl.lasso",
}


def __getattr__(name: str) -> Any:
    """Load public names when they are first used, so that importing the package is quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fastsbl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
