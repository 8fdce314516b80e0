"""``fastsbl denoise`` on single images, several, and frames of stacks."""

import numpy as np
import pytest

from fastsbl.imaging import denoise_details, make_starfield, read_image, write_image

pytest.importorskip("astropy", reason="image files need the extra apps")


@pytest.fixture(scope="module")
def field():
    return make_starfield(snr_db=15.0, rng=5)


def test_the_image_is_that_of_the_library(fastsbl, tmp_path, field):
    pytest.importorskip("jinja2")
    write_image(tmp_path / "a.fits", field.image)
    outcome = fastsbl("denoise", "a.fits", "--std", "--report", "r.html")
    assert outcome.code == 0, outcome.err
    expected = denoise_details(field.image)
    np.testing.assert_allclose(read_image(tmp_path / "denoised.fits").array, expected.image)
    np.testing.assert_allclose(read_image(tmp_path / "denoised-std.fits").array, expected.std)
    assert "wrote denoised-std.fits" in outcome.out
    assert "a.fits" in (tmp_path / "r.html").read_text()
    assert np.mean((expected.image - field.clean) ** 2) < 0.1 * field.noise_variance


def test_several_images_go_into_a_folder(fastsbl, tmp_path, field):
    write_image(tmp_path / "a.fits", field.image)
    np.save(tmp_path / "stack.npy", np.stack([field.image, field.image[::-1], field.image]))
    outcome = fastsbl("denoise", "a.fits", "stack.npy", "--frames", "0:2", "--method", "refined", "--json")
    assert outcome.code == 0, outcome.err
    assert [one["image"] for one in outcome.data["images"]] == ["a.fits", "stack.npy frame 0", "stack.npy frame 1"]
    written = sorted(path.name for path in (tmp_path / "denoised").iterdir())
    assert written == ["a.fits", "stack-00000.fits", "stack-00001.fits"]
    first = read_image(tmp_path / "denoised" / "a.fits").array
    np.testing.assert_allclose(read_image(tmp_path / "denoised" / "stack-00000.fits").array, first)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("a.fits", "--out", "folder"), 2, "--out must name an image, such as a.fits; got folder"),
        (("a.fits", "a.fits", "--out", "b.fits"), 2, "--out must name a folder, for several"),
        (("missing.fits",), 1, "no such file: missing.fits"),
        (("a.fits", "--mask", "small.npy"), 1, "a.fits: mask must be"),
        (("a.fits", "--out", "a.fits"), 1, "a.fits exists; --force replaces it"),
        (("a.fits", "--out", "x.fits", "--report", "x.fits"), 2, "the places to write to must differ"),
        (("a.fits", "--method", "magic"), 2, "'magic' is not one of"),
    ],
)
def test_wrong_use_is_said_in_a_sentence(fastsbl, tmp_path, field, arguments, code, text):
    write_image(tmp_path / "a.fits", field.image)
    np.save(tmp_path / "small.npy", np.zeros((2, 2)))
    before = sorted(tmp_path.iterdir())
    outcome = fastsbl("denoise", *arguments)
    assert outcome.code == code, outcome.err
    assert text in outcome.err.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.filterwarnings("always::fastsbl.imaging.NotPointSourcesWarning")
def test_other_images_come_back_with_a_warning(fastsbl, tmp_path):
    rng = np.random.default_rng(0)
    checks = 40.0 * (np.indices((20, 20)).sum(axis=0) // 4 % 2) + rng.normal(size=(20, 20))
    np.save(tmp_path / "checks.npy", checks)
    outcome = fastsbl("denoise", "checks.npy", "--noise-variance", "1", "--out", "c.npy", "--method", "refined")
    assert outcome.code == 0, outcome.err
    assert outcome.sentence().startswith("fastsbl: warning: the image holds more than point sources")
    assert np.abs(np.load(tmp_path / "c.npy") - checks).mean() < 1.0
