"""One battery over every registered screening rule, every kind of dictionary and both precisions."""

import dataclasses
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from fastsbl import screening
from fastsbl.dictionary import as_dictionary
from fastsbl.screening import rule_names
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import find_rules

sys.path.append(str(Path(__file__).parents[1] / "helpers"))
reference = importlib.import_module("lasso_reference")

RULES = rule_names()
KINDS = ("F", "C", "csc", "operator", "memmap")
PUBLIC = {
    "sphere": screening.sphere_test,
    "dome": screening.dome_test,
    "two_hyperplanes": screening.two_hyperplane_test,
    "gap_sphere": screening.gap_sphere_test,
    "gap_dome": screening.gap_dome_test,
    "holder": screening.holder_dome_test,
}


def store(X, kind, folder):
    """Hold the same numbers in one kind of dictionary."""
    if kind == "csc":
        return sparse.csc_matrix(X)
    if kind == "operator":
        return aslinearoperator(X)
    if kind == "memmap":
        path = folder / "dictionary.bin"
        X.T.tofile(path)
        return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape, order="F")
    return np.asarray(X, order=kind)


def run(rule, dictionary, y, lam, weights=None, *, coef=None, positive=False):
    """Run a rule through the public functions, a union as the union of its parts."""
    found = None
    for part in find_rules(rule):
        kind, _, ball = part.name.partition(":")
        options = {"coef": coef} if part.dynamic else {"ball": ball}
        screened = PUBLIC[kind](dictionary, y, lam, weights, positive=positive, **options)
        found = screened if found is None else found | screened
    return found


def regions(screened):
    """The regions of a result, one per rule of a union."""
    return screened.region if isinstance(screened.region, tuple) else (screened.region,)


def tolerance(X):
    """Rounding that a rule's region may carry, as its margins count it."""
    return 4 * (64 + X.shape[0]) * float(np.finfo(X.dtype).eps)


def largest(X, y, weights, positive=False):
    """The penalty from which on every coefficient is zero, in float64."""
    products = X.astype(np.float64).T @ y
    return float(((products if positive else np.abs(products)) / weights).max())


def make(seed, dtype, N=20, n=60):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n))
    X[:, 1::4] = 0.9 * X[:, ::4] + 0.4 * X[:, 1::4]  # some correlated pairs
    X *= np.exp(rng.uniform(-1, 1, n))
    X = X.astype(dtype)
    y = X[:, :3].astype(np.float64) @ rng.uniform(0.5, 2.0, 3) + 0.1 * rng.standard_normal(N)
    return X, y, rng.uniform(0.3, 1.0, n)


def check_safe(rule, dictionary, X, y, lam, weights, positive, coefs, solution):
    """No rejected column is tight or nonzero; every region holds the optimum. Returns the results."""
    results = []
    for coef in coefs:
        screened = run(rule, dictionary, y, lam, weights, coef=coef, positive=positive)
        exact = X.astype(np.float64)
        suspects = reference.suspects(exact, lam * weights, solution, screened.rejected, positive)
        assert suspects.size == 0, f"{rule} rejected {suspects}, with coefficients {solution.coef[suspects]}"
        for region in regions(screened):
            assert region.contains(solution.dual, tolerance(X))
        results.append(screened)
    return results


