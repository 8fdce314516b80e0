"""Sparse Bayesian learning at the cost of one lasso, with safe screening and a certificate on every answer."""

__version__ = "0.1.0.dev0"
