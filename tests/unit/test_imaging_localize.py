"""Locating sources: what is found, how honest the errors are, and what is refused."""

import numpy as np
import pytest

from fastsbl.imaging import GaussianPSF, PixelPSF, locate_sources, make_starfield, match_sources, render_sources

XY = np.array([[5.3, 6.1], [20.2, 7.7], [8.4, 20.8], [21.6, 19.2]])
FLUX = np.array([90.0, 60.0, 75.0, 50.0])
SIGMA = np.array([1.2, 1.8, 1.5, 2.2])


def four_sources(noise=0.2, seed=0, level=0.0):
    clean = render_sources((28, 28), XY[:, 0], XY[:, 1], FLUX, psf=GaussianPSF(1.0), sigma=SIGMA) + level
    return clean + np.random.default_rng(seed).normal(0.0, noise, clean.shape)


def test_four_separated_sources_of_unknown_width_are_found():
    image = four_sources(level=7.0)
    catalog = locate_sources(image)
    assert len(catalog) == 4
    match = match_sources(catalog.xy, XY, 1.0)
    assert match.n_matched == 4
    found, true = match.pairs.T
    table = catalog.table[found]
    for name, truth, error in (
        ("x_fit", XY[true, 0], "x_err"),
        ("y_fit", XY[true, 1], "y_err"),
        ("flux_fit", FLUX[true], "flux_err"),
        ("sigma_fit", SIGMA[true], "sigma_err"),
    ):
        assert np.all(np.abs(table[name] - truth) < 4.5 * table[error])
    assert catalog.meta["noise_variance"] == pytest.approx(0.04, rel=0.15)
    assert catalog.meta["background"] == pytest.approx(7.0, abs=0.1)
    np.testing.assert_allclose(catalog.model + catalog.residual, image, rtol=1e-12)
    assert catalog.significance.std() == pytest.approx(1.0, abs=0.05)


def test_nothing_found_is_an_empty_typed_table():
    noise = np.random.default_rng(3).normal(2.0, 1.0, (40, 40))
    for image in (noise, np.full((20, 20), 3.0), np.zeros((5, 7)), np.ones((1, 1))):
        catalog = locate_sources(image)
        assert len(catalog) == 0
        assert catalog.table["x_fit"].dtype == np.float64
        assert catalog.model.shape == image.shape
        np.testing.assert_allclose(catalog.model, catalog.model[0, 0])
    assert locate_sources(np.full((20, 20), 3.0)).meta["noise_variance"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"image": np.zeros((2, 3, 4))}, ValueError, r"image must be a two-dimensional array.*\(2, 3, 4\)"),
        ({"image": np.zeros((4, 4), complex)}, TypeError, "image must hold real numbers; got dtype complex128"),
        ({"image": np.full((4, 4), np.nan)}, ValueError, "image must have at least one pixel"),
        ({"mask": np.zeros((3, 3), bool)}, ValueError, r"mask must be a boolean array.*\(3, 3\)"),
        ({"psf": np.ones((5, 5))}, TypeError, "psf must be None.*ndarray.*PixelPSF"),
        ({"noise_variance": 0.0}, ValueError, "noise_variance must be above 0"),
        ({"noise_variance": np.ones(3)}, ValueError, "noise_variance must be a number or have the image's shape"),
        ({"background": "median"}, ValueError, 'background must be "constant", "map".*median'),
        ({"background": np.nan}, ValueError, "background must be finite"),
        ({"background": np.ones(3)}, ValueError, r"background must be a number or an array.*\(3,\)"),
        ({"background": lambda pixels: "dark"}, TypeError, "background must hold real numbers; got 'dark'"),
        ({"noise_variance": "auto"}, TypeError, "noise_variance must hold real numbers; got 'auto'"),
        ({"psf": 1.5}, TypeError, r"psf must be None.*float \(a Gaussian of that width is GaussianPSF\(1.5\)\)"),
        ({"psf": GaussianPSF}, TypeError, "psf must be None.*the class GaussianPSF itself"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be a number of processes.*got 0"),
        ({"sigma_range": (2.0, 1.0)}, ValueError, "sigma_range must be a pair"),
        ({"gain": -1.0}, ValueError, "gain must be a finite number above 0"),
        ({"false_alarms": 0.0}, ValueError, "false_alarms must be a finite number above 0"),
        ({"tile": 3}, ValueError, "tile must be a whole number of at least 16"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, error, words):
    given = {"image": np.zeros((8, 8)), **arguments}
    with pytest.raises(error, match=words):
        locate_sources(given.pop("image"), **given)


def test_pixels_that_are_not_finite_or_masked_do_not_count():
    image = four_sources()
    reference = locate_sources(image)
    mask = np.zeros(image.shape, bool)
    mask[12:14, 12:15] = True
    spoiled = image.copy()
    spoiled[mask] = np.nan
    by_nan = locate_sources(spoiled)
    spoiled[mask] = 1e6
    by_mask = locate_sources(spoiled, mask=mask)
    by_array = locate_sources(np.ma.MaskedArray(spoiled, mask))
    by_variance = locate_sources(spoiled, noise_variance=np.where(mask, np.inf, 0.04))
    for catalog in (by_nan, by_mask, by_array, by_variance):
        assert match_sources(catalog.xy, reference.xy, 0.2).n_matched == 4 == len(catalog)
        assert np.all(np.isnan(catalog.significance) == mask)
    np.testing.assert_array_equal(by_nan.xy, by_mask.xy)
    np.testing.assert_array_equal(by_nan.xy, by_array.xy)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, ">f4"])
