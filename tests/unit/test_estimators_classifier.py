"""`SparseRepresentationClassifier`: its rules against their definitions, hard queries, bad input."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from fastsbl import SparseRepresentationClassifier
from fastsbl.lasso import solve_weighted_lasso
from fastsbl.sbl import fit_sbl, loss

RULES = ["evidence", "abs-sum", "residual"]


@pytest.fixture(scope="module")
def digits():
    """Every third of the bundled digits as training samples, in an order that mixes classes; 60 queries."""
    images, labels = load_digits(return_X_y=True)
    return images[::3], labels[::3], images[1:181:3], labels[1:181:3]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def noise_of(columns, query, ratio):
    return ratio * np.abs(columns.T @ query).max()


class TestRules:
    @pytest.mark.parametrize("init", ["null", "unit"])
    def test_abs_sum_is_the_paper_s(self, digits, init):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(noise_ratio=0.05, score="abs-sum", init=init).fit(X, y)
        columns = unit(X).T
        for query, found in zip(unit(queries[:4]), model.scores(queries[:4]), strict=True):
            fit = fit_sbl(columns, query, noise_of(columns, query, 0.05), init=init)
            sums = np.array([np.abs(fit.coef[y == k]).sum() for k in range(10)])
            np.testing.assert_allclose(found, sums / np.sqrt((sums**2).sum()), atol=1e-7)

    def test_residual_is_the_share_each_class_explains(self, digits):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(noise_ratio=0.05, score="residual").fit(X, y)
        columns = unit(X).T
        scores, probabilities = model.scores(queries[:4]), model.predict_proba(queries[:4])
        for k, query in enumerate(unit(queries[:4])):
            lam = noise_of(columns, query, 0.05)
            coef = fit_sbl(columns, query, lam).coef
            squares = np.array([((query - columns[:, y == c] @ coef[y == c]) ** 2).sum() for c in range(10)])
            np.testing.assert_allclose(scores[k], 1 - squares, atol=1e-7)
            likelihood = np.exp(-squares / (2 * lam))
            np.testing.assert_allclose(probabilities[k], likelihood / likelihood.sum(), atol=1e-6)

    def test_evidence_is_that_of_each_class_alone(self, digits):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(noise_ratio=0.02, candidates=None).fit(X, y)
        columns = unit(X).T
        scores, probabilities = model.scores(queries[:2]), model.predict_proba(queries[:2])
        for k, query in enumerate(unit(queries[:2])):
            lam = noise_of(columns, query, 0.02)
            losses = np.array([
                loss(columns[:, y == c], query, fit_sbl(columns[:, y == c], query, lam).gamma, lam) for c in range(10)
            ])  # fmt: skip
            np.testing.assert_allclose(scores[k], -0.5 * (losses + 64 * np.log(2 * np.pi)), rtol=1e-6)
            posterior = np.exp(-0.5 * (losses - losses.min()))
            np.testing.assert_allclose(probabilities[k], posterior / posterior.sum(), rtol=1e-4, atol=1e-12)

    def test_several_noise_variances_have_the_same_say_on_classes_in_doubt(self, digits):
        X, y, queries, _ = digits
        ratios = (0.005, 0.02, 0.01)
        model = SparseRepresentationClassifier(noise_ratio=ratios, candidates=None).fit(X, y)
        found = model.predict_proba(queries)
        alone = [clone(model).set_params(noise_ratio=ratio).fit(X, y).predict_proba(queries) for ratio in ratios]
        first = alone[1]
        doubtful = first > first.max(axis=1, keepdims=True) / 20
        settled = doubtful.sum(axis=1) == 1
        assert 0 < settled.sum() < len(queries)
        np.testing.assert_allclose(found[settled], first[settled], atol=1e-12)
        for k in np.flatnonzero(~settled):
            part = doubtful[k]
            divided = [p[k, part] / p[k, part].sum() for p in alone]
            np.testing.assert_allclose(found[k, part], first[k, part].sum() * np.mean(divided, axis=0), rtol=1e-5)
            np.testing.assert_allclose(found[k, ~part], first[k, ~part], atol=1e-12)
        np.testing.assert_allclose(np.exp(model.scores(queries)), found, rtol=1e-9, atol=1e-300)

    def test_largest_of_several_noise_variances_serves_joint_fits(self, digits):
        X, y, queries, _ = digits
        one = SparseRepresentationClassifier(noise_ratio=0.05, score="abs-sum").fit(X, y)
        several = clone(one).set_params(noise_ratio=[0.01, 0.05]).fit(X, y)
        np.testing.assert_array_equal(several.scores(queries[:4]), one.scores(queries[:4]))
        assert (several.represent(queries[:4]) != one.represent(queries[:4])).nnz == 0

    def test_candidates_only_leave_hopeless_classes_out(self, digits):
        X, y, queries, _ = digits
        every = SparseRepresentationClassifier(noise_ratio=0.02, candidates=None).fit(X, y).scores(queries[:4])
        some = SparseRepresentationClassifier(noise_ratio=0.02, candidates=3).fit(X, y).scores(queries[:4])
        correlations = np.abs(unit(queries[:4]) @ unit(X).T)
        nearest = np.stack([correlations[:, y == k].max(axis=1) for k in range(10)], axis=1)
        fitted = np.argsort(np.argsort(-nearest, axis=1), axis=1) < 3
        np.testing.assert_allclose(some[fitted], every[fitted])
        left_out = some[~fitted].reshape(4, 7)
        lam = 0.02 * nearest.max(axis=1)
        noise = -0.5 * (64 * np.log(2 * np.pi * lam) + 1 / lam)
        np.testing.assert_allclose(left_out, np.repeat(noise[:, None], 7, axis=1))
        assert (some <= every + 1e-9).all(), "noise alone is a lower bound of the evidence"

    @pytest.mark.parametrize(("init", "power"), [("unit", 1.0), ("null", 0.5)])
    def test_lasso_is_the_first_inner_problem(self, digits, init, power):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(noise_ratio=0.05, score="abs-sum", method="lasso", init=init).fit(X, y)
        columns = unit(X).T
        found = model.represent(queries[:5]).toarray()
        for query, coef in zip(unit(queries[:5]), found, strict=True):
            penalty = noise_of(columns, query, 0.05) ** power
            expected = solve_weighted_lasso(columns, query, penalty, tol=1e-10).coef
            np.testing.assert_allclose(coef, expected, atol=1e-3)

    def test_evidence_of_a_lasso_is_its_objective(self, digits):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(noise_ratio=0.05, method="lasso", candidates=None).fit(X, y)
        columns = unit(X).T
        query = unit(queries[:1])[0]
        lam = noise_of(columns, query, 0.05)
        least = [solve_weighted_lasso(columns[:, y == k], query, np.sqrt(lam), tol=1e-10).primal for k in range(10)]
        np.testing.assert_allclose(model.scores(queries[:1])[0], -np.array(least) / lam, atol=1e-4)

    @pytest.mark.parametrize("score", RULES)
    @pytest.mark.parametrize("method", ["sbl", "lasso"])
    def test_accuracy_on_digits(self, digits, score, method):
        X, y, queries, labels = digits
        model = SparseRepresentationClassifier(score=score, method=method, candidates=3, positive=True).fit(X, y)
        assert model.score(queries[::2], labels[::2]) >= 28 / 30

    @pytest.mark.parametrize("score", RULES)
    def test_probabilities_follow_the_scores(self, digits, score):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(score=score, method="lasso").fit(X, y)
        scores, probabilities = model.scores(queries), model.predict_proba(queries)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(queries))
        order = np.argsort(scores, axis=1)
        assert (np.diff(np.take_along_axis(probabilities, order, axis=1), axis=1) >= -1e-15).all()


class TestRepresentation:
    def test_rows_are_the_fits_in_the_order_of_training(self, digits):
        X, y, queries, _ = digits
        shuffle = np.random.default_rng(0).permutation(len(y))
        one = SparseRepresentationClassifier(noise_ratio=0.05).fit(X, y).represent(queries[:6])
        two = SparseRepresentationClassifier(noise_ratio=0.05).fit(X[shuffle], y[shuffle]).represent(queries[:6])
        np.testing.assert_allclose(one.toarray()[:, shuffle], two.toarray(), atol=1e-6)
        columns = unit(X).T
        query = unit(queries[:1])[0]
        expected = fit_sbl(columns, query, noise_of(columns, query, 0.05)).coef
        np.testing.assert_allclose(one.toarray()[0], expected, atol=1e-7)

    def test_positive(self, digits):
        X, y, queries, _ = digits
        signed = SparseRepresentationClassifier(noise_ratio=0.005).fit(X, y).represent(queries[:10])
        positive = SparseRepresentationClassifier(noise_ratio=0.005, positive=True).fit(X, y).represent(queries[:10])
        assert signed.data.min() < 0
        assert positive.data.min() > 0

    @pytest.mark.parametrize("score", RULES)
    def test_scale_of_samples_and_queries_does_not_matter(self, digits, score):
        X, y, queries, _ = digits
        sizes = np.logspace(-150, 150, len(y))[:, None]
        plain = SparseRepresentationClassifier(score=score, method="lasso").fit(X, y)
        scaled = clone(plain).fit(X * sizes, y)
        np.testing.assert_allclose(scaled.scores(1e-160 * queries[:4]), plain.scores(queries[:4]), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("score", RULES)
    def test_sparse_data_give_the_dense_answer(self, digits, score):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(score=score, method="lasso", candidates=2)
        dense = model.fit(X, y).scores(queries[:10])
        for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
            found = clone(model).fit(kind(X), y).scores(kind(queries[:10]))
            np.testing.assert_allclose(found, dense, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.scores(sparse.csr_array(queries[:10])), dense, rtol=1e-9)

    def test_float32(self, digits):
        X, y, queries, _ = digits
        double = SparseRepresentationClassifier(score="abs-sum", noise_ratio=0.05).fit(X, y)
        single = clone(double).fit(X.astype(np.float32), y)
        assert single._samples.dtype == np.float32
        found = single.scores(queries[:10].astype(np.float32))
        np.testing.assert_allclose(found, double.scores(queries[:10]), atol=1e-3)

    def test_threads_and_batches_change_nothing(self, digits, monkeypatch):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier(method="lasso").fit(X, y)
        alone = model.scores(queries)
        monkeypatch.setattr("fastsbl.estimators._representations._BATCH_BYTES", 1)
        np.testing.assert_allclose(model.set_params(n_jobs=2).scores(queries), alone, rtol=1e-12)

    def test_progress(self, digits, capsys):
        X, y, queries, _ = digits
        SparseRepresentationClassifier(method="lasso", candidates=2, verbose=1).fit(X, y).predict(queries[:5])
        shown = capsys.readouterr().err
        assert "SparseRepresentationClassifier" in shown
        assert "10/10" in shown


class TestUndecided:
    def test_empty_answers_get_the_class_of_the_nearest_sample(self, digits):
        X, y, queries, _ = digits
        nearest = KNeighborsClassifier(1, metric="cosine").fit(X, y).predict(queries)
        for score in RULES:
            model = SparseRepresentationClassifier(noise_ratio=1.1, score=score).fit(X, y)
            assert model.undecided(queries).all()
            np.testing.assert_array_equal(model.predict(queries), nearest)
            assert (np.ptp(model.scores(queries), axis=1) == 0).all()
            assert model.represent(queries).nnz == 0
        assert not SparseRepresentationClassifier(method="lasso").fit(X, y).undecided(queries).any()

    def test_absolute_correlation_counts(self):
        X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), ["east", "north"]
        model = SparseRepresentationClassifier(noise_ratio=5.0).fit(X, y)
        assert model.predict([[0.3, -0.9]]).tolist() == ["north"]
        assert model.set_params(positive=True).predict([[0.3, -0.9]]).tolist() == ["east"]

    @pytest.mark.parametrize("score", RULES)
    def test_zeros_get_the_most_frequent_class(self, score):
        X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 1.0, 0.0]])
        model = SparseRepresentationClassifier(score=score).fit(X, ["a", "b", "b"])
        queries = [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]]  # nothing, orthogonal to all samples, a sample
        assert model.undecided(queries).tolist() == [True, True, False]
        assert model.predict(queries).tolist() == ["b", "b", "a"]
        np.testing.assert_allclose(model.predict_proba(queries)[:2], [[1 / 3, 2 / 3]] * 2)
        np.testing.assert_array_equal(model.represent(queries).toarray()[:2], 0.0)

    @pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
    def test_training_samples_of_zeros_explain_nothing(self, kind):
        X = kind(np.array([[1.0, 0.1], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        model = SparseRepresentationClassifier(candidates=None).fit(X, ["a", "nothing", "b", "b"])
        query = kind(np.array([[1.0, 0.2]]))
        assert model.predict(query).tolist() == ["a"]
        assert model.represent(query).toarray()[0, [1, 3]].tolist() == [0.0, 0.0]


class TestWithScikitLearn:
    def test_score_is_parameter_and_method(self, digits):
        X, y, queries, labels = digits
        model = SparseRepresentationClassifier(score="residual", method="lasso").fit(X, y)
        assert model.score == "residual"
        assert model.score(queries, labels) == np.mean(model.predict(queries) == labels)
        weights = np.arange(60.0)
        expected = np.average(model.predict(queries) == labels, weights=weights)
        assert model.score(queries, labels, sample_weight=weights) == pytest.approx(expected)
        assert model.get_params()["score"] == "residual"
        assert type(clone(model).set_params(score="abs-sum").get_params()["score"]) is str
        assert "score='residual'" in repr(model)

    def test_unseen_labels_count_as_errors(self, digits):
        X, y, queries, labels = digits
        known = y != 3
        model = SparseRepresentationClassifier(method="lasso").fit(X[known], y[known])
        assert model.classes_.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        assert model.score(queries[labels == 3], labels[labels == 3]) == 0.0

    def test_grid_search_over_rules(self, digits):
        X, y, queries, labels = digits
        pipeline = make_pipeline(MinMaxScaler(), SparseRepresentationClassifier(method="lasso"))
        grid = {"sparserepresentationclassifier__score": RULES}
        search = GridSearchCV(pipeline, grid, cv=2).fit(X[::2], y[::2])
        assert len(search.cv_results_["mean_test_score"]) == 3
        assert search.score(queries, labels) >= 54 / 60

    def test_string_labels(self, digits):
        X, y, queries, _ = digits
        names = np.array([f"digit {k}" for k in range(10)])
        model = SparseRepresentationClassifier(method="lasso").fit(X, names[y])
        plain = SparseRepresentationClassifier(method="lasso").fit(X, y)
        np.testing.assert_array_equal(model.predict(queries), names[plain.predict(queries)])


class TestBadInput:
    def test_one_class(self, digits):
        X, _, _, _ = digits
        with pytest.raises(ValueError, match="at least two classes to tell apart, got only one class: 7"):
            SparseRepresentationClassifier().fit(X, np.full(len(X), 7))

    def test_continuous_labels(self, digits):
        X, _, _, _ = digits
        with pytest.raises(ValueError, match="Unknown label type"):
            SparseRepresentationClassifier().fit(X, X[:, 10] / 7)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda q: np.where(np.arange(64) == 5, np.nan, q), "contains NaN"),
            (lambda q: np.where(np.arange(64) == 5, np.inf, q), "infinity"),
            (lambda q: q[:, :63], "X has 63 features, but SparseRepresentationClassifier is expecting 64"),
            (lambda q: q[0], "Expected 2D array"),
            (lambda q: q[:0], "0 sample"),
        ],
    )
    def test_queries(self, digits, change, message):
        X, y, queries, _ = digits
        model = SparseRepresentationClassifier().fit(X, y)
        for ask in (model.predict, model.predict_proba, model.scores, model.undecided, model.represent):
            with pytest.raises(ValueError, match=message):
                ask(change(queries))

    def test_numbers_of_samples_differ(self, digits):
        X, y, _, _ = digits
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            SparseRepresentationClassifier().fit(X, y[1:])

    @pytest.mark.parametrize(
        ("params", "error", "message"),
        [
            ({"score": "best"}, ValueError, "score must be one of 'evidence', 'abs-sum', 'residual'; got 'best'"),
            ({"score": None}, ValueError, "score must be one of"),
            ({"method": "ridge"}, ValueError, "method must be one of 'sbl', 'lasso'; got 'ridge'"),
            ({"noise_ratio": 0.0}, ValueError, "noise_ratio must be a finite number above 0, got 0.0"),
            ({"noise_ratio": "small"}, TypeError, "noise_ratio must be a number above 0, got str"),
            ({"noise_ratio": ()}, TypeError, "noise_ratio must be a number above 0, got tuple"),
            ({"noise_ratio": (0.1, None)}, TypeError, "noise_ratio must be a number above 0, got NoneType"),
            ({"noise_ratio": (0.1, -1.0)}, ValueError, "noise_ratio must be a finite number above 0, got -1.0"),
            ({"candidates": 0}, ValueError, "candidates must be a whole number of at least 1, got 0"),
            ({"init": "zero"}, ValueError, "init must be one of 'null', 'unit'; got 'zero'"),
            ({"positive": 1}, TypeError, "positive must be True or False, got int"),
            ({"screening": "best"}, ValueError, "screening"),
            ({"tol": -1}, ValueError, "tol must be a finite number above 0"),
        ],
    )
    def test_parameters(self, digits, params, error, message):
        X, y, queries, _ = digits
        with pytest.raises(error, match=message):
            SparseRepresentationClassifier(**params).fit(X, y)
        with pytest.raises(error, match=message):
            SparseRepresentationClassifier().fit(X, y).set_params(**params).predict(queries)

    def test_not_fitted(self, digits):
        with pytest.raises(NotFittedError):
            SparseRepresentationClassifier().predict(digits[2])

    def test_nothing_is_said_about_good_input(self, digits):
        X, y, queries, _ = digits
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SparseRepresentationClassifier().fit(X, y).predict(queries[:3])
