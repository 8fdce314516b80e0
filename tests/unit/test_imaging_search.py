"""Searching for sources: blends, false alarms, honest errors, noise of the light, backgrounds, tiles."""

import numpy as np
import pytest

from fastsbl.imaging import (
    GaussianPSF,
    PixelPSF,
    SourceFlag,
    locate_sources,
    make_starfield,
    match_sources,
    render_sources,
)

PSF = GaussianPSF(1.4)


def test_a_close_pair_is_split_and_a_single_source_is_not():
    x, y = np.array([10.2, 12.3]), np.array([11.0, 12.1])
    pair = render_sources((24, 24), x, y, [60.0, 50.0], psf=PSF)
    single = render_sources((24, 24), [11.2], [11.5], [110.0], psf=PSF)
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(0.0, 0.1, (24, 24))
        for psf in (PSF, None):
            two, one = locate_sources(pair + noise, psf), locate_sources(single + noise, psf)
            assert (len(two), len(one)) == (2, 1)
            assert match_sources(two.xy, np.column_stack([x, y]), 0.4).n_matched == 2
            assert np.all(np.asarray(two.table["flags"]) & int(SourceFlag.BLENDED))
            assert two.table["group_id"].tolist() == [1, 1]


@pytest.mark.parametrize("psf", [PSF, None])
def test_noise_gives_as_many_sources_as_was_said(psf):
    images = (np.random.default_rng(seed).normal(3.0, 2.0, (24, 24)) for seed in range(80))
    found = sum(len(locate_sources(image, psf, false_alarms=0.2)) for image in images)
    assert 5 < found < 32  # of 16 to expect


def test_errors_are_as_large_as_they_say():
    pulls = []
    for seed in range(12):
        field = make_starfield((40, 40), 4, snr_db=12.0, rng=seed)
        catalog = locate_sources(field.image)
        found, true = match_sources(catalog.xy, field.xy, 1.5).pairs.T
        table = catalog.table[found]
        alone = (np.asarray(table["flags"]) & int(SourceFlag.BLENDED)) == 0
        for name, truth in (("x", field.x), ("y", field.y), ("flux", field.flux), ("sigma", field.sigma)):
            pull = (np.asarray(table[f"{name}_fit"]) - truth[true]) / np.asarray(table[f"{name}_err"])
            pulls.append(pull[alone])
    pulls = np.concatenate(pulls)
    assert pulls.size > 80
    assert abs(pulls.mean()) < 0.3
    assert 0.8 < pulls.std() < 1.3


def test_noise_of_the_light_is_taken_into_account():
    field = make_starfield(
        (48, 48), 6, psf=PSF, flux_range=(200, 9000), background=10.0, poisson=True, position_margin=5, rng=4
    )
    catalog = locate_sources(field.image / 2.0, PSF, gain=2.0)
    assert len(catalog) == 6
    found, true = match_sources(catalog.xy, field.xy, 0.5).pairs.T
    assert found.size == 6
    flux = np.asarray(catalog.table["flux_fit"])[found] * 2.0
    error = np.asarray(catalog.table["flux_err"])[found] * 2.0
    assert np.all(np.abs(flux - field.flux[true]) < 4 * error)
    assert np.all(error > 0.95 * np.sqrt(field.flux[true]))  # the noise of a source's own light
    assert error.min() < 1.3 * np.sqrt(field.flux[true]).min()
    assert catalog.significance.std() == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("snr_db", [50.0, None])
def test_what_is_left_of_bright_sources_is_not_taken_for_faint_ones(snr_db):
    for seed in range(3):
        field = make_starfield((48, 64), 14, snr_db=snr_db, rng=seed)
        catalog = locate_sources(field.image)
        assert len(catalog) == 14
        assert match_sources(catalog.xy, field.xy, 0.05).n_matched == 14


def test_elliptical_and_any_other_psf():
    turned = GaussianPSF((1.2, 2.1), theta=0.6)
    field = make_starfield((50, 50), 5, psf=turned, snr_db=18.0, position_margin=6, rng=2)
    catalog = locate_sources(field.image, turned)
    assert len(catalog) == 5
    assert match_sources(catalog.xy, field.xy, 0.4).n_matched == 5

    class Foreign:  # not one of ours: it is sampled
        stamp, stamp_and_gradient, radius = turned.stamp, turned.stamp_and_gradient, turned.radius

    np.testing.assert_allclose(locate_sources(field.image, Foreign()).xy, catalog.xy, atol=2e-3)


