"""PSF models against quadrature, finite differences and plain numpy."""

import os
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad
from scipy.ndimage import map_coordinates

from fastsbl.imaging import (
    PSF,
    GaussianPSF,
    GaussianPSF3D,
    PixelPSF,
    PSFNormalizationWarning,
    read_image,
    render_sources,
    stamp_origin,
)

DATA = Path(os.environ.get("FASTSBL_DATA", ""))


@pytest.fixture
def rng():
    return np.random.default_rng(20240)


def _density(x, y, sx, sy, theta):
    u = np.cos(theta) * x + np.sin(theta) * y
    v = -np.sin(theta) * x + np.cos(theta) * y
    return np.exp(-0.5 * (u / sx) ** 2 - 0.5 * (v / sy) ** 2) / (2 * np.pi * sx * sy)


def _pixel_integral(i, j, x, y, sx, sy, theta):
    """Gauss-Legendre on 16 x 16 sub-cells of 20 x 20 nodes: converged to rounding."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    cells = (np.arange(16) + 0.5) / 16 - 0.5
    t = (cells[:, None] + nodes / 32).ravel()
    w = np.tile(weights / 32, 16)
    return w @ _density(j + t[None, :] - x, i + t[:, None] - y, sx, sy, theta) @ w


@pytest.mark.parametrize(
    ("sigma", "theta"),
    [
        (0.3, 0.0),
        (1.0, 0.0),
        (2.7, 0.0),
        ((0.8, 2.0), 0.0),
        ((0.8, 2.0), 0.6),
        ((3.0, 0.5), -1.2),
        ((0.2, 0.5), 0.8),
    ],
)
def test_gaussian_stamp_is_the_integral_over_each_pixel(sigma, theta):
    psf = GaussianPSF(sigma, theta=theta)
    x, y = 3.3, 2.6
    stamp = psf.stamp(x, y, (6, 7))
    for i in range(6):
        for j in range(7):
            expected = _pixel_integral(i, j, x, y, psf.sigma_x, psf.sigma_y, theta)
            assert abs(stamp[i, j] - expected) < 1e-12


def test_gaussian_stamp_against_adaptive_quadrature():
    stamp = GaussianPSF(1.3).stamp(1.2, 0.9, (3, 3))
    value, _ = dblquad(lambda x, y: _density(x - 1.2, y - 0.9, 1.3, 1.3, 0), -0.5, 0.5, 1.5, 2.5, epsabs=1e-14)
    assert abs(stamp[0, 2] - value) < 1e-12


def test_corner_source_keeps_a_known_share():
    stamp = GaussianPSF(1.5).stamp(0.0, 0.0, (28, 28))
    assert stamp.sum() == pytest.approx(0.398, abs=5e-4)
    assert GaussianPSF(0.3).stamp(10.4, 11.1, (28, 28)).sum() == pytest.approx(1.0, abs=1e-14)


@settings(deadline=None, max_examples=30)
@given(
    x=st.floats(-0.5, 12.5),
    y=st.floats(-0.5, 9.5),
    sx=st.floats(0.3, 4),
    sy=st.floats(0.3, 4),
    theta=st.floats(-3, 3),
)
def test_turning_by_half_a_turn_changes_nothing_and_flux_is_bounded(x, y, sx, sy, theta):
    one = GaussianPSF((sx, sy), theta=theta).stamp(x, y, (10, 13))
    two = GaussianPSF((sx, sy), theta=theta + np.pi).stamp(x, y, (10, 13))
    swapped = GaussianPSF((sy, sx), theta=theta + np.pi / 2).stamp(x, y, (10, 13))
    np.testing.assert_allclose(one, two, atol=1e-12)
    np.testing.assert_allclose(one, swapped, atol=1e-12)
    assert one.min() >= 0
    assert one.sum() <= 1 + 1e-12


def _check_slopes(evaluate, answer, start, names, tolerance):
    step = 1e-5
    for index, name in enumerate(names):
        up, down = list(start), list(start)
        up[index] += step
        down[index] -= step
        numeric = (evaluate(*up) - evaluate(*down)) / (2 * step)
        np.testing.assert_allclose(answer[name], numeric, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("origin", [(0, 0), (-2, 3)])
def test_circular_gradient_against_differences(origin):
    shape = (8, 9)

    def evaluate(x, y, sigma):
        return GaussianPSF(sigma).stamp(x, y, shape, origin)

    got = GaussianPSF(1.4).stamp_and_gradient(3.2, 4.7, shape, origin)
    np.testing.assert_allclose(got.value, evaluate(3.2, 4.7, 1.4), atol=1e-15)
    slopes = {"x": got.d_x, "y": got.d_y, "sigma": got.d_sigma}
    _check_slopes(evaluate, slopes, (3.2, 4.7, 1.4), slopes, 1e-10)


@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_elliptical_gradient_against_differences(theta):
    shape = (8, 9)

    def evaluate(x, y, sigma_x, sigma_y, theta):
        return GaussianPSF((sigma_x, sigma_y), theta=theta).stamp(x, y, shape)

    got = GaussianPSF((1.4, 0.6), theta=theta).stamp_and_gradient(3.2, 4.7, shape)
    np.testing.assert_allclose(got.value, evaluate(3.2, 4.7, 1.4, 0.6, theta), atol=1e-15)
    slopes = {"x": got.d_x, "y": got.d_y, **got.d_shape}
    assert ("theta" in slopes) == (theta != 0)
    _check_slopes(evaluate, slopes, (3.2, 4.7, 1.4, 0.6, theta), slopes, 1e-9)
    with pytest.raises(AttributeError, match="circular Gaussians only"):
        _ = got.d_sigma


@pytest.mark.parametrize("psf", [GaussianPSF(1.2), GaussianPSF((1.0, 2.0)), GaussianPSF((1.0, 2.0), theta=0.4)])
def test_many_sources_equal_one_by_one(psf, rng):
    x, y = rng.uniform(0, 30, (2, 40))
    x0, y0 = stamp_origin(x, y, (9, 7))
    many = psf.stamp_and_gradient(x, y, (9, 7), (x0, y0))
    plain = psf.stamp(x, y, (9, 7), (x0, y0))
    np.testing.assert_allclose(plain, many.value, atol=1e-16)
    for k in range(40):
        one = psf.stamp_and_gradient(x[k], y[k], (9, 7), (x0[k], y0[k]))
        np.testing.assert_allclose(many.value[k], one.value, atol=1e-15)
        np.testing.assert_allclose(many.d_y[k], one.d_y, atol=1e-15)
    assert np.all(np.abs(x - x0 - 3) <= 0.5)
    assert np.all(np.abs(y - y0 - 4) <= 0.5)
    assert psf.stamp(x.reshape(8, 5), y.reshape(8, 5), (9, 7)).shape == (8, 5, 9, 7)
    assert psf.stamp([], [], (9, 7)).shape == (0, 9, 7)
    assert psf.stamp_and_gradient([], [], (9, 7)).d_x.shape == (0, 9, 7)


def test_width_of_each_source():
    stamps = GaussianPSF(9.0).stamp([2.0, 3.0], [2.0, 3.0], (6, 6), sigma=np.array([1.0, 2.0]))
    np.testing.assert_array_equal(stamps[1], GaussianPSF(2.0).stamp(3.0, 3.0, (6, 6)))
    pair = GaussianPSF(9.0).stamp_and_gradient(2.0, 2.0, (6, 6), sigma=(1.0, 2.0))
    np.testing.assert_array_equal(pair.value, GaussianPSF((1.0, 2.0)).stamp(2.0, 2.0, (6, 6)))
    assert set(pair.d_shape) == {"sigma_x", "sigma_y"}


def test_rotated_stamps_in_parts_are_the_same(rng, monkeypatch):
    x, y = rng.uniform(0, 9, (2, 13))
    psf = GaussianPSF((1.0, 2.0), theta=0.4)
    whole = psf.stamp_and_gradient(x, y, (10, 10))
    monkeypatch.setattr("fastsbl.imaging._gaussian._ELEMENTS", 5000)
    parts = psf.stamp_and_gradient(x, y, (10, 10))
    np.testing.assert_allclose(whole.d_shape["theta"], parts.d_shape["theta"], atol=1e-15)
    np.testing.assert_allclose(psf.stamp(x, y, (10, 10)), whole.value, atol=1e-15)


@pytest.mark.parametrize("psf", [GaussianPSF(0.4), GaussianPSF(2.0), GaussianPSF((1.0, 3.0), theta=0.3)])
@pytest.mark.parametrize("fraction", [0.9, 0.999, 0.999999])
def test_radius_holds_the_fraction(psf, fraction):
    radius = psf.radius(fraction)
    side = 2 * int(radius + 25) + 1
    centre = side // 2
    stamp = psf.stamp(centre, centre, (side, side))
    i, j = np.indices(stamp.shape)
    outside = np.hypot(i - centre, j - centre) > radius + 0.5
    assert stamp[outside].sum() <= (1 - fraction) * 1.05
    assert np.linalg.norm(stamp[outside]) <= (1 - fraction) * np.linalg.norm(stamp) * 1.05


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf, (1.0, 0.0)])
def test_bad_widths_are_refused(sigma):
    with pytest.raises(ValueError, match="sigma must be a finite number above 0"):
        GaussianPSF(sigma)


def test_bad_arguments_are_named():
    psf = GaussianPSF(1.0)
    with pytest.raises(ValueError, match="sigma must be a number or a pair"):
        GaussianPSF((1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="origin must hold whole numbers"):
        psf.stamp(1.0, 1.0, (3, 3), (0.5, 0))
    with pytest.raises(ValueError, match="shape must be a tuple of 2 whole numbers"):
        psf.stamp(1.0, 1.0, (3, 0))
    with pytest.raises(ValueError, match="x must be finite"):
        psf.stamp(np.nan, 1.0, (3, 3))
    with pytest.raises(ValueError, match="sigma must be above 0"):
        psf.stamp(1.0, 1.0, (3, 3), sigma=-1.0)
    with pytest.raises(ValueError, match="fraction must lie strictly between 0 and 1"):
        psf.radius(1.0)


def test_three_dimensions_integral_and_slopes():
    psf = GaussianPSF3D(1.3, 2.1)
    stamp = psf.stamp(6.2, 5.9, 11.4, (25, 15, 14))
    plane = GaussianPSF(1.3).stamp(6.2, 5.9, (15, 14))
    along = GaussianPSF((2.1, 0.01)).stamp(11.4, 0.0, (1, 25))[0]  # so narrow in y that all is in the row
    np.testing.assert_allclose(stamp, along[:, None, None] * plane, atol=1e-15)

    def evaluate(x, y, z, sigma_xy, sigma_z):
        return GaussianPSF3D(sigma_xy, sigma_z).stamp(x, y, z, (7, 6, 5), (1, -1, 0))

    got = psf.stamp_and_gradient(3.2, 1.7, 2.6, (7, 6, 5), (1, -1, 0))
    np.testing.assert_allclose(got.value, evaluate(3.2, 1.7, 2.6, 1.3, 2.1), atol=1e-15)
    slopes = {"x": got.d_x, "y": got.d_y, "z": got.d_z, "sigma_xy": got.d_sigma_xy, "sigma_z": got.d_sigma_z}
    _check_slopes(evaluate, slopes, (3.2, 1.7, 2.6, 1.3, 2.1), slopes, 1e-10)
    assert psf.stamp([1.0, 2.0], 1.0, 1.0, (2, 3, 4)).shape == (2, 2, 3, 4)
    across, depth = psf.radius(0.99)
    k, i, j = np.indices((61, 41, 41))
    full = psf.stamp(20.0, 20.0, 30.0, (61, 41, 41))
    inside = ((i - 20) ** 2 + (j - 20) ** 2) / (across + 0.5) ** 2 + (k - 30) ** 2 / (depth + 0.5) ** 2 <= 1
    assert full[inside].sum() >= 0.99
    with pytest.raises(ValueError, match="origin must hold three whole numbers"):
        psf.stamp(1.0, 1.0, 1.0, (3, 3, 3), (0, 0))


def _oversampled(sigma, oversampling, size, center=None):
    """Effective Gaussian PSF: pixel integrals at sub-pixel offsets."""
    ox, oy = oversampling
    cx, cy = center if center is not None else ((size[1] - 1) / 2, (size[0] - 1) / 2)
    x, y = -(np.arange(size[1]) - cx) / ox, -(np.arange(size[0]) - cy) / oy
    grid_y, grid_x = np.meshgrid(y, x, indexing="ij")
    return GaussianPSF(sigma).stamp(grid_x, grid_y, (1, 1))[..., 0, 0]


@pytest.mark.parametrize("size", [(81, 81), (80, 80), (81, 96)])
@pytest.mark.parametrize("oversampling", [(4, 4), (4, 5)])
def test_pixel_psf_reproduces_a_gaussian(size, oversampling):
    psf = PixelPSF(_oversampled(1.2, oversampling, size), oversampling, normalize=False)
    truth = GaussianPSF(1.2)
    for x, y in ((10.0, 10.0), (10.3, 9.6), (9.51, 10.49)):
        np.testing.assert_allclose(psf.stamp(x, y, (21, 21)), truth.stamp(x, y, (21, 21)), atol=3e-5)
        got, expected = psf.stamp_and_gradient(x, y, (21, 21)), truth.stamp_and_gradient(x, y, (21, 21))
        np.testing.assert_allclose(got.d_x, expected.d_x, atol=3e-4)
        np.testing.assert_allclose(got.d_y, expected.d_y, atol=3e-4)
        assert got.d_shape == {}


def test_pixel_psf_interpolates_its_samples_exactly():
    image = _oversampled(1.0, (3, 3), (31, 31))
    psf = PixelPSF(image, 3, normalize=False)
    for shift in (-1, 0, 1):  # source moved by a third of a pixel: the samples move by one
        stamp = psf.stamp(5.0 + shift / 3, 5.0, (11, 11))
        expected = np.zeros((11, 11))
        for j in range(11):
            column = 15 + 3 * (j - 5) - shift
            if 0 <= column < 31:
                expected[:, j] = image[0:31:3, column]
        np.testing.assert_allclose(stamp, expected, atol=1e-12)


def test_pixel_psf_against_a_numpy_spline(rng):
    """Twin of the kernel: scipy's own evaluation of the spline of the zero-padded image."""
    image = rng.uniform(0, 1, (12, 15))
    image /= image.sum() / 4
    psf = PixelPSF(image, 2)
    x, y = 4.3, 3.8
    rows, columns = np.indices((8, 9))
    places = [2 * (rows - y) + psf.center[1] + 16, 2 * (columns - x) + psf.center[0] + 16]
    expected = map_coordinates(np.pad(image, 16), places, order=3, mode="mirror")
    np.testing.assert_allclose(psf.stamp(x, y, (8, 9)), expected, atol=1e-13)


