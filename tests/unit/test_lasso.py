"""The weighted lasso: every solver, rule, kind of weight and storage, judged from outside."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from fastsbl._base.warnings import ConvergenceWarning
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import LassoSolution, lambda_max, solve_weighted_lasso, weighted_lasso_path
from fastsbl.lasso.correlations import Correlations
from fastsbl.screening import rule_names
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import find_rules

N, n = 30, 80
RULES = (None, *rule_names())
SOLVERS = ("working-set", "cd")
WEIGHTS = ("none", "spread", "inf", "free")
STORAGES = {
    "F": np.asfortranarray,
    "C": np.ascontiguousarray,
    "csc": sparse.csc_array,
    "operator": aslinearoperator,
    "F float32": lambda X: np.asfortranarray(X, dtype=np.float32),
    "C float32": lambda X: np.ascontiguousarray(X, dtype=np.float32),
    "csc float32": lambda X: sparse.csc_array(X.astype(np.float32)),
    "Dictionary": as_dictionary,
}


def sizes(values):
    """|theta_i|, or the norms of the rows."""
    return np.abs(values) if values.ndim == 1 else np.linalg.norm(values, axis=1)


def judge(X, y, limits, coef, *, positive=False):
    """Objective and duality gap from the formulas alone; the dual point avoids unpenalised columns."""
    residual = y - X @ coef
    size = sizes(coef)
    primal = 0.5 * np.vdot(residual, residual).real + size[size > 0] @ limits[size > 0]
    free = limits == 0
    point = residual
    if free.any():
        assert not positive, "written for the unconstrained case"
        columns = X[:, free]
        point = residual - columns @ np.linalg.lstsq(columns, residual, rcond=None)[0]
    products = X.conj().T @ point
    size = products if positive else sizes(products)
    used = (limits > 0) & np.isfinite(limits)
    largest = max(np.max(size[used] / limits[used], initial=0.0), 0.0)
    squared = np.vdot(point, point).real
    scale = np.vdot(point, y).real / squared if squared > 0 else 0.0
    if free.any():
        largest = max(largest, 1.0)  # what is left of the unpenalised columns must not be magnified
    if largest > 0:
        scale = min(scale, 1 / largest)
    return primal, primal - scale * np.vdot(point, y).real + 0.5 * scale**2 * squared


def half_square(y):
    return 0.5 * np.vdot(y, y).real


def make_problem(seed=0, shape=(N, n)):
    """Correlated columns of different norms and a target made of a few of them and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) + 0.5 * rng.standard_normal((shape[0], 1))
    X *= 10.0 ** rng.uniform(-0.5, 0.5, shape[1])
    coef = rng.standard_normal(shape[1]) * (rng.random(shape[1]) < 0.1)
    return X, X @ coef + 0.3 * rng.standard_normal(shape[0])


def make_weights(kind, seed=0, size=n):
    rng = np.random.default_rng(1000 + seed)
    if kind == "none":
        return None
    weights = 10.0 ** rng.uniform(-1, 1, size) if kind == "spread" else rng.uniform(0.3, 1.0, size)
    if kind == "inf":
        weights[rng.random(size) < 0.3] = np.inf
    if kind == "free":
        weights[rng.choice(size, 3, replace=False)] = 0.0
    return weights


def limits_of(lam, weights, size=n):
    return lam * (np.ones(size) if weights is None else np.asarray(weights, dtype=float))


def check(solution, X, y, weights, *, positive=False, tol=1e-6):
    """Judge a solution from outside."""
    limits = limits_of(solution.lam, weights, X.shape[1])
    assert solution.converged
    assert solution.tol == tol
    assert np.isfinite(solution.coef).all()
    np.testing.assert_array_equal(solution.coef[np.isinf(limits)], 0.0)
    np.testing.assert_array_equal(solution.support, np.flatnonzero(sizes(solution.coef)))
    if positive:
        assert (solution.coef >= 0).all()
    scale = half_square(y)
    np.testing.assert_allclose(solution.residual, y - X @ solution.coef, atol=1e-12 * np.sqrt(scale))
    primal, gap = judge(X, y, limits, solution.coef, positive=positive)
    assert solution.primal == pytest.approx(primal, rel=1e-12)
    assert gap <= tol * scale * (1 + 1e-6) + 1e-14 * scale
    assert solution.gap == pytest.approx(gap, abs=1e-13 * scale + 1e-6 * gap)
    point = solution.dual_point
    dual = scale - half_square(y - point)
    assert solution.gap == pytest.approx(primal - dual, abs=1e-13 * scale)
    products = X.conj().T @ point
    rounding = 1e-12 * np.linalg.norm(X, axis=0) * np.sqrt(scale)
    used = np.isfinite(limits)
    assert ((products if positive else sizes(products)) <= limits * (1 + 1e-9) + rounding)[used].all()


# -- every solver, rule, weight and storage --------------------------------------------------------


# unpenalised columns together with positivity have tests of their own below
CELLS = [(kind, positive) for kind in WEIGHTS for positive in (False, True) if not (kind == "free" and positive)]


