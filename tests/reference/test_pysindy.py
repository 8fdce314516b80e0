"""SBLRegressor as the sparse regression of PySINDy: the Lorenz equations from noisy measurements."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.signal import savgol_filter

from fastsbl import SBLRegressor

pysindy = pytest.importorskip("pysindy", reason="pysindy is not installed")

STEP, WINDOW = 0.002, 41
EQUATIONS = {"x": {"x": -10.0, "y": 10.0}, "y": {"x": 28.0, "y": -1.0, "x z": -1.0}, "z": {"z": -8 / 3, "x y": 1.0}}


def lorenz(t, state):
    x, y, z = state
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


@pytest.fixture(scope="module")
def clean():
    times = np.arange(0, 20, STEP)
    return solve_ivp(lorenz, times[[0, -1]], [-8, 8, 27], t_eval=times, rtol=1e-9, atol=1e-9, method="LSODA").y.T


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.05])
def test_the_lorenz_equations_are_found_without_a_threshold(clean, noise):
    rng = np.random.default_rng(0)
    measured = clean + noise * clean.std(axis=0) * rng.standard_normal(clean.shape)
    rows = slice(WINDOW, -WINDOW, WINDOW // 2)  # neighbouring derivatives share their errors
    states = savgol_filter(measured, WINDOW, 4, axis=0)[rows]
    slopes = savgol_filter(measured, WINDOW, 4, deriv=1, delta=STEP, axis=0)[rows]
    model = pysindy.SINDy(
        optimizer=pysindy.WrappedOptimizer(SBLRegressor(fit_intercept=False), unbias=False),
        feature_library=pysindy.PolynomialLibrary(3),
    )
    model.fit(states, t=STEP * (WINDOW // 2), x_dot=slopes, feature_names=["x", "y", "z"])
    names, found = model.get_feature_names(), model.coefficients()
    assert len(names) == 20
    for row, truth in zip(found, EQUATIONS.values(), strict=True):
        coefficients = {names[k]: row[k] for k in np.flatnonzero(row)}
        assert coefficients.keys() == truth.keys()
        for name, value in truth.items():
            assert coefficients[name] == pytest.approx(value, rel=0.1), name
    assert model.complexity == 7