def test_pixel_psf_slopes_against_differences(rng):
    psf = PixelPSF(_oversampled(1.0, (3, 3), (31, 31)) + 1e-3 * rng.standard_normal((31, 31)), 3)
    x, y = rng.uniform(-1, 9, (2, 6))
    got = psf.stamp_and_gradient(x, y, (8, 9), (-1, 1))
    np.testing.assert_array_equal(got.value, psf.stamp(x, y, (8, 9), (-1, 1)))
    step = 1e-6
    for name, dx, dy in (("d_x", step, 0), ("d_y", 0, step)):
        up = psf.stamp(x + dx, y + dy, (8, 9), (-1, 1))
        down = psf.stamp(x - dx, y - dy, (8, 9), (-1, 1))
        np.testing.assert_allclose(getattr(got, name), (up - down) / (2 * step), atol=1e-8)


def test_pixel_psf_keeps_flux_at_every_phase_and_fades_to_zero(rng):
    image = rng.uniform(0, 1, (9, 8))
    psf = PixelPSF(image / image.sum())
    for x, y in rng.uniform(18, 19, (5, 2)):
        assert psf.stamp(x, y, (40, 40)).sum() == pytest.approx(1.0, abs=1e-6)
    assert psf.stamp(200.0, 5.0, (10, 10)).max() == 0.0


