"""Injection and recovery: counts against a finder whose answers are known."""

import numpy as np
import pytest

from fastsbl.imaging import GaussianPSF, SourceCatalog, injection_recovery, make_starfield

PSF = GaussianPSF(1.2)


@pytest.fixture
def image():
    return np.zeros((40, 50))


def bright_maxima(limit):
    """A finder that sees isolated pixels above a limit, one list of x, y, value."""

    def find(frame):
        rows, columns = np.nonzero(frame > limit)
        return np.column_stack([columns, rows, frame[rows, columns]])

    return find


class Delta:
    """All light in one pixel: the finder above then sees exactly what was injected."""

    def stamp(self, x, y, shape, origin=(0, 0)):
        columns = np.arange(shape[1]) + np.asarray(origin[0])[..., None]
        rows = np.arange(shape[0]) + np.asarray(origin[1])[..., None]
        across = np.floor(np.asarray(x)[..., None] + 0.5) == columns
        down = np.floor(np.asarray(y)[..., None] + 0.5) == rows
        return (down[..., :, None] & across[..., None, :]).astype(float)

    def stamp_and_gradient(self, x, y, shape, origin=(0, 0)):
        raise NotImplementedError

    def radius(self, fraction=0.999):
        return 1.0


def test_completeness_falls_at_the_limit_of_the_finder(image):
    test = injection_recovery(
        image, Delta(), flux_range=(1.0, 100.0), n_sources=60, per_round=1, locate=bright_maxima(10.0), rng=0
    )
    np.testing.assert_array_equal(test.recovered, test.flux > 10.0)
    np.testing.assert_allclose(test.flux_fit[test.recovered], test.flux[test.recovered])
    assert np.isnan(test.flux_fit[~test.recovered]).all()
    assert test.n_false == 0
    assert test.purity == 1.0
    assert test.n_rounds == 60
    assert np.isinf(test.separation).all()
    curve = test.curve("flux", [1.0, 10.0, 100.0])
    assert curve.completeness.tolist() == [0.0, 1.0]
    assert curve.n.sum() == 60
    assert (curve.low <= curve.completeness + 1e-12).all()
    assert (curve.high >= curve.completeness - 1e-12).all()
    assert curve.high[0] > 0.0 and curve.low[1] < 1.0  # noqa: PT018
    empty = test.curve("flux", [200.0, 300.0])
    assert np.isnan(empty.completeness[0])
    assert np.isnan(empty.low[0])


def test_lost_in_the_light_of_another(image):
    image[20, 30] = 1000.0

    def only_one(frame):
        return [[30.0, 20.0, frame.max()]]

    test = injection_recovery(image, Delta(), flux_range=(10.0, 20.0), n_sources=20, locate=only_one, rng=1)
    assert test.completeness == 0.0
    assert np.isnan(test.purity)
    expected = np.hypot(test.x - 30.0, test.y - 20.0)
    assert (test.separation <= expected + 1e-9).all()
    assert test.n_rounds == 4


def test_false_sources_are_counted(image):
    calls = []

    def find(frame):
        calls.append(frame)
        return np.empty((0, 2)) if len(calls) == 1 else np.array([[0.0, 0.0], [49.0, 39.0]])

    test = injection_recovery(image, Delta(), flux_range=(1.0, 2.0), n_sources=2, per_round=1, locate=find, rng=3)
    assert len(calls) == 3
    assert test.n_false + test.recovered.sum() == 4
    assert test.purity == pytest.approx(test.recovered.sum() / 4)


def test_with_the_real_finder():
    field = make_starfield((48, 48), 6, psf=PSF, flux_range=(40.0, 60.0), noise_variance=1.0, background=3.0, rng=5)
    seen = []
    test = injection_recovery(
        field.image,
        PSF,
        1.0,
        flux_range=(2.0, 200.0),
        n_sources=30,
        rng=6,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (test.n_rounds, test.n_rounds)
    curve = test.curve("flux", [2.0, 8.0, 60.0, 200.0])
    assert curve.completeness[0] < 0.4
    assert curve.completeness[2] > 0.8
    assert test.purity > 0.8
    z = ((test.flux_fit - test.flux) / test.flux_err)[test.recovered & (test.separation > 6)]
    assert np.abs(z).max() < 5
    assert 0.4 < np.std(z) < 1.8


def test_a_catalogue_from_another_finder_and_own_noise(image):
    def find(frame):
        rows, columns = np.nonzero(frame > 5)
        return SourceCatalog.from_columns(x_fit=columns.astype(float), y_fit=rows.astype(float))

    image[5, np.arange(3)] = np.nan
    test = injection_recovery(image + 0.0, Delta(), flux_range=(50.0, 60.0), n_sources=10, gain=2.0, locate=find, rng=2)
    assert test.completeness > 0.8
    again = injection_recovery(image, Delta(), flux_range=(50.0, 60.0), n_sources=10, gain=2.0, locate=find, rng=2)
    np.testing.assert_array_equal(test.x, again.x)


def test_bad_arguments(image):
    with pytest.raises(ValueError, match="flux_range must be"):
        injection_recovery(image, PSF, flux_range=(0.0, 1.0))
    with pytest.raises(ValueError, match="n_sources must be"):
        injection_recovery(image, PSF, flux_range=(1.0, 2.0), n_sources=0)
    with pytest.raises(ValueError, match="options of locate_sources"):
        injection_recovery(image, PSF, flux_range=(1.0, 2.0), locate=lambda frame: [], tile=64)
    with pytest.raises(ValueError, match="locate must return"):
        injection_recovery(image, PSF, flux_range=(1.0, 2.0), locate=lambda frame: np.zeros((2, 5)))
    test = injection_recovery(image, PSF, flux_range=(1.0, 2.0), n_sources=1, locate=lambda frame: [], rng=0)
    with pytest.raises(ValueError, match="quantity must be"):
        test.curve("sigma", [1, 2])
    with pytest.raises(ValueError, match="edges must be"):
        test.curve("flux", [2, 1])
