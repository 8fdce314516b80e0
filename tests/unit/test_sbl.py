"""The parts of sparse Bayesian learning against dense linear algebra: model, objective, posterior, and every bound."""

from contextlib import nullcontext

import numpy as np
import pytest

from fastsbl._base.warnings import ConvergenceWarning
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl import fit_sbl, loss, sbl_lambda_max
from fastsbl.sbl._kernels import over_limit
from fastsbl.sbl.bounded import BoundedInner
from fastsbl.sbl.exact import all_weights
from fastsbl.sbl.look import Look
from fastsbl.sbl.model import SupportModel
from fastsbl.sbl.outer import Settings, Start
from fastsbl.screening.problem import DualProblem

N, n = 30, 90


def make_model(seed, *, lam=0.1, size=6, kind=float, spread=2.0):
    """A dictionary with columns of different lengths, and a model on a few of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n)) * 10.0 ** rng.uniform(-1, 1, n)
    if kind is complex:
        X = X + 1j * rng.standard_normal((N, n))
    gamma = np.zeros(n)
    chosen = rng.choice(n, size, replace=False)
    gamma[chosen] = 10.0 ** rng.uniform(-spread, spread, size)
    return X, gamma, lam


def support_model(X, gamma, lam):
    rows = X[:, gamma > 0].T
    return SupportModel(rows, rows.conj() @ rows.T, gamma[gamma > 0], lam)


def dense_covariance(X, gamma, lam):
    return lam * np.eye(X.shape[0]) + (X * gamma) @ X.conj().T


def exact_weights(X, gamma, lam):
    """u from an orthonormal eigenbasis of B B^H, which stays accurate when lam is tiny."""
    left, values, _ = np.linalg.svd(X[:, gamma > 0] * np.sqrt(gamma[gamma > 0]), full_matrices=True)
    spectrum = np.full(X.shape[0], lam)
    spectrum[: values.size] += values**2
    return np.sqrt((np.abs(left.conj().T @ X) ** 2 / spectrum[:, None]).sum(axis=0))


# -- the model -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("lam", [1e2, 1e-2, 1e-6, 1e-10, 1e-13])
def test_weights_keep_their_digits_at_small_noise(lam, kind):
    X, gamma, lam = make_model(1, lam=lam, kind=kind, spread=1.0)
    expected = exact_weights(X, gamma, lam)
    found = support_model(X, gamma, lam).weights(X.T)
    outside = gamma == 0
    np.testing.assert_allclose(found[outside], expected[outside], rtol=1e-10)
    # a feature of the model has u^2 = (M^-1)-like numbers of its own: gamma u^2 <= 1
    np.testing.assert_allclose(found[~outside], expected[~outside], rtol=1e-5 if lam < 1e-8 else 1e-9)
    assert (gamma[~outside] * found[~outside] ** 2 <= 1 + 1e-9).all()


@pytest.mark.parametrize("kind", [float, complex])
def test_model_against_the_dense_covariance(kind):
    X, gamma, lam = make_model(2, kind=kind)
    rng = np.random.default_rng(3)
    y = rng.standard_normal((N, 3)) + (1j * rng.standard_normal((N, 3)) if kind is complex else 0)
    model, S = support_model(X, gamma, lam), dense_covariance(X, gamma, lam)
    used = gamma > 0
    assert model.log_det(N) == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-12)
    np.testing.assert_allclose(model.whiten_target(y), lam * np.linalg.solve(S, y), atol=1e-10)
    mean = gamma[used, None] * (X[:, used].conj().T @ np.linalg.solve(S, y))
    np.testing.assert_allclose(model.posterior_mean(y), mean, atol=1e-9)
    np.testing.assert_allclose(model.weights(model.rows, model.gram), model.weights(X[:, used].T), rtol=1e-12)
    if kind is float:
        inverse = np.linalg.inv(model.inner + lam * np.eye(model.size))
        np.testing.assert_allclose(model.back.T @ model.back, inverse, rtol=1e-9, atol=1e-9 * np.abs(inverse).max())
    left, x = model.split(X.T)
    inner = left.conj() @ left.T + x.conj().T @ x
    np.testing.assert_allclose(inner, X.conj().T @ np.linalg.solve(S, X), rtol=1e-8, atol=1e-8)


def test_empty_model():
    X, _, lam = make_model(4)
    model = support_model(X, np.zeros(n), lam)
    np.testing.assert_allclose(model.weights(X.T), np.linalg.norm(X, axis=0) / np.sqrt(lam), rtol=1e-14)
    assert model.log_det(N) == pytest.approx(N * np.log(lam))
    assert model.posterior_mean(np.ones(N)).shape == (0,)
    assert np.array_equal(model.whiten_target(np.ones(N)), np.ones(N))


def test_weights_of_a_model_with_duplicate_columns():
    X, gamma, lam = make_model(5, lam=1e-8)
    first, second = np.flatnonzero(gamma)[:2]
    X[:, second] = X[:, first]
    expected = exact_weights(X, gamma, lam)
    outside = gamma == 0
    np.testing.assert_allclose(support_model(X, gamma, lam).weights(X.T)[outside], expected[outside], rtol=1e-7)


@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, lambda X: np.asfortranarray(X, "f4")])
def test_all_weights_in_blocks(storage):
    X, gamma, lam = make_model(6)
    made = storage(X)
    problem = DualProblem(as_dictionary(made), np.ones(N), np.ones(n))
    X = np.asarray(made, dtype=float)
    np.testing.assert_allclose(
        all_weights(problem, support_model(X, gamma, lam)), exact_weights(X, gamma, lam), rtol=1e-10
    )


# -- the objective -----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("targets", [None, 4])
@pytest.mark.parametrize("size", [0, 1, 6, 50])
def test_loss_against_the_dense_formula(size, targets, kind):
    X, gamma, lam = make_model(7, size=size, kind=kind)
    rng = np.random.default_rng(8)
    shape = N if targets is None else (N, targets)
    y = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind is complex else 0)
    S = dense_covariance(X, gamma, lam)
    expected = (targets or 1) * np.linalg.slogdet(S)[1] + np.vdot(y, np.linalg.solve(S, y)).real
    assert loss(X, y, gamma, lam) == pytest.approx(expected, rel=1e-10)


def test_loss_refuses_bad_gamma():
    X, gamma, lam = make_model(9)
    y = np.ones(N)
    for bad in (gamma[1:], -gamma - 1.0, np.where(gamma > 0, np.nan, 0.0), gamma + 0j):
        with pytest.raises(ValueError, match="gamma must be 90 finite numbers of at least 0"):
            loss(X, y, bad, lam)


@pytest.mark.parametrize("targets", [None, 5])
def test_smallest_variance_at_which_zero_is_a_fixed_point(targets):
    X, _, _ = make_model(10)
    X[:, 3] = 0.0
    y = np.random.default_rng(11).standard_normal(N if targets is None else (N, targets))
    used = np.linalg.norm(X, axis=0) > 0
    sizes = np.linalg.norm((X.T @ y).reshape(n, -1), axis=1)[used] / np.linalg.norm(X[:, used], axis=0)
    assert sbl_lambda_max(X, y) == pytest.approx(np.max(sizes**2) / (targets or 1), rel=1e-12)
    assert sbl_lambda_max(np.zeros((N, 2)), y) == 0.0


# -- the bounds --------------------------------------------------------------------------------------
def bounded_inner(X, y, lam, *, positive=False, directions=3, seed=0):
    """An inner solver that knows a few products with X."""
    phi = as_dictionary(X)
    start = Start(phi, y, positive)
    inner = BoundedInner(start.problem, y, Settings().rules)
    inner.begin(lam)
    rng = np.random.default_rng(seed)
    for _ in range(directions):
        v = rng.standard_normal(N)
        inner.correlations.add(v, phi.correlate(v))
    return inner


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("lam", [10.0, 1e-1, 1e-4, 1e-9])
def test_bounds_are_bounds(lam, dtype, positive, monkeypatch):
    monkeypatch.setattr(BoundedInner, "most_directions", 16)
    for seed in range(12):
        size = (0, 1, 3, 8, 25, 40)[seed % 6]
        X, gamma, _ = make_model(20 + seed, size=size)
        made = np.asfortranarray(X, dtype=dtype)
        X = np.asarray(made, dtype=float)
        rng = np.random.default_rng(seed)
        y = rng.standard_normal(N)
        # up to 20 directions: more than are kept, so that some are forgotten
        inner = bounded_inner(made, y, lam, positive=positive, directions=(0, 2, 6, 20)[seed % 4], seed=seed)
        model = support_model(X, gamma, lam)
        residual = model.whiten_target(y) if seed % 2 else rng.standard_normal(N)
        sharpen_all(inner, model, residual)
        products = X.T @ residual
        exact = exact_weights(X, gamma, lam)
        if seed % 2 == 0 and np.trace(model.inner) < 1e12 * lam:  # beyond, rounding leaves nothing to be sure of
            # it does say something, where the correlation has not said enough
            assert ((inner.bounds.lower > 0) | (inner.bounds.upper < 0)).mean() > 0.9
        # norms of a float32 dictionary carry its rounding
        assert (inner.bounds.lower <= exact * (1 + (1e-9 if dtype == "f8" else 4e-7))).all()
        room = 1e-9 * np.linalg.norm(X, axis=0) * np.linalg.norm(residual)
        assert (inner.bounds.upper >= (products if positive else np.abs(products)) - room).all()
        # carried on, and sharpened only where that settles nothing
        inner.bounds.upper[:], inner.bounds.lower[:] = np.inf, 0.0
        inner._bound(model, residual, again=False)
        elsewhere = residual + 0.01 * rng.standard_normal(N)
        inner._bound(model, elsewhere, again=True)
        products = X.T @ elsewhere
        room = 1e-9 * np.linalg.norm(X, axis=0) * np.linalg.norm(elsewhere)
        assert (inner.bounds.lower <= exact * (1 + (1e-9 if dtype == "f8" else 4e-7))).all()
        assert (inner.bounds.upper >= (products if positive else np.abs(products)) - room).all()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("lam", [1e-2, 1e-7, 1e-12])
def test_bounds_are_bounds_where_the_support_holds_near_copies(lam, dtype):
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((N, 80))
        size = (3, 8, 15, N - 1)[seed % 4]
        for j in range(1, size):
            if rng.random() < 0.6:
                X[:, j] = X[:, rng.integers(j)] + 10.0 ** -rng.uniform(1, 9) * X[:, j]
        for j in range(size, size + 30):  # outside, but near the span of the support
            X[:, j] = X[:, :size] @ rng.standard_normal(size) + 10.0 ** -rng.uniform(0, 9) * X[:, j]
        made = np.asfortranarray(X, dtype=dtype)
        X = np.asarray(made, dtype=float)
        gamma = np.zeros(80)
        gamma[:size] = 10.0 ** rng.uniform(-2, 2, size)
        model = support_model(X, gamma, lam)
        y = rng.standard_normal(N)
        inner = bounded_inner(made, y, lam, directions=(0, 2, 5)[seed % 3], seed=seed)
        inner.correlations.add(model.scaled[0], inner.phi.correlate(model.scaled[0]))
        sharpen_all(inner, model, y)
        exact = model.weights(np.ascontiguousarray(X.T))
        assert (inner.bounds.lower <= exact * (1 + (1e-9 if dtype == "f8" else 4e-7))).all()


def sharpen_all(inner, model, residual):
    """Bounds from the products alone."""
    size = inner.bounds.upper.size
    nothing = Look(residual, model, np.zeros(0, dtype=np.intp), np.full(size, np.inf), np.zeros(size))
    inner.bounds.update(model, residual, nothing, 0.0, again=False)


def test_bounds_are_sharp_along_known_directions():
    """With the model's span among the directions, nothing is left to bound."""
    X, gamma, lam = make_model(40, size=4)
    inner = bounded_inner(X, np.random.default_rng(0).standard_normal(N), lam, directions=0)
    for i in np.flatnonzero(gamma):
        inner.correlations.add(X[:, i], X.T @ X[:, i])
    model = support_model(X, gamma, lam)
    sharpen_all(inner, model, inner.y)
    np.testing.assert_allclose(inner.bounds.lower, exact_weights(X, gamma, lam), rtol=1e-4)
    np.testing.assert_allclose(inner.bounds.upper, np.abs(X.T @ inner.y), rtol=1e-6, atol=1e-6)