def test_pixel_psf_normalisation_and_its_warnings():
    image = _oversampled(1.0, (2, 2), (31, 31))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for usual in (image, image / image.sum()):
            assert PixelPSF(usual, 2).total == pytest.approx(1.0)
        assert PixelPSF(image, 2, normalize=False).total == pytest.approx(1.0, abs=1e-3)
    with pytest.warns(PSFNormalizationWarning, match="sums to 8.* neither to 1 nor to 4"):
        rescaled = PixelPSF(2 * image, 2)
    assert rescaled.total == pytest.approx(1.0)
    with pytest.warns(PSFNormalizationWarning, match="sums to 9, not to 1"):
        PixelPSF(np.ones((3, 3)))
    with pytest.warns(PSFNormalizationWarning, match="normalize=True rescales"):
        kept = PixelPSF(2 * image, 2, normalize=False)
    assert kept.total == pytest.approx(2.0, abs=1e-3)


def test_pixel_psf_refuses_what_it_cannot_use():
    with pytest.raises(ValueError, match="image must be a two-dimensional"):
        PixelPSF(np.ones(5))
    with pytest.raises(ValueError, match="image must be finite"):
        PixelPSF([[1.0, np.nan]])
    with pytest.raises(ValueError, match="image must have a positive sum"):
        PixelPSF(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="oversampling must be a tuple of 2 whole numbers"):
        PixelPSF(np.ones((3, 3)), 1.5)
    with pytest.raises(ValueError, match="center must be a place"):
        PixelPSF(np.ones((3, 3)) / 9, center=(9.0, 1.0))


