"""
How much each rule rejects
==========================

The same regression problem is screened at many penalties. The rules that need only the target are strong
near the largest useful penalty and lose their force quickly. The rules that start from the answer at the next
larger penalty keep theirs, and of these the Hölder dome keeps most.
"""

# %%
# A problem with correlated columns. Norms as weights make the answer independent of the columns' units.
import matplotlib.pyplot as plt
import numpy as np

from fastsbl.datasets import make_sparse_regression
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import lambda_max, solve_weighted_lasso
from fastsbl.report import plot_screening
from fastsbl.screening import holder_dome_test, two_hyperplane_test

problem = make_sparse_regression(100, 1000, n_nonzero=6, design="ar", rng=0)
phi, y = as_dictionary(problem.dictionary), problem.y
weights = phi.column_norms()

# %%
# A test returns a mask of the columns that are proved to be zero. Here it is asked at a third of the largest useful
# penalty: first with nothing but the target, then with the answer at half of it.
largest = lambda_max(phi, y, weights)
print(two_hyperplane_test(phi, y, largest / 3, weights))
before = solve_weighted_lasso(phi, y, largest / 2, weights)
test = holder_dome_test(phi, y, largest / 3, weights, coef=before.coef)
print(test)

# %%
# Whatever was rejected is zero in the answer.
answer = solve_weighted_lasso(phi, y, largest / 3, weights)
print("rejected and not zero:", np.count_nonzero(answer.coef[test.rejected]))

# %%
# All six rules at many penalties. What can be reached at most is the share of zeros in the answer.
plot_screening(phi, y, np.geomspace(0.95, 0.05, 25), weights=weights)
plt.show()
