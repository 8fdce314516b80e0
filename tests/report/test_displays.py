"""Pictures of answers: what they show is what the answers say."""

import numpy as np
import pytest

from fastsbl import SBLRegressor, SBLRegressorCV, fit_sbl
from fastsbl.datasets import make_sparse_regression
from fastsbl.lasso import lambda_max, weighted_lasso_path
from fastsbl.report import (
    PathDisplay,
    PosteriorDisplay,
    ScreeningDisplay,
    plot_path,
    plot_posterior,
    plot_screening,
    plot_sources,
)
from fastsbl.sbl import sbl_path
from fastsbl.screening import holder_dome_test, two_hyperplane_test

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need the extra apps")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    return make_sparse_regression(60, 150, n_nonzero=4, snr_db=15, rng=1)


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


class TestPath:
    def test_lines_are_the_coefficients(self, problem):
        path = sbl_path(problem.dictionary, problem.y, [0.05, 0.5], relative_to="sbl_lambda_max")
        display = plot_path(path)
        np.testing.assert_array_equal(display.lams, [path[1].lam, path[0].lam])
        used = np.union1d(path[0].support, path[1].support)
        assert len(display.lines_) == used.size
        largest = np.argmax(np.abs(path[0].coef))
        np.testing.assert_array_equal(display.lines_[0].get_ydata(), [path[1].coef[largest], path[0].coef[largest]])
        assert display.lines_[0].get_label() == str(largest)
        assert display.ax_.get_xlim() == (path[1].lam, path[0].lam)
        assert display.figure_ is display.ax_.figure

    def test_lassos_names_and_axes_of_the_user(self, problem):
        path = weighted_lasso_path(problem.dictionary, problem.y, [0.9, 0.3])
        _, ax = plt.subplots()
        names = [f"$f_{k}$" for k in range(150)]
        display = plot_path(path, names=names, ax=ax)
        assert display.ax_ is ax
        assert display.lines_[0].get_label() == names[int(np.argmax(np.abs(path[1].coef)))]
        display.figure_.canvas.draw()

    def test_beyond_some_features_only_the_largest_are_named(self, problem):
        path = weighted_lasso_path(problem.dictionary, problem.y, [0.9, 0.05])
        display = PathDisplay.from_results(path)
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert len(texts) == 9
        assert texts[-1] == f"{path[1].support.size - 8} more"

    def test_several_targets_and_complex_numbers(self, problem):
        Y = np.column_stack([problem.y, 2 * problem.y])
        (fit,) = sbl_path(problem.dictionary, Y, [0.2])
        display = plot_path([fit])
        np.testing.assert_allclose(
            sorted(line.get_ydata()[0] for line in display.lines_),
            sorted(np.linalg.norm(fit.coef[fit.support], axis=1)),
        )
        (fit,) = weighted_lasso_path(problem.dictionary * 1j, problem.y * (1 + 1j), [0.5])
        heights = sorted(line.get_ydata()[0] for line in plot_path([fit]).lines_)
        np.testing.assert_allclose(heights, sorted(np.abs(fit.coef[fit.support])))

    def test_estimator_marks_what_it_chose(self, problem):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(problem.dictionary[:, :20], columns=[f"f{k}" for k in range(20)])
        model = SBLRegressorCV(cv=3).fit(X, problem.y)
        display = plot_path(model)
        assert display.chosen == model.noise_variance_
        assert display.names == list(X.columns)
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert "chosen" in texts
        both = SBLRegressorCV(cv=3).fit(X, np.column_stack([problem.y, -problem.y]))
        assert PathDisplay.from_estimator(both).coefs.shape == (both.ratios_.size, 20, 2)

    def test_nothing_in_the_model(self, problem):
        display = plot_path(weighted_lasso_path(problem.dictionary, problem.y, [1.0]))
        assert display.lines_ == []
        display.figure_.canvas.draw()

    def test_wrong_use(self, problem):
        with pytest.raises(ValueError, match="path must be a sequence of at least one"):
            plot_path([])
        with pytest.raises(ValueError, match="estimator must be a fitted SBLRegressorCV, got SBLRegressor"):
            plot_path(SBLRegressor())
        with pytest.raises(ValueError, match="names must be 3, one for each feature, got 1"):
            PathDisplay([1.0], np.zeros((1, 3)), names=["a"])
        with pytest.raises(ValueError, match="coefs must hold the coefficients of each fit"):
            PathDisplay([1.0, 2.0], np.zeros((1, 3)))