def test_pixel_psf_radius_and_repr():
    psf = PixelPSF(_oversampled(1.0, (4, 4), (81, 81)), 4)
    assert psf.radius(0.999) == pytest.approx(GaussianPSF(1.0).radius(0.999), abs=0.3)
    assert psf.radius(1e-9) == 1.0
    assert "oversampling=(4, 4)" in repr(psf)
    assert isinstance(psf, PSF)


def test_pixel_psf_from_photutils():
    psf_module = pytest.importorskip("photutils.psf")
    image = _oversampled(1.1, (3, 3), (43, 43))
    model = psf_module.ImagePSF(image, oversampling=3, x_0=10.3, y_0=9.8, flux=1.0)
    y, x = np.mgrid[:21, :21].astype(float)
    ours = PixelPSF.from_photutils(model, normalize=False).stamp(10.3, 9.8, (21, 21))
    np.testing.assert_allclose(ours[5:16, 5:16], model(x, y)[5:16, 5:16], atol=1e-6)
    older = SimpleNamespace(data=image, oversampling=np.array([3, 3]))
    assert PixelPSF.from_photutils(older).center == (21.0, 21.0)


def test_render_adds_up_and_loses_only_what_leaves_the_frame(rng):
    x, y, flux = rng.uniform(-2, 40, 50), rng.uniform(-2, 30, 50), rng.uniform(1, 9, 50)
    gaussian = GaussianPSF((1.0, 1.6))
    expected = (flux[:, None, None] * gaussian.stamp(x, y, (30, 40))).sum(0)
    np.testing.assert_allclose(render_sources((30, 40), x, y, flux, psf=gaussian), expected, atol=1e-12)
    turned = GaussianPSF((1.0, 1.6), theta=0.4)
    expected = (flux[:, None, None] * turned.stamp(x, y, (30, 40))).sum(0)
    np.testing.assert_allclose(render_sources((30, 40), x, y, flux, psf=turned), expected, atol=1e-7)
    widths = rng.uniform(0.8, 2, 50)
    expected = (flux[:, None, None] * gaussian.stamp(x, y, (30, 40), sigma=widths)).sum(0)
    got = render_sources((30, 40), x, y, flux, psf=turned, sigma=widths)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert render_sources((5, 6), [], [], [], psf=gaussian).sum() == 0
    pixel = PixelPSF(_oversampled(1.0, (2, 2), (31, 31)), 2)
    expected = (flux[:, None, None] * pixel.stamp(x, y, (30, 40))).sum(0)
    np.testing.assert_allclose(render_sources((30, 40), x, y, flux, psf=pixel), expected, atol=1e-8)
    with pytest.raises(ValueError, match="sigma must be None unless"):
        render_sources((5, 5), [1.0], [1.0], [1.0], psf=pixel, sigma=[1.0])
    with pytest.raises(ValueError, match="sigma must be above 0"):
        render_sources((5, 5), [1.0], [1.0], [1.0], psf=gaussian, sigma=[0.0])
    with pytest.raises(ValueError, match="one-dimensional"):
        render_sources((5, 5), [[1.0]], [1.0], [1.0], psf=gaussian)


@pytest.mark.skipif(not (DATA / "images/mock200_psf.txt.gz").is_file(), reason="FASTSBL_DATA has no images")
def test_measured_psf_explains_the_simulated_crowded_field():
    """The tabulated PSF has its source at sample 60 of 0..124, 12 whole pixels from the edge."""
    counts = read_image(DATA / "images/mock200_cts.txt.gz").array
    samples = read_image(DATA / "images/mock200_psf.txt.gz", skip_rows=1).array
    x, y, flux = np.loadtxt(DATA / "images/mock200_tru.txt.gz").T
    psf = PixelPSF(samples, 5, center=(60, 60), normalize=False)
    residual = counts - render_sources(counts.shape, x, y, flux, psf=psf)
    assert np.median(residual) == pytest.approx(179, abs=2)
    noise = np.sqrt(counts / 4.62)
    assert np.std((residual - np.median(residual)) / noise) == pytest.approx(1.0, abs=0.15)
