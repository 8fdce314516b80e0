"""The classification study on scikit-learn's small digits."""

import dataclasses

import numpy as np
import pytest

from fastsbl import SparseRepresentationClassifier
from fastsbl.studies import ConfigError, Store, find_study, parse_config, run_study
from fastsbl.studies._classification_claims import _by_run, _in_minutes, accuracies, chosen_of
from fastsbl.studies._classifiers import METHODS, UNDECIDED, Digits, classify
from fastsbl.studies._explained import image_from
from fastsbl.studies.classification import ZERO_RATIO, ClassificationConfig, MethodPlan
from fastsbl.studies.figures import BarStrip, ImageGrid, LineFigure, ScatterFigure

PLANS = (
    MethodPlan("sbl", (0.0, 0.1, 0.5, 1.0), choose=False),
    MethodPlan("neighbours", (1.0,), choose=False),
    MethodPlan("evidence", (0.02, 0.1)),
    MethodPlan("ridge", (0.1, 1.0)),
    MethodPlan("evidence-single", (0.05,)),
    MethodPlan("evidence", (0.02,), choose=False, runs=1, columns="all"),
)
CONFIG = ClassificationConfig(
    data="digits", runs=2, images=15, per_class=30, plans=PLANS, held_out=20, explained=8, walks=1
)


@pytest.fixture(scope="module")
def digits():
    return Digits("digits", 30, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("study")
    summary = run_study(find_study("classification"), CONFIG, place)
    assert summary.failed == 0
    return place


# -- the draws ----------------------------------------------------------------------------------------------------
def test_columns_are_those_of_the_paper(digits):
    from fastsbl.datasets import load_small_digits, mnist_dictionary

    matrix, labels = mnist_dictionary(load_small_digits(), 30, 0)
    columns = digits.columns(0)
    np.testing.assert_allclose(columns.matrix, matrix, rtol=1e-14)
    np.testing.assert_array_equal(columns.labels, labels)
    whole = digits.columns(None)
    assert whole.matrix.shape == (64, 1437)
    assert whole.matrix.dtype == np.float32
    assert sorted(whole.place.tolist()) == list(range(1437))
    assert not np.array_equal(digits.columns(1).place, columns.place)


def test_each_run_has_images_of_its_own_and_held_out_images_are_no_columns(digits):
    first, again, other = (digits.test_queries(run, 40) for run in (0, 0, 1))
    np.testing.assert_array_equal(first.place, again.place)
    assert not np.array_equal(first.place, other.place)
    assert np.unique(first.place).size == 40
    np.testing.assert_allclose(np.linalg.norm(first.targets, axis=0), 1.0)
    held_out = np.concatenate([digits.held_out(run, 40).place for run in range(3)])
    assert np.unique(held_out).size == 120
    assert not np.intersect1d(held_out, digits.columns(0).place).size
    assert digits.held_out(1_000, 40).truth.size == 0


# -- the methods --------------------------------------------------------------------------------------------------
def test_the_sparse_scores_are_those_of_the_estimator(digits):
    columns, queries = digits.columns(0), digits.test_queries(0, 20)
    for method in ("sbl", "lasso"):
        found = {record["score"]: record for record in classify(columns, queries, method, 0.1)}
        for score in ("abs-sum", "residual"):
            model = SparseRepresentationClassifier(noise_ratio=0.1, score=score, method=method, init="unit")
            model.fit(columns.matrix.T, columns.labels)
            np.testing.assert_array_equal(found[score]["predicted"], model.predict(queries.targets.T))


def test_neighbours_vote(digits):
    columns, queries = digits.columns(0), digits.test_queries(0, 20)
    products = columns.matrix.T @ queries.targets
    (nearest,) = classify(columns, queries, "neighbours", 1)
    np.testing.assert_array_equal(nearest["predicted"], columns.labels[products.argmax(axis=0)])
    (five,) = classify(columns, queries, "neighbours", 5)
    for k, answer in enumerate(five["predicted"]):
        near = columns.labels[np.argsort(-products[:, k])[:5]]
        counts = np.bincount(near, minlength=10)
        tied = np.flatnonzero(counts == counts.max())
        assert answer == next(label for label in near if label in tied)


def test_ridge_weights_solve_the_ridge_problem(digits):
    columns, queries = digits.columns(0), digits.test_queries(0, 3)
    prepare, _ = METHODS["ridge"]
    coef = prepare(columns, 0.5) @ queries.targets
    gradient = columns.matrix.T @ (columns.matrix @ coef - queries.targets) + 0.5 * coef
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)