def test_a_psf_that_does_not_sum_to_one_scales_the_fluxes():
    image = 500.0 * PSF.stamp(12.3, 11.6, (24, 24)) + np.random.default_rng(0).normal(0.0, 0.3, (24, 24))
    samples = PSF.stamp(10, 10, (21, 21))
    with pytest.warns(UserWarning, match=r"sums to 3, not to 1; it has been rescaled"):
        rescaled = PixelPSF(3.0 * samples)
    with pytest.warns(UserWarning, match=r"the image of a source of flux 1 sums to 3"):
        kept = PixelPSF(3.0 * samples, normalize=False)
    one, other = locate_sources(image, rescaled), locate_sources(image, kept)
    assert len(one) == len(other) == 1
    np.testing.assert_allclose(one.xy, other.xy, atol=1e-3)
    assert one.table["flux_fit"][0] == pytest.approx(500.0, rel=0.05)
    assert other.table["flux_fit"][0] == pytest.approx(500.0 / 3.0, rel=0.05)


def test_a_sloping_sky_is_found_by_the_map():
    pytest.importorskip("photutils")
    y, x = np.mgrid[:130, :150]
    sky = 40.0 + 0.05 * x + 4.0 * np.sin(y / 30.0)
    field = make_starfield((130, 150), 40, psf=PSF, flux_range=(60, 600), noise_variance=4.0, rng=5)
    image = field.image + sky
    image[60:80, :30] = np.nan
    catalog = locate_sources(image, PSF, background="map")
    seen = (field.x >= 30) | (field.y < 60) | (field.y >= 80)
    match = match_sources(catalog.xy, field.xy[seen], 1.0)
    assert match.f1 > 0.95
    assert np.abs(catalog.meta["background"] - sky)[20:-20, 35:-20].max() < 1.0  # noise 2
    np.testing.assert_allclose((catalog.model + catalog.residual)[0], image[0])


def test_sky_coordinates_are_added():
    wcs = pytest.importorskip("astropy.wcs").WCS(naxis=2)
    wcs.wcs.ctype = ["RA---TAN", "DEC--TAN"]
    wcs.wcs.crpix, wcs.wcs.crval, wcs.wcs.cdelt = [13.0, 13.0], [40.0, -20.0], [-1e-3, 1e-3]
    image = 90.0 * PSF.stamp(12.0, 12.0, (25, 25)) + np.random.default_rng(1).normal(0.0, 0.05, (25, 25))
    table = locate_sources(image, PSF, wcs=wcs).table
    assert len(table) == 1
    assert table["ra"].unit == "deg"
    assert table["ra"][0].value == pytest.approx(40.0, abs=1e-4)  # pixel 12 from 0 is FITS pixel 13
    assert table["dec"][0].value == pytest.approx(-20.0, abs=1e-4)
    empty = locate_sources(np.zeros((8, 8)), PSF, wcs=wcs).table
    assert len(empty) == 0
    assert str(empty["ra"].unit) == "deg"


@pytest.mark.parametrize("psf", [PSF, None])
def test_tiles_give_what_the_whole_frame_gives(psf):
    field = make_starfield((70, 110), 40, psf=psf, sigma_range=(1.0, 1.6), snr_db=12.0, rng=6)
    options = {"sigma_range": (0.8, 2.0)}
    seen = []
    whole = locate_sources(field.image, psf, tile=None, **options)
    tiled = locate_sources(
        field.image, psf, tile=32, progress=lambda done, total: seen.append((done, total)), **options
    )
    assert seen[-1] == (24, 24)
    assert len(whole) == len(tiled) > 35
    found, other = match_sources(tiled.xy, whole.xy, 0.3).pairs.T
    assert found.size == len(whole)
    for name in ("x", "y", "flux"):
        shift = np.asarray(tiled.table[f"{name}_fit"])[found] - np.asarray(whole.table[f"{name}_fit"])[other]
        assert np.nanmax(np.abs(shift) / np.asarray(whole.table[f"{name}_err"])[other]) < 0.1


def test_tiles_know_the_light_of_their_neighbours():
    options = {"psf": PSF, "flux_range": (100, 20_000), "background": 5.0, "poisson": True}
    field = make_starfield((48, 90), 40, rng=3, **options)
    whole = locate_sources(field.image, PSF, gain=1.0, tile=None)
    tiled = locate_sources(field.image, PSF, gain=1.0, tile=24)
    found, other = match_sources(tiled.xy, whole.xy, 0.3).pairs.T
    assert found.size == len(whole) == len(tiled)
    shift = np.asarray(tiled.table["flux_fit"])[found] - np.asarray(whole.table["flux_fit"])[other]
    assert np.nanmax(np.abs(shift) / np.asarray(whole.table["flux_err"])[other]) < 0.2


def test_processes_do_not_change_the_answer():
    field = make_starfield((40, 60), 10, psf=PSF, snr_db=12.0, rng=6)
    alone, shared = (locate_sources(field.image, PSF, tile=30, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(shared.xy, alone.xy)
    np.testing.assert_array_equal(shared.table["flux_err"], alone.table["flux_err"])