def test_the_type_of_the_numbers_does_not_matter(kind):
    image = np.rint(10 * four_sources(level=6.0))
    expected = locate_sources(image)
    assert len(expected) == 4
    np.testing.assert_allclose(locate_sources(image.astype(kind)).xy, expected.xy, atol=1e-9)


def test_scale_and_shift_of_the_image_carry_over():
    image = four_sources()
    one, other = locate_sources(image), locate_sources(1e-20 * image - 5e-20)
    np.testing.assert_allclose(other.xy, one.xy, atol=1e-3)
    np.testing.assert_allclose(other.table["flux_fit"], 1e-20 * one.table["flux_fit"], rtol=1e-3)


def test_a_measured_psf_gives_what_the_gaussian_it_samples_gives():
    psf = GaussianPSF(1.4)
    field = make_starfield((40, 40), 5, psf=psf, snr_db=15.0, rng=2)
    over = 4
    offset = (np.arange(81) - 40) / over
    x, y = np.meshgrid(offset, offset)
    samples = np.array(
        [[psf.stamp(-a, -b, (1, 1))[0, 0] for a, b in zip(*rows, strict=True)] for rows in zip(x, y, strict=True)]
    )
    measured = locate_sources(field.image, PixelPSF(samples, over, normalize=False))
    exact = locate_sources(field.image, psf)
    assert len(exact) == len(measured) == 5
    np.testing.assert_allclose(measured.xy, exact.xy, atol=2e-3)
    np.testing.assert_allclose(measured.table["flux_err"], exact.table["flux_err"], rtol=1e-2)
    assert np.all(np.isnan(measured.table["sigma_fit"]))
    assert np.all(exact.table["sigma_fit"] == 1.4)


def test_a_psf_larger_than_the_image_is_answered():
    rng = np.random.default_rng(0)
    psf = GaussianPSF(4.0)
    image = 400.0 * psf.stamp(4.4, 3.6, (9, 9)) + rng.normal(0, 0.1, (9, 9))
    catalog = locate_sources(image, psf, background=None)
    assert len(catalog) == 1
    assert np.hypot(*(catalog.xy[0] - [4.4, 3.6])) < 0.3


def test_background_may_be_given_as_number_array_or_callable():
    image = four_sources(level=3.0)
    slope = np.linspace(-2, 2, 28) + np.zeros((28, 1))
    expected = locate_sources(image, background=3.0)
    assert match_sources(expected.xy, XY, 1.0).n_matched == 4
    by_array = locate_sources(image + slope, background=3.0 + slope)
    by_call = locate_sources(image, background=lambda pixels: 3.0)
    np.testing.assert_allclose(by_array.xy, expected.xy, atol=1e-6)
    np.testing.assert_array_equal(by_call.xy, expected.xy)
    assert by_array.model.min() < 2.0
    np.testing.assert_allclose(by_array.model + by_array.residual, image + slope, rtol=1e-9)
