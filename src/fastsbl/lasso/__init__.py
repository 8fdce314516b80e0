"""The weighted lasso, solved fast and certified."""

from fastsbl.lasso.solution import LassoSolution
from fastsbl.lasso.solve import lambda_max, solve_weighted_lasso, weighted_lasso_path

__all__ = ["LassoSolution", "lambda_max", "solve_weighted_lasso", "weighted_lasso_path"]
