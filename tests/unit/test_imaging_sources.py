"""Dictionaries of candidate sources: columns against direct stamps, storage, sampling, limits."""

import numpy as np
import pytest
from scipy import sparse

from fastsbl.imaging import (
    GaussianPSF,
    PixelPSF,
    build_source_dictionary,
    grid_source_dictionary,
    sample_source_dictionary,
)


@pytest.fixture
def rng():
    return np.random.default_rng(77)


def _pixel_psf():
    offset = (np.arange(45) - 22) / 3
    image = np.exp(-0.5 * (offset[:, None] ** 2 + offset**2) / 1.1**2)
    return PixelPSF(image / image.sum(), 3)


def _columns_twin(x, y, stamps, rx, ry, shape):
    """Numpy twin of the kernels: cut to the ellipse, norm, divide."""
    rows, columns = np.indices(shape)
    out, norms = [], []
    for k in range(x.size):
        inside = ((columns - x[k]) / rx[k]) ** 2 + ((rows - y[k]) / ry[k]) ** 2 <= 1
        column = np.where(inside, stamps[k], 0.0).ravel()
        norms.append(np.linalg.norm(column))
        out.append(column / norms[-1])
    return np.array(out).T, np.array(norms)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("psf", [None, GaussianPSF((0.7, 1.5)), GaussianPSF((0.7, 1.5), theta=0.5), _pixel_psf()])