@pytest.mark.parametrize(("kind", "positive"), CELLS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_rule(solver, rule, kind, positive):
    X, y = make_problem(1)
    weights = make_weights(kind, 1)
    for ratio in (0.9, 0.3):
        lam = ratio * lambda_max(X, y, weights, positive=positive)
        solution = solve_weighted_lasso(X, y, lam, weights, positive=positive, solver=solver, screening=rule, tol=1e-10)
        check(solution, X, y, weights, positive=positive, tol=1e-10)
        assert solution.lam == lam
        plain = solve_weighted_lasso(X, y, lam, weights, positive=positive, screening=None, tol=1e-13)
        np.testing.assert_allclose(solution.coef, plain.coef, atol=1e-4 * np.abs(plain.coef).max())
        assert solution.primal == pytest.approx(plain.primal, abs=1e-10 * half_square(y))


@pytest.mark.parametrize("rule", RULES[1:])
def test_working_set_gives_the_same_numbers_with_and_without_screening(rule):
    """The working set ends at an exact solution, so the answers agree to rounding, not only to ``tol``."""
    X, y = make_problem(2)
    for kind in WEIGHTS:
        weights = make_weights(kind, 2)
        lam = 0.2 * lambda_max(X, y, weights)
        on = solve_weighted_lasso(X, y, lam, weights, screening=rule, tol=1e-13)
        off = solve_weighted_lasso(X, y, lam, weights, screening=None, tol=1e-13)
        np.testing.assert_array_equal(on.support, off.support)
        np.testing.assert_allclose(on.coef, off.coef, rtol=0, atol=1e-10 * np.abs(off.coef).max())


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_storage(solver, storage, positive):
    X, y = make_problem(3)
    X[np.random.default_rng(3).random(X.shape) < 0.5] = 0.0
    if "float32" in storage:
        X = X.astype(np.float32).astype(np.float64)
    weights = make_weights("spread", 3)
    made = STORAGES[storage](X)
    single = "float32" in storage
    lam = 0.1 * lambda_max(X, y, weights, positive=positive)
    for rule in (None, "holder", "auto"):
        solution = solve_weighted_lasso(made, y, lam, weights, positive=positive, solver=solver, screening=rule)
        assert solution.converged
        assert solution.coef.dtype == np.float64
        primal, gap = judge(X, y, limits_of(lam, weights), solution.coef, positive=positive)
        assert gap <= 1.01e-6 * half_square(y)
        assert solution.primal == pytest.approx(primal, rel=1e-6 if single else 1e-12)
        assert solution.gap == pytest.approx(gap, abs=(1e-8 if single else 1e-13) * half_square(y))


@pytest.mark.parametrize("solver", SOLVERS)
def test_single_precision_reaches_small_gaps(solver):
    """The certificate of float32 data is made in float64 where it matters, so it can be far below 1e-7."""
    X, y = make_problem(4)
    X = np.asfortranarray(X, dtype=np.float32)
    lam = 0.2 * lambda_max(X, y)
    solution = solve_weighted_lasso(X, y, lam, solver=solver, tol=1e-10)
    assert solution.converged
    assert judge(X.astype(np.float64), y, limits_of(lam, None), solution.coef)[1] <= 1.01e-10 * half_square(y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_random_problems(solver):
    """Many shapes, scales, weights and penalties."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shape = int(rng.integers(1, 25)), int(rng.integers(1, 100))
        X, y = make_problem(seed, shape)
        if seed % 5 == 1:
            X = X[:, rng.integers(0, shape[1], shape[1])]
        if seed % 5 == 2:
            X[:, rng.random(shape[1]) < 0.5] *= -1
        y = y * 10.0 ** rng.uniform(-4, 4)
        positive = bool(seed % 2)
        weights = make_weights(WEIGHTS[seed % 3], seed, shape[1])
        lam = (lambda_max(X, y, weights, positive=positive) or 1.0) * 10.0 ** rng.uniform(-1.5, 0.1)
        rule = RULES[seed % len(RULES)]
        solution = solve_weighted_lasso(X, y, lam, weights, positive=positive, solver=solver, screening=rule)
        check(solution, X, y, weights, positive=positive)


# -- starting, paths, the largest penalty ----------------------------------------------------------


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start(solver, positive):
    X, y = make_problem(5)
    weights = make_weights("spread", 5)
    lam = 0.2 * lambda_max(X, y, weights, positive=positive)
    options = {"positive": positive, "solver": solver, "tol": 1e-10}
    cold = solve_weighted_lasso(X, y, lam, weights, **options)
    starts = {
        "solution": cold.coef,
        "zero": np.zeros(n),
        "wrong": np.full(n, -3.0),
        "integers": np.ones(n, dtype=int),
    }
    for name, start in starts.items():
        before = start.copy()
        warm = solve_weighted_lasso(X, y, lam, weights, coef_init=start, **options)
        np.testing.assert_array_equal(start, before)
        check(warm, X, y, weights, positive=positive, tol=1e-10)
        np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-4 * np.abs(cold.coef).max())
        if name == "solution":
            assert warm.n_epochs <= min(cold.n_epochs, 20)


def test_warm_start_leaves_excluded_columns_out():
    X, y = make_problem(6)
    weights = make_weights("inf", 6)
    solution = solve_weighted_lasso(X, y, 0.3 * lambda_max(X, y, weights), weights, coef_init=np.ones(n))
    check(solution, X, y, weights)


@pytest.mark.parametrize(("kind", "positive"), CELLS)
@pytest.mark.parametrize("rule", [None, "two_hyperplanes", "gap_sphere", "holder", "auto"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_path_equals_single_solves(solver, rule, kind, positive):
    X, y = make_problem(7)
    weights = make_weights(kind, 7)
    ratios = [0.3, 1.2, 0.7, 1.0, 0.3, 0.15]
    largest = lambda_max(X, y, weights, positive=positive)
    options = {"positive": positive, "solver": solver, "screening": rule, "tol": 1e-11}
    path = weighted_lasso_path(X, y, ratios, weights, **options)
    assert [solution.lam for solution in path] == [ratio * largest for ratio in ratios]
    for solution in path:
        check(solution, X, y, weights, positive=positive, tol=1e-11)
        alone = solve_weighted_lasso(X, y, solution.lam, weights, **options)
        np.testing.assert_allclose(solution.coef, alone.coef, atol=1e-4 * max(np.abs(alone.coef).max(), 1e-9))
        assert solution.primal == pytest.approx(alone.primal, abs=1e-11 * half_square(y))
    assert path[1].support.size <= 3 * (kind == "free")


def test_path_screens_by_the_solution_before_and_counts_its_own_passes():
    X, y = make_problem(8, (60, 600))
    phi = as_dictionary(X)
    path = weighted_lasso_path(phi, y, [0.5, 0.48, 0.46], screening="holder", solver="cd")
    assert sum(solution.passes for solution in path) <= phi.passes
    alone = solve_weighted_lasso(X, y, path[2].lam, screening="holder", solver="cd")
    first = path[2].history[0]["rejected"]["holder"]
    assert first > 0.5
    assert first > alone.history[0]["rejected"]["holder"]


def test_path_takes_arrays_and_nothing():
    X, y = make_problem(9)
    assert weighted_lasso_path(X, y, []) == []
    assert [s.lam for s in weighted_lasso_path(X, y, np.array([0.5, 1]))] == [
        s.lam for s in weighted_lasso_path(X, y, (0.5, 1))
    ]


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_lambda_max(solver, kind, positive):
    """The solution is zero just above it and not just below; the formula is the textbook one."""
    for seed in range(10):
        X, y = make_problem(seed)
        weights = make_weights(kind, seed)
        largest = lambda_max(X, y, weights, positive=positive)
        w = limits_of(1.0, weights)
        if kind != "free":
            products = X.T @ y if positive else np.abs(X.T @ y)
            assert largest == pytest.approx(np.max(products / w), rel=1e-12)
        penalised = w > 0
        options = {"positive": positive, "solver": solver, "tol": 1e-14}
        above = solve_weighted_lasso(X, y, largest * (1 + 1e-9), weights, **options)
        below = solve_weighted_lasso(X, y, largest * (1 - 1e-5), weights, **options)
        assert np.count_nonzero(above.coef[penalised]) == 0
        assert np.count_nonzero(below.coef[penalised]) > 0


def test_lambda_max_where_every_penalty_gives_zero():
    X, y = make_problem(10)
    assert lambda_max(X, 0 * y) == 0
    assert lambda_max(0 * X, y) == 0
    assert lambda_max(X, y, np.full(n, np.inf)) == 0
    assert lambda_max(X, y, np.zeros(n)) == 0
    assert lambda_max(np.abs(X), -np.abs(y), positive=True) == 0
    for solution in weighted_lasso_path(X, 0 * y, [0.5, 0.1]):
        assert solution.converged
        assert not solution.coef.any()


# -- several targets, complex data -----------------------------------------------------------------


@pytest.mark.parametrize("n_targets", [None, 1, 4])
@pytest.mark.parametrize("data", ["real", "complex", "complex X", "complex y"])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("rule", [None, "sphere", "two_hyperplanes", "gap_sphere", "holder", "auto"])
def test_blocks(rule, kind, data, n_targets):
    rng = np.random.default_rng(11)
    X, y = make_problem(11)
    Y = y if n_targets is None else y[:, None] + 0.5 * rng.standard_normal((N, n_targets))
    if data in ("complex", "complex X"):
        X = X + 1j * make_problem(12)[0]
    if data in ("complex", "complex y"):
        Y = Y * np.exp(1j * rng.uniform(0, 6, Y.shape))
    weights = make_weights(kind, 11)
    lam = 0.25 * lambda_max(X, Y, weights)
    solution = solve_weighted_lasso(X, Y, lam, weights, screening=rule, tol=1e-8)
    assert solution.coef.shape == (n, *Y.shape[1:])
    assert np.iscomplexobj(solution.coef) == (data != "real")
    check(solution, X, Y, weights, tol=1e-8)
    plain = solve_weighted_lasso(X, Y, lam, weights, screening=None, tol=1e-10)
    assert solution.primal == pytest.approx(plain.primal, abs=1.1e-8 * half_square(Y))


def test_one_target_as_a_column_equals_the_vector():
    X, y = make_problem(13)
    lam = 0.2 * lambda_max(X, y)
    assert lambda_max(X, y[:, None]) == pytest.approx(lam / 0.2, rel=1e-12)
    vector = solve_weighted_lasso(X, y, lam, tol=1e-12)
    column = solve_weighted_lasso(X, y[:, None], lam, tol=1e-12)
    np.testing.assert_allclose(column.coef[:, 0], vector.coef, atol=1e-5 * np.abs(vector.coef).max())


def test_blocks_keep_the_phase():
    """Turning the target's phase turns the coefficients' phases and nothing else."""
    rng = np.random.default_rng(14)
    X = make_problem(14)[0] + 1j * rng.standard_normal((N, n))
    y = make_problem(14)[1] + 0j
    lam = 0.3 * lambda_max(X, y)
    straight = solve_weighted_lasso(X, y, lam, tol=1e-12)
    turned = solve_weighted_lasso(X, 1j * y, lam, tol=1e-12)
    np.testing.assert_allclose(turned.coef, 1j * straight.coef, atol=1e-4 * np.abs(straight.coef).max())


def test_blocks_warm_start_and_path():
    X, y = make_problem(15)
    Y = np.stack([y, np.roll(y, 1)], axis=1)
    path = weighted_lasso_path(X, Y, [0.3, 0.6], tol=1e-9)
    for solution in path:
        check(solution, X, Y, None, tol=1e-9)
    again = solve_weighted_lasso(X, Y, path[0].lam, coef_init=path[0].coef, tol=1e-9)
    assert again.n_epochs <= path[0].n_epochs + 10
    check(again, X, Y, None, tol=1e-9)


@pytest.mark.parametrize("storage", ["F float32", "csc", "operator", "csc float32"])
def test_blocks_in_every_storage(storage):
    X, y = make_problem(16)
    if "float32" in storage:
        X = X.astype(np.float32).astype(np.float64)
    Y = np.stack([y, y[::-1]], axis=1)
    lam = 0.2 * lambda_max(X, Y)
    solution = solve_weighted_lasso(STORAGES[storage](X), Y, lam)
    assert solution.converged
    assert judge(X, Y, limits_of(lam, None), solution.coef)[1] <= 1.01e-6 * half_square(Y)


# -- what the answer holds -------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [None, "two_hyperplanes", "holder", "auto"])
@pytest.mark.parametrize(("solver", "n_targets"), [(s, t) for s in SOLVERS for t in (None, 2) if not (s == "cd" and t)])
def test_history(solver, n_targets, rule):
    X, y = make_problem(17)
    Y = y if n_targets is None else np.stack([y, y + 1], axis=1)
    solution = solve_weighted_lasso(X, Y, 0.2 * lambda_max(X, Y), screening=rule, solver=solver)
    assert isinstance(solution, LassoSolution)
    assert len(solution.history) >= 1
    expected = {
        None: set(),
        "two_hyperplanes": {"two_hyperplanes:diameter"},
        "holder": {"holder"},
        "auto": {"two_hyperplanes:diameter", "holder"},
    }[rule]
    for record in solution.history:
        assert {
            "objective",
            "gap",
            "support",
            "working_set",
            "rejected",
            "passes",
            "seconds",
        } <= record.keys()
        assert set(record["rejected"]) == expected
        assert all(0 <= share <= 1 for share in record["rejected"].values())
        assert record["gap"] >= 0
        assert record["objective"] >= solution.primal - solution.gap - 1e-12 * half_square(Y)
        assert 0 <= record["support"] <= n
        assert record["seconds"] >= 0
    for earlier, later in zip(solution.history, solution.history[1:], strict=False):
        assert later["passes"] >= earlier["passes"]
        assert later["seconds"] >= earlier["seconds"]
        assert later["objective"] <= earlier["objective"] + 1e-9 * half_square(Y)
    assert solution.history[-1]["gap"] <= 1e-6 * half_square(Y)
    assert solution.passes >= solution.history[-1]["passes"]
    assert solution.history[-1]["support"] == solution.support.size


def test_dynamic_screening_runs():
    """A rule that never rejects would pass every safety test: it must reject where much can be rejected."""
    X, y = make_problem(18, (60, 600))
    for rule in ("gap_sphere", "gap_dome", "holder", "auto"):
        solution = solve_weighted_lasso(X, y, 0.3 * lambda_max(X, y), screening=rule, solver="cd")
        last = solution.history[-1]
        assert max(last["rejected"].values()) > 0.6
        assert last["working_set"] < 0.5 * 600


def test_passes_belong_to_the_solve_and_are_added_to_the_dictionary():
    X, y = make_problem(19)
    phi = as_dictionary(X)
    first = solve_weighted_lasso(phi, y, 0.3 * lambda_max(X, y))
    assert phi.passes == pytest.approx(first.passes)
    second = solve_weighted_lasso(phi, y, 0.3 * lambda_max(X, y))
    assert phi.passes == pytest.approx(first.passes + second.passes)
    assert second.passes <= first.passes


def test_a_solution_cannot_be_reassigned():
    X, y = make_problem(20)
    solution = solve_weighted_lasso(X, y, lambda_max(X, y))
    with pytest.raises(AttributeError):
        solution.gap = 0.0


def test_nothing_is_modified():
    X, y = make_problem(21)
    weights = make_weights("spread", 21)
    start = np.random.default_rng(21).standard_normal(n)
    copies = [a.copy() for a in (X, y, weights, start)]
    for solver in SOLVERS:
        solve_weighted_lasso(X, y, 0.2 * lambda_max(X, y, weights), weights, coef_init=start, solver=solver)
        weighted_lasso_path(X, y, [0.5, 0.2], weights, solver=solver)
        for array, copy in zip((X, y, weights, start), copies, strict=True):
            np.testing.assert_array_equal(array, copy)


# -- edges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
def test_zero_data(solver, positive):
    X, y = make_problem(22)
    free = np.r_[0.0, 0.0, np.ones(n - 2)]
    for A, b, weights in (
        (X, 0 * y, None),
        (X, 0 * y, free),
        (0 * X, y, None),
        (0 * X, y, free),
        (X, y, np.full(n, np.inf)),
    ):
        solution = solve_weighted_lasso(A, b, 0.1, weights, positive=positive, solver=solver)
        assert not solution.coef.any()
        assert solution.gap == 0
        assert solution.converged
        assert solution.primal == pytest.approx(half_square(b))
        np.testing.assert_array_equal(solution.residual, b)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_single_rows_and_columns(solver, shape):
    X, y = make_problem(23, shape)
    for kind in ("none", "spread"):
        weights = make_weights(kind, 23, shape[1])
        lam = 0.3 * lambda_max(X, y, weights)
        solution = solve_weighted_lasso(X, y, lam, weights, solver=solver, tol=1e-12)
        check(solution, X, y, weights, tol=1e-12)
        assert solution.support.size == 1
    if shape[1] == 1:
        rho, square = (X.T @ y).item(), (X.T @ X).item()
        expected = np.sign(rho) * (abs(rho) - lam * weights[0]) / square
        assert solution.coef[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_orthogonal_columns_have_a_closed_form(solver):
    rng = np.random.default_rng(24)
    X = np.linalg.qr(rng.standard_normal((20, 12)))[0]
    y = rng.standard_normal(20)
    weights = rng.uniform(0.1, 2.0, 12)
    solution = solve_weighted_lasso(X, y, 0.5, weights, solver=solver, tol=1e-14)
    rho = X.T @ y
    np.testing.assert_allclose(solution.coef, np.sign(rho) * np.maximum(np.abs(rho) - 0.5 * weights, 0), atol=1e-7)


@pytest.mark.parametrize("positive", [False, True], ids=["signed", "positive"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_duplicates_and_opposites(solver, positive):
    X, y = make_problem(25)
    doubled = np.hstack([X, X, -X, 2 * X, np.zeros((N, 2))])
    lam = 0.2 * lambda_max(doubled, y, positive=positive)
    solution = solve_weighted_lasso(doubled, y, lam, positive=positive, solver=solver)
    check(solution, doubled, y, None, positive=positive)
    half = np.full(n, 0.5)  # only the copies of double length matter, and they cost half as much
    single = solve_weighted_lasso(X, y, lam, half, positive=positive, solver=solver, tol=1e-10)
    other = solve_weighted_lasso(np.hstack([X, -X]), y, lam, np.r_[half, np.ones(n)], positive=positive, tol=1e-10)
    assert solution.primal == pytest.approx(min(single.primal, other.primal), abs=2e-6 * half_square(y))


@pytest.mark.parametrize("solver", SOLVERS)
def test_constant_target(solver):
    X, _ = make_problem(26)
    y = np.ones(N)
    solution = solve_weighted_lasso(X, y, 0.2 * lambda_max(X, y), solver=solver)
    check(solution, X, y, None)


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_penalty_at_all_is_least_squares(solver):
    X, y = make_problem(27, (30, 10))
    solution = solve_weighted_lasso(X, y, 1.0, np.zeros(10), solver=solver, tol=1e-12)
    assert solution.converged
    np.testing.assert_allclose(solution.coef, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-4)


def test_no_penalty_and_more_columns_than_rows_fits_exactly():
    X, y = make_problem(28)
    solution = solve_weighted_lasso(X, y, 1.0, np.zeros(n), tol=1e-10)
    assert solution.converged
    assert np.linalg.norm(solution.residual) <= 1e-4 * np.linalg.norm(y)


@pytest.mark.parametrize("solver", SOLVERS)
def test_excluded_columns_are_as_if_absent(solver):
    X, y = make_problem(29)
    weights = make_weights("inf", 29)
    kept = np.isfinite(weights)
    lam = 0.2 * lambda_max(X, y, weights)
    assert lam / 0.2 == pytest.approx(lambda_max(X[:, kept], y, weights[kept]), rel=1e-12)
    whole = solve_weighted_lasso(X, y, lam, weights, solver=solver, tol=1e-12)
    part = solve_weighted_lasso(X[:, kept], y, lam, weights[kept], solver=solver, tol=1e-12)
    np.testing.assert_allclose(whole.coef[kept], part.coef, atol=1e-5 * np.abs(part.coef).max())


def test_weights_are_a_scaling_of_the_columns():
    X, y = make_problem(30)
    weights = make_weights("spread", 30)
    lam = 0.2 * lambda_max(X, y, weights)
    weighted = solve_weighted_lasso(X, y, lam, weights, tol=1e-13)
    scaled = solve_weighted_lasso(X / weights, y, lam, tol=1e-13)
    np.testing.assert_allclose(weighted.coef * weights, scaled.coef, atol=1e-8 * np.abs(scaled.coef).max())
    assert weighted.primal == pytest.approx(scaled.primal, rel=1e-12)


def test_nearly_dependent_unpenalised_columns():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 100)) + 1e-3 * rng.standard_normal((20, 100))
        y = rng.standard_normal(20)
        weights = rng.uniform(0.3, 1, 100)
        weights[:5] = 0.0
        solution = solve_weighted_lasso(X, y, 0.03 * lambda_max(X, y, weights), weights, max_iter=5000)
        assert solution.gap <= 1e-6 * half_square(y)


def test_columns_of_very_different_lengths():
    X, y = make_problem(31)
    X = X * 10.0 ** np.linspace(-6, 6, n)
    norms = np.linalg.norm(X, axis=0)
    lam = 0.2 * lambda_max(X, y, norms)
    solution = solve_weighted_lasso(X, y, lam, norms, tol=1e-10)
    check(solution, X, y, norms, tol=1e-10)
    scaled = solve_weighted_lasso(X / norms, y, lam, tol=1e-10)
    np.testing.assert_allclose(solution.coef * norms, scaled.coef, atol=1e-7)


def draw_nearly_dependent(kind, rng):
    """Columns whose Gram matrices are singular to double precision."""
    rows, columns = 40, 30
    if kind == "powers":
        return np.vander(np.linspace(0, 1, rows), columns, increasing=True)
    if kind == "Hilbert":
        return 1 / (np.arange(rows)[:, None] + np.arange(columns) + 1.0)
    if kind == "kernel":
        return np.exp(-50 * (np.arange(rows)[:, None] / rows - np.arange(60) / 60) ** 2)
    if kind == "low rank":
        return rng.standard_normal((rows, 5)) @ rng.standard_normal((5, 90)) + 1e-8 * rng.standard_normal((rows, 90))
    X = rng.standard_normal((rows, 90))
    X[:, 45:] = X[:, :45] + 10.0 ** -rng.uniform(3, 9, 45) * X[:, 45:]
    return X


@pytest.mark.parametrize("kind", ["powers", "Hilbert", "kernel", "low rank", "near copies"])
def test_nearly_dependent_columns_and_small_penalties(kind):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = draw_nearly_dependent(kind, rng)
        y = X[:, :5] @ rng.standard_normal(5)
        y += 1e-3 * np.linalg.norm(y) * rng.standard_normal(y.size)
        lam = 10.0 ** -rng.uniform(1, 6) * lambda_max(X, y)
        solution = solve_weighted_lasso(X, y, lam, tol=1e-9)
        assert solution.converged
        assert judge(X, y, np.full(X.shape[1], lam), solution.coef)[1] <= 1.01e-9 * 0.5 * (y @ y)


def test_the_counterexample_to_the_radius_without_two():
    """Codes that use sqrt(gap) for sqrt(2 gap) discard an active column of this problem."""
    X, y = np.diag([1.0, 0.181]), np.array([0.312, 0.95])
    lam = 0.5 * lambda_max(X, y)
    rho = X.T @ y
    expected = np.sign(rho) * np.maximum(np.abs(rho) - lam, 0) / np.diag(X) ** 2
    assert (expected != 0).all()
    for rule in RULES:
        for solver in SOLVERS:
            solution = solve_weighted_lasso(X, y, lam, screening=rule, solver=solver, tol=1e-14)
            np.testing.assert_allclose(solution.coef, expected, rtol=1e-6)


# -- bad input -------------------------------------------------------------------------------------


def with_bad(array, value):
    array = np.array(array, dtype=float)
    array.flat[array.size // 2] = value
    return array


X0, Y0 = make_problem(40)
BAD = {
    "NaN in X": ({"dictionary": with_bad(X0, np.nan)}, ValueError, "dictionary must be finite, got NaN"),
    "inf in X": (
        {"dictionary": with_bad(X0, np.inf)},
        ValueError,
        "dictionary must be finite, got NaN, infinite",
    ),
    "X 1-D": ({"dictionary": X0[0]}, ValueError, "dictionary must be two-dimensional"),
    "X empty": (
        {"dictionary": X0[:, :0]},
        ValueError,
        "dictionary must have at least one row and one column",
    ),
    "X no rows": ({"dictionary": X0[:0], "y": Y0[:0]}, ValueError, "dictionary must have at least one row"),
    "X object": (
        {"dictionary": X0.astype(object)},
        TypeError,
        "dictionary must hold real or complex numbers",
    ),
    "X text": ({"dictionary": "abc"}, TypeError, "dictionary must hold real or complex numbers"),
    "NaN in y": ({"y": with_bad(Y0, np.nan)}, ValueError, "y must be finite, got 1 NaN or infinite"),
    "inf in y": ({"y": with_bad(Y0, -np.inf)}, ValueError, "y must be finite, got 1 NaN or infinite"),
    "y short": ({"y": Y0[:-1]}, ValueError, r"y must have shape \(30,\) or \(30, L\) .* got \(29,\)"),
    "y 3-D": ({"y": Y0[:, None, None]}, ValueError, r"y must have shape .* got \(30, 1, 1\)"),
    "y scalar": ({"y": 1.0}, ValueError, r"y must have shape .* got \(\)"),
    "y transposed": ({"y": Y0[None]}, ValueError, r"y must have shape .* got \(1, 30\)"),
    "y no targets": ({"y": np.zeros((N, 0))}, ValueError, "y must have shape .* with L >= 1"),
    "y object": (
        {"y": Y0.astype(object)},
        TypeError,
        "y must hold real or complex numbers, got dtype object",
    ),
    "y text": ({"y": ["a"] * N}, TypeError, "y must hold real or complex numbers"),
    "lam 0": (
        {"lam": 0},
        ValueError,
        r"lam must be a finite number above 0, got 0 \(at lam = 0 .* basis pursuit",
    ),
    "lam negative": ({"lam": -1.0}, ValueError, r"lam must be a finite number above 0, got -1\.0$"),
    "lam NaN": ({"lam": np.nan}, ValueError, "lam must be a finite number above 0, got nan"),
    "lam inf": ({"lam": np.inf}, ValueError, "lam must be a finite number above 0, got inf"),
    "lam text": ({"lam": "1"}, TypeError, "lam must be a number above 0, got str"),
    "lam None": ({"lam": None}, TypeError, "lam must be a number above 0, got NoneType"),
    "lam bool": ({"lam": True}, TypeError, "lam must be a number above 0, got bool"),
    "lam array": ({"lam": np.ones(3)}, TypeError, "lam must be a number above 0, got ndarray"),
    "w NaN": ({"weights": with_bad(np.ones(n), np.nan)}, ValueError, "weights must not be NaN, got 1"),
    "w negative": (
        {"weights": with_bad(np.ones(n), -0.5)},
        ValueError,
        "weights must be at least 0 .* smallest of .*-0.5",
    ),
    "w short": (
        {"weights": np.ones(n - 1)},
        ValueError,
        r"weights must be a real array of shape \(80,\).* got shape \(79,\)",
    ),
    "w 2-D": ({"weights": np.ones((n, 1))}, ValueError, r"weights must be a real array of shape \(80,\)"),
    "w complex": (
        {"weights": 1j * np.ones(n)},
        ValueError,
        "weights must be a real array .* dtype complex128",
    ),
    "w object": (
        {"weights": np.ones(n).astype(object)},
        TypeError,
        "weights must hold real or complex numbers",
    ),
    "w scalar": ({"weights": 2.0}, ValueError, "weights must be a real array of shape"),
    "positive": ({"positive": 1}, TypeError, "positive must be True or False, got int: 1"),
    "positive 2-D": (
        {"positive": True, "y": Y0[:, None]},
        ValueError,
        "positive=True needs a real dictionary and one",
    ),
    "positive complex": (
        {"positive": True, "dictionary": 1j * X0},
        ValueError,
        "positive=True needs a real dictionary",
    ),
    "screening": (
        {"screening": "best"},
        ValueError,
        "screening must be None or one of 'sphere', .*; got 'best'",
    ),
    "screening ball": (
        {"screening": "sphere:huge"},
        ValueError,
        "screening must be None or one of .*'sphere:huge'",
    ),
    "screening dynamic ball": (
        {"screening": "holder:paper"},
        ValueError,
        "screening must be None .*'holder:paper'",
    ),
    "screening flag": ({"screening": True}, ValueError, "screening must be None or one of .* got True"),
    "solver": (
        {"solver": "newton"},
        ValueError,
        "solver must be one of 'working-set', 'cd', 'cvxpy'; got 'newton'",
    ),
    "solver None": ({"solver": None}, ValueError, "solver must be one of .* got None"),
    "cd 2-D": ({"solver": "cd", "y": Y0[:, None]}, ValueError, "solver='cd' takes real data and one target"),
    "cd complex": ({"solver": "cd", "dictionary": 1j * X0}, ValueError, "solver='cd' takes real data"),
    "tol 0": ({"tol": 0.0}, ValueError, "tol must be a finite number above 0"),
    "tol text": ({"tol": "small"}, TypeError, "tol must be a number above 0, got str"),
    "max_iter 0": ({"max_iter": 0}, ValueError, "max_iter must be a whole number of at least 1, got 0"),
    "max_iter 1.5": (
        {"max_iter": 1.5},
        TypeError,
        "max_iter must be a whole number of at least 1, got float",
    ),
}
BAD_START = {
    "short": (np.ones(n - 1), ValueError, "coef_init must have 80 rows"),
    "scalar": (1.0, ValueError, "coef_init must have 80 rows"),
    "NaN": (with_bad(np.ones(n), np.nan), ValueError, "coef_init must be finite"),
    "complex": (1j * np.ones(n), ValueError, "coef_init must be real for real data"),
    "two columns": (np.ones((n, 2)), ValueError, r"coef_init must have shape \(80,\), got \(80, 2\)"),
    "object": (np.ones(n).astype(object), TypeError, "coef_init must hold real or complex numbers"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    changed, error, text = BAD[case]
    arguments = {"dictionary": X0, "y": Y0, "lam": 1.0} | changed
    copies = {name: np.array(value, copy=True) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    with pytest.raises(error, match=text):
        solve_weighted_lasso(**arguments)
    if "lam" not in changed:
        del arguments["lam"]
        with pytest.raises(error, match=text):
            weighted_lasso_path(ratios=[0.5], **arguments)
    for name, copy in copies.items():
        if copy.dtype != object:
            np.testing.assert_array_equal(arguments.get(name, copy), copy)


@pytest.mark.parametrize("case", [c for c in BAD if c.startswith(("NaN", "inf", "X ", "y ", "w "))])
def test_bad_input_of_lambda_max(case):
    changed, error, text = BAD[case]
    with pytest.raises(error, match=text):
        lambda_max(**({"dictionary": X0, "y": Y0} | changed))


@pytest.mark.parametrize("case", BAD_START)
def test_bad_start(case):
    start, error, text = BAD_START[case]
    with pytest.raises(error, match=text):
        solve_weighted_lasso(X0, Y0, 1.0, coef_init=start)


@pytest.mark.parametrize(
    ("ratios", "error"),
    [
        ([0.5, 0.0], ValueError),
        ([-1], ValueError),
        ([np.nan], ValueError),
        (["a"], TypeError),
        ([[0.5, 0.1]], TypeError),
    ],
    ids=["zero", "negative", "NaN", "text", "2-D"],
)
def test_bad_ratios(ratios, error):
    with pytest.raises(error, match="ratios must be a"):
        weighted_lasso_path(X0, Y0, ratios)


def test_options_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        solve_weighted_lasso(X0, Y0, 1.0, None, True)


def test_a_refused_problem_leaves_the_dictionary_as_it_was():
    phi = as_dictionary(X0)
    for changed in ({"lam": -1.0}, {"weights": -np.ones(n)}, {"solver": "newton"}, {"y": Y0[:-1]}):
        with pytest.raises(ValueError, match="must"):
            solve_weighted_lasso(**({"dictionary": phi, "y": Y0, "lam": 1.0} | changed))
        assert phi.passes == 0
    assert solve_weighted_lasso(phi, Y0, 0.5 * lambda_max(X0, Y0)).converged


def test_integers_are_converted():
    X = np.arange(12).reshape(4, 3) % 5
    y = np.array([3, -2, 1, 0])
    exact = solve_weighted_lasso(X.astype(float), y.astype(float), 1.0, np.array([1.0, 2.0, 3.0]))
    for kind in (np.int8, np.uint16, np.int64):
        got = solve_weighted_lasso(X.astype(kind), y, 1, [1, 2, 3])
        np.testing.assert_allclose(got.coef, exact.coef, atol=1e-12)
    got = solve_weighted_lasso(X.tolist(), y.tolist(), np.float32(1), (1, 2, 3))
    np.testing.assert_allclose(got.coef, exact.coef, atol=1e-12)


# -- stopping early --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("cd", {"max_iter": 1, "tol": 1e-12}),
        ("working-set", {"tol": 1e-300}),
        ("working-set", {"tol": 1e-300, "Y": True}),
    ],
    ids=["cd", "working-set", "blocks"],
)
def test_stopping_early_is_said(solver, options):
    X, y = make_problem(41)
    if options.pop("Y", False):
        y = np.stack([y, -y[::-1]], axis=1)
        options["max_iter"] = 3
    with pytest.warns(
        ConvergenceWarning, match=r"stopped at a relative duality gap of .*, above tol=.*, after \d+ epochs"
    ) as got:
        solution = solve_weighted_lasso(X, y, 0.1 * lambda_max(X, y), solver=solver, **options)
    assert got[0].filename == __file__
    assert not solution.converged
    _, gap = judge(X, y, limits_of(solution.lam, None), solution.coef)
    assert solution.gap == pytest.approx(gap, abs=1e-13 * half_square(y) + 1e-6 * gap)


def test_a_looser_tolerance_is_not_silently_tightened():
    X, y = make_problem(42)
    lam = 0.1 * lambda_max(X, y)
    loose = solve_weighted_lasso(X, y, lam, solver="cd", tol=1e-2)
    tight = solve_weighted_lasso(X, y, lam, solver="cd", tol=1e-10)
    assert loose.n_epochs < tight.n_epochs
    assert tight.gap <= 1e-10 * half_square(y) < loose.gap <= 1e-2 * half_square(y)


# -- the bounds on correlations --------------------------------------------------------------------


def missed(phi, X, bounds, vectors):
    """How often the bound is below the true |phi_i' v|."""
    everything = np.full(phi.n_features, -1)
    count = 0
    for v in vectors:
        truth = np.abs(X.T @ v)
        just_below = truth * (1 - 1e-12)
        count += np.count_nonzero(truth > 0) - np.count_nonzero(
            truth[bounds.exceeding(v, just_below, everything, False)] > 0
        )
    return count


def bounds_for(dtype, seed, shape):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) * 10.0 ** rng.uniform(-2, 2, shape[1])
    if seed % 3 == 1:  # nearly parallel columns
        X[:, 1:] = X[:, :1] + X[:, 1:] * 10.0 ** rng.uniform(-7, 0)
    phi = as_dictionary(np.asfortranarray(X, dtype=dtype))
    y = rng.standard_normal(shape[0])
    slack = (64 + shape[0]) * phi.eps
    return (
        rng,
        phi,
        X.astype(dtype).astype(np.float64),
        Correlations(phi, y, phi.correlate(y), phi.column_norms(), slack),
    )


@pytest.mark.parametrize("shape", [(20, 60), (60, 40), (200, 150)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_are_never_below_the_truth(dtype, shape):
    """Before, while and after directions are forgotten: more than a thousand vectors of each kind."""
    for seed in range(12):
        rng, phi, X, bounds = bounds_for(dtype, seed, shape)
        last = rng.standard_normal(shape[0])
        for step in range(30):
            close = last + 10.0 ** rng.uniform(-4, 0) * np.linalg.norm(last) * rng.standard_normal(shape[0])
            fresh = [close, 10.0 ** rng.uniform(-3, 3) * rng.standard_normal(shape[0])][step % 2]
            inside = bounds.basis.T @ rng.standard_normal(bounds.count)
            assert missed(phi, X, bounds, [fresh, close, last, inside]) == 0
            bounds.add(fresh, phi.correlate(fresh))
            last = fresh
            assert missed(phi, X, bounds, [fresh, -2 * fresh, rng.standard_normal(shape[0])]) == 0
        assert bounds.count <= 16


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_are_sharp_enough_to_be_of_use(dtype):
    rng, phi, X, bounds = bounds_for(dtype, 0, (200, 150))
    r = rng.standard_normal(200)
    bounds.add(r, phi.correlate(r))
    near = r + 1e-3 * rng.standard_normal(200)
    limits = 1.2 * np.abs(X.T @ near) + 0.2 * np.linalg.norm(X, axis=0)
    assert bounds.exceeding(near, limits, np.full(150, -1), False).size == 0


def test_bounds_skip_and_one_side():
    rng, phi, X, bounds = bounds_for(np.float64, 0, (20, 60))
    v = rng.standard_normal(20)
    bounds.add(v, phi.correlate(v))
    skip = np.where(np.arange(60) % 2, 0, -1)
    found = bounds.exceeding(v, np.zeros(60), skip, False)
    np.testing.assert_array_equal(found, np.arange(0, 60, 2))
    found = bounds.exceeding(v, np.full(60, 1e-9), np.full(60, -1), True)
    assert set(np.flatnonzero(X.T @ v > 1e-6)) <= set(found)
    assert not set(np.flatnonzero(X.T @ v < -1e-3 * np.linalg.norm(X, axis=0))) & set(found)
    assert bounds.exceeding(v, np.full(60, np.inf), np.full(60, -1), False).size == 0


def test_bounds_know_nothing_of_a_zero_target():
    phi = as_dictionary(X0)
    bounds = Correlations(phi, np.zeros(N), np.zeros(n), phi.column_norms(), 1e-14)
    assert bounds.count == 0
    assert missed(phi, X0, bounds, np.random.default_rng(0).standard_normal((5, N))) == 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_unpenalised_columns_and_positivity(solver, rule):
    """The dual point must be on one side of the unpenalised columns; the gap is judged through it."""
    for seed in range(4):
        X, y = make_problem(50 + seed)
        y = y + X[:, :2] @ [1.0, 2.0]
        weights = make_weights("spread", seed)
        weights[:3] = 0.0
        lam = 0.3 * lambda_max(X, y, weights, positive=True)
        solution = solve_weighted_lasso(X, y, lam, weights, positive=True, solver=solver, screening=rule)
        point, scale = solution.dual_point, half_square(y)
        assert solution.converged
        assert (solution.coef >= 0).all()
        assert (X.T @ point <= lam * weights + 1e-10 * np.linalg.norm(X, axis=0) * np.linalg.norm(y)).all()
        primal = half_square(y - X @ solution.coef) + lam * weights @ solution.coef
        assert primal - (scale - half_square(y - point)) <= 1.01e-6 * scale
        assert solution.primal == pytest.approx(primal, rel=1e-12)


@pytest.mark.parametrize("rule", ["gap_sphere", "gap_dome", "holder"])
def test_first_screening_with_unpenalised_columns_and_positivity(rule):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shape = int(rng.integers(2, 20)), int(rng.integers(4, 60))
        X, y = make_problem(seed, shape)
        if seed % 2:
            X = np.abs(X)
        weights = rng.uniform(0.3, 1, shape[1])
        weights[rng.choice(shape[1], max(1, shape[1] // 6), replace=False)] = 0.0
        lam = (lambda_max(X, y, weights, positive=True) or 1.0) * rng.uniform(0.05, 1.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = solve_weighted_lasso(X, y, lam, weights, positive=True, screening=None, tol=1e-13)
        if solution.gap > 1e-12 * half_square(y):
            continue
        problem = DualProblem(as_dictionary(X), y, lam * weights, positive=True)
        rejected = find_rules(rule)[0].test(problem).rejected
        assert not (solution.coef[rejected] > 1e-6 * solution.coef.max()).any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_zero_exactly_at_lambda_max(solver):
    for seed in range(300):
        X, y = make_problem(seed, (1 + seed % 40, 1 + seed % 60))
        weights = make_weights("spread", seed, X.shape[1])
        solution = solve_weighted_lasso(X, y, lambda_max(X, y, weights), weights, solver=solver)
        assert not solution.coef.any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_max_iter_bounds_the_epochs(solver):
    X, y = make_problem(43)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solution = solve_weighted_lasso(X, y, 0.02 * lambda_max(X, y), solver=solver, max_iter=3, tol=1e-12)
    assert solution.n_epochs <= 3


def test_bounds_after_forgetting_in_vain():
    """In 12 dimensions, with 12 directions, learning one again forgets another: the bound must widen."""
    rng, phi, X, bounds = bounds_for(np.float64, 0, (12, 50))
    for _ in range(11):
        r = rng.standard_normal(12)
        bounds.add(r, phi.correlate(r))
    assert bounds.count == 12
    forgotten, known = bounds.basis[1].copy(), bounds.basis[5].copy()
    bounds.add(known, phi.correlate(known))
    assert missed(phi, X, bounds, [forgotten]) == 0


def test_zero_exactly_at_lambda_max_of_a_dictionary_in_use():
    for seed in range(100):
        X, y = make_problem(seed, (784, 50))
        for order in "CF":
            phi = as_dictionary(np.asarray(X, order=order))
            assert not solve_weighted_lasso(phi, y, lambda_max(phi, y)).coef.any()


def test_a_solution_describes_itself_in_one_line():
    solution = solve_weighted_lasso(np.eye(200), np.arange(200.0), 190.5)
    text = repr(solution)
    assert text.startswith("LassoSolution(9 of 200 features, lam=190.5, ")
    assert ", converged, " in text
    assert len(text) < 120