class TestPosterior:
    def test_points_are_means_and_bars_two_standard_deviations(self, problem):
        result = fit_sbl(problem.dictionary, problem.y)
        display = plot_posterior(result, truth=problem.coef)
        posterior = result.posterior()
        order = np.argsort(-np.abs(posterior.mean))
        points, _, (bars,) = display.errorbar_
        np.testing.assert_array_equal(points.get_xdata(), posterior.mean[order])
        for segment, k in zip(bars.get_segments(), order, strict=True):
            np.testing.assert_allclose(np.ptp(segment[:, 0]), 4 * posterior.std[k])
        assert tick_labels(display.ax_.yaxis)[: order.size] == [str(i) for i in posterior.support[order]]

    def test_missed_features_are_marked(self):
        display = PosteriorDisplay([3], [1.0], [0.1], truth=[0.0, 0.5, 0.0, 1.1]).plot()
        assert tick_labels(display.ax_.yaxis) == ["3", "1"]
        (circles,) = (line for line in display.ax_.lines if line.get_label() == "truth")
        np.testing.assert_array_equal(circles.get_xdata(), [1.1, 0.5])

    def test_estimator_with_names(self, problem):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(problem.dictionary[:, :20], columns=[f"f{k}" for k in range(20)])
        y = X["f3"] * 2 - X["f11"] + 0.1 * np.random.default_rng(0).standard_normal(60)
        display = plot_posterior(SBLRegressor().fit(X, y))
        assert tick_labels(display.ax_.yaxis)[:2] == ["f3", "f11"]

    def test_many_features_are_counted(self):
        display = PosteriorDisplay(np.arange(50), np.linspace(1, 2, 50), np.ones(50)).plot(most=10)
        assert tick_labels(display.ax_.yaxis) == [str(k) for k in range(49, 39, -1)]
        assert display.ax_.get_ylabel() == "feature (40 more are not shown)"

    def test_names_of_all_or_of_those_in_the_model(self):
        for names in (["a", "b", "c"], ["c"]):
            display = PosteriorDisplay([2], [1.0], [0.1], names=names).plot()
            assert tick_labels(display.ax_.yaxis) == ["c"]

    def test_wrong_use(self, problem):
        with pytest.raises(ValueError, match="support, mean and std must hold one number for each"):
            PosteriorDisplay([1, 2], [1.0], [0.1])
        with pytest.raises(ValueError, match="mean must be real"):
            PosteriorDisplay([1], [1j], [0.1])
        with pytest.raises(ValueError, match="truth must hold the coefficients of all features"):
            PosteriorDisplay([7], [1.0], [0.1], truth=[1.0, 2.0])
        with pytest.raises(ValueError, match="names must be of all features, or of the 2 in the model"):
            PosteriorDisplay([7, 8], [1.0, 1.0], [0.1, 0.1], names=["a", "b", "c"])
        with pytest.raises(ValueError, match="estimator must be a fitted"):
            plot_posterior(SBLRegressor())
        Y = np.column_stack([problem.y, problem.y])
        with pytest.raises(ValueError, match="result must be of one target, got 2"):
            plot_posterior(fit_sbl(problem.dictionary, Y, 0.5))


class TestScreening:
    def test_shares_are_those_of_the_tests(self, problem):
        phi, y = problem.dictionary, problem.y
        weights = np.linalg.norm(phi, axis=0)
        display = plot_screening(phi, y, [0.5, 0.9], weights=weights)
        np.testing.assert_array_equal(display.ratios, [0.9, 0.5])
        largest = lambda_max(phi, y, weights)
        path = weighted_lasso_path(phi, y, [0.9, 0.5], weights)
        assert set(display.shares) == {"sphere", "dome", "two_hyperplanes", "gap_sphere", "gap_dome", "holder"}
        assert display.shares["two_hyperplanes"][1] == two_hyperplane_test(phi, y, 0.5 * largest, weights).share
        warm = holder_dome_test(phi, y, 0.5 * largest, weights, coef=path[0].coef)
        assert display.shares["holder"][1] == warm.share > 0.5
        assert display.zeros[1] == np.mean(path[1].coef == 0)
        for line, share in zip(display.lines_, display.shares.values(), strict=True):
            np.testing.assert_allclose(line.get_ydata(), 100 * share)
            assert np.all(share <= display.zeros)
        display.figure_.canvas.draw()

    def test_balls_and_wrong_names(self, problem):
        rules = ("sphere", "sphere:paper")
        display = ScreeningDisplay.from_data(problem.dictionary, problem.y, [0.9], rules=rules)
        assert np.all(display.shares["sphere"] >= display.shares["sphere:paper"])
        assert [line.get_label() for line in display.lines_] == ["sphere", "sphere, paper"]
        for name in ("magic", "holder:paper", "sphere:round"):
            with pytest.raises(ValueError, match=f"rules must be names among .*, got '{name}'"):
                plot_screening(problem.dictionary, problem.y, [0.9], rules=(name,))
        with pytest.raises(ValueError, match="shares must hold one number for each of the 2 ratios"):
            ScreeningDisplay([0.1, 0.2], {"sphere": [0.5]})

    def test_drawn_again_elsewhere(self, problem):
        _, (left, right) = plt.subplots(1, 2)
        display = plot_screening(problem.dictionary, problem.y, [0.9, 0.5], ax=left)
        assert display.plot(right).ax_ is right


def test_sources_lie_where_the_catalogue_says():
    from fastsbl.imaging import locate_sources, make_starfield

    field = make_starfield(snr_db=20.0, rng=5)
    catalog = locate_sources(field.image)
    display = plot_sources(catalog, field.image, truth=field.xy)
    lines = {line.get_label(): line for line in display.ax_.lines}
    np.testing.assert_array_equal(np.column_stack(lines["found"].get_data()), catalog.xy)
    np.testing.assert_array_equal(np.column_stack(lines["true"].get_data()), field.xy)
    assert display.figure_.get_facecolor() == (1.0, 1.0, 1.0, 1.0)


def test_own_settings_of_matplotlib_stay(problem):
    with plt.rc_context({"axes.grid": False, "font.size": 7.0}):
        plot_screening(problem.dictionary, problem.y, [0.9], rules=("sphere",))
        assert plt.rcParams["font.size"] == 7.0
        assert plt.rcParams["axes.grid"] is False