def test_images_without_an_answer_count_as_errors(digits):
    columns, queries = digits.columns(0), digits.test_queries(0, 10)
    for record in classify(columns, queries, "sbl", 1.0):
        assert record["undecided"] == 10
        assert record["accuracy"] == 0.0
        assert set(record["predicted"].tolist()) == {UNDECIDED}


@pytest.mark.parametrize(("method", "value"), [("logistic", 10.0), ("svm", 10.0), ("evidence-positive", 0.05)])
def test_other_classifiers_are_better_than_chance(digits, method, value):
    (record,) = classify(digits.columns(0), digits.test_queries(0, 30), method, value)
    assert record["accuracy"] > 0.6


# -- the study ----------------------------------------------------------------------------------------------------
def test_zero_stands_for_a_small_ratio(digits, folder):
    with Store.open(folder) as store:
        (row,) = store.records(method="sbl", value=0.0, run=0, set="test", score="abs-sum")
    expected = classify(digits.columns(0), digits.test_queries(0, 15), "sbl", ZERO_RATIO)[0]
    assert row["predicted"] == expected["predicted"].tolist()


def test_images_drawn_again_are_not_classified_again_but_count(digits):
    whole, records = {}, []
    for run in range(12):
        queries = digits.test_queries(run, 60)
        whole[run] = classify(digits.columns(0), queries, "neighbours", 1.0)[0]["accuracy"]
        new = digits.new_queries(run, 60)
        assert set(new.place) <= set(queries.place)
        (record,) = classify(digits.columns(0), new, "neighbours", 1.0)
        records.append(record | {"run": run, "drawn": queries.place.tolist()})
    places = np.concatenate([record["place"] for record in records])
    assert np.unique(places).size == places.size < 12 * 60
    assert _by_run(records[::-1]) == pytest.approx(whole)
    assert 3 not in _by_run(records[1:]), "an image of the run that is missing"


def test_a_single_noise_variance_has_no_curve(tmp_path):
    plans = (MethodPlan("sbl", (0.1,), choose=False), MethodPlan("neighbours", (1.0,), choose=False))
    study = find_study("classification")
    run_study(study, dataclasses.replace(CONFIG, plans=plans, explained=0, walks=0), tmp_path)
    with Store.open(tmp_path) as store:
        assert [figure.name for figure in study.figures(store)] == ["speed"]


def test_time_of_the_papers_fits_counts_each_fit_once():
    class Results:
        def records(self, **wanted):
            return [
                {"value": v, "images": 100 - 20 * run, "drawn": list(range(100)), "seconds": 0.3 if v == 0 else 0.005}
                for v in ClassificationConfig().plans[0].values
                for run in (0, 1)
            ]

    claim = _in_minutes(Results(), ClassificationConfig())
    assert claim.number == pytest.approx(5000 * 0.9 * (0.3 + 10 * 0.005) / 2 / 60)
    assert "2,200 answers from 1,980 fits" in claim.measured
    assert "(14.6 if each were fitted)" in claim.measured


def test_the_parameter_is_chosen_on_held_out_images(folder):
    with Store.open(folder) as store:
        found = accuracies(store)
        rows = store.records(method="evidence", set="held-out")
    value, one = chosen_of(found)["evidence", "evidence"]
    by_value = {v: [row["accuracy"] for row in rows if row["value"] == v] for v in (0.02, 0.1)}
    assert one.held_out == max(np.average(rates, weights=[15, 15]) for rates in by_value.values())
    assert value in (0.02, 0.1)
    assert one.accuracy.mean == pytest.approx(np.mean(list(one.runs.values())))
    assert one.accuracy.error == pytest.approx(np.std(list(one.runs.values()), ddof=1) / np.sqrt(2))
    assert ("sbl", "abs-sum") not in chosen_of(found)  # several values, and none was held against such images


