"""Images in and out: round trips, real files, damaged files."""

import gzip
import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from fastsbl.imaging import ImageFormatError, iter_frames, read_image, write_image

DATA = Path(os.environ.get("FASTSBL_DATA", "")) / "images"
needs_data = pytest.mark.skipif(not (DATA / "sep_image.fits.gz").is_file(), reason="FASTSBL_DATA has no images")


@pytest.fixture
def image():
    return np.random.default_rng(8).normal(5, 2, (11, 14))


def _wcs():
    wcs = pytest.importorskip("astropy.wcs").WCS(naxis=2)
    wcs.wcs.ctype = "RA---TAN", "DEC--TAN"
    wcs.wcs.crval = 150.0, 2.0
    wcs.wcs.crpix = 5.0, 6.0
    wcs.wcs.cdelt = -1e-4, 1e-4
    return wcs


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz", "a.fit", "a.npy"])
def test_lossless_round_trips(name, image, tmp_path):
    image[2, 3] = np.nan
    got = read_image(write_image(tmp_path / name, image))
    np.testing.assert_array_equal(got.array, image)
    assert got.array.dtype == np.float64
    assert got.array.flags.c_contiguous
    assert np.argwhere(got.mask).tolist() == [[2, 3]]
    assert got.wcs is None
    assert got.meta["dtype"].endswith("f8") or got.meta["dtype"] == "float64"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_tiff_round_trip(image, tmp_path):
    got = read_image(write_image(tmp_path / "a.tif", image))
    np.testing.assert_array_equal(got.array, image.astype(np.float32))
    counts = np.arange(12, dtype=np.uint16).reshape(3, 4)
    whole = read_image(write_image(tmp_path / "b.tiff", counts))
    np.testing.assert_array_equal(whole.array, counts)
    assert whole.meta["dtype"] == "uint16"


def test_png_is_scaled_to_sixteen_bits(image, tmp_path, caplog):
    image[0, 0] = np.nan
    with caplog.at_level(logging.INFO):
        path = write_image(tmp_path / "a.png", image)
    assert "PNG scaled: black" in caplog.text
    got = read_image(path)
    low, high = np.nanmin(image), np.nanmax(image)
    expected = np.nan_to_num((image - low) / (high - low) * 65535, nan=0.0)
    np.testing.assert_allclose(got.array, expected, atol=0.51)
    fixed = read_image(write_image(tmp_path / "b.png", image, scale=(0.0, 65535.0)))
    np.testing.assert_allclose(fixed.array[1:], np.clip(np.round(image[1:]), 0, None))
    flat = read_image(write_image(tmp_path / "c.png", np.full((3, 3), 7.0)))
    assert flat.array.max() == 0.0
    with pytest.raises(ValueError, match="scale must be a pair"):
        write_image(tmp_path / "d.png", image, scale=(2.0, 1.0))


def test_colour_png_is_refused_or_converted(tmp_path, caplog):
    pillow = pytest.importorskip("PIL.Image")
    colours = np.zeros((4, 5, 3), dtype=np.uint8)
    colours[..., 0] = 100
    pillow.fromarray(colours).save(tmp_path / "a.png")
    with pytest.raises(ImageFormatError, match="is a colour image"):
        read_image(tmp_path / "a.png")
    with caplog.at_level(logging.INFO):
        got = read_image(tmp_path / "a.png", rgb="convert")
    assert "colour converted to luminance" in caplog.text
    np.testing.assert_allclose(got.array, 21.25)
    pillow.fromarray(colours).convert("P").save(tmp_path / "b.png")
    with pytest.raises(ImageFormatError, match="is a colour image"):
        read_image(tmp_path / "b.png")
    grey = np.arange(20, dtype=np.uint8).reshape(4, 5)
    pillow.fromarray(np.stack([grey] * 3, axis=-1)).save(tmp_path / "c.png")
    pillow.fromarray(grey).convert("LA").save(tmp_path / "d.png")
    pillow.fromarray(grey).save(tmp_path / "e.png")
    for name in ("c.png", "d.png", "e.png"):
        np.testing.assert_array_equal(read_image(tmp_path / name).array, grey)
    with pytest.raises(ValueError, match="rgb must be"):
        read_image(tmp_path / "a.png", rgb="yes")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.dat", "a.csv"])
def test_tables_of_numbers(name, image, tmp_path):
    np.savetxt(tmp_path / name, image, delimiter="," if "csv" in name else " ")
    np.testing.assert_allclose(read_image(tmp_path / name).array, image)


def test_table_errors_are_clear(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("25 5\n1 2 3\n4 5 6\n")
    with pytest.raises(ImageFormatError, match="skip_rows leaves out lines at the top"):
        read_image(path)
    assert read_image(path, skip_rows=1).array.shape == (2, 3)
    path.write_text("")
    with pytest.raises(ImageFormatError, match="must be a table of numbers"):
        read_image(path)
    path.write_text("a b\nc d\n")
    with pytest.raises(ImageFormatError, match="must be a table of numbers"):
        read_image(path)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint16, np.float32, bool])