def look_at(inner, X, gamma, lam, residual):
    """What is known after an exact look."""
    index = np.flatnonzero(gamma)
    inner.ws.add(index[inner.ws.position[index] < 0])
    active = inner.ws.position[index]
    return Look(
        residual, support_model(X, gamma, lam), active, np.abs(X.T @ residual), exact_weights(X, gamma, lam)
    ), active


@pytest.mark.parametrize("change", ["shrink", "grow", "enter", "leave", "all"])
def test_moving_a_look_keeps_its_bounds(change):
    for seed in range(8):
        X, gamma, lam = make_model(50 + seed, size=5)
        rng = np.random.default_rng(seed)
        inner = bounded_inner(X, rng.standard_normal(N), lam)
        look, _ = look_at(inner, X, gamma, lam, inner.y)
        fresh = gamma.copy()
        used = np.flatnonzero(gamma)
        if change in ("shrink", "all"):
            fresh[used[:2]] *= rng.uniform(0.1, 1, 2)
        if change in ("grow", "all"):
            fresh[used[2:4]] *= rng.uniform(1, 10, 2)
        if change in ("leave", "all"):
            fresh[used[4]] = 0.0
        if change in ("enter", "all"):
            fresh[rng.choice(np.flatnonzero(gamma == 0), 2, replace=False)] = 10.0 ** rng.uniform(-2, 1, 2)
        _, active = look_at(inner, X, fresh, lam, inner.y)
        look.move_to(support_model(X, fresh, lam), active, inner.ws)
        before, after = exact_weights(X, gamma, lam), exact_weights(X, fresh, lam)
        assert (after >= before / look.factor * (1 - 1e-12)).all()
        if change in ("shrink", "leave"):
            assert look.factor == 1.0
        else:
            assert look.factor > np.max(before / after) * (1 - 1e-12) > 1.0
            grown = fresh > gamma  # the factor is within the size of the growth
            size = np.linalg.norm(X[:, grown] * np.sqrt((fresh - gamma)[grown]) / np.sqrt(lam)) ** 2
            assert look.factor <= np.sqrt(1 + size) * (1 + 1e-8)