def test_claims_tables_and_figures(folder):
    study = find_study("classification")
    with Store.open(folder) as store:
        claims, tables, figures = study.claims(store), study.tables(store), study.figures(store)
    verdicts = [claim.verdict for claim in claims]
    assert verdicts[0] == "not measured"  # nothing inside (0, .1)
    assert set(verdicts) <= {"holds", "does not hold", "not measured"}
    assert claims[-1].verdict == "not measured"  # minutes are claimed for the paper's columns
    names = {table.name: table for table in tables}
    assert names["ratios"].rows[0][0] == "0 (as .001)"
    assert [row[3] for row in names["ratios"].rows][-1] == "100.0 %"
    assert len(names["whole"].rows) == 1
    kinds = {figure.name: type(figure) for figure in figures}
    assert kinds["accuracy"] is LineFigure
    assert kinds["speed"] is ScatterFigure
    assert kinds["bar-0"] is BarStrip
    assert kinds["walk-0"] is kinds["explained"] is ImageGrid
    walk = next(figure for figure in figures if figure.name == "walk-0")
    assert walk.slider
    assert len({panel.step for panel in walk.panels}) == 22


def test_an_empty_store_makes_no_claim(tmp_path):
    from fastsbl.studies import config_to_toml

    study = find_study("classification")
    with Store.create(tmp_path, study.name, config_to_toml(CONFIG)) as store:
        assert {claim.verdict for claim in study.claims(store)} == {"not measured"}
        assert study.tables(store) == []
        assert study.figures(store) == []


def test_explanations_hold_the_images(digits, folder):
    with Store.open(folder) as store:
        rows = store.records(task="explain")
    answers = [row for row in rows if row["kind"] == "answer"]
    pixels = {(row["kind"], row["place"]): row for row in rows if row["kind"] != "answer"}
    assert len(answers) == 8
    for answer in answers:
        query = pixels["query", answer["place"]]
        image = image_from(query["pixels"], (query["height"], query["width"]))
        np.testing.assert_array_equal(image, digits.images.test_images[answer["place"]])
        assert answer["truth"] == digits.images.test_labels[answer["place"]]
        for place, label in zip(answer["atoms"], answer["atom_labels"], strict=True):
            assert digits.images.train_labels[place] == label
            assert ("atom", place) in pixels


def test_a_resumed_study_equals_an_uninterrupted_one(folder, tmp_path):
    study = find_study("classification")
    keep = study.units

    def first_half(config):
        units = list(keep(config))
        return units[: len(units) // 2]

    study.units = first_half
    run_study(study, CONFIG, tmp_path)
    study.units = keep
    summary = run_study(study, CONFIG, tmp_path)
    assert summary.before > 0
    with Store.open(folder) as one, Store.open(tmp_path) as other:
        for store, name in ((one, "a.csv"), (other, "b.csv")):
            store.export_csv(tmp_path / name, leave_out=study.timings)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_redrawing_the_dictionary_changes_the_columns_of_later_runs(tmp_path):
    plans = (MethodPlan("neighbours", (1.0,), choose=False),)
    config = dataclasses.replace(CONFIG, plans=plans, redraw_dictionary=True, explained=0, walks=0)
    run_study(find_study("classification"), config, tmp_path)
    digits = Digits("digits", 30, 0)
    with Store.open(tmp_path) as store:
        rows = store.records(task="classify")
    for row in rows:
        (expected,) = classify(digits.columns(row["run"]), digits.test_queries(row["run"], 15), "neighbours", 1.0)
        assert row["predicted"] == expected["predicted"].tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs = 0", "runs must be at least 1, got 0"),
        ("data = 'letters'", "data must be one of 'mnist', 'digits'; got 'letters'"),
        ("explained = 200", "explained must be at most images"),
        ("plans = [{method = 'sbl', values = [-0.1]}]", "values of 'sbl' must be at least 0"),
        ("plans = [{method = 'evidence', values = [0]}]", "values of 'evidence' must be at least 1e-09"),
        ("plans = [{method = 'forest', values = [1]}]", "method must be one of"),
        ("plans = [{method = 'sbl', values = [0.1], columns = 'some'}]", "columns must be one of"),
    ],
)
def test_bad_configurations_are_named(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(ClassificationConfig, text)


def test_the_default_is_the_papers():
    config = ClassificationConfig()
    units = find_study("classification").units(config)
    paper = [
        unit
        for unit in units
        if unit.key["task"] == "classify" and unit.key["method"] == "sbl" and unit.key["set"] == "test"
        and unit.key["value"] in config.plans[0].values and unit.key["columns"] == "drawn"
    ]  # fmt: skip
    assert len(paper) * config.images == 55_000
