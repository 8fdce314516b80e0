"""The IDX reader and the MNIST loader, on small malformed files and on the real ones."""

import gzip
import os
import struct
import sys
import tracemalloc

import numpy as np
import pytest

from fastsbl.datasets import DigitImages, _download, fetch_mnist, mnist_dictionary, read_idx
from fastsbl.datasets.mnist import FILES, MIRRORS

needs_data = pytest.mark.skipif(
    not os.path.isdir(os.path.join(os.environ.get("FASTSBL_DATA", ""), "mnist")),
    reason="set FASTSBL_DATA to a folder with mnist/ to run this",
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    """Keep the user's cache and the network out of the tests."""

    def refuse(url, folder, name):
        raise OSError(f"no network ({url})")

    monkeypatch.setattr(_download, "_retrieve", refuse)
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path / "cache"))


def idx(array, dims=None, kind=8):
    dims = array.shape if dims is None else dims
    return bytes([0, 0, kind, len(dims)]) + struct.pack(f">{len(dims)}I", *dims) + array.tobytes()


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_read_idx_gives_back_what_was_written(tmp_path, pack):
    path = tmp_path / "images"  # compression is told by content, not by name
    path.write_bytes(pack(idx(IMAGES)))
    got = read_idx(path, shape=(2, 3, 4))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, IMAGES)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"expected an IDX file .*got nothing"),
        (b"\0\0\x08", r"expected an IDX file .*got 00 00 08"),
        (b"<html>not here</html>", r"expected an IDX file .*got 3c 68 74 6d"),
        (idx(IMAGES, kind=0x0D), r"expected IDX values of type 0x08 .*got 0x0d"),
        (idx(IMAGES)[:9], r"expected 12 bytes of dimensions, the file ends after 5"),
        (idx(IMAGES)[:-1], r"announces \(2, 3, 4\), that is 24 bytes of values, but the file holds only 23"),
        (idx(IMAGES) + b"\0", r"announces 24 bytes of values, but the file goes on"),
        (idx(IMAGES, dims=(2, 3, 3)), r"announces 18 bytes of values, but the file goes on"),
        (idx(IMAGES, dims=(2, 3, 2**32 - 1)), r"bytes of values, but the file holds only 24"),
    ],
)
def test_read_idx_refuses_malformed_files(tmp_path, content, message, pack):
    path = tmp_path / "bad-idx3-ubyte"
    path.write_bytes(pack(content))
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3), r"expected 2 dimensions, the header announces 3"),
        ((5, 3, 4), r"expected the dimensions \(5, 3, 4\), the header announces \(2, 3, 4\)"),
    ],
)
def test_read_idx_checks_the_expected_shape(tmp_path, shape, message):
    path = tmp_path / "images"
    path.write_bytes(idx(IMAGES))
    with pytest.raises(ValueError, match=message):
        read_idx(path, shape=shape)


def test_a_header_claiming_terabytes_costs_no_memory(tmp_path):
    path = tmp_path / "images"
    path.write_bytes(idx(IMAGES, dims=(2**32 - 1, 2**12, 2**12)))
    tracemalloc.start()
    with pytest.raises(ValueError, match="holds only 24"):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


@pytest.mark.parametrize("damage", [lambda z: z[:-12], lambda z: z[:20] + b"\xff\xff\xff" + z[23:]])
def test_damaged_gzip_is_named(tmp_path, damage):
    path = tmp_path / "images.gz"
    path.write_bytes(damage(gzip.compress(idx(IMAGES), mtime=0)))
    with pytest.raises(ValueError, match="expected a whole gzip file"):
        read_idx(path)


def test_absent_files_are_all_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTSBL_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError) as caught:
        fetch_mnist(tmp_path / "home")
    message = str(caught.value)
    for name, _, _ in FILES.values():
        assert f"{name}.gz" in message
    for place in (tmp_path / "home", tmp_path / "data" / "mnist", tmp_path / "cache"):
        assert str(place) in message
    for mirror in MIRRORS:
        assert mirror in message
    assert "FASTSBL_DATA" in message
    assert "no network" in message


