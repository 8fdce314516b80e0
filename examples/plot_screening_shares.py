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

from fastsbl import screening
from fastsbl.datasets import make_sparse_regression
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import lambda_max, weighted_lasso_path

problem = make_sparse_regression(100, 1000, n_nonzero=6, design="ar", rng=0)
phi, y = as_dictionary(problem.dictionary), problem.y
weights = phi.column_norms()
largest = lambda_max(phi, y, weights)
ratios = np.geomspace(1.0, 0.05, 25)
path = weighted_lasso_path(phi, y, ratios, weights)

# %%
# Screen each problem before it is solved. The tests return a mask, and the share of the columns in it.
static = {
    "sphere": screening.sphere_test,
    "dome": screening.dome_test,
    "two hyperplanes": screening.two_hyperplane_test,
}
dynamic = {
    "gap sphere": screening.gap_sphere_test,
    "gap dome": screening.gap_dome_test,
    "Hölder dome": screening.holder_dome_test,
}
shares = {name: [test(phi, y, ratio * largest, weights).share for ratio in ratios[1:]] for name, test in static.items()}
for name, test in dynamic.items():
    shares[name] = [
        test(phi, y, ratio * largest, weights, coef=before.coef).share
        for ratio, before in zip(ratios[1:], path[:-1], strict=True)
    ]

# %%
# What can be reached at most is the share of zeros in the answer.
zeros = [1 - solution.support.size / phi.n_features for solution in path[1:]]

figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axes.plot(ratios[1:], zeros, color="#9a9a9a", lw=5, solid_capstyle="butt", label="zero in the answer")
colours = dict(zip(shares, ("#e69f00", "#d55e00", "#a3560f", "#56b4e9", "#0072b2", "#003f63"), strict=True))
markers = dict(zip(shares, "sD^oPv", strict=True))
for name, values in shares.items():
    line = "--" if name in static else "-"
    axes.plot(ratios[1:], values, line, color=colours[name], marker=markers[name], ms=5, label=name)
axes.set(xscale="log", xlabel="penalty / largest useful penalty", ylabel="share rejected", ylim=(-0.03, 1.05))
axes.set_xticks([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0], ["0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "1"])
axes.minorticks_off()
axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
plt.show()