@pytest.mark.parametrize("positive", [False, True], ids=["both-signs", "positive"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_rejected_columns_are_zero_and_the_region_holds_the_optimum(rule, kind, dtype, positive, tmp_path):
    rejected = 0
    for seed in range(3):
        X, y, weights = make(seed, dtype)
        dictionary = as_dictionary(store(X, kind, tmp_path))
        top = largest(X, y, weights, positive)
        for ratio in (0.2, 0.6, 0.95, 1.2):
            lam = ratio * top
            solution = reference.solve(X, y, lam * weights, positive=positive)
            assert solution.gap < 1e-14
            middle = reference.descend(X, y, lam * weights, positive=positive, n_sweeps=2)
            results = check_safe(
                rule,
                dictionary,
                X,
                y,
                lam,
                weights,
                positive,
                (np.zeros(60), middle, solution.coef),
                solution,
            )
            rejected += sum(int(screened.rejected.sum()) for screened in results)
            if ratio == 1.2:  # y is feasible: a static rule sees that at once, a dynamic one at theta = 0
                assert results[0].rejected.all()
            if ratio == 0.95 and not rule.endswith("paper"):
                assert results[2].rejected.any()
    assert rejected > 0


@pytest.mark.parametrize("kind", ["F", "csc"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("what", ["real-rows", "complex", "complex-rows"])
def test_several_targets_and_complex_data(rule, kind, what, tmp_path):
    rng = np.random.default_rng(5)
    N, n, L = 15, 40, 3
    X = rng.standard_normal((N, n)) + (1j * rng.standard_normal((N, n)) if what != "real-rows" else 0.0)
    shape = (N, L) if what.endswith("rows") else (N,)
    coef = np.zeros((n, *shape[1:]), dtype=X.dtype)
    coef[:3] = rng.standard_normal(coef[:3].shape) + (
        1j * rng.standard_normal(coef[:3].shape) if "complex" in what else 0
    )
    y = X @ coef
    weights = rng.uniform(0.3, 1.0, n)
    dictionary = store(X, kind, tmp_path)
    top = (reference.magnitudes(X.conj().T @ y) / weights).max()
    rejected = 0
    for ratio in (0.3, 0.7, 0.95, 1.1):
        lam = ratio * top
        solution = reference.solve_rows(X, y, lam * weights)
        assert solution.gap < 1e-13
        for start in (np.zeros_like(coef), solution.coef):
            screened = run(rule, dictionary, y, lam, weights, coef=start)
            assert not reference.magnitudes(solution.coef)[screened.rejected].any()
            products = reference.magnitudes(X.conj().T @ solution.dual)
            assert (products < lam * weights * (1 - 1e-9))[screened.rejected].all()
            for region in regions(screened):
                assert region.contains(solution.dual, 1e-7)  # the dual point is known to sqrt(gap)
            rejected += int(screened.rejected.sum())
    assert rejected > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_all_dictionary_kinds_answer_alike(rule, dtype, tmp_path):
    X, y, weights = make(11, dtype)
    lam = 0.6 * largest(X, y, weights)
    coef = reference.descend(X, y, lam * weights, n_sweeps=3)
    masks = [run(rule, store(X, kind, tmp_path), y, lam, weights, coef=coef).rejected for kind in KINDS]
    for mask in masks[1:]:
        np.testing.assert_array_equal(mask, masks[0])


def test_auto_is_the_union_of_its_parts():
    X, y, weights = make(3, np.float64)
    lam = 0.6 * largest(X, y, weights)
    coef = reference.descend(X, y, lam * weights, n_sweeps=3)
    parts = find_rules("auto")
    assert len(parts) >= 2
    problem = DualProblem(as_dictionary(X), y, lam * weights)
    masks = [part.test(problem, problem.point(coef)).rejected for part in parts]
    union = run("auto", X, y, lam, weights, coef=coef)
    np.testing.assert_array_equal(union.rejected, np.logical_or.reduce(masks))
    assert any((union.rejected & ~mask).any() for mask in masks)  # a union worth having: it beats a part
    assert len(union.region) == len(parts)
    assert f"rejected={np.count_nonzero(union.rejected)} of {X.shape[1]}" in repr(union)


def test_results_join_by_or():
    X, y, weights = make(4, np.float64)
    lam = 0.7 * largest(X, y, weights)
    coef = reference.descend(X, y, lam * weights, n_sweeps=3)
    first = screening.sphere_test(X, y, lam, weights)
    second = screening.holder_dome_test(X, y, lam, weights, coef=coef)
    third = screening.dome_test(X, y, lam, weights, ball="full")
    joined = first | second | third
    np.testing.assert_array_equal(joined.rejected, first.rejected | second.rejected | third.rejected)
    assert joined.rule == "sphere:diameter+holder+dome:full"
    assert joined.region == (first.region, second.region, third.region)
    assert joined.passes == pytest.approx(first.passes + second.passes + third.passes)
    assert joined.share == pytest.approx(joined.rejected.mean())
    with pytest.raises(TypeError):
        first | first.rejected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_ties_at_the_largest_penalty_are_kept(rule, dtype):
    for seed in range(20):
        X, y, _ = make(seed, dtype)
        weights = np.ones(60)
        products = np.abs(X.astype(np.float64).T @ y)
        first = int(products.argmax())
        X[:, (first + 7) % 60] = -X[:, first]  # a second column with the same correlation
        screened = run(rule, X, y, float(products[first]), weights, coef=np.zeros(60))
        assert not screened.rejected[[first, (first + 7) % 60]].any()
        assert screened.rejected.sum() > 20  # and the rest is seen to be zero


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_a_feasible_target_rejects_everything_below_its_limit(rule, positive):
    X, y, weights = make(6, np.float64)
    lam = 1.0001 * largest(X, y, weights, positive)
    assert run(rule, X, y, lam, weights, coef=np.zeros(60), positive=positive).rejected.all()


def test_nothing_correlates_upwards_so_positive_rejects_all():
    X, y, weights = make(6, np.float64)
    X *= -np.sign(X.T @ y)
    for rule in RULES:
        assert run(rule, X, y, 1e-3, weights, coef=np.zeros(60), positive=True).rejected.all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_duplicates_and_antiparallel_columns(rule, dtype, sign):
    for seed in range(5):
        X, y, weights = make(seed, dtype)
        for ratio in (0.3, 0.8, 0.999):
            first = int(np.argmax(np.abs(X.astype(np.float64).T @ y) / weights))
            X[:, (first + 5) % 60] = sign * X[:, first]
            weights[(first + 5) % 60] = weights[first]
            lam = ratio * largest(X, y, weights)
            solution = reference.solve(X, y, lam * weights)
            results = check_safe(rule, X, X, y, lam, weights, False, (np.zeros(60), solution.coef), solution)
            for screened in results:  # the two have the same constraint: both active
                assert not screened.rejected[[first, (first + 5) % 60]].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_target_parallel_to_a_column(rule, dtype):
    for seed in range(5):
        X, _, weights = make(seed, dtype)
        for ratio in (0.05, 0.5, 1 - 1e-6, 1 - 1e-10, 1 - 1e-14):
            y = -3.0 * X[:, 7].astype(np.float64)
            lam = ratio * largest(X, y, weights)
            solution = reference.solve(X, y, lam * weights)
            coefs = (np.zeros(60), solution.coef, 1e-9 * solution.coef)
            for screened in check_safe(rule, X, X, y, lam, weights, False, coefs, solution):
                # at ratio 1 - 1e-14 another column of float32 products may be the first to be tight
                assert screened.rejected.shape == (60,)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("kind", ["F", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_unpenalised_excluded_and_zero_columns(rule, dtype, kind, positive, tmp_path):
    rejected = 0
    for seed in range(6):
        X, y, weights = make(seed, dtype)
        X[:, 10] = 0.0
        weights[[4, 12]] = 0.0
        weights[[0, 20]] = np.inf
        inner = y
        if not positive:
            free = X[:, [4, 12]].astype(np.float64)
            inner = y - free @ np.linalg.lstsq(free, y, rcond=None)[0]
        used = (weights > 0) & (weights < np.inf)
        top = largest(X[:, used], inner, weights[used], positive)
        for ratio in (0.3, 0.7, 0.95):
            lam = ratio * top
            solution = reference.solve(X, y, lam * weights, positive=positive)
            assert solution.gap < 1e-12
            middle = reference.descend(X, y, lam * weights, positive=positive, n_sweeps=4)
            coefs = (np.zeros(60), middle, solution.coef)
            results = check_safe(rule, store(X, kind, tmp_path), X, y, lam, weights, positive, coefs, solution)
            for screened in results:
                assert screened.rejected[[0, 10, 20]].all()
                if not positive:
                    assert not screened.rejected[[4, 12]].any()
                rejected += int(screened.rejected.sum()) - 3
    assert rejected > 0 or rule.endswith(":paper")  # the paper's scaling takes the smallest weight, here 0


@pytest.mark.parametrize("rule", RULES)
def test_a_large_unpenalised_mean_does_not_eat_the_margins(rule):
    """Most of y lies in an unpenalised column: what is left carries rounding of the size of y."""
    for seed in range(10):
        X, y, weights = make(seed, np.float64)
        X[:, 0] = 1.0
        weights[0] = 0.0
        y = y - y.mean() + 1e6
        inner = y - y.mean()
        top = largest(X[:, 1:], inner, weights[1:])
        for ratio in (0.5, 1.0):
            lam = ratio * top
            solution = reference.solve(X, y, lam * weights)
            for coef in (np.zeros(60), solution.coef):
                screened = run(rule, X, y, lam, weights, coef=coef)
                products = np.abs((X - X.mean(axis=0)).T @ solution.dual)
                assert (products < lam * weights)[screened.rejected].all()


@pytest.mark.parametrize("rule", ["gap_dome", "holder"])
def test_points_that_have_hardly_left_zero(rule):
    """The fit is far smaller than y, so its direction is known with few digits only."""
    for seed in range(40):
        X, y, weights = make(seed, np.float64)
        for ratio, shrink in ((0.5, 1e-8), (0.5, 1e-11), (1 - 1e-6, 1.0), (1 - 1e-9, 1.0)):
            lam = ratio * largest(X, y, weights)
            solution = reference.solve(X, y, lam * weights)
            check_safe(rule, X, X, y, lam, weights, False, (shrink * solution.coef,), solution)
            one = np.where(np.arange(60) == np.abs(solution.coef).argmax(), shrink * solution.coef, 0.0)
            check_safe(rule, X, X, y, lam, weights, False, (one,), solution)


def test_zero_target_and_zero_dictionary():
    X, y, weights = make(0, np.float64)
    for rule in RULES:
        assert run(rule, X, np.zeros(20), 0.1, weights, coef=np.zeros(60)).rejected.all()
        assert run(rule, np.zeros_like(X), y, 0.1, weights, coef=np.zeros(60)).rejected.all()


@pytest.mark.parametrize("rule", RULES)
def test_single_row_and_single_column(rule):
    rng = np.random.default_rng(0)
    for X in (rng.standard_normal((1, 7)), rng.standard_normal((7, 1)), np.array([[2.0]])):
        y = rng.standard_normal(X.shape[0])
        n = X.shape[1]
        for ratio in (0.5, 1.5):
            lam = ratio * largest(X, y, np.ones(n))
            solution = reference.solve(X, y, lam * np.ones(n))
            check_safe(rule, X, X, y, lam, np.ones(n), False, (np.zeros(n), solution.coef), solution)


@pytest.mark.parametrize("rule", RULES)
def test_inputs_are_left_as_they_were(rule):
    X, y, weights = make(1, np.float64)
    coef = np.zeros(60)
    before = [a.copy() for a in (X, y, weights, coef)]
    for a in (X, y, weights, coef):
        a.flags.writeable = False
    run(rule, X, y, 0.5, weights, coef=coef)
    for a, b in zip((X, y, weights, coef), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["", "lasso", "sphere:half", "holder:full", "gap_sphere:paper", 3])
def test_unknown_rules_are_refused(name):
    with pytest.raises(ValueError, match="screening must be None or one of"):
        find_rules(name)


def test_no_rule_and_rule_names():
    assert find_rules(None) == ()
    assert {
        "sphere",
        "dome:paper",
        "two_hyperplanes:diameter",
        "gap_sphere",
        "gap_dome",
        "holder",
        "auto",
    } <= set(RULES)
    assert find_rules("sphere") == find_rules("sphere:diameter")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"lam": 0.0}, ValueError, "lam must be a finite number above 0"),
        ({"lam": -1.0}, ValueError, "lam must be a finite number above 0"),
        ({"lam": np.nan}, ValueError, "lam must be a finite number above 0"),
        ({"lam": "1"}, TypeError, "lam must be a number above 0"),
        ({"weights": np.full(60, -1.0)}, ValueError, "weights must be at least 0"),
        ({"weights": np.full(60, np.nan)}, ValueError, "weights must not be NaN"),
        ({"weights": np.ones(59)}, ValueError, r"weights must be a real array of shape \(60,\)"),
        ({"y": np.ones(19)}, ValueError, r"y must have shape \(20,\)"),
        ({"y": np.full(20, np.inf)}, ValueError, "y must be finite"),
        ({"dictionary": np.full((20, 60), np.nan)}, ValueError, "dictionary must be finite"),
        (
            {"dictionary": np.full((20, 60), "a", dtype=object)},
            TypeError,
            "dictionary must hold real or complex numbers",
        ),
        (
            {"dictionary": np.ones((20, 0))},
            ValueError,
            "dictionary must have at least one row and one column",
        ),
        ({"positive": 1}, TypeError, "positive must be True or False"),
    ],
)
def test_bad_input_is_named(change, error, text):
    X, y, weights = make(0, np.float64)
    arguments = {"dictionary": X, "y": y, "lam": 0.5, "weights": weights, "positive": False} | change
    for name, test in PUBLIC.items():
        options = {} if name in ("sphere", "dome", "two_hyperplanes") else {"coef": np.zeros(60)}
        with pytest.raises(error, match=text):
            test(**arguments, **options)


@pytest.mark.parametrize(
    ("coef", "options", "text"),
    [
        (np.zeros(59), {}, "coef must have 60 rows"),
        (np.full(60, np.nan), {}, "coef must be finite"),
        (np.zeros((60, 2)), {}, "coef must have as many columns as y"),
        (np.full(60, -1.0), {"positive": True}, "coef must be at least 0 with positive=True"),
        (np.ones(60), {"weights": np.full(60, np.inf)}, "coef must be 0 where weights are inf"),
    ],
)
def test_bad_coefficients_are_named(coef, options, text):
    X, y, _ = make(0, np.float64)
    for name in ("gap_sphere", "gap_dome", "holder"):
        with pytest.raises(ValueError, match=text):
            PUBLIC[name](X, y, 0.5, coef=coef, **options)


def test_a_dual_point_that_is_not_feasible_is_refused():
    """Products that belong to other data scale the dual point beyond a limit, and the planes show it."""
    X, y, _ = make(0, np.float64)
    norms = np.linalg.norm(X, axis=0)
    lam = 0.3 * np.abs(X.T @ y).max()
    for test in (screening.dome_test, screening.two_hyperplane_test):
        with pytest.raises(ValueError, match="the dual point must be feasible, but its ball misses a half-space"):
            test(as_dictionary(X, norms=0.5 * norms), y, lam)
    problem = DualProblem(as_dictionary(X), y, np.full(norms.size, lam))
    point = problem.point(reference.solve(X, y, problem.limits).coef)
    wrong = dataclasses.replace(point, correlations=0.5 * point.correlations)
    for name in ("gap_dome", "holder"):
        find_rules(name)[0].test(problem, point)
        with pytest.raises(ValueError, match="check that weights, lam and coef belong to this problem"):
            find_rules(name)[0].test(problem, wrong)


def test_a_ball_must_be_known():
    X, y, _ = make(0, np.float64)
    for name in ("sphere", "dome", "two_hyperplanes"):
        with pytest.raises(ValueError, match="ball must be one of 'diameter', 'full', 'paper'; got 'half'"):
            PUBLIC[name](X, y, 0.5, ball="half")
