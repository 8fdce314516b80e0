"""Sparse Bayesian learning and the weighted lasso as scikit-learn estimators."""

from fastsbl.estimators.regressor import SBLRegressor

__all__ = ["SBLRegressor"]
