"""``fastsbl locate`` on images of all kinds, right ones and wrong ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from fastsbl.imaging import GaussianPSF, locate_sources, make_starfield, match_sources, read_catalog, write_image

pytest.importorskip("astropy", reason="catalogues need the extra apps")
pytest.importorskip("tifffile")

IMAGES = Path(os.environ.get("FASTSBL_DATA", "nowhere")) / "images"
needs_data = pytest.mark.skipif(not (IMAGES / "sep_image.fits.gz").is_file(), reason="FASTSBL_DATA has no images")


@pytest.fixture(scope="module")
def field():
    return make_starfield((40, 30), 3, snr_db=20.0, rng=5)


def test_catalogue_is_that_of_the_library(fastsbl, tmp_path, field):
    write_image(tmp_path / "a.fits", field.image)
    outcome = fastsbl("locate", "a.fits")
    assert outcome.code == 0, outcome.err
    assert "3 sources in 1 image" in outcome.out
    expected = locate_sources(field.image)
    found = read_catalog(tmp_path / "sources.ecsv")
    np.testing.assert_allclose(found.xy, expected.xy)
    np.testing.assert_allclose(found.table["flux_err"], expected.table["flux_err"])
    assert match_sources(found.xy, field.xy, 0.5).n_matched == 3


@pytest.mark.parametrize("name", ["a.tif", "a.npy", "a.txt.gz", "a.fits.gz"])
def test_other_formats_give_the_same(fastsbl, tmp_path, field, name):
    if name.endswith(".txt.gz"):
        np.savetxt(tmp_path / name, field.image)
    else:
        write_image(tmp_path / name, field.image)
    outcome = fastsbl("locate", name, "--json", "--out", "s.csv")
    assert outcome.code == 0, outcome.err
    assert outcome.data["sources"] == 3
    np.testing.assert_allclose(read_catalog(tmp_path / "s.csv").xy, locate_sources(field.image).xy, atol=1e-3)


def test_several_images_and_frames_share_a_catalogue(fastsbl, tmp_path, field):
    other = make_starfield((40, 30), 2, snr_db=20.0, rng=6)
    np.save(tmp_path / "stack.npy", np.stack([field.image, other.image, field.image]))
    write_image(tmp_path / "b.fits", other.image)
    outcome = fastsbl("locate", "stack.npy", "b.fits", "--frames", "0:2", "--json", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    assert [(one["image"], one["frame"]) for one in outcome.data["images"]] == [
        ("stack.npy", 0), ("stack.npy", 1), ("b.fits", None),
    ]  # fmt: skip
    table = read_catalog(tmp_path / "sources.ecsv").table
    assert len(table) == outcome.data["sources"] == 3 + 2 + 2
    assert list(table["id"]) == list(range(1, len(table) + 1))
    assert [str(name) for name in table["image"]] == ["stack.npy"] * 5 + ["b.fits"] * 2
    assert list(table["frame"]) == [0, 0, 0, 1, 1, 0, 0]


def test_options_reach_the_library(fastsbl, tmp_path, field):
    psf = GaussianPSF(1.5)
    sharp = make_starfield((40, 30), 3, psf=psf, background=100.0, flux_range=(500, 900), noise_variance=4.0, rng=2)
    write_image(tmp_path / "a.fits", sharp.image)
    mask = np.zeros((40, 30))
    mask[:, :3] = 1.0
    write_image(tmp_path / "mask.fits", mask)
    known = ("--psf", "1.5", "--noise-variance", "4", "--background", "100", "--mask", "mask.fits")
    outcome = fastsbl("locate", "a.fits", *known, "--max-sources", "2", "--false-alarms", "0.1")
    assert outcome.code == 0, outcome.err
    expected = locate_sources(sharp.image, psf, 4.0, background=100.0, mask=mask > 0, max_sources=2, false_alarms=0.1)
    np.testing.assert_allclose(read_catalog(tmp_path / "sources.ecsv").xy, expected.xy)
    spread = np.exp(-0.5 * ((np.arange(41) - 20) / 4 / 1.5) ** 2)
    write_image(tmp_path / "psf.fits", np.outer(spread, spread) / spread.sum() ** 2)
    outcome = fastsbl("locate", "a.fits", "--psf", "psf.fits", "--oversampling", "4", "--force", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.data["sources"] == 3


def test_images_report_and_molecules(fastsbl, tmp_path, field):
    pytest.importorskip("jinja2")
    evil = "<b>&$x$.fits"
    write_image(tmp_path / evil, field.image)
    outcome = fastsbl(
        "locate", evil, "--images", "out", "--report", "r.html", "--out", "m.csv", "--pixel-size", "100",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"<b>&$x$-{name}.fits" for name in ("model", "residual", "significance")
    ]
    page = (tmp_path / "r.html").read_text()
    assert "<b>&$x" not in page
    assert "&lt;b&gt;&amp;$x$.fits" in page
    assert "fastsbl locate &#39;&lt;b&gt;" in page  # the command that repeats it
    assert len(read_catalog(tmp_path / "m.csv", pixel_size=100.0)) == 3


def test_an_empty_image_gives_an_empty_catalogue(fastsbl, tmp_path):
    np.save(tmp_path / "flat.npy", np.random.default_rng(0).normal(size=(24, 24)))
    outcome = fastsbl("locate", "flat.npy", "--report", "r.html")
    assert outcome.code == 0, outcome.err
    assert "0 sources in 1 image" in outcome.out
    assert len(read_catalog(tmp_path / "sources.ecsv")) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("missing.fits",), 1, "no such file: missing.fits"),
        (("a.jpg",), 1, "path must end in one of"),
        (("cut.fits",), 1, "cut.fits"),
        (("a.fits", "--frames", "5:9"), 1, "a.fits has no such frames"),
        (("a.fits", "--frames", "b"), 2, "--frames must be like"),
        (("a.fits", "--psf", "wide"), 2, "--psf must be free, a width"),
        (("a.fits", "--psf", "-1"), 2, "--psf must be above 0"),
        (("a.fits", "--noise-variance", "x"), 2, "--noise-variance must be a number"),
        (("a.fits", "--background", "x"), 2, "--background must be"),
        (("a.fits", "--mask", "small.npy"), 1, "a.fits: mask must be a boolean array of the image's shape (40, 30)"),
        (("a.fits", "--out", "s.xlsx"), 2, "--out must end in"),
        (("a.fits", "--pixel-size", "100"), 2, "--pixel-size goes with"),
        (("a.fits", "--jobs", "0"), 2, "0 is not a number of processes"),
        (("a.fits", "--report", "no/r.html"), 1, "the folder no for r.html does not exist"),
        ((), 2, "Missing argument"),
    ],
)
def test_wrong_use_is_said_in_a_sentence(fastsbl, tmp_path, field, arguments, code, text):
    write_image(tmp_path / "a.fits", field.image)
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "cut.fits").write_bytes((tmp_path / "a.fits").read_bytes()[:4000])
    np.save(tmp_path / "small.npy", np.zeros((2, 2)))
    before = sorted(tmp_path.iterdir())
    outcome = fastsbl("locate", *arguments)
    assert outcome.code == code, outcome.err
    assert text in outcome.err.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == before


def test_existing_catalogue_is_kept(fastsbl, tmp_path, field):
    write_image(tmp_path / "a.fits", field.image)
    (tmp_path / "sources.ecsv").write_text("mine")
    outcome = fastsbl("locate", "a.fits")
    assert outcome.code == 1
    assert "sources.ecsv exists; --force replaces it" in outcome.sentence()
    assert (tmp_path / "sources.ecsv").read_text() == "mine"


@needs_data
def test_real_frames(fastsbl, tmp_path):
    outcome = fastsbl("locate", IMAGES / "smlm_md_frames.tif.gz", "--frames", "3:5", "--psf", "1.088", "--json")
    assert outcome.code == 0, outcome.err
    assert [one["frame"] for one in outcome.data["images"]] == [3, 4]
    assert all(20 < one["sources"] < 60 for one in outcome.data["images"])
    outcome = fastsbl("locate", IMAGES / "sep_image.fits.gz", "--background", "map", "--out", "sep.fits", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.data["sources"] > 50


def test_info(fastsbl):
    outcome = fastsbl("info", "--json")
    assert outcome.code == 0
    assert outcome.data["machine"]["numpy"] == np.__version__
    assert outcome.data["packages"]["click"]
    text = fastsbl("info").out
    assert "threads of a fit" in text
    assert "compiled loops" in text
