"""Denoising: what it gains, how honest its errors are, and that it leaves other images alone."""

import warnings

import numpy as np
import pytest

from fastsbl.imaging import (
    GaussianPSF,
    NotPointSourcesWarning,
    denoise_details,
    denoise_image,
    make_starfield,
    psnr,
    render_sources,
)
from fastsbl.imaging import _mixture as mixture
from fastsbl.imaging._structure import follow, is_structured, quiet_variance, white_variance
from fastsbl.imaging.denoise import windows


def gain(clean, noisy, answer):
    return psnr(clean, answer) - psnr(clean, noisy)


@pytest.mark.parametrize(("snr_db", "least"), [(20.0, 48.5), (10.0, 38.8), (0.0, 28.3)])
def test_refined_reaches_the_limit_of_the_model(snr_db, least):
    fields = [make_starfield(snr_db=snr_db, rng=700 + k) for k in range(10)]
    answers = [denoise_details(field.image) for field in fields]
    assert np.mean([psnr(f.clean, a.image) for f, a in zip(fields, answers, strict=True)]) > least - 0.6  # of ten
    assert {answer.method for answer in answers} == {"refined"}
    errors = np.concatenate([((a.image - f.clean) / a.std).ravel() for f, a in zip(fields, answers, strict=True)])
    assert 0.75 < np.sqrt(np.mean(errors**2)) < 1.35


def test_mixture_alone():
    field = make_starfield(snr_db=10.0, rng=11)
    answer = denoise_details(field.image, method="mixture")
    assert answer.method == "mixture"
    assert answer.catalog is None
    assert answer.refined is None
    assert gain(field.clean, field.image, answer.image) > 10
    np.testing.assert_allclose(answer.image, answer.mixture)
    assert 0.5 < np.sqrt(np.mean((answer.image - field.clean) ** 2) / np.mean(answer.std**2)) < 2.5


def test_freedom_of_the_mixture_is_its_divergence():
    field = make_starfield((10, 10), 1, position_margin=3.0, snr_db=12.0, rng=2)
    everywhere = np.ones((10, 10), dtype=bool)
    options = {"psf": GaussianPSF(1.6), "sigma_range": (1.0, 2.0), "level": True}

    def fit(image):
        return mixture.fit_mixture(image, everywhere, field.noise_variance, **options)

    tight, mixture._TOL = mixture._TOL, 1e-9
    try:
        whole = fit(field.image)
        step = 1e-5 * np.sqrt(field.noise_variance)
        total = 0.0
        for k in range(field.image.size):
            moved = field.image.copy().ravel()
            moved[k] += step
            total += (fit(moved.reshape(10, 10)).image.ravel()[k] - whole.image.ravel()[k]) / step
    finally:
        mixture._TOL = tight
    assert whole.freedom == pytest.approx(total, rel=0.02)


def test_return_std_and_dtype():
    field = make_starfield(snr_db=20.0, rng=5)
    plain = denoise_image(field.image)
    image, std = denoise_image(field.image, return_std=True)
    np.testing.assert_array_equal(plain, image)
    assert std.shape == image.shape
    assert (std > 0).all()
    counts = np.round(1000 * field.image).astype(np.int32)
    np.testing.assert_allclose(denoise_image(counts) / 1000, plain, atol=0.02)
    small = np.clip(np.round(100 * field.image + 50), 0, 255).astype(np.uint8)
    assert gain(field.clean, field.image, (denoise_image(small) - 50) / 100) > 10


def test_known_noise_map_mask_and_nan():
    rng = np.random.default_rng(3)
    psf = GaussianPSF(1.5)
    clean = render_sources((24, 30), [6.0, 20.3], [12.2, 8.0], [50.0, 70.0], psf=psf) + 7.0
    variance = np.where(np.arange(30) < 15, 0.01, 0.25) * np.ones((24, 1))
    image = clean + rng.normal(size=clean.shape) * np.sqrt(variance)
    image[3:5, 20] = np.nan
    mask = np.zeros(image.shape, dtype=bool)
    mask[11, 6] = True
    image[11, 6] = 1e6
    for method in ("refined", "mixture"):
        answer = denoise_details(image, psf, variance, mask=mask, method=method)
        assert np.isfinite(answer.image).all()
        assert np.isfinite(answer.std).all()
        error = answer.image - clean
        assert np.sqrt(np.mean(error[:, 15:] ** 2)) < 0.2  # noise .5
        assert np.sqrt(np.mean(error[:, :15] ** 2)) < 0.07  # noise .1
        assert abs(error[11, 6]) < 0.5
    subtracted = denoise_image(image, psf, variance, mask=mask, background=7.0)
    assert np.sqrt(np.mean((subtracted - clean)[:, 15:] ** 2)) < 0.2
    np.testing.assert_allclose(
        denoise_image(np.ma.MaskedArray(image, mask), psf, variance), denoise_image(image, psf, variance, mask=mask)
    )


