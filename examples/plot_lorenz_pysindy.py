"""
Equations of motion from noisy data, with PySINDy
=================================================

`PySINDy <https://pysindy.readthedocs.io>`_ finds differential equations: derivatives of the measured
quantities are written as sparse combinations of candidate terms. Any scikit-learn regressor can do the sparse part.
With ``SBLRegressor`` there is no threshold to set: the noise is learned.
"""

# %%
# The Lorenz system, 30 time units of it, with noise of 2 % of each coordinate's spread.
import matplotlib.pyplot as plt
import numpy as np
import pysindy
from scipy.integrate import solve_ivp
from scipy.signal import savgol_filter

from fastsbl import SBLRegressor


def lorenz(t, state):
    """Change of the state with time."""
    x, y, z = state
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


step = 0.002
times = np.arange(0, 30, step)
options = {"rtol": 1e-10, "atol": 1e-10, "method": "LSODA"}
clean = solve_ivp(lorenz, times[[0, -1]], [-8, 8, 27], t_eval=times, **options).y.T
rng = np.random.default_rng(0)
measured = clean + 0.02 * clean.std(axis=0) * rng.standard_normal(clean.shape)

# %%
# Smooth curves and their derivatives come from local polynomials over 41 samples. Neighbouring derivatives then share
# most of their noise: they are the same observation, seen many times. Sparse Bayesian learning takes rows for
# independent, and would believe each of them. So take one row per half window.
window = 41
rows = slice(window, -window, window // 2)
states = savgol_filter(measured, window, 4, axis=0)[rows]
slopes = savgol_filter(measured, window, 4, deriv=1, delta=step, axis=0)[rows]

model = pysindy.SINDy(
    optimizer=pysindy.WrappedOptimizer(SBLRegressor(fit_intercept=False), unbias=False),
    feature_library=pysindy.PolynomialLibrary(3),
)
model.fit(states, t=step * (window // 2), x_dot=slopes, feature_names=["x", "y", "z"])
names, found = model.get_feature_names(), model.coefficients()
print(f"{states.shape[0]} rows, {len(names)} candidate terms for each equation")
for left, coefficients in zip("xyz", found, strict=True):
    used = np.flatnonzero(coefficients)
    print(f"d{left}/dt =", " ".join(f"{coefficients[k]:+.3f} {names[k]}" for k in used))

# %%
# ``unbias=False`` keeps the posterior means as they are; PySINDy would otherwise fit the kept terms again by least
# squares. The regressors behind each equation know how sure they are:
for left, regressor in zip("xyz", model.optimizer.optimizer.estimators_, strict=True):
    std = np.sqrt(np.diag(regressor.sigma_))
    text = ", ".join(f"{names[k]} ± {s:.3f}" for k, s in zip(regressor.support_, std, strict=True))
    print(f"d{left}/dt: noise {np.sqrt(regressor.noise_variance_):.2f}; {text}")

# %%
# The equations found, run from the same start. The system is chaotic: two trajectories part after a while, however
# good the equations are, but stay on the same attractor.
powers = model.feature_library.powers_


def motion(t, state):
    """The right-hand sides that were found."""
    return found @ np.prod(state**powers, axis=1)


shown = times[:10000]
again = solve_ivp(motion, shown[[0, -1]], clean[0], t_eval=shown, **options).y.T
figure = plt.figure(figsize=(10, 4.2), layout="constrained")
left = figure.add_subplot(1, 2, 1, projection="3d")
left.plot(*measured.T, color="#7a7a7a", lw=0.4, alpha=0.8, label="measured")
left.plot(*again.T, color="#0072b2", lw=0.6, label="found")
left.set(xlabel="x", ylabel="y", zlabel="z")
left.legend(frameon=False)
right = figure.add_subplot(1, 2, 2)
right.plot(shown, measured[:10000, 0], color="#7a7a7a", lw=2.5, alpha=0.6, label="measured")
right.plot(shown, again[:, 0], color="#0072b2", lw=1, label="found")
right.set(xlabel="time", ylabel="x")
right.legend(frameon=False, loc="upper right")
plt.show()
