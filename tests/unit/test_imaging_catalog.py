"""Catalogues: types, files, sky coordinates, ThunderSTORM."""

import os
from pathlib import Path

import numpy as np
import pytest

from fastsbl.imaging import (
    SourceCatalog,
    SourceFlag,
    add_sky_coordinates,
    empty_table,
    nearest_distance,
    read_catalog,
)

table_module = pytest.importorskip("astropy.table")
units = pytest.importorskip("astropy.units")
DATA = Path(os.environ.get("FASTSBL_DATA", "")) / "images"

NAMES = [
    *("id", "x_fit", "y_fit", "x_err", "y_err", "sigma_fit", "flux_fit", "flux_err"),
    *("snr", "group_id", "nn_dist", "qfit", "cfit", "flags"),
]


def _wcs():
    wcs = pytest.importorskip("astropy.wcs").WCS(naxis=2)
    wcs.wcs.ctype = "RA---TAN", "DEC--TAN"
    wcs.wcs.crval = 150.0, 2.0
    wcs.wcs.crpix = 1.0, 1.0
    wcs.wcs.cdelt = -1e-3, 1e-3
    return wcs


@pytest.fixture
def catalog():
    rng = np.random.default_rng(12)
    x, y = rng.uniform(0, 30, (2, 7))
    return SourceCatalog.from_columns(
        x_fit=x,
        y_fit=y,
        x_err=rng.uniform(0.01, 0.1, 7),
        y_err=rng.uniform(0.01, 0.1, 7),
        flux_fit=rng.uniform(100, 1000, 7),
        flux_err=rng.uniform(1, 10, 7),
        flags=[0, 1, 5, 0, 0, 8, 0],
        model=np.zeros((30, 30)),
        meta={"noise_variance": 4.0, "background": 10.0},
        wcs=_wcs(),
    )


def test_empty_table_is_typed():
    table = empty_table()
    assert isinstance(table, table_module.QTable)
    assert table.colnames == NAMES
    assert len(table) == 0
    for name in NAMES:
        expected = np.int64 if name in ("id", "group_id", "flags") else np.float64
        assert table[name].dtype == expected
        assert table[name].info.description
    assert "integers from 0" in table.meta["coordinates"]
    nothing = SourceCatalog(table)
    assert len(nothing) == 0
    assert nothing.xy.shape == (0, 2)