def test_constant_empty_and_tiny_images():
    image, std = denoise_image(np.full((9, 9), 4.0), return_std=True)
    np.testing.assert_array_equal(image, 4.0)
    np.testing.assert_array_equal(std, 0.0)
    noise = np.random.default_rng(0).normal(3.0, 1.0, (28, 28))
    answer = denoise_details(noise)
    assert np.std(answer.image) < 0.25
    assert abs(answer.image.mean() - 3.0) < 0.1
    tiny = make_starfield((5, 6), 1, sigma_range=(2.0, 2.0), position_margin=1.0, noise_variance=1e-4, rng=1)
    assert psnr(tiny.clean, denoise_image(tiny.image, GaussianPSF(2.0))) > psnr(tiny.clean, tiny.image)
    negative = make_starfield(snr_db=10.0, background=-5.0, rng=5)
    assert np.mean((denoise_image(negative.image) - negative.clean) ** 2) < 0.1 * negative.noise_variance


@pytest.mark.parametrize("method", ["auto", "refined"])
def test_an_image_without_noise_comes_back_without_a_warning(method):
    field = make_starfield(rng=2)
    answer = denoise_details(field.image, method=method)
    assert answer.share.min() == 1.0
    assert psnr(field.clean, answer.image) > 100


def test_large_frames_go_by_windows():
    field = make_starfield((64, 90), 20, snr_db=10.0, sigma_range=(1.0, 2.0), rng=8)
    answer = denoise_details(field.image)
    assert answer.method in ("refined", "both")
    assert answer.share.min() > 0.9
    assert gain(field.clean, field.image, answer.image) > 9
    errors = (answer.image - field.clean) / answer.std
    assert 0.7 < np.sqrt(np.mean(errors**2)) < 1.6


def test_windows_cover_every_pixel_once():
    for shape in ((28, 28), (49, 36), (37, 130), (3, 100)):
        total = np.zeros(shape)
        for where, weight in windows(shape):
            total[where] += weight
            assert max(weight.shape) <= 48
        np.testing.assert_allclose(total, 1.0)


@pytest.mark.parametrize("known", [True, False])
def test_photographs_come_back_almost_as_they_are(known):
    data = pytest.importorskip("skimage.data")
    rng = np.random.default_rng(1)
    clean = data.camera()[100:124, 100:124].astype(float)
    noisy = clean + rng.normal(0, 5.0, clean.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPointSourcesWarning)  # given or not, depending on the part
        answer = denoise_image(noisy, noise_variance=25.0 if known else None)
    assert gain(clean, noisy, answer) > -0.5


def test_texture_is_returned_with_a_warning():
    rng = np.random.default_rng(2)
    stripes = 100 * np.sign(np.sin(np.add.outer(np.arange(20) * 1.1, np.arange(20) * 0.7)))
    noisy = stripes + rng.normal(0, 1.0, stripes.shape)
    with pytest.warns(NotPointSourcesWarning, match="more than point sources"):
        answer = denoise_details(noisy, GaussianPSF(2.5), 1.0)
    assert answer.share.max() < 0.1
    assert gain(stripes + 101, noisy + 101, answer.image + 101) > -0.5


def test_structure_of_residuals():
    rng = np.random.default_rng(4)
    everywhere = np.ones((30, 30), dtype=bool)
    alarms = sum(is_structured(rng.normal(size=(30, 30)), everywhere, 0.0, 1.0) for _ in range(300))
    assert alarms <= 1
    loud = 1.3 * rng.normal(size=(30, 30))
    assert is_structured(loud, everywhere, 0.0, 1.0)
    assert not is_structured(loud, everywhere, 0.0)
    smooth = np.add.outer(np.sin(np.arange(30) / 3), np.cos(np.arange(30) / 4))
    mixed = smooth + 0.3 * rng.normal(size=(30, 30))
    assert is_structured(mixed, everywhere, 0.0)
    assert 0.0 <= white_variance(mixed, everywhere, 0.0) < 0.12  # of .09: it errs downwards
    assert 0.75 < white_variance(rng.normal(size=(30, 30)), everywhere, 0.0) < 1.1
    assert 0.3 < quiet_variance(rng.normal(size=(30, 30)), everywhere) < 0.9
    assert quiet_variance(np.ones((2, 5)), np.ones((2, 5), dtype=bool)) == 1.0
    assert 0.0 < follow(mixed, everywhere, 0.0, 0.09) < 0.2
    assert follow(np.zeros((5, 5)), np.ones((5, 5), dtype=bool), 0.0, None) == 1.0
    board = np.indices((30, 30)).sum(axis=0) % 2 * 2.0 - 1.0
    assert is_structured(board, everywhere, 0.0)


def test_bad_input_is_named():
    image = np.zeros((8, 8))
    with pytest.raises(ValueError, match="method must be"):
        denoise_image(image, method="best")
    with pytest.raises(ValueError, match="two-dimensional"):
        denoise_image(np.zeros(8))
    with pytest.raises(TypeError, match="real numbers"):
        denoise_image(np.zeros((8, 8), dtype=complex))
    with pytest.raises(ValueError, match="at least one pixel"):
        denoise_image(np.full((8, 8), np.nan))
    with pytest.raises(ValueError, match="noise_variance must be above 0"):
        denoise_image(image, noise_variance=-1.0)
    with pytest.raises(ValueError, match="sigma_range must be"):
        denoise_image(image, sigma_range=(2.0, 1.0))
    with pytest.raises(TypeError, match="psf must be"):
        denoise_image(np.eye(8), psf=np.ones((3, 3)))
    with pytest.raises(TypeError, match="psf must be"):
        denoise_image(np.eye(8), psf=np.ones((3, 3)), method="mixture")