def test_guard_expires():
    X, gamma, lam = make_model(70)
    inner = bounded_inner(X, np.random.default_rng(0).standard_normal(N), lam)
    look, _ = look_at(inner, X, gamma, lam, inner.y)
    assert not look.covers(inner.y)  # no guard yet
    none = np.zeros(0, dtype=np.intp)
    look.guard(none, X[:, none].T, drift=0.5, widening=1.1)
    assert look.covers(inner.y)
    step = np.eye(N)[0]
    assert look.covers(inner.y + 0.49 * step)
    assert not look.covers(inner.y + 0.51 * step)
    look.factor = 1.11
    assert not look.covers(inner.y)


def test_over_limit():
    upper, lower, norms = np.array([1.0, 0.5, 0.2, 9.0, 9.0]), np.full(5, 1.0), np.array([1.0, 1.0, 3.0, 0.0, 1.0])
    skip, found = np.array([-1, -1, -1, -1, 0]), np.empty(5, dtype=np.intp)
    count = over_limit(upper, lower, norms, 1.0, 0.2, 1.0, skip, found)
    assert found[:count].tolist() == [0]  # 1.2 is over; .7 and .8 are not; no column; in hand
    count = over_limit(upper, lower, norms, 1.0, 0.2, 1.3, skip, found)
    assert found[:count].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("ratio", [0.3, 0.05, 0.01])
