"""Stacks of frames: one catalogue, in and out, in parallel."""

import numpy as np
import pytest

from fastsbl.imaging import GaussianPSF, ImageData, locate_sources, locate_stack, make_starfield, read_catalog

PSF = GaussianPSF(1.1)


@pytest.fixture(scope="module")
def stack():
    counts = (2, 0, 3, 1)
    return np.stack(
        [
            make_starfield(
                (24, 20), count, psf=PSF, flux_range=(400, 900), noise_variance=9.0, background=50.0, rng=20 + k
            ).image
            for k, count in enumerate(counts)
        ]
    )


def test_frames_are_searched_one_by_one(stack):
    seen = []
    catalog = locate_stack(stack, PSF, pixel_size=100.0, progress=seen.append)
    assert seen == [1, 2, 3, 4]
    table = catalog.table
    assert catalog.meta["n_frames"] == 4
    assert table["id"].tolist() == list(range(1, len(table) + 1))
    for k in range(4):
        alone = locate_sources(stack[k], PSF)
        mine = table[table["frame"] == k]
        np.testing.assert_array_equal(mine["x_fit"], alone.table["x_fit"])
        np.testing.assert_array_equal(mine["flux_err"], alone.table["flux_err"])
        assert np.allclose(mine["local_bkg"], alone.meta["background"])
        assert np.allclose(mine["bkg_std"] ** 2, alone.meta["noise_variance"])
    assert np.bincount(table["frame"], minlength=4).tolist() == [2, 0, 3, 1]
    assert np.unique(table["group_id"]).size >= 3
    for a, b in ((0, 2), (2, 3)):
        assert table["group_id"][table["frame"] == a].max() < table["group_id"][table["frame"] == b].min()
    np.testing.assert_allclose(table["x_nm"], 100.0 * (np.asarray(table["x_fit"]) + 0.5))


def test_any_number_of_processes_gives_the_same(stack):
    one = locate_stack(stack, PSF)
    two = locate_stack(iter(stack), PSF, n_jobs=2)
    for name in one.table.colnames:
        np.testing.assert_array_equal(one.table[name], two.table[name])


@pytest.mark.parametrize("ending", ["tif", "npy", "fits"])
def test_files(stack, ending, tmp_path):
    path = tmp_path / f"stack.{ending}"
    if ending == "tif":
        pytest.importorskip("tifffile").imwrite(path, stack.astype(np.float32), imagej=True)
    elif ending == "npy":
        np.save(path, stack)
    else:
        pytest.importorskip("astropy.io.fits").PrimaryHDU(stack).writeto(path)
    found = locate_stack(path, PSF)
    expected = locate_stack(stack, PSF)
    np.testing.assert_array_equal(found.table["frame"], expected.table["frame"])
    np.testing.assert_allclose(found.xy, expected.xy, atol=1e-3)


def test_through_thunderstorm_and_back(stack, tmp_path):
    catalog = locate_stack(stack, PSF)
    path = catalog.write(tmp_path / "molecules.csv", format="thunderstorm", pixel_size=107.0)
    lines = path.read_text().splitlines()
    assert lines[0].startswith('"frame","x [nm]","y [nm]","sigma [nm]"')
    assert lines[1].startswith("1,")  # frames from 1 there
    back = read_catalog(path, pixel_size=107.0)
    np.testing.assert_array_equal(back.table["frame"], catalog.table["frame"])
    np.testing.assert_allclose(back.xy, catalog.xy, rtol=1e-12)
    for name in ("flux_fit", "sigma_fit", "local_bkg", "bkg_std"):
        np.testing.assert_allclose(back.table[name], catalog.table[name], rtol=1e-12)


@pytest.mark.parametrize("ending", ["ecsv", "fits", "csv"])
def test_table_formats_keep_the_frames(stack, ending, tmp_path):
    catalog = locate_stack(stack, PSF, pixel_size=100.0)
    back = read_catalog(catalog.write(tmp_path / f"all.{ending}")).table
    np.testing.assert_array_equal(back["frame"], catalog.table["frame"])
    np.testing.assert_allclose(back["x_nm"], catalog.table["x_nm"])


def test_empty_stacks_and_frames_without_sources():
    dark = np.random.default_rng(0).normal(size=(2, 16, 16))
    catalog = locate_stack(dark, PSF)
    assert len(catalog) == 0
    assert catalog.table["frame"].dtype.kind == "i"
    assert catalog.meta["n_frames"] == 2
    none = locate_stack([], PSF, pixel_size=10.0)
    assert len(none) == 0
    assert {"frame", "x_nm", "y_nm"} <= set(none.table.colnames)


def test_frames_of_different_kinds(stack):
    mixed = [stack[0], ImageData.from_array(stack[2]), np.round(stack[3]).astype(np.uint16)]
    assert np.bincount(locate_stack(mixed, PSF).table["frame"]).tolist() == [2, 3, 1]


def test_bad_frames_are_named(stack):
    with pytest.raises(ValueError, match="frames must be an array of shape"):
        locate_stack(stack[0], PSF)
    with pytest.raises(ValueError, match="frame 1: image must have at least one pixel"):
        locate_stack([stack[0], np.full((5, 5), np.nan)], PSF)
    with pytest.raises(FileNotFoundError, match="no such file"):
        locate_stack("missing.tif", PSF)
    with pytest.raises(TypeError, match="wcs is not an option"):
        locate_stack(stack, PSF, wcs=None)
    with pytest.raises(ValueError, match="pixel_size must be"):
        locate_stack(stack, PSF, pixel_size=-1.0)
    with pytest.raises(ValueError, match=r"n_jobs must be a number of processes.*got 0"):
        locate_stack(stack, PSF, n_jobs=0)