def test_columns_are_filled_in(catalog):
    table = catalog.table
    assert table.colnames == [*NAMES, "ra", "dec"]
    assert table["id"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose(table["snr"], table["flux_fit"] / table["flux_err"])
    np.testing.assert_allclose(table["nn_dist"], nearest_distance(catalog.xy))
    assert np.all(np.isnan(table["qfit"]))
    assert SourceFlag(int(table["flags"][2])) == SourceFlag.EDGE | SourceFlag.BLENDED
    assert table["ra"].unit == units.deg
    assert len(catalog) == 7
    frames = SourceCatalog.from_columns(x_fit=[1.0, 2.0, 5.0], y_fit=[1.0, 1.0, 1.0], frame=[0, 1, 1])
    assert frames.table["nn_dist"].tolist() == [np.inf, 3.0, 3.0]
    assert frames.table["frame"].tolist() == [0, 1, 1]
    errors = SourceCatalog.from_columns(x_fit=[1.0], y_fit=[1.0], flux_fit=[1.0], flux_err=[0.0])
    assert np.isnan(errors.table["snr"][0])
    with pytest.raises(ValueError, match="columns must include y_fit"):
        SourceCatalog.from_columns(x_fit=[1.0])
    with pytest.raises(ValueError, match=r"y_fit must have shape \(1,\)"):
        SourceCatalog.from_columns(x_fit=[1.0], y_fit=[1.0, 2.0])
    with pytest.raises(ValueError, match="missing: id, "):
        SourceCatalog(table_module.QTable({"x_fit": [1.0]}))


def test_sky_coordinates_follow_the_pixel_convention():
    table = SourceCatalog.from_columns(x_fit=[0.0, 10.0], y_fit=[0.0, 0.0], wcs=_wcs()).table
    assert table["ra"][0].to_value("deg") == pytest.approx(150.0)  # crpix 1 counted from 1 is pixel 0
    assert table["dec"][0].to_value("deg") == pytest.approx(2.0)
    assert table["ra"][1].to_value("deg") == pytest.approx(150.0 - 0.01, abs=1e-4)
    assert add_sky_coordinates(empty_table(), _wcs())["ra"].unit == units.deg


def test_wcs_without_a_sky_is_passed_over(caplog):
    plain = pytest.importorskip("astropy.wcs").WCS(naxis=2)
    table = add_sky_coordinates(empty_table(), plain)
    assert "ra" not in table.colnames
    assert "no celestial axes" in caplog.text


@pytest.mark.parametrize("name", ["a.ecsv", "a.fits", "a.csv"])
@pytest.mark.parametrize("empty", [False, True])
def test_round_trips(name, empty, catalog, tmp_path):
    if empty:
        catalog = SourceCatalog.from_columns(x_fit=[], y_fit=[], wcs=_wcs())
    path = catalog.write(tmp_path / name)
    got = read_catalog(path)
    assert got.table.colnames == catalog.table.colnames
    for column in catalog.table.colnames:
        assert got.table[column].dtype == catalog.table[column].dtype
        assert got.table[column].unit == catalog.table[column].unit
        np.testing.assert_array_equal(np.asarray(got.table[column]), np.asarray(catalog.table[column]))
    assert isinstance(got.table, table_module.QTable)
    assert "integers from 0" in got.table.meta["coordinates"]
    assert got.model is None
    with pytest.raises(FileExistsError, match="overwrite=True"):
        catalog.write(path)
    catalog.write(path, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_thunderstorm_round_trip(catalog, tmp_path):
    path = catalog.write(tmp_path / "a.csv", format="thunderstorm", pixel_size=107.5)
    lines = path.read_text().splitlines()
    assert lines[0] == (
        '"frame","x [nm]","y [nm]","sigma [nm]","intensity [photon]","offset [photon]",'
        '"bkgstd [photon]","uncertainty [nm]"'
    )
    values = [float(value) for value in lines[1].split(",")]
    assert values[0] == 1
    assert values[1] == pytest.approx((catalog.table["x_fit"][0] + 0.5) * 107.5)
    assert values[5:7] == [10.0, 2.0]
    got = read_catalog(path, pixel_size=107.5)
    np.testing.assert_allclose(got.xy, catalog.xy, rtol=1e-12)
    np.testing.assert_allclose(got.table["flux_fit"], catalog.table["flux_fit"])
    expected = np.sqrt((catalog.table["x_err"] ** 2 + catalog.table["y_err"] ** 2) / 2)
    np.testing.assert_allclose(got.table["x_err"], expected)
    assert got.table["frame"].tolist() == [0] * 7
    assert got.table["local_bkg"].tolist() == [10.0] * 7
    again = got.write(tmp_path / "b.csv", format="thunderstorm", pixel_size=107.5)
    np.testing.assert_allclose(read_catalog(again, pixel_size=107.5).xy, catalog.xy, rtol=1e-12)
    nothing = SourceCatalog(empty_table()).write(tmp_path / "c.csv", format="thunderstorm", pixel_size=100)
    assert len(read_catalog(nothing, pixel_size=100)) == 0


def test_thunderstorm_errors(tmp_path, catalog):
    with pytest.raises(ValueError, match="pixel_size must be given"):
        catalog.write(tmp_path / "a.csv", format="thunderstorm")
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "a.csv"
    path.write_text('"frame","x [nm]","y [nm]"\n1,100\n')
    with pytest.raises(ValueError, match="is damaged: a row ends before column 3"):
        read_catalog(path, pixel_size=100)
    path.write_text('"frame","x [nm]"\n1,100\n')
    with pytest.raises(ValueError, match=r"it has no column 'y \[nm\]'"):
        read_catalog(path, pixel_size=100)
    path.write_text('"frame","x [px]","y [px]"\n1,100,3\n')
    with pytest.raises(ValueError, match="must be in nm; got unit 'px'"):
        read_catalog(path, format="thunderstorm", pixel_size=100)


def test_other_refusals(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_catalog(tmp_path / "a.ecsv")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not a catalogue; missing columns: id"):
        read_catalog(tmp_path / "a.csv")
    (tmp_path / "a.ecsv").write_text("nothing of the kind\n1 2 3\n")
    with pytest.raises(ValueError, match="could not be read as a table of kind ecsv"):
        read_catalog(tmp_path / "a.ecsv")
    (tmp_path / "a.fits").write_bytes(b"")
    with pytest.raises(ValueError, match="could not be read as a table of kind fits"):
        read_catalog(tmp_path / "a.fits")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match=r"path must end in \.ecsv"):
        read_catalog(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="format must be"):
        read_catalog(tmp_path / "a.txt", format="hdf5")


@pytest.mark.skipif(not (DATA / "smlm_md_truth.csv.gz").is_file(), reason="FASTSBL_DATA has no images")
def test_real_microscopy_truth():
    truth = read_catalog(DATA / "smlm_md_truth.csv.gz", pixel_size=100.0)
    assert truth.table["sigma_fit"][0] == pytest.approx(1.08806, abs=1e-4)
    assert truth.xy[0] == pytest.approx([322.918215193498 / 100 - 0.5, 2211.43464302412 / 100 - 0.5])
    assert truth.table["frame"][0] == 0
    assert truth.table["frame"].max() == 499
    assert len(truth) == 21_133
    assert truth.table["bkg_std"][0] == 8.0
