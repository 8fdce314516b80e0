"""The compiled least squares against dense numpy and scipy."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from fastsbl.imaging import GaussianPSF, PixelPSF
from fastsbl.imaging.refine import Scene, SourceShape

CIRCULAR = GaussianPSF(1.0)
MEASURED = PixelPSF(GaussianPSF((1.3, 1.7), theta=0.4).stamp(12, 12, (25, 25)), 1, normalize=False)
ROWS = np.array([[7.2, 8.1, 40.0, 1.3], [9.9, 9.0, 30.0, 1.8], [0.3, 17.8, 20.0, 1.1]])
SHAPE = (20, 19)


def stamps(par, psf):
    """Value and slopes in x, y (and width) of every source, by the public PSFs."""
    if psf is None:
        return CIRCULAR.stamp_and_gradient(par[:, 0], par[:, 1], SHAPE, sigma=par[:, 3])
    return psf.stamp_and_gradient(par[:, 0], par[:, 1], SHAPE)


def tangents(par, psf):
    """One column per parameter, source by source: x, y, flux (and width)."""
    slopes = stamps(par, psf)
    flux = par[:, 2, None, None]
    parts = [flux * slopes.d_x, flux * slopes.d_y, slopes.value]
    if psf is None:
        parts.append(flux * slopes.d_sigma)
    return np.stack(parts, axis=1).reshape(-1, SHAPE[0] * SHAPE[1]).T


def scene_of(psf, seed=0):
    rng = np.random.default_rng(seed)
    weight = rng.uniform(20.0, 30.0, SHAPE)
    weight[3, 4:9] = 0.0
    clean = np.tensordot(ROWS[:, 2], stamps(ROWS, psf).value, axes=1) + 2.0
    return Scene(clean + rng.normal(size=SHAPE) / 5.0, weight, SourceShape.of(psf, (0.6, 4.0)))


@pytest.mark.parametrize("psf", [None, GaussianPSF((1.2, 1.9)), MEASURED])
def test_images_of_sources_equal_the_psf(psf):
    scene = scene_of(psf)
    scene.append(ROWS)
    scene.set_level(2.0)
    expected = np.tensordot(ROWS[:, 2], stamps(ROWS, psf).value, axes=1) + 2.0
    np.testing.assert_allclose(scene.model(), expected, atol=40.0 * 4e-6)  # cut off at five widths
    np.testing.assert_allclose(scene.residual, scene.data - scene.model(), atol=1e-12)
    scene.remove(1)
    np.testing.assert_allclose(scene.residual, scene.data - scene.model(), atol=1e-12)


@pytest.mark.parametrize("psf", [None, MEASURED])
@pytest.mark.parametrize("with_level", [True, False])
def test_fit_reaches_the_optimum_of_a_general_solver(psf, with_level):
    scene = scene_of(psf)
    n_par = 4 if psf is None else 3
    start = ROWS.copy()
    start[:, :2] += 0.3
    start[:, 2] *= 0.8
    scene.append(start)
    scene.set_level(1.7 if with_level else 2.0)
    answer = scene.fit(np.arange(3), with_level=with_level, max_iter=200, tol=1e-12, covariance=True)
    root = np.sqrt(scene.weight).ravel()

    def unpack(p):
        par = ROWS.copy()
        par[:, :n_par] = p[: 3 * n_par].reshape(3, n_par)
        return par, p[-1] if with_level else 2.0

    def residual(p):
        par, level = unpack(p)
        model = np.tensordot(par[:, 2], stamps(par, psf).value, axes=1) + level
        return root * (model - scene.data).ravel()

    first = np.concatenate([ROWS[:, :n_par].ravel(), [2.0] if with_level else []])
    judge = least_squares(residual, first, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    par, level = unpack(judge.x)
    assert answer.converged
    np.testing.assert_allclose(scene.par[:, :n_par], par[:, :n_par], rtol=2e-4, atol=2e-4)
    assert scene.level == pytest.approx(level, abs=1e-4)
    assert np.sum(scene.weight * scene.residual**2) == pytest.approx(2 * judge.cost, rel=1e-5)
    columns = root[:, None] * tangents(scene.par, psf)
    if with_level:
        columns = np.column_stack([columns, root])
    np.testing.assert_allclose(answer.covariance, np.linalg.inv(columns.T @ columns), rtol=2e-3, atol=1e-7)


def test_bounds_hold_and_have_no_variance():
    scene = scene_of(None)
    scene.shape = SourceShape.of(None, (1.5, 4.0))  # the first source is narrower
    scene.append(np.array([[7.2, 8.1, 40.0, 1.6], [9.9, 9.0, 30.0, 1.8]]))
    scene.set_level(2.0)
    answer = scene.fit(np.arange(2), max_iter=100, tol=1e-9, covariance=True)
    assert scene.par[0, 3] == 1.5
    assert np.all(answer.covariance[3] == 0.0)
    assert np.all(np.diag(answer.covariance)[[0, 1, 2, 4, 5, 6, 7]] > 0.0)


@pytest.mark.parametrize("psf", [None, MEASURED])
def test_scores_of_candidates_are_projections(psf):
    scene = scene_of(psf)
    scene.append(ROWS[:2])
    scene.set_level(2.0)
    candidates = np.array([[8.5, 8.5, 1.0, 1.4], [15.0, 4.0, 1.0, 2.0], [1.0, 17.0, 1.0, 1.2]])
    score, power = scene.scores(candidates, np.array([0, 1]))
    root = np.sqrt(scene.weight).ravel()
    basis = np.linalg.qr(root[:, None] * tangents(ROWS[:2], psf))[0]
    rest = root * scene.residual.ravel()
    for k in range(3):
        phi = root * stamps(candidates[k : k + 1], psf).value.ravel()
        phi -= basis @ (basis.T @ phi)
        assert score[k] == pytest.approx(phi @ rest, rel=1e-3, abs=1e-3)
        assert power[k] == pytest.approx(phi @ phi, rel=1e-3)