def test_integer_images_become_float64(dtype, tmp_path):
    values = (np.arange(12).reshape(3, 4) % 2).astype(dtype)
    for name in ("a.npy", "a.fits"):
        got = read_image(write_image(tmp_path / name, values, overwrite=True))
        assert got.array.dtype == np.float64
        np.testing.assert_array_equal(got.array, values)


def test_fits_compressed_by_tiles_is_read(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    counts = np.random.default_rng(0).integers(300, 60_000, (30, 40)).astype(np.uint16)
    packed = fits.CompImageHDU(counts, header=_wcs().to_header())
    fits.HDUList([fits.PrimaryHDU(), packed]).writeto(tmp_path / "a.fits.fz")
    got = read_image(tmp_path / "a.fits.fz")
    np.testing.assert_array_equal(got.array, counts)
    assert got.wcs.wcs.crval.tolist() == [150.0, 2.0]
    assert len(list(iter_frames(tmp_path / "a.fits.fz"))) == 1
    with pytest.raises(ValueError, match=r"must end in \.fits"):
        write_image(tmp_path / "b.fits.fz", counts)


def test_wcs_and_header_are_kept(image, tmp_path):
    wcs = _wcs()
    path = write_image(tmp_path / "a.fits", image, wcs=wcs)
    got = read_image(path)
    assert got.wcs is not None
    np.testing.assert_allclose(got.wcs.pixel_to_world_values(3, 4), wcs.pixel_to_world_values(3, 4))
    got.header["OBSERVER"] = "somebody"
    again = read_image(write_image(tmp_path / "b.fits", image[:5], wcs=got.wcs, header=got.header))
    assert again.array.shape == (5, 14)
    assert again.header["OBSERVER"] == "somebody"
    np.testing.assert_allclose(again.wcs.pixel_to_world_values(3, 4), wcs.pixel_to_world_values(3, 4))


def test_fits_extensions(image, tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    table = fits.BinTableHDU.from_columns([fits.Column("a", "E", array=np.ones(3))])
    path = tmp_path / "a.fits"
    sci = fits.ImageHDU(image, name="SCI")
    odd = fits.ImageHDU(image[None, None] + 1, name="ODD")
    fits.HDUList([fits.PrimaryHDU(), table, sci, odd]).writeto(path)
    np.testing.assert_array_equal(read_image(path).array, image)
    np.testing.assert_array_equal(read_image(path, hdu="ODD").array, image + 1)
    with pytest.raises(ImageFormatError, match="has no extension 'NONE'"):
        read_image(path, hdu="NONE")
    with pytest.raises(ImageFormatError, match="holds no two-dimensional image"):
        read_image(path, hdu=1)
    bare = tmp_path / "b.fits"
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(bare)
    with pytest.raises(ImageFormatError, match=r"extensions: PrimaryHDU without data, BinTableHDU\)"):
        read_image(bare)
    row = tmp_path / "d.fits"
    fits.PrimaryHDU(np.ones(5)).writeto(row)
    with pytest.raises(ImageFormatError, match=r"extensions: PrimaryHDU 5\)"):
        read_image(row)
    packed = tmp_path / "c.fits"
    fits.HDUList([fits.PrimaryHDU(), fits.CompImageHDU(np.arange(900, dtype=np.int32).reshape(30, 30))]).writeto(packed)
    assert read_image(packed).array[1, 2] == 32


def test_stacks_frame_by_frame(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    fits = pytest.importorskip("astropy.io.fits")
    frames = np.arange(60, dtype=np.uint16).reshape(3, 4, 5)
    tifffile.imwrite(tmp_path / "a.tif", frames, imagej=True)
    tifffile.imwrite(tmp_path / "b.tif", frames, photometric="minisblack")
    with gzip.open(tmp_path / "c.tif.gz", "wb") as file:
        file.write((tmp_path / "b.tif").read_bytes())
    fits.PrimaryHDU(frames.astype(np.float32)).writeto(tmp_path / "d.fits")
    np.save(tmp_path / "e.npy", frames)
    tifffile.imwrite(tmp_path / "g.tif", frames, photometric="minisblack", truncate=True)
    tifffile.imwrite(tmp_path / "h.tif", frames, photometric="minisblack", bigtiff=True, byteorder=">")
    for name in ("a.tif", "b.tif", "c.tif.gz", "d.fits", "e.npy", "g.tif", "h.tif"):
        path = tmp_path / name
        got = list(iter_frames(path))
        assert [one.meta["frame"] for one in got] == [0, 1, 2]
        assert {one.meta["n_frames"] for one in got} == {3}
        np.testing.assert_array_equal([one.array for one in got], frames)
        np.testing.assert_array_equal(read_image(path, frame=1).array, frames[1])
        with pytest.raises(ImageFormatError, match=r"holds 3 frames: pass frame \(0 to 2\)"):
            read_image(path)
        with pytest.raises(ValueError, match="frame must lie between 0 and 2"):
            read_image(path, frame=3)
    np.savetxt(tmp_path / "f.txt", frames[0])
    (only,) = iter_frames(tmp_path / "f.txt")
    assert only.meta["n_frames"] == 1
    with pytest.raises(ValueError, match="frame must be None or 0"):
        read_image(tmp_path / "f.txt", frame=2)


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz", "a.tif", "a.png", "a.npy", "a.txt.gz"])
@pytest.mark.parametrize("share", [0.02, 0.6])
def test_truncated_files_say_so(name, share, tmp_path):
    values = np.random.default_rng(0).normal(size=(90, 80))
    path = tmp_path / name
    if "txt" in name:
        np.savetxt(path, values)
    else:
        write_image(path, values)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ImageFormatError, match=r"truncated|damaged") as caught:
        read_image(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value).strip() or len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["a.fits", "a.fits.gz", "a.tif", "a.png", "a.npy", "a.npy.gz", "a.txt.gz"])
@pytest.mark.parametrize("content", [b"", b"this is not an image at all"])
def test_files_that_are_something_else(name, content, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ImageFormatError, match=name):
        read_image(path)


def test_other_refusals(tmp_path, image):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_image(tmp_path / "none.fits")
    (tmp_path / "a.doc").write_text("x")
    with pytest.raises(ImageFormatError, match="path must end in one of"):
        read_image(tmp_path / "a.doc")
    np.save(tmp_path / "c.npy", np.ones((3, 3), dtype=complex))
    with pytest.raises(ImageFormatError, match="pixels must be real numbers; got dtype complex128"):
        read_image(tmp_path / "c.npy")
    np.save(tmp_path / "d.npy", np.ones(3))
    with pytest.raises(ImageFormatError, match="must be two-dimensional and not empty; got shape"):
        read_image(tmp_path / "d.npy")
    np.save(tmp_path / "e.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ImageFormatError, match=r"e\.npy could not be read"):
        read_image(tmp_path / "e.npy")
    (tmp_path / "f.txt").write_text("")
    with pytest.raises(ImageFormatError, match="must be a table of numbers; it is empty"):
        read_image(tmp_path / "f.txt")
    with pytest.raises(ValueError, match="array must be a two-dimensional real image"):
        write_image(tmp_path / "x.npy", image[0])
    with pytest.raises(ValueError, match="path must end in"):
        write_image(tmp_path / "x.jpg", image)
    with pytest.raises(FileNotFoundError, match="the folder"):
        write_image(tmp_path / "no" / "x.npy", image)


def test_writing_is_whole_or_not_at_all(tmp_path, image, monkeypatch):
    path = write_image(tmp_path / "a.npy", image)
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        write_image(path, image + 1)
    write_image(path, image + 1, overwrite=True)
    np.testing.assert_array_equal(read_image(path).array, image + 1)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()

    def fails(out, values, **_):
        Path(out).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(OSError, match="disk full"):
        write_image(path, image, overwrite=True)
    monkeypatch.undo()
    np.testing.assert_array_equal(read_image(path).array, image + 1)
    assert [one.name for one in tmp_path.iterdir()] == ["a.npy"]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@needs_data
def test_real_frame_with_an_untidy_header(tmp_path, caplog):
    got = read_image(DATA / "sep_image.fits.gz")
    assert got.array.shape == (256, 256)
    assert got.array.min() == pytest.approx(6566.2598, rel=1e-6)
    assert got.wcs is None
    with caplog.at_level(logging.WARNING):
        again = read_image(write_image(tmp_path / "b.fits", got.array, header=got.header))
    np.testing.assert_array_equal(again.array, got.array)
    assert again.header["OBSERVER"] == "LAPPARENT"


@needs_data
def test_real_microscopy_stack(tmp_path):
    frames = iter_frames(DATA / "smlm_md_frames.tif.gz")
    first = next(frames)
    assert first.array.shape == (32, 32)
    assert first.meta["n_frames"] == 500
    assert np.median(first.array) > 500
    frames.close()
    assert sum(1 for _ in iter_frames(DATA / "smlm_md_frames.tif.gz")) == 500
    cut = tmp_path / "cut.tif"
    with gzip.open(DATA / "smlm_md_frames.tif.gz") as source, cut.open("wb") as target:
        shutil.copyfileobj(source, target)
    content = cut.read_bytes()
    cut.write_bytes(content[: int(0.7 * len(content))])
    with pytest.raises(ImageFormatError, match=r"cut\.tif"):
        list(iter_frames(cut))


@needs_data
def test_real_table_of_counts():
    assert read_image(DATA / "mock200_cts.txt.gz").array.shape == (200, 200)
