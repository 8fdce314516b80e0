"""Sparse Bayesian learning and the weighted lasso as scikit-learn estimators."""

from fastsbl.estimators.classifier import Classified, SparseRepresentationClassifier
from fastsbl.estimators.cross_validation import SBLRegressorCV
from fastsbl.estimators.regressor import SBLRegressor
from fastsbl.estimators.selector import SBLSelector
from fastsbl.estimators.weighted_lasso import WeightedLasso

__all__ = [
    "Classified",
    "SBLRegressor",
    "SBLRegressorCV",
    "SBLSelector",
    "SparseRepresentationClassifier",
    "WeightedLasso",
]
