"""Several targets, complex data and groups: bounds between looks, and the solver below them, against dense algebra."""

import numpy as np
import pytest

from fastsbl._base.checks import check_target
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import lambda_max, solve_weighted_lasso
from fastsbl.lasso.block import BlockWorkingSet
from fastsbl.sbl import fit_sbl, sbl_lambda_max
from fastsbl.sbl.blocks import BoundedBlocks, _Look
from fastsbl.sbl.model import SupportModel
from fastsbl.sbl.outer import Start

KINDS = ("targets", "complex", "complex targets", "groups", "complex groups")


def draw(kind, seed, N=40, n=300):
    """Dictionary, target and labels; neighbouring columns resemble each other."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        values = rng.standard_normal(shape)
        return values + 1j * rng.standard_normal(shape) if "complex" in kind else values

    X = normal(N, n)
    for j in range(1, n):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    X *= 10.0 ** rng.uniform(-1, 1, n)
    labels = rng.permutation(np.repeat(np.arange(n // 3), 3)) if "groups" in kind else None
    if labels is not None:
        labels[:4] = 0  # unequal sizes
    chosen = rng.choice(n, 6, replace=False)
    Y = X[:, chosen] @ (normal(6, 4) / np.linalg.norm(X[:, chosen], axis=0)[:, None] * 7) + 0.4 * normal(N, 4)
    return X, (Y if "targets" in kind else Y[:, 0]), labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_that_of_computing_everything(kind, seed):
    X, y, labels = draw(kind, seed)
    lam = sbl_lambda_max(X, y) * (0.03, 0.1, 0.3, 0.003)[seed]
    options = {"groups": labels, "init": ("null", "unit")[seed % 2], "inner_tol": 1e-11, "tol": 1e-5}
    bounded, full = (fit_sbl(X, y, lam, bounds=bounds, **options) for bounds in (True, False))
    assert bounded.converged
    assert bounded.n_iter == full.n_iter
    paths = [[record["loss"] for record in fit.history] for fit in (bounded, full)]
    np.testing.assert_allclose(*paths, rtol=1e-6, atol=1e-6 * X.shape[0])
    np.testing.assert_array_equal(bounded.support, full.support)
    np.testing.assert_allclose(bounded.coef, full.coef, atol=1e-4 * np.abs(full.coef).max())
    assert bounded.passes < 0.6 * full.passes
    certificate = bounded.certificate()
    assert certificate.holds
    assert certificate.largest_outside < 1.0 + 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_wherever_the_iteration_goes_next(kind):
    X, y, labels = draw(kind, 7)
    lam = 0.05 * sbl_lambda_max(X, y)
    phi = as_dictionary(X)
    start = Start(phi, check_target(y, phi.n_samples), False, groups=labels)
    inner = BoundedBlocks(start.problem, y, (), 1e-10, 100_000)
    inner.begin(lam)
    found = inner.first(start.norms / np.sqrt(lam))
    for _ in range(12):
        index, model = inner.describe(found)
        found = inner.next(model, found.active)
        S = lam * np.eye(X.shape[0]) + (X[:, index] * model.gamma) @ X[:, index].conj().T
        squares = np.einsum("ij,ij->j", X.conj(), np.linalg.solve(S, X)).real
        products = (np.abs(X.conj().T @ found.residual) ** 2).reshape(X.shape[1], -1).sum(axis=1)
        if labels is not None:
            squares, products = (np.bincount(labels, values) for values in (squares, products))
        limits = lam * np.sqrt(squares * (1 if y.ndim == 1 else y.shape[1]))
        assert (np.sqrt(products) <= limits * (1 + 1e-4)).all()  # up to the accuracy of the inner solve
        look = inner._look
        assert (look.lower / look.factor <= np.sqrt(squares) * (1 + 1e-9)).all()
        reach = look.upper + start.problem.norms * look.drift(found.residual)
        assert (reach * (1 + 1e-9) >= np.sqrt(products)).all()


@pytest.mark.parametrize("lam", [1.0, 1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_weights_are_not_bounded_too_high_where_the_support_holds_near_copies(dtype, lam):
    """The difference of squares in the bound loses digits there, more of them the smaller lam is."""
    said = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 80)) + 1j * rng.standard_normal((30, 80))
        size = (3, 8, 20, 29)[seed % 4]
        for j in range(1, size):
            if rng.random() < 0.6:
                X[:, j] = X[:, rng.integers(j)] + 10.0 ** -rng.uniform(1, 9) * X[:, j]
        for j in range(size, size + 30):  # outside, but near the span of the support
            X[:, j] = X[:, :size] @ rng.standard_normal(size) + 10.0 ** -rng.uniform(0, 9) * X[:, j]
        phi = as_dictionary(X.astype(dtype))
        X = phi.columns(np.arange(80)).astype("c16")
        y = rng.standard_normal(30) + 0j
        inner = BoundedBlocks(Start(phi, y, False).problem, y, (), 1e-10, 1000)
        inner.begin(lam)
        rows = np.ascontiguousarray(X[:, :size].T)
        model = SupportModel(rows, rows.conj() @ rows.T, 10.0 ** rng.uniform(-2, 2, size), lam)
        share = inner._lower_bounds(model) / model.weights(np.ascontiguousarray(X.T))
        assert share.max() <= 1.0
        said += share[size + 30 :].mean() > 0.9
    assert said >= 8 or lam < 1e-4 or (lam < 1.0 and dtype == "c8")


def test_growth_is_measured_by_what_became_wider():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5, 12))
    gram = rows @ rows.T
    before = SupportModel(rows[:4], gram[:4, :4], np.array([1.0, 2.0, 0.5, 1.0]), 0.1)
    after = SupportModel(rows[1:], gram[1:, 1:], np.array([1.0, 0.8, 3.0, 0.2]), 0.1)
    gamma = np.array([1.0, 2.0, 0.5, 1.0, 0.0])
    look = _Look(np.zeros(12), before, gamma, np.zeros(5), np.zeros(5))
    look.move_to(after, np.arange(1, 5))
    probes = rng.standard_normal((500, 12))
    ratio = before.weights(probes) / after.weights(probes)
    assert ratio.max() <= look.factor
    assert look.factor < 5 * ratio.max()
    look.move_to(before, np.arange(4))
    assert look.factor == 1.0


@pytest.mark.parametrize("targets", [1, 20])
def test_neighbouring_tones_are_solved_in_few_epochs(targets):
    # columns a tenth of a resolution cell apart: plain descent needs 10^5 epochs
    rng = np.random.default_rng(1)
    tones = np.exp(2j * np.pi * np.arange(64)[:, None] * np.arange(0, 0.5, 1 / 1024))
    amplitudes = rng.standard_normal((2, targets)) + 1j * rng.standard_normal((2, targets))
    noise = rng.standard_normal((64, targets)) + 1j * rng.standard_normal((64, targets))
    Y = tones[:, [200, 213]] @ amplitudes + 0.1 * noise
    solution = solve_weighted_lasso(tones, Y, 0.01 * lambda_max(tones, Y), tol=1e-10)
    assert solution.converged
    assert solution.n_epochs < 2000


@pytest.mark.parametrize("kind", KINDS)
def test_a_newton_step_never_raises_the_objective(kind):
    X, y, labels = draw(kind, 3, n=60)
    phi = as_dictionary(X)
    start = Start(phi, y, False, groups=labels)
    limits = 0.02 * lambda_max(X, y) * np.ones(start.problem.norms.size)
    problem = start.problem.with_limits(limits)
    hand = BlockWorkingSet(problem, y if y.ndim == 2 else y[:, None])
    hand.add(np.arange(limits.size), np.zeros((X.shape[1], *y.shape[1:])))
    rng = np.random.default_rng(0)
    values = []
    hand.theta = 1e-3 * rng.standard_normal(hand.theta.shape).astype(hand.theta.dtype)
    for _ in range(30):
        values.append(hand.objective(hand.theta))
        hand._newton(np.flatnonzero(hand.lengths(hand.theta)))
    assert values[-1] < values[0]
    assert (np.diff(values) <= 1e-12 * abs(values[0])).all()


def test_an_operator_is_not_asked_for_all_its_columns():
    from scipy.sparse.linalg import aslinearoperator

    X, y, _ = draw("complex", 5)
    lam = 0.1 * sbl_lambda_max(X, y)
    seen = fit_sbl(aslinearoperator(X), y, lam)
    np.testing.assert_allclose(seen.coef, fit_sbl(X, y, lam).coef, atol=1e-5 * np.abs(seen.coef).max())
    assert seen.history[-1]["passes"] < seen.n_iter * X.shape[1] / 4