def test_sparse_columns_equal_the_numpy_twin(psf, dtype, rng):
    shape, n, fraction = (24, 31), 60, 0.99
    x, y = rng.uniform(-0.5, 30.5, n), rng.uniform(-0.5, 23.5, n)
    x[:3], y[:3] = [-0.5, 30.5, 10.0], [-0.5, 23.5, 12.0]
    sigma = rng.uniform(0.8, 2, n) if psf is None else None
    made = build_source_dictionary(shape, x, y, psf=psf, sigma=sigma, fraction=fraction, storage="sparse", dtype=dtype)
    reach = np.sqrt(-2 * np.log1p(-fraction))
    if psf is None:
        rx = ry = reach * np.sqrt(sigma**2 + 1 / 12)
        stamps = GaussianPSF(1.0).stamp(x, y, shape, sigma=sigma)
    elif isinstance(psf, GaussianPSF) and psf.theta == 0:
        rx, ry = (np.full(n, reach * np.sqrt(s**2 + 1 / 12)) for s in (0.7, 1.5))
        stamps = psf.stamp(x, y, shape)
    else:
        rx = ry = np.full(n, psf.radius(fraction))
        stamps = psf.stamp(x, y, shape)
    rx, ry = np.maximum(rx, 1), np.maximum(ry, 1)
    expected, norms = _columns_twin(x, y, stamps, rx, ry, shape)
    assert isinstance(made.matrix, sparse.csc_array)
    assert made.matrix.dtype == dtype
    assert made.matrix.has_sorted_indices
    made.matrix.check_format()
    np.testing.assert_allclose(made.matrix.toarray(), expected, atol=1e-14 if dtype == np.float64 else 1e-7)
    np.testing.assert_allclose(made.norms, norms, rtol=1e-12)
    np.testing.assert_allclose((made.matrix**2).sum(axis=0), 1, rtol=1e-12 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("psf", [None, GaussianPSF(1.3), GaussianPSF((0.7, 1.5), theta=0.5), _pixel_psf()])
def test_dense_columns_are_uncut_and_give_flux_and_image(psf, rng):
    shape, n = (12, 15), 30
    x, y = rng.uniform(0, 14, n), rng.uniform(0, 11, n)
    sigma = rng.uniform(0.8, 2, n) if psf is None else None
    made = build_source_dictionary(shape, x, y, psf=psf, sigma=sigma, storage="dense")
    stamps = GaussianPSF(1.0).stamp(x, y, shape, sigma=sigma) if psf is None else psf.stamp(x, y, shape)
    assert isinstance(made.matrix, np.ndarray)
    assert made.matrix.flags.f_contiguous
    np.testing.assert_allclose(np.linalg.norm(made.matrix, axis=0), 1, rtol=1e-13)
    flux = rng.uniform(1, 5, n)
    coef = flux * made.norms
    np.testing.assert_allclose(made.flux(coef), flux, rtol=1e-14)
    np.testing.assert_allclose(made.image(coef), np.einsum("k,kij->ij", flux, stamps), atol=1e-12)
    with pytest.raises(ValueError, match=r"coef must have shape \(30,\)"):
        made.image(np.zeros(3))


def test_cutting_costs_no_more_than_it_says(rng):
    x, y, sigma = rng.uniform(20, 40, 200), rng.uniform(20, 40, 200), rng.uniform(0.8, 3, 200)
    whole = build_source_dictionary((61, 61), x, y, sigma=sigma, storage="dense")
    cut = build_source_dictionary((61, 61), x, y, sigma=sigma, storage="sparse", fraction=0.999)
    gone = np.linalg.norm(whole.matrix - cut.matrix.toarray() * (cut.norms / whole.norms), axis=0)
    assert gone.max() < 2e-3
    assert gone.max() > 1e-4  # something was cut


def test_storage_follows_the_fill():
    wide = sample_source_dictionary((28, 28), 200, rng=0)
    narrow = sample_source_dictionary((28, 28), 200, sigma_range=(0.8, 1.0), rng=0)
    assert isinstance(wide.matrix, np.ndarray)
    assert isinstance(narrow.matrix, sparse.csc_array)
    assert narrow.matrix.indices.dtype == np.int32
    forced = sample_source_dictionary((28, 28), 200, rng=0, storage="sparse")
    np.testing.assert_array_equal(forced.x, wide.x)


@pytest.mark.parametrize("prior", ["uniform", "gaussian"])
def test_sampling_fills_its_intervals_and_follows_the_seed(prior):
    made = sample_source_dictionary((40, 60), 4000, sigma_range=(1.0, 2.0), prior=prior, rng=5)
    again = sample_source_dictionary((40, 60), 4000, sigma_range=(1.0, 2.0), prior=prior, rng=np.random.default_rng(5))
    np.testing.assert_array_equal(made.matrix.data, again.matrix.data)
    for values, low, high in ((made.x, -0.5, 59.5), (made.y, -0.5, 39.5), (made.sigma, 1.0, 2.0)):
        assert low <= values.min() < values.max() <= high
        assert values.mean() == pytest.approx((low + high) / 2, abs=0.02 * (high - low))
        spread = {"uniform": 0.2887, "gaussian": 0.22}[prior]
        assert values.std() == pytest.approx(spread * (high - low), rel=0.05)


def test_sampling_with_a_known_psf():
    made = sample_source_dictionary((30, 30), 50, psf=GaussianPSF(1.1), rng=1)
    assert np.all(made.sigma == 1.1)
    other = sample_source_dictionary((30, 30), 50, psf=_pixel_psf(), rng=1)
    assert np.all(np.isnan(other.sigma))
    assert len(other) == 50


def test_grid_covers_the_frame_evenly():
    made = grid_source_dictionary((6, 9), psf=GaussianPSF(1.0), step=0.5)
    assert len(made) == 12 * 18
    assert np.unique(made.x)[[0, -1]].tolist() == [-0.25, 8.25]
    assert np.allclose(np.diff(np.unique(made.y)), 0.5)
    centres = grid_source_dictionary((6, 9), sigmas=1.0, step=1)
    assert np.unique(centres.x).tolist() == list(range(9))
    uneven = grid_source_dictionary((6, 9), sigmas=[1.0, 2.0], step=0.7)
    steps = np.diff(np.unique(uneven.x))
    assert steps.max() <= 0.7
    assert np.unique(uneven.sigma).tolist() == [1.0, 2.0]


def test_bounded_memory_and_bad_arguments():
    with pytest.raises(MemoryError, match=r"needs .* GB, more than max_bytes = 0.0 GB: take fewer candidates"):
        sample_source_dictionary((64, 64), 1000, rng=0, max_bytes=1e6)
    with pytest.raises(ValueError, match="n must be a whole number of at least 1; got 0"):
        sample_source_dictionary((64, 64), 0)
    with pytest.raises(ValueError, match="sigma_range must be a pair"):
        sample_source_dictionary((64, 64), 5, sigma_range=(2.0, 1.0))
    with pytest.raises(ValueError, match="prior must be"):
        sample_source_dictionary((64, 64), 5, prior="flat")
    with pytest.raises(ValueError, match="exactly one of psf"):
        grid_source_dictionary((8, 8))
    with pytest.raises(ValueError, match="exactly one of psf"):
        build_source_dictionary((8, 8), [1.0], [1.0])
    with pytest.raises(ValueError, match=r"x must lie within the frame, from -0\.5 to 7\.5"):
        build_source_dictionary((8, 8), [9.0], [1.0], sigma=1.0)
    with pytest.raises(ValueError, match="not empty"):
        build_source_dictionary((8, 8), [], [], sigma=1.0)
    with pytest.raises(ValueError, match="sigma must be finite"):
        build_source_dictionary((8, 8), [1.0], [1.0], sigma=0.0)
    with pytest.raises(ValueError, match="storage must be"):
        build_source_dictionary((8, 8), [1.0], [1.0], sigma=1.0, storage="disk")
    with pytest.raises(ValueError, match="dtype must be float64 or float32; got int64"):
        build_source_dictionary((8, 8), [1.0], [1.0], sigma=1.0, dtype=np.int64)
    with pytest.raises(ValueError, match="step must be a finite number above 0"):
        grid_source_dictionary((8, 8), sigmas=1.0, step=0)
    far = PixelPSF(np.pad([[1.0]], ((0, 0), (0, 80))), center=(80.0, 0.0))
    with pytest.raises(ValueError, match="light inside the frame for every candidate; 1 have none"):
        build_source_dictionary((8, 8), [1.0], [1.0], psf=far)


def test_images_smaller_than_the_psf():
    made = sample_source_dictionary((3, 4), 20, sigma_range=(2.0, 4.0), rng=0)
    assert made.matrix.shape == (12, 20)
    np.testing.assert_allclose(np.linalg.norm(made.matrix, axis=0), 1)
    tiny = build_source_dictionary((1, 1), [0.0], [0.0], sigma=3.0, storage="sparse")
    assert tiny.matrix.toarray().tolist() == [[1.0]]


def test_a_large_frame_is_sparse():
    made = sample_source_dictionary((512, 512), 20_000, psf=GaussianPSF(1.3), rng=0)
    assert made.matrix.shape == (512 * 512, 20_000)
    assert made.matrix.nnz < 100 * 20_000
    columns = made.matrix[:, [0, 777, 19_999]].toarray()
    for column, k in zip(columns.T, (0, 777, 19_999), strict=True):
        expected = GaussianPSF(1.3).stamp(made.x[k], made.y[k], (512, 512)).ravel()
        assert column @ expected / np.linalg.norm(expected) > 1 - 1e-5
