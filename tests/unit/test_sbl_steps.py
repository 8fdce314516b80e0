"""The compiled parts of an outer iteration, beside the same in numpy."""

import numpy as np
import pytest

from fastsbl.lasso._kernels import solve_gram, solve_part
from fastsbl.sbl._step_kernels import idle_over_limit, judge, look_closely, set_out, sum_up
from fastsbl.sbl.model import SupportModel

N, n, LAM = 30, 80, 0.3
ERROR = 1e-13


@pytest.fixture(params=[0, 1, 7], ids=lambda size: f"{size} active")
def problem(request):
    rng = np.random.default_rng(request.param)
    rows = rng.standard_normal((n, N))
    index = np.sort(rng.choice(n, request.param, replace=False))
    gamma = 10.0 ** rng.uniform(-1, 1, index.size)
    model = SupportModel(rows[index], rows[index] @ rows[index].T, gamma, LAM)
    return rng, rows, index, model


@pytest.mark.parametrize("positive", [False, True])
def test_features_looked_at_singly(problem, positive):
    rng, rows, _, model = problem
    residual = rng.standard_normal(N)
    index = np.sort(rng.choice(n, 40, replace=False))
    sizes = rows @ residual if positive else np.abs(rows @ residual)
    weights = model.weights(rows)
    norms = np.linalg.norm(rows, axis=1)
    upper, lower = np.full(n, np.inf), weights * rng.uniform(0.2, 1, n)
    before = lower.copy()
    violators, limits = np.empty(40, dtype=np.intp), np.empty(40)
    singles, found = judge(
        rows, index, index, residual, upper, lower, norms, ERROR, model.scaled, model.back, LAM, positive,
        violators, limits,
    )  # fmt: skip
    over = index[sizes[index] > LAM * before[index]]
    assert singles == over.size > 0
    expected = over[sizes[over] > LAM * weights[over]]
    assert 0 < expected.size < over.size
    assert violators[:found].tolist() == expected.tolist()
    np.testing.assert_allclose(limits[:found], LAM * weights[expected], rtol=1e-12)
    np.testing.assert_allclose(upper[index], sizes[index], atol=1e-10)
    np.testing.assert_allclose(lower[over], weights[over], rtol=1e-12)
    others = np.setdiff1d(np.arange(n), over)
    assert (lower[others] == before[others]).all()
    assert np.isinf(upper[np.setdiff1d(np.arange(n), index)]).all()


@pytest.mark.parametrize("positive", [False, True])
def test_features_looked_at_for_a_guard(problem, positive):
    rng, rows, _, model = problem
    residual, drift, widening = 0.3 * rng.standard_normal(N), 0.3, 1.1
    index = np.sort(rng.choice(n, 33, replace=False))
    sizes = rows @ residual if positive else np.abs(rows @ residual)
    weights, norms = model.weights(rows), np.linalg.norm(rows, axis=1)
    upper, lower, found = np.full(n, np.inf), np.zeros(n), np.empty(33, dtype=np.intp)
    # gathered columns, in the order of the index
    count = look_closely(
        rows[index], np.arange(33), index, residual, upper, lower, norms, ERROR, model.scaled, model.back, model.trace,
        LAM, drift, widening, positive, found,
    )  # fmt: skip
    np.testing.assert_allclose(upper[index], sizes[index], atol=1e-10)
    np.testing.assert_allclose(lower[index], weights[index], rtol=1e-6)
    assert (lower[index] <= weights[index] * (1 + 1e-12)).all()
    danger = (sizes[index] + norms[index] * drift) * widening >= LAM * weights[index]
    assert 0 < count < 33
    assert found[:count].tolist() == np.flatnonzero(danger).tolist()


