"""The comparison with other packages: its judge, its bookkeeping, its tables; no times."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from fastsbl.bench import FULL, QUICK, BenchReport, Row, judge, run_benchmark
from fastsbl.bench.child import run_alone
from fastsbl.bench.costs import Cost
from fastsbl.bench.data import DATA, Problem, load
from fastsbl.bench.sbl import _gamma_of
from fastsbl.bench.solvers import Answer, Solver
from fastsbl.bench.timing import TASKS, compare
from fastsbl.lasso import lambda_max, solve_weighted_lasso
from fastsbl.sbl import fit_sbl
from fastsbl.sbl import loss as own_loss

SMALL = replace(
    QUICK,
    cases=(("lasso", "gaussian-1e3", (0.5,)), ("sbl", "gaussian-1e3", (0.5,))),
    repeats=2,
    costs=False,
    solvers=("fastsbl", "scikit-learn", "loop over celer"),
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    matrix = np.asfortranarray(rng.standard_normal((20, 30)))
    return Problem("small", "small", matrix, rng.standard_normal(20), rng.uniform(0.5, 2.0, 30))


@pytest.mark.parametrize("form", ["dense", "float32", "csc", "csr"])
def test_gap_agrees_with_the_solver_and_is_zero_only_at_the_optimum(problem, form):
    X = problem.matrix
    made = {"dense": X, "float32": X.astype(np.float32), "csc": sparse.csc_array(X), "csr": sparse.csr_array(X)}[form]
    exact = np.asarray(made.toarray() if sparse.issparse(made) else made, dtype=np.float64)
    lam = 0.3 * lambda_max(exact, problem.y, problem.weights)
    coef = solve_weighted_lasso(exact, problem.y, lam, problem.weights, tol=1e-12).coef
    assert 0 <= judge.relative_gap(made, problem.y, lam, coef, problem.weights) < 1e-12
    rough = solve_weighted_lasso(exact, problem.y, lam, problem.weights, tol=1e-12).coef * 1.1
    primal = 0.5 * np.sum((problem.y - exact @ rough) ** 2) + lam * problem.weights @ np.abs(rough)
    best = 0.5 * np.sum((problem.y - exact @ coef) ** 2) + lam * problem.weights @ np.abs(coef)
    gap = judge.relative_gap(made, problem.y, lam, rough, problem.weights)
    assert gap >= (primal - best) / (0.5 * problem.y @ problem.y) > 1e-4


def test_gap_is_the_difference_of_the_two_objectives(problem):
    X, y, w = problem.matrix, problem.y, problem.weights
    lam = 0.3 * problem.lambda_max
    rng = np.random.default_rng(4)
    for coef in (np.zeros(30), rng.standard_normal(30), -0.1 * np.sign(X.T @ y)):
        residual = y - X @ coef
        most = lam / np.max(np.abs(X.T @ residual) / w)
        t = np.clip(residual @ y / (residual @ residual), -most, most)
        dual = 0.5 * y @ y - 0.5 * np.sum((t * residual - y) ** 2)
        primal = 0.5 * residual @ residual + lam * w @ np.abs(coef)
        assert judge.relative_gap(X, y, lam, coef, w) == pytest.approx((primal - dual) / (0.5 * y @ y), rel=1e-12)
    fits = np.eye(2)  # a residual of exactly zero is not a gap of zero
    assert judge.relative_gap(fits, np.array([3.0, 1.0]), 1.0, np.array([3.0, 1.0])) == pytest.approx(0.8)


def test_gap_of_zero_coefficients_above_lambda_max(problem):
    lam = 1.1 * lambda_max(problem.matrix, problem.y, problem.weights)
    assert judge.relative_gap(problem.matrix, problem.y, lam, np.zeros(30), problem.weights) == pytest.approx(0)
    assert judge.relative_gap(problem.matrix, problem.y, 0.5 * lam, np.zeros(30), problem.weights) > 0.01


@pytest.mark.parametrize("used", [0, 3, 30])
def test_loss_is_that_of_the_whole_covariance(problem, used):
    gamma = np.zeros(30)
    gamma[:used] = np.random.default_rng(1).uniform(0.1, 1, used)
    S = 0.3 * np.eye(20) + (problem.matrix * gamma) @ problem.matrix.T
    expected = np.linalg.slogdet(S)[1] + problem.y @ np.linalg.solve(S, problem.y)
    assert judge.loss(problem.matrix, problem.y, 0.3, gamma) == pytest.approx(expected, rel=1e-12)
    assert own_loss(problem.matrix, problem.y, gamma, 0.3) == pytest.approx(expected, rel=1e-12)


def test_blocks_of_single_precision_are_multiplied_in_double(monkeypatch):
    monkeypatch.setattr(judge, "_BLOCK", 50)
    X = np.random.default_rng(2).standard_normal((20, 31)).astype(np.float32)
    v = np.random.default_rng(3).standard_normal(20)
    np.testing.assert_allclose(judge.correlations(X, v), X.T.astype(np.float64) @ v, rtol=0, atol=1e-13)
    np.testing.assert_allclose(judge.squared_norms(X), (X.astype(np.float64) ** 2).sum(axis=0), rtol=1e-14)


def test_variances_behind_a_posterior_mean(problem):
    result = fit_sbl(problem.matrix, problem.y, 0.5, tol=1e-10)
    assert result.support.size
    np.testing.assert_allclose(_gamma_of(problem, 0.5, result.coef), result.gamma, rtol=1e-6)


def test_every_data_set_is_small_enough_for_the_quick_run():
    quick = {data for _, data, _ in QUICK.cases}
    assert {data for _, data, _ in FULL.cases} <= set(DATA)
    for key in quick - {"mnist", "mnist-weighted", "nytimes"}:
        made = load(key, quick=True)
        assert made.key == key
        assert made.nbytes < 50e6
        assert made.y.shape == (made.shape[0],)
        assert 0 < made.lambda_max < np.inf
        layout = made.matrix.format == "csc" if sparse.issparse(made.matrix) else made.matrix.flags.f_contiguous
        assert layout, "as all packages like it best"


def test_without_real_data_stand_ins_say_so(monkeypatch, tmp_path):
    monkeypatch.setenv("FASTSBL_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def absent(*args, **kwargs):
        raise FileNotFoundError("no data here")

    monkeypatch.setattr("fastsbl.datasets.fetch_mnist", absent)
    monkeypatch.setattr("fastsbl.datasets.fetch_bag_of_words", absent)
    assert "MNIST is not here" in load("mnist", quick=True).title
    corpus = load("nytimes", quick=True)
    assert "counts are not here" in corpus.title
    assert corpus.shape == (3012, 8446)


def test_a_small_run_end_to_end():
    said = []
    report = run_benchmark(plan=SMALL, progress=said.append)
    assert any("lasso: Gaussian (200 x 1,000), lambda/lambda_max 0.5" in line for line in said)
    solvers = {(row.task, row.solver) for row in report.rows}
    assert ("lasso", "fastsbl") in solvers
    assert ("sbl", "fastsbl") in solvers
    assert ("lasso", "scikit-learn") in solvers
    for row in report.rows:
        assert row.status == "ok"
        assert 0 <= row.reached <= (1e-6 if row.task == "lasso" else 1e-6 * 1e4)
        assert row.low <= row.seconds <= row.high
        assert row.calls == 2 or row.calls == 3
        assert (row.passes is not None) == (row.solver == "fastsbl")
    assert BenchReport.from_json(report.to_json()) == report
    assert json.loads(report.to_json())["environment"]["versions"]["numpy"] == np.__version__
    text = report.to_markdown()
    assert "## Weighted lasso" in text
    assert "## Sparse Bayesian learning" in text
    assert "best other / ours" in text


def test_absent_packages_are_listed_with_the_line_that_brings_them(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "celer" else object())
    report = run_benchmark(plan=replace(SMALL, cases=()))
    assert report.skipped == ["celer is not installed (pip install celer)"]
    assert "Left out: celer is not installed (pip install celer)." in report.to_markdown()


@pytest.mark.parametrize(("only", "tasks"), [(["sbl"], {"sbl"}), ("lasso/gaussian-1e3", {"lasso"})])
def test_parts_can_be_chosen(only, tasks):
    report = run_benchmark(plan=replace(SMALL, repeats=1, solvers=("fastsbl",)), only=only)
    assert {row.task for row in report.rows} == tasks


def test_unknown_parts_are_refused():
    with pytest.raises(ValueError, match=r"only must name parts of the benchmark, .*gaussian-1e3.*; got 'gauss'"):
        run_benchmark(plan=SMALL, only=["gauss"])


def test_solvers_that_fail_stop_short_or_take_too_long_are_results(problem):
    exact = TASKS["lasso"][0]
    lazy = Solver("lazy", lambda p, lam, tol: Answer(np.zeros(30)), "numpy", "numpy")
    plan = replace(SMALL, limit=0.0, repeats=1)

    def broken(p, lam, tol):
        raise RuntimeError("no such thing")

    ours, short = compare("lasso", problem, 0.3, [exact, lazy], replace(plan, limit=60.0))
    assert (ours.status, short.status) == ("ok", "short")
    assert short.reached > 0.01
    failed, slow = compare("lasso", problem, 0.3, [Solver("broken", broken, "numpy", "numpy"), lazy], plan)
    assert failed.status == "failed"
    assert failed.note == "RuntimeError: no such thing"
    assert slow.status == "slow"
    assert "after" in slow.note


def test_the_lowest_loss_of_anybody_is_the_goal(problem):
    single = replace(problem, weights=None)
    lam = 0.5 * single.lambda_max
    found = fit_sbl(single.matrix, single.y, lam, init="unit", tol=1e-10)
    ours = TASKS["sbl"][0]
    higher = Solver("higher", lambda p, lam, tol: Answer(np.zeros(30)), "numpy", "numpy")
    first, second = compare("sbl", single, 0.5, [ours, higher], SMALL)
    assert first.status == "ok"
    assert second.status == "short"
    nothing = judge.loss(single.matrix, single.y, lam, np.zeros(30))
    assert second.reached == pytest.approx(nothing - found.loss, rel=1e-4)


def row(solver, seconds, status="ok", **changes):
    problem = ("lasso", "d", "data (1 x 1)", 0.1, 1e-6)
    return Row(*problem, solver, "1", status, 1e-7, 1e-6, seconds, product=0.001, **changes)


def test_table_of_ratios():
    report = BenchReport([row("fastsbl", 0.002, passes=2.0), row("a", 0.01), row("b", 0.004), row("c", 0.001, "short")])
    (record,) = report.ratios()
    assert (record["best"], record["faster"], record["bound"], record["products"]) == ("b", 2.0, False, 2.0)
    line = report.to_markdown().splitlines()[-1]
    assert line == "| data (1 x 1) | 0.1 | 1e-06 | 2.00 | 10.0 | 4.00 | stays at 1e-07 | 2.0 | 2.0 | 2.0 |"
    late = BenchReport([row("fastsbl", 0.002), row("a", 10.0, "slow")])
    assert "> 5000.0" in late.to_markdown()
    assert late.ratios()[0]["bound"]


def test_goals_are_judged_by_the_rows():
    many = replace(row("fastsbl", 0.002, passes=2.0), task="sbl", n_features=10_000)
    slow = replace(many, solver="ARDRegression", seconds=1.0)
    small = [replace(r, data="e", title="few (1 x 9)", n_features=9) for r in (many, replace(slow, seconds=9.0))]
    costs = [
        Cost("digits one by one", 0.1, 0.01, 8.0, passes=11.0),
        Cost("batch of 9, each", 0.1, 0.01, 5.8, passes=0.5),
    ]
    report = BenchReport([row("fastsbl", 0.002), row("a", 0.005), many, slow, *small], costs, slope=0.7)
    text = report.to_markdown()
    wanted = [
        ("lasso, data (1 x 1): best other / ours", "3 or more", "2.5, least at 0.1 (a)", "no", "2.0"),
        ("best other / ours, in all rows", "0.9 or more", "least 2.5 (lasso, data (1 x 1), 0.1, a)", "yes", "-"),
        ("sparse Bayesian fit, 10,000 features or more: ARDRegression / ours", "1000 or more", "500.0", "no", "2.0"),
        ("sparse Bayesian fit, digits one by one, at 0.1: products", "10 or less", "8.0", "yes", "8.0"),
        ("sparse Bayesian fit, digits one by one, at 0.1: passes", "10 or less", "11.0", "no", "8.0"),
        ("sparse Bayesian fit, batch of 9, each, at 0.1: passes", "3 or less", "0.5", "yes", "5.8"),
        ("sparse Bayesian fit, batch of 9, each, at 0.1: products", "3 or less", "5.8", "no", "5.8"),
        ("slope of log time against log n", "1.1 or less", "0.70", "yes", "-"),
    ]
    found = [line for line in text.split("## Weighted lasso")[0].splitlines() if line.startswith("| ")]
    assert found[1:] == ["| " + " | ".join(cells) + " |" for cells in wanted]
    assert "## Goals" not in BenchReport().to_markdown()


def test_reports_are_merged_by_what_was_measured():
    old = BenchReport([row("fastsbl", 0.002), row("a", 0.01)], [Cost("x", 0.1, 1.0, 2.0)], slope=0.5)
    new = BenchReport([row("fastsbl", 0.003)], memory=[{"task": "lasso", "data": "d", "solver": "a"}])
    both = old.merged(new)
    assert {r.solver: r.seconds for r in both.rows} == {"fastsbl": 0.003, "a": 0.01}
    assert both.slope == 0.5
    assert len(both.memory) == len(both.costs) == 1


def test_one_call_in_a_process_of_its_own():
    found = run_alone("lasso", "gaussian-1e3", "fastsbl", 0.5, 1e-6, quick=True, limit=120)
    assert found["value"] <= 1e-6
    assert found["matrix"] == 200 * 1000 * 8
    assert found["peak"] is None or found["peak"] > found["matrix"]
    assert run_alone("lasso", "gaussian-1e3", "fastsbl", 0.5, 1e-6, quick=True, limit=0.01) is None
    assert "error" in run_alone("lasso", "gaussian-1e3", "nobody", 0.5, 1e-6, quick=True, limit=120)