def test_nothing_outside_the_danger_zone_violates(ratio, dtype, monkeypatch):
    """Every time the iteration relies on a guard, all features are checked by brute force."""
    checked = []
    rely = BoundedInner._check_guarded
    remember = BoundedInner._remember
    follow = BoundedInner.follow

    def judge(self, model, residual, bar):
        sizes = np.abs(X.T @ residual)
        limits = self.lam * model.weights(X.T)
        outside = self.ws.position < 0
        outside[bar] = False
        checked.append(outside.sum())
        assert (sizes[outside] <= limits[outside] * (1 + 1e-9)).all()

    def spy(self, model, residual, look):
        judge(self, model, residual, look.danger)
        return rely(self, model, residual, look)

    def spy_remember(self, model, active, residual):
        judge(self, model, residual, np.zeros(0, dtype=np.intp))
        return remember(self, model, active, residual)

    def spy_follow(self, found, **options):
        _, model = self.describe(found)
        steps = follow(self, found, **options)
        if steps is not None:  # one compiled iteration: the lasso with the weights of the model before it
            sizes = np.abs(X.T @ steps[0].residual)
            checked.append(sizes.size)
            assert (sizes <= self.lam * model.weights(X.T) * (1 + 1e-9)).all()
            compiled.append(len(steps[1].records))
        return steps

    compiled = []
    monkeypatch.setattr(BoundedInner, "_check_guarded", spy)
    monkeypatch.setattr(BoundedInner, "_remember", spy_remember)
    monkeypatch.setattr(BoundedInner, "follow", spy_follow)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        made = np.asfortranarray(rng.standard_normal((40, 600)) + rng.standard_normal((40, 1)), dtype=dtype)
        X = np.asarray(made, dtype=float)
        y = X[:, :5] @ rng.standard_normal(5) + 0.3 * rng.standard_normal(40)
        options = {"init": "unit" if seed % 2 else "null", "extrapolate": seed == 3}
        # with a callback compiled code is left after each iteration; extrapolation does without it
        result = fit_sbl(made, y, ratio * sbl_lambda_max(made, y), callback=lambda record: None, **options)
        assert result.converged
    assert len(checked) > 40
    assert min(checked) > 300
    assert set(compiled) == {1}


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("ratio", [0.3, 0.05, 0.01])
def test_compiled_iterations_are_those_in_numpy(ratio, positive, monkeypatch):
    def fits():
        for seed in range(4):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((40, 600)) + rng.standard_normal((40, 1))
            y = X[:, :5] @ rng.uniform(0.5, 2, 5) + 0.3 * rng.standard_normal(40)
            lam = ratio * sbl_lambda_max(X, y)
            yield fit_sbl(X, y, lam, init="unit" if seed % 2 else "null", positive=positive, tol=1e-6)

    blocks = []
    follow = BoundedInner.follow

    def spy(self, found, **options):
        steps = follow(self, found, **options)
        blocks.append(0 if steps is None else len(steps[1].records))
        return steps

    monkeypatch.setattr(BoundedInner, "follow", spy)
    compiled = list(fits())
    assert max(blocks) > 5
    monkeypatch.setattr(BoundedInner, "follow", lambda self, found, **options: None)
    for one, other in zip(compiled, fits(), strict=True):
        assert one.n_iter == other.n_iter
        assert np.array_equal(one.support, other.support)
        np.testing.assert_allclose(one.coef, other.coef, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(one.gamma, other.gamma, rtol=1e-8, atol=1e-11)
        for name, tolerance in (("loss", 1e-8), ("change", 1e-7), ("support", 0), ("iteration", 0), ("singles", 2)):
            here = [record[name] for record in one.history]
            np.testing.assert_allclose(here[1:], [record[name] for record in other.history][1:], 0, tolerance)
        assert max(record["gap"] for record in one.history) < 1e-9


# -- descent -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("init", ["null", "unit", "random"])
@pytest.mark.parametrize("bounds", [True, False])
def test_loss_never_rises_and_is_what_it_says(bounds, init):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((N, n)) * 10.0 ** rng.uniform(-0.5, 0.5, n)
        y = X[:, :4] @ rng.standard_normal(4) + 0.3 * rng.standard_normal(N)
        first = 10.0 ** rng.uniform(-1, 1, n) if init == "random" else init
        result = fit_sbl(X, y, 0.1, init=first, bounds=bounds, tol=1e-8, max_iter=3000)
        values = np.array([record["loss"] for record in result.history])
        assert len(values) > 5
        assert np.diff(values).max() <= 1e-6 * abs(values[-1])
        assert values[-1] == result.loss == pytest.approx(loss(X, y, result.gamma, 0.1), rel=1e-10)


def test_theta_is_the_posterior_mean_after_each_iteration():
    X, _, _ = make_model(80)
    rng = np.random.default_rng(81)
    y = X[:, :4] @ rng.standard_normal(4) + 0.3 * rng.standard_normal(N)
    for most in (1, 2, 5, 40):
        with pytest.warns(ConvergenceWarning, match="stopped after") if most < 40 else nullcontext():
            result = fit_sbl(X, y, 0.1, max_iter=most, tol=1e-3 if most == 40 else 1e-12)
        S = dense_covariance(X, result.gamma, 0.1)
        np.testing.assert_allclose(result.coef, result.gamma * (X.T @ np.linalg.solve(S, y)), atol=1e-7)
        np.testing.assert_allclose(result.residual, 0.1 * np.linalg.solve(S, y), atol=1e-7)