def test_setting_out_from_a_model(problem):
    rng, rows, index, model = problem
    hand = np.union1d(index, rng.choice(n, 20))
    active = np.searchsorted(hand, index)
    size, room = hand.size, hand.size + 5
    gram, target = np.zeros((room, room)), np.zeros(room)
    gram[:size, :size], target[:size] = rows[hand] @ rows[hand].T, rows[hand] @ rng.standard_normal(N) * 5
    limits, theta, g = np.full(room, np.inf), np.zeros(room), np.zeros(room)
    scale = float(np.linalg.norm(target))
    kept = (active[1:], model.gamma[1:], model.scaled[1:].copy(), np.linalg.cholesky(
        np.linalg.inv(model.inner[1:, 1:] + LAM * np.eye(max(index.size - 1, 0)))).T.copy())  # fmt: skip
    factor = set_out(
        gram, limits, size, active, model.gamma, model.rows, model.scaled, model.back, LAM, *kept
    )  # fmt: skip
    solve_part(gram, target, limits, theta, g, size, scale, 1e-14, 1000, False)
    np.testing.assert_allclose(limits[active], LAM * model.weights(model.rows), rtol=1e-11)
    assert np.isinf(np.delete(limits[:size], active)).all()
    np.testing.assert_allclose(g[:size], target[:size] - gram[:size, :size] @ theta[:size], atol=1e-10)
    assert (np.abs(g[active]) <= limits[active] + 1e-9).all()
    if index.size == 0:
        assert factor == 1.0
    else:  # one feature more than in the model kept
        earlier = SupportModel(model.rows[1:], model.gram[1:, 1:], model.gamma[1:], LAM)
        assert factor >= np.max(earlier.weights(rows) / model.weights(rows)) * (1 - 1e-12)
        own = float(earlier.weights(model.rows[:1])[0])
        assert factor == pytest.approx(np.sqrt(1 + own**2 * model.gamma[0]), rel=1e-8)


def test_most_columns_idle(problem):
    rng, rows, _, _ = problem
    gram, target = rows @ rows.T, rows @ rng.standard_normal(N)
    limits = np.full(n, np.inf)
    limits[::5] = 0.5
    theta, g = np.zeros(n), np.zeros(n)
    assert solve_part(gram, target, limits, theta, g, n, 1.0, 1e-14, 1000, False) > 0
    whole, g_whole = np.zeros(n), np.zeros(n)
    solve_gram(gram, target, limits, whole, g_whole, n, 1.0, 1e-14, 1000, False)
    np.testing.assert_allclose(theta, whole, atol=1e-12)
    np.testing.assert_allclose(g, g_whole, atol=1e-10)
    found = np.empty(n, dtype=np.intp)
    lower = np.full(n, 0.4)
    count = idle_over_limit(limits, np.arange(n), g, n, lower, 1.0, False, found)
    assert found[:count].tolist() == np.flatnonzero(np.isinf(limits) & (np.abs(g) > 0.4)).tolist()


@pytest.mark.parametrize("one_sided", [False, True])
def test_penalty_and_gap(one_sided):
    rng = np.random.default_rng(4)
    A, y = rng.standard_normal((N, 6)), rng.standard_normal(N)
    theta, limits = np.array([0.0, 0.2, 0.0, 0.5, 0.0, 0.0]), np.array([1.0, 2.0, np.inf, 1.0, 3.0, 0.5])
    residual = y - A @ theta
    g = A.T @ residual
    penalty, gap = sum_up(theta, limits, g, 6, residual, y, one_sided)
    assert penalty == pytest.approx(0.9)
    ratio = np.max((g if one_sided else np.abs(g)) / limits)
    t = min(1.0, 1.0 / ratio if ratio > 0 else np.inf, residual @ y / (residual @ residual))
    expected = 0.5 * residual @ residual + penalty - t * residual @ y + 0.5 * t**2 * residual @ residual
    assert gap == pytest.approx(expected)
    assert (t * g[np.isfinite(limits)] <= limits[np.isfinite(limits)] + 1e-12).all()
