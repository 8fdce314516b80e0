"""The screening study: what a unit measures, against plain formulas; claims on made-up results; its problems."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from fastsbl.lasso import solve_weighted_lasso
from fastsbl.screening import gap_sphere_test, holder_dome_test, sphere_test, two_hyperplane_test
from fastsbl.studies import Store, Unit, find_study, parse_config, run_study
from fastsbl.studies._screening_measures import TIMINGS, count_rejections, time_fits
from fastsbl.studies.problems import make_problem
from fastsbl.studies.screening import PLANS, RATIOS, RULES, ScreeningConfig, SolverPlan


@pytest.fixture(scope="module")
def problem():
    return make_problem("simulated", n_targets=2, n_rows=30, n_columns=80)


# -- what a unit measures ----------------------------------------------------------------------------------------
def test_rejections_are_those_of_the_public_tests(problem):
    phi, y, ratio = problem.matrix, problem.targets[0], 0.6
    records = count_rejections(phi, y, ratio, "unit", RULES)
    lam = ratio * np.abs(phi.T @ y).max()
    assert records[0]["lam"] == pytest.approx(lam, rel=1e-14)
    assert records[0]["y_norm"] == pytest.approx(np.linalg.norm(y))
    ones = np.ones(phi.shape[1])
    static = {
        "sphere:paper": sphere_test(phi, y, lam, ones, ball="paper"),
        "two_hyperplanes:paper": two_hyperplane_test(phi, y, lam, ones, ball="paper"),
        "two_hyperplanes:diameter": two_hyperplane_test(phi, y, lam, ones),
    }
    for rule, result in static.items():
        assert records[0][f"rejected {rule}"] == result.rejected.mean()

    # the second weighted lasso, from the textbook formula of its weights
    coef = solve_weighted_lasso(phi, y, lam, ones, tol=1e-13).coef
    covariance = lam * np.eye(len(y)) + (phi * np.abs(coef)) @ phi.T
    weights = np.sqrt(np.einsum("ij,ij->j", phi, np.linalg.solve(covariance, phi)))
    for rule, test in (("gap_sphere", gap_sphere_test), ("holder", holder_dome_test)):
        result = test(phi, y, lam, weights, coef=coef)
        assert result.rejected.any()
        assert records[1][f"rejected {rule}"] == result.rejected.mean()
    union = (
        two_hyperplane_test(phi, y, lam, weights).rejected | holder_dome_test(phi, y, lam, weights, coef=coef).rejected
    )
    assert records[1]["rejected auto"] == union.mean()

    assert [record["iteration"] for record in records] == list(range(1, len(records) + 1))
    losses = [record["loss"] for record in records]
    assert np.diff(losses).max() <= 1e-9 * abs(losses[-1])
    for record in records:
        assert all(record[f"rejected {rule}"] <= record["rejectable"] for rule in RULES)


@pytest.mark.parametrize("solver", ["working-set", "cd", "cvxpy"])
def test_every_rule_gives_the_answer_of_no_rule(problem, solver):
    if solver == "cvxpy":
        pytest.importorskip("cvxpy", reason="a general convex solver is optional")
    rules = ("none", *RULES)
    records = time_fits(problem.matrix, problem.targets[0], 0.5, "unit", solver, rules, 2)
    assert [record["rule"] for record in records] == list(rules)
    for record in records:
        assert record["converged"]
        assert record["difference"] <= 1e-4 * record["largest_coef"], record["rule"]
        assert record["same_support"], record["rule"]
        assert record["loss_with"] == pytest.approx(record["loss_without"], abs=1e-5)
        assert len(record["fit_ratios"]) == 2
        assert record["fit_ratio"] == pytest.approx(np.median(record["fit_ratios"]))
        if solver == "working-set":
            assert "t_ratio" not in record  # its inner problems cannot be told apart
        else:
            assert record["t_r"] == pytest.approx(record["t_scr"] + record["t_red"])
            assert 0 < record["t_r"] < record["fit_with"]
            assert 0 < record["t_ori"] < record["fit_without"]
        assert (record["t_scr"] > 0) == (record["rule"] != "none")
    with_rules = [record["rejected_mean"] for record in records[1:]]
    assert max(share for share in with_rules if share is not None) > 0.5
    assert records[0]["rejected_mean"] is None


def test_units_cover_the_plans_and_are_told_apart():
    study = find_study("screening")
    units = study.units(ScreeningConfig(targets=20))
    assert len({unit.id for unit in units}) == len(units)
    count = {(key["task"], key.get("solver")): 0 for key in (unit.key for unit in units)}
    for unit in units:
        count[unit.key["task"], unit.key.get("solver")] += 1
    assert count == {
        ("rejection", None): 20 * 11,
        ("time", "working-set"): 20 * 11,
        ("time", "cd"): 5 * 10,
        ("time", "cvxpy"): 2,
    }
    assert min(unit.key["ratio"] for unit in units if unit.key.get("solver") == "cd") == 0.05
    assert PLANS[0].rules == RULES
    assert PLANS[0].pairs * 20 >= 30  # interleaved pairs at every ratio
    assert len(RATIOS) == 11
    quick = study.quick(ScreeningConfig(targets=20))
    assert len(study.units(quick)) < 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ratios = [0.0, 0.5]", "ratios must be numbers above 0 and at most 1"),
        ("data = 'mnits'", r"data\[0\] must be one of 'mnist'"),
        ("targets = 0", "targets must be at least 1, got 0"),
        ("plans = [{solver = 'cd', rules = ['domes']}]", "screening must be None or one of"),
        ("plans = [{solver = 'cd', pairs = 0}]", r"plans\[0\]\.pairs must be at least 1"),
        ("plans = [{solver = 'lars'}]", r"plans\[0\]\.solver must be one of 'working-set'"),
    ],
)
def test_configurations_that_make_no_sense_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse_config(ScreeningConfig, text)


# -- problems ----------------------------------------------------------------------------------------------------
def test_the_simulated_corpus_in_both_scalings():
    unit = make_problem("zipf", n_targets=3, n_rows=200, n_columns=500)
    raw = make_problem("zipf", n_targets=3, n_rows=200, n_columns=500, scaling="raw")
    assert unit.label == "simulated corpus, 200 x 500, unit norm"
    assert raw.label == "simulated corpus, 200 x 500, raw counts"
    assert sparse.issparse(unit.matrix)
    norms = np.sqrt(raw.matrix.multiply(raw.matrix).sum(axis=0))
    np.testing.assert_allclose((unit.matrix * norms - raw.matrix).data, 0, atol=1e-12)
    assert (raw.matrix.data == np.round(raw.matrix.data)).all()
    np.testing.assert_allclose(np.linalg.norm(unit.targets, axis=1), 1)
    again = make_problem("zipf", n_targets=3, n_rows=200, n_columns=500, scaling="raw")
    assert (again.matrix != raw.matrix).nnz == 0
    np.testing.assert_array_equal(again.targets, raw.targets)


def test_targets_are_not_among_the_columns():
    for data in ("digits", "zipf"):
        problem = make_problem(data, n_targets=5, n_rows=300, n_columns=400)
        products = np.asarray(problem.matrix.T @ problem.targets.T)
        assert products.max() < 1 - 1e-9  # unit norms: 1 is a copy


def test_problems_that_cannot_be_made_say_why(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="scaling must be 'unit' for images"):
        make_problem("digits", n_targets=1, scaling="raw")
    with pytest.raises(ValueError, match="data must be one of 'mnist'"):
        make_problem("cifar", n_targets=1)
    with pytest.raises(ValueError, match="targets and columns must be between 1 and 360"):
        make_problem("digits", n_targets=361)
    monkeypatch.setenv("FASTSBL_DATA", str(tmp_path))
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"docword\.nytimes\.txt\.gz.*data 'zipf' is a simulated corpus"):
        make_problem("nytimes", n_targets=1)


# -- claims ------------------------------------------------------------------------------------------------------
def _store(folder, times=(), rejections=()):
    """Make a store of made-up records, MNIST with unit norms unless they say otherwise."""
    store = Store.create(folder, "screening", "")
    run = store.begin_run({})
    place = {"data": "mnist", "scaling": "unit", "init": "unit", "target": 0}
    for number, (task, record) in enumerate(
        [("time", record) for record in times] + [("rejection", record) for record in rejections]
    ):
        full = {"task": task, "problem": "made up", "y_norm": 1.0, "lam": 1.0, **place, **record}
        store.add(number, Unit({"number": number}), [full], run=run, seconds=0.0)
    return store


def _time(ratio, t_ratio=None, fits=None, **more):
    base = {"solver": "cd", "rule": "auto", "ratio": ratio, "difference": 1e-9, "largest_coef": 1.0}
    base |= {"same_support": True, "loss_with": -1.0, "loss_without": -1.0}
    base |= {"passes_with": 1.0, "passes_without": 2.0, "fit_with": 1.0, "fit_without": 2.0}
    if t_ratio is not None:
        base["t_ratio"] = t_ratio
    fits = [0.5] if fits is None else fits
    return {**base, "fit_ratios": fits, "fit_ratio": float(np.median(fits)), **more}


def _verdict(store, beginning):
    (claim,) = (c for c in find_study("screening").claims(store) if beginning in c.sentence)
    return claim.verdict, claim.number


@pytest.mark.parametrize(
    ("at", "verdict"),
    [
        ({0.05: 0.9, 0.5: 0.19, 0.9: 0.09}, "holds"),
        ({0.05: 1.01, 0.5: 0.19, 0.9: 0.09}, "does not hold"),
        ({0.05: 0.9, 0.5: 0.21, 0.9: 0.09}, "does not hold"),
        ({0.05: 0.9, 0.5: 0.19, 0.9: 0.11}, "does not hold"),
        ({0.01: 3.0}, "not measured"),
    ],
)
def test_the_promise_about_plain_descent(tmp_path, at, verdict):
    with _store(tmp_path, [_time(ratio, value) for ratio, value in at.items()]) as store:
        assert _verdict(store, "Plain coordinate descent with rule auto")[0] == verdict


@pytest.mark.parametrize(
    ("values", "ratio", "verdict"),
    [
        ([0.4] * 20, 0.1, "holds"),
        ([0.6] * 20, 0.1, "does not hold"),
        ([0.6] * 20, 0.05, "holds"),
        ([1.0 + 0.01 * (k - 9) for k in range(20)], 0.05, "holds"),  # 1 is inside the interval
        ([1.2 + 0.01 * (k - 9) for k in range(20)], 0.05, "does not hold"),
    ],
)
def test_the_promise_about_working_sets(tmp_path, values, ratio, verdict):
    times = [_time(ratio, None, [value], solver="working-set", target=k) for k, value in enumerate(values)]
    with _store(tmp_path, times) as store:
        verdicts = {_verdict(store, end)[0] for end in ("never above 1 beyond its interval", "at most .5 from .1 on")}
    assert verdicts - {"not measured"} <= {verdict, "holds"}
    assert verdict in verdicts


def test_where_nothing_is_solved_is_told_apart(tmp_path):
    times = [_time(ratio, None, [value], solver="working-set") for ratio, value in ((0.1, 0.2), (0.9, 0.3), (1.0, 0.7))]
    with _store(tmp_path, times) as store:
        assert _verdict(store, "at most .5 from .1 on") == ("holds for MNIST, unit norm, below 1 only", 0.7)


def test_a_changed_solution_is_found(tmp_path):
    times = [_time(0.1, 0.5), _time(0.1, 0.5, data="nytimes", difference=1e-2)]
    with _store(tmp_path, times) as store:
        assert _verdict(store, "optimal solution") == ("holds for MNIST, unit norm only", 0.01)
    with _store(tmp_path / "tiny", [_time(0.1, 0.5, difference=1e-12, largest_coef=1e-11)]) as store:
        assert _verdict(store, "optimal solution")[0] == "holds"
    with _store(tmp_path / "support", [_time(0.1, 0.5, same_support=False)]) as store:
        assert _verdict(store, "optimal solution")[0] == "does not hold"


def _rejection(ratio, share, iteration=1, **more):
    return {"ratio": ratio, "iteration": iteration, "rejected two_hyperplanes:paper": share, **more}


def test_claims_about_rejection(tmp_path):
    rising = [_rejection(ratio, share) for ratio, share in ((0.1, 0.0), (0.3, 0.2), (0.5, 0.8), (1.0, 0.995))]
    falling = [
        {**record, "data": "nytimes", "rejected two_hyperplanes:paper": 1 - 0.9 * record["ratio"]} for record in rising
    ]
    better_later = [_rejection(0.3, 0.6, iteration=2)]
    with _store(tmp_path, rejections=rising + falling + better_later) as store:
        assert _verdict(store, "the rejected share")[0] == "holds for MNIST, unit norm only"
        assert _verdict(store, "almost all the features are rejected") == (
            "holds for MNIST, unit norm only",
            pytest.approx(10),
        )
        assert _verdict(store, "no better than")[0] == "does not hold"
        assert _verdict(store, 'are alike" (screening')[0] == "does not hold"
    with _store(tmp_path / "2", rejections=[_rejection(0.3, 0.6), _rejection(0.3, 0.2, iteration=2)]) as store:
        assert _verdict(store, "no better than") == ("holds", pytest.approx(-40))


def test_the_limit_of_four_tenths(tmp_path):
    paper = {"rule": "two_hyperplanes:paper"}
    at = {0.1: 1.1, 0.3: 0.8, 0.5: 0.3, 0.9: 0.1}
    with _store(tmp_path, [_time(ratio, value, **paper) for ratio, value in at.items()]) as store:
        assert _verdict(store, "no smaller than 0.4")[0] == "holds"
    for folder, change in (("2", {0.3: 0.4}), ("3", {0.5: 0.7})):
        times = [_time(ratio, value, **paper) for ratio, value in {**at, **change}.items()]
        with _store(tmp_path / folder, times) as store:
            assert _verdict(store, "no smaller than 0.4")[0] == "does not hold"


# -- what is drawn -----------------------------------------------------------------------------------------------
def test_figures_and_tables_of_a_small_run(tmp_path):
    plans = (SolverPlan("working-set", ("none", "auto"), pairs=1), SolverPlan("cd", ("auto",), pairs=1))
    config = ScreeningConfig(
        data=("simulated",),
        scalings=("unit", "raw"),
        n_rows=30,
        n_columns=80,
        targets=2,
        ratios=(0.3, 1.0),
        plans=plans,
    )
    study = find_study("screening")
    assert run_study(study, config, tmp_path).failed == 0
    with Store.open(tmp_path) as store:
        figures = {figure.name: figure for figure in study.figures(store)}
        titles = [table.title for table in study.tables(store)]
        norms = study.tables(store)[0]
        environment = store.environments()[-1]
    assert environment["seed"] == "0"
    assert float(environment["peak memory of all processes"].split()[0]) > 0
    for tag in ("simulated-unit", "simulated-raw"):
        assert {f"rejection-{tag}", f"iterations-{tag}", f"passes-{tag}", f"time-{tag}-cd"} <= figures.keys()
        assert {f"fit-{tag}-cd", f"fit-{tag}-working-set"} <= figures.keys()
    looks = {}
    for figure in figures.values():
        for line in getattr(figure, "series", ()):
            if line.place is not None:
                assert looks.setdefault(line.label, line.place) == line.place
    assert len(set(looks.values())) == len(looks) == len(RULES) + 1
    lines = figures["rejection-simulated-unit"].series
    assert [line.label for line in lines][-1] == "auto"
    assert all((line.low <= line.y).all() and (line.y <= line.high).all() for line in lines)
    assert titles[0] == "Problems"
    assert [row[0] for row in norms.rows] == ["simulated, 30 x 80, unit norm", "simulated, 30 x 80, raw values"]
    assert norms.rows[0][3] == "1"  # ||Y||
    text = (tmp_path / "claims.md").read_text()
    assert "raw values" in text
    exported = (tmp_path / "results.csv").read_text().splitlines()
    assert set(exported[0].split(",")) >= TIMINGS
    assert json.loads(store_line(exported, "rejected_by_iteration")) is not None


def store_line(lines, column):
    """First filled cell of a column of the exported table."""
    import csv

    return next(row[column] for row in csv.DictReader(lines) if row[column])


def test_what_the_page_on_studies_says_works(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "studies.md"
    if not page.is_file():
        pytest.skip("the documentation is not here")
    text = page.read_text(encoding="utf-8")
    (toml,) = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    config = parse_config(ScreeningConfig, toml)
    assert config.targets == 5
    assert config.plans == (SolverPlan("cd", ("two_hyperplanes:paper", "auto"), pairs=3),)
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    assert 0 < names["records"][0]["t_ratio"] < 10
    assert (tmp_path / "my-study" / "claims.md").is_file()
