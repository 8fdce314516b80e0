"""
A curve from noisy points: relevance vectors
============================================

With one Gaussian bump at each training point as dictionary, sparse Bayesian regression is the *relevance vector
machine*: it explains the curve with a few of the bumps, and says how sure it is.
"""

# %%
# A hundred noisy values of sin(x)/x. The bumps are the columns; the noise variance is learned.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from fastsbl import SBLRegressor

rng = np.random.default_rng(0)
noise, width = 0.1, 2.0
x = np.sort(rng.uniform(-10, 10, 100))
y = np.sinc(x / np.pi) + noise * rng.standard_normal(100)


def bumps(at):
    """One column for each training point."""
    return rbf_kernel(at[:, None], x[:, None], gamma=1 / (2 * width**2))


model = SBLRegressor().fit(bumps(x), y)
grid = np.linspace(-18, 18, 400)
mean, std = model.predict(bumps(grid), return_std=True)
truth = np.sinc(grid / np.pi)
inside = np.abs(grid) < 10
print(f"{model.support_.size} of {x.size} points are relevance vectors")
print(f"noise: learned {np.sqrt(model.noise_variance_):.3f}, true {noise}")
print(f"root mean square error of the curve: {np.sqrt(np.mean((mean - truth)[inside] ** 2)):.3f}")

# %%
# On the left the mean, a band that new observations should fall into nine times out of ten, and the relevance
# vectors. Beyond the data no bump reaches: there the answer is the intercept, and the band little more than the
# noise. It does *not* grow, which is the known flaw of this dictionary; do not read it as confidence.
#
# On the right the bumps that were kept, each times its coefficient, with the intercept they add up to the mean.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.0), layout="constrained", sharex=True, sharey=True)
left.axvspan(10, 18, color="#f0f0f0", lw=0)
left.axvspan(-18, -10, color="#f0f0f0", lw=0)
left.fill_between(grid, mean - 1.645 * std, mean + 1.645 * std, color="#0072b2", alpha=0.18, lw=0, label="90 % band")
left.plot(x, y, ".", color="#7a7a7a", ms=5, label="data")
left.plot(grid, truth, color="black", lw=1, ls="--", label="truth")
left.plot(grid, mean, color="#0072b2", label="mean")
used = model.support_
left.plot(x[used], y[used], "o", mfc="none", mec="#d55e00", mew=1.5, ms=10, label="relevance vectors")
left.set(xlabel="x", ylabel="y", title="Fit (grey: no data)", xlim=(-18, 18), ylim=(-0.7, 1.5))
left.legend(frameon=False, ncols=2, loc="upper left", fontsize=8)

for column in used:
    right.plot(grid, model.coef_[column] * bumps(grid)[:, column], color="#d55e00", lw=1)
    right.plot(x[column], model.coef_[column], "o", mfc="none", mec="#d55e00", mew=1.5, ms=10)
right.axhline(model.intercept_, color="#7a7a7a", lw=1, ls=":")
right.plot(grid, mean, color="#0072b2")
right.set(xlabel="x", title="What it is made of")
plt.show()
