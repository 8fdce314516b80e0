"""Simulated star fields: the paper's setting, noise levels, truth."""

import importlib

import numpy as np
import pytest

from fastsbl.imaging import GaussianPSF, PixelPSF, make_starfield, psnr


def test_default_setting_is_the_papers():
    rng = np.random.default_rng(1)
    fields = [make_starfield(n_sources=200, rng=rng) for _ in range(20)]
    x, y, sigma, weight = (
        np.concatenate([getattr(field, name) for field in fields]) for name in ("x", "y", "sigma", "weight")
    )
    for values, low, high in ((x, 2, 25), (y, 2, 25), (sigma, 1, 3), (weight, 0.5, 1)):
        assert low <= values.min() < values.max() <= high
        assert values.min() - low < 0.02 * (high - low)
        assert high - values.max() < 0.02 * (high - low)
    one = make_starfield(rng=0)
    assert one.image.shape == (28, 28)
    assert one.x.size == 4
    np.testing.assert_array_equal(one.image, one.clean)
    assert one.noise_variance == 0.0


def test_weights_are_peaks_and_pixels_add_up():
    field = make_starfield((15, 17), 1, position_margin=7.0, weight_range=(0.8, 0.8), rng=0)
    assert field.y[0] == 7.0
    stamp = field.flux[0] * GaussianPSF(field.sigma[0]).stamp(field.x[0], 7.0, (15, 17))
    np.testing.assert_allclose(field.clean, stamp, atol=1e-15)
    square = make_starfield((15, 15), 1, position_margin=7.0, weight_range=(0.8, 0.8), rng=0)
    assert square.clean.max() == pytest.approx(0.8)
    assert square.clean[7, 7] == pytest.approx(0.8)


def test_noise_level_matches_the_published_table():
    """PSNR of the noisy image is 33.4 dB at 20 dB and 13.4 at 0 dB in this setting."""
    for snr_db, expected in ((20.0, 33.4), (0.0, 13.4)):
        rng = np.random.default_rng(4)
        fields = [make_starfield(snr_db=snr_db, rng=rng) for _ in range(200)]
        assert np.mean([psnr(f.clean, f.image) for f in fields]) == pytest.approx(expected, abs=0.4)
        power = np.mean(fields[0].clean ** 2)
        assert 10 * np.log10(power / fields[0].noise_variance) == pytest.approx(snr_db)


def test_noise_background_and_poisson():
    field = make_starfield((200, 200), 3, noise_variance=0.04, background=5.0, rng=2)
    assert field.background == 5.0
    assert np.var(field.image - field.clean) == pytest.approx(0.04, rel=0.05)
    assert field.clean.min() == pytest.approx(5.0)
    counts = make_starfield(
        (200, 200), 20, flux_range=(500.0, 900.0), background=50.0, poisson=True, noise_variance=4.0, rng=2
    )
    assert np.all(np.isnan(counts.weight))
    assert 500 <= counts.flux.min() <= counts.flux.max() <= 900
    np.testing.assert_allclose(counts.noise_variance, counts.clean + 4.0)
    chi = (counts.image - counts.clean) ** 2 / counts.noise_variance
    assert chi.mean() == pytest.approx(1.0, abs=0.05)
    whole = make_starfield((20, 20), 2, flux_range=(50.0, 90.0), background=5.0, poisson=True, rng=2)
    assert np.all(whole.image == np.round(whole.image))


def test_snr_does_not_count_the_background():
    with_background = make_starfield(snr_db=10.0, background=100.0, rng=3)
    without = make_starfield(snr_db=10.0, rng=3)
    assert with_background.noise_variance == pytest.approx(without.noise_variance)


def test_seeds_and_psf():
    np.testing.assert_array_equal(make_starfield(snr_db=3.0, rng=9).image, make_starfield(snr_db=3.0, rng=9).image)
    field = make_starfield((20, 20), 5, psf=GaussianPSF((1.0, 2.0), theta=0.3), rng=0)
    assert np.all(np.isnan(field.sigma))
    assert 0 < field.clean.max() <= field.weight.sum()
    offset = (np.arange(31) - 15) / 2
    image = np.exp(-0.5 * (offset[:, None] ** 2 + offset**2))
    pixel = make_starfield((20, 20), 1, psf=PixelPSF(image / image.sum(), 2), weight_range=(1, 1), rng=0)
    assert pixel.clean.max() <= 1.0 + 1e-12
    empty = make_starfield((9, 9), 0, noise_variance=1.0, rng=0)
    assert empty.xy.shape == (0, 2)
    assert empty.clean.max() == 0


def test_table_of_the_truth():
    pytest.importorskip("astropy")
    field = make_starfield(rng=0)
    assert field.table.colnames == ["id", "x", "y", "sigma", "flux", "weight"]
    np.testing.assert_array_equal(np.column_stack([field.table["x"], field.table["y"]]), field.xy)
    assert len(make_starfield(n_sources=0).table) == 0


def test_table_says_which_extra_brings_astropy(monkeypatch):
    real = importlib.import_module

    def without_astropy(name, *args):
        if name.startswith("astropy"):
            raise ImportError(name)
        return real(name, *args)

    field = make_starfield(rng=0)
    monkeypatch.setattr(importlib, "import_module", without_astropy)
    with pytest.raises(ImportError, match=r'needs astropy.*pip install "fastsbl\[apps\]"'):
        _ = field.table


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="at most one of snr_db and noise_variance"):
        make_starfield(snr_db=1.0, noise_variance=1.0)
    with pytest.raises(ValueError, match="position_margin must lie between"):
        make_starfield((5, 5), position_margin=3.0)
    with pytest.raises(ValueError, match="n_sources must be a whole number of at least 0; got -1"):
        make_starfield(n_sources=-1)
    with pytest.raises(ValueError, match="snr_db needs at least one source"):
        make_starfield(n_sources=0, snr_db=3.0)
    with pytest.raises(ValueError, match="snr_db must be a finite number"):
        make_starfield(snr_db=np.inf)
    with pytest.raises(ValueError, match="noise_variance must be a finite number at least 0"):
        make_starfield(noise_variance=-1.0)
    with pytest.raises(ValueError, match="poisson needs a clean image without negative pixels"):
        make_starfield(background=-1.0, poisson=True)