def test_without_pooch_the_message_says_so(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FASTSBL_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match="downloads need pooch: pip install"):
        fetch_mnist()


def test_a_file_that_is_not_the_original_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("FASTSBL_DATA", raising=False)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((60_000, 28, 28), np.uint8)))
    for name, shape, _ in list(FILES.values())[1:]:
        (tmp_path / name).write_bytes(idx(np.zeros(shape, np.uint8)))
    with pytest.raises(ValueError, match=r"not the original MNIST file: expected SHA-256 ba8910.*got"):
        fetch_mnist(tmp_path)


def test_a_bad_mirror_is_passed_over(tmp_path, monkeypatch):
    """The second mirror is asked when the first sends something else; nothing half-made stays behind."""
    asked = []

    def retrieve(url, folder, name):
        asked.append(url)
        path = folder / name
        path.write_bytes(b"error page" if url.startswith("https://first") else b"good")
        return path

    def check(path):
        if path.read_bytes() != b"good":
            raise ValueError("not the file")

    monkeypatch.setattr(_download, "_retrieve", retrieve)
    target = tmp_path / "new" / "file"
    _download.download(["https://first/file", "https://second/file"], target, check)
    assert asked == ["https://first/file", "https://second/file"]
    assert target.read_bytes() == b"good"
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    with pytest.raises(_download.DownloadError, match="https://first/file: not the file"):
        _download.download(["https://first/file"], tmp_path / "other", check)
    assert not (tmp_path / "other").exists()


def test_the_bunch_is_frozen_and_reads_both_ways():
    one = np.zeros(1, np.uint8)
    bunch = DigitImages(IMAGES, one, IMAGES, one)
    assert bunch["train_images"] is bunch.train_images
    assert dict(bunch).keys() == {"train_images", "train_labels", "test_images", "test_labels"}
    with pytest.raises(AttributeError):
        bunch.train_images = one
    with pytest.raises(KeyError):
        bunch["__class__"]


@needs_data
def test_the_real_files():
    mnist = fetch_mnist()
    assert mnist.train_images.shape == (60_000, 28, 28)
    assert mnist.test_images.shape == (10_000, 28, 28)
    assert np.bincount(mnist.train_labels).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert np.bincount(mnist.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@needs_data
def test_the_real_files_unpacked_and_found_first_in_data_home(tmp_path, monkeypatch):
    source = os.path.join(os.environ["FASTSBL_DATA"], "mnist")
    for name, _, _ in FILES.values():
        with gzip.open(os.path.join(source, f"{name}.gz")) as packed:
            (tmp_path / name).write_bytes(packed.read())
    monkeypatch.setenv("FASTSBL_DATA", "/nonexistent")
    assert fetch_mnist(tmp_path).test_labels[:5].tolist() == [7, 2, 1, 0, 4]


@needs_data
def test_a_truncated_real_file_is_refused(tmp_path):
    source = os.path.join(os.environ["FASTSBL_DATA"], "mnist", "train-images-idx3-ubyte.gz")
    with open(source, "rb") as packed:
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(packed.read(100_000))
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz: expected a whole gzip file"):
        fetch_mnist(tmp_path)


@needs_data
def test_the_papers_dictionary():
    mnist = fetch_mnist()
    matrix, labels = mnist_dictionary(mnist)
    assert matrix.shape == (784, 10_000)
    assert matrix.flags.f_contiguous
    np.testing.assert_array_equal(labels, np.repeat(np.arange(10), 1000))
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1, rtol=1e-12)
    generator = np.random.default_rng(0)
    first = generator.choice(np.flatnonzero(mnist.train_labels == 0), 1000, replace=False)
    second = generator.choice(np.flatnonzero(mnist.train_labels == 1), 1000, replace=False)
    for column, image in ((0, first[0]), (999, first[-1]), (1000, second[0])):
        pixels = mnist.train_images[image].ravel() / 1.0
        np.testing.assert_allclose(matrix[:, column], pixels / np.sqrt(pixels @ pixels), rtol=1e-12)
