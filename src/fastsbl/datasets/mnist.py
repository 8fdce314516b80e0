"""The MNIST digits, read from their four original IDX files."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._download import DownloadError, download
from ._files import (
    DATA_VARIABLE,
    Bunch,
    PathLike,
    download_folder,
    find_file,
    open_binary,
    read_at_most,
    search_folders,
)

Bytes: TypeAlias = NDArray[np.uint8]

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

# name, shape, SHA-256 of the decompressed file
FILES: dict[str, tuple[str, tuple[int, ...], str]] = {
    "train_images": (
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train_labels": (
        "train-labels-idx1-ubyte",
        (60_000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "test_images": (
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "test_labels": (
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}


@dataclass(frozen=True, repr=False)
class DigitImages(Bunch):
    """Images of handwritten digits and their labels, split into a training and a test set.

    Attributes
    ----------
    train_images, test_images : ndarray of uint8, shape (n_images, height, width)
        Grey values; MNIST uses 0 to 255.
    train_labels, test_labels : ndarray of uint8, shape (n_images,)
        The digit shown, 0 to 9.

    Examples
    --------
    >>> from fastsbl.datasets import load_small_digits
    >>> digits = load_small_digits()
    >>> digits.train_images.shape, digits["test_images"].shape
    ((1437, 8, 8), (360, 8, 8))
    """

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes

    def __repr__(self) -> str:
        """Show the sizes, not the pixels."""
        return f"DigitImages(train_images={self.train_images.shape}, test_images={self.test_images.shape})"


def read_idx(path: PathLike, *, shape: tuple[int, ...] | None = None) -> Bytes:
    """Read an IDX file of unsigned bytes, gzipped or not, and check it thoroughly.

    Parameters
    ----------
    path : str or path
        The file.
    shape : tuple of int, optional
        The dimensions that the header must announce.

    Returns
    -------
    ndarray of uint8
        The array, with as many axes as the file has dimensions.

    Raises
    ------
    ValueError
        If the file is not IDX, holds another type, has other dimensions than ``shape``, or is shorter or
        longer than its header says. Memory stays proportional to what the file really holds.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fastsbl.datasets import read_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "labels-idx1-ubyte"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]))
    ...     read_idx(path)
    array([5, 0, 4], dtype=uint8)
    """
    return _read_idx(Path(path), shape, digest=None)


def fetch_mnist(data_home: PathLike | None = None) -> DigitImages:
    """Load MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28 pixels.

    The four files are looked for in ``data_home``, in the folder named by the environment variable
    ``FASTSBL_DATA``, in the user's cache folder (and in the ``mnist`` subfolder of each), gzipped or not, and
    downloaded (to ``data_home``, else to the cache) when they are in none of them.

    Parameters
    ----------
    data_home : str or path, optional
        A folder of your own to look in first.

    Returns
    -------
    DigitImages
        ``train_images`` (60000, 28, 28), ``train_labels`` (60000,), ``test_images`` (10000, 28, 28) and
        ``test_labels`` (10000,), all uint8.

    Raises
    ------
    FileNotFoundError
        If a file is absent and cannot be downloaded; the message says which files to put where.
    ValueError
        If a file is damaged, or is not MNIST's (the SHA-256 of the decompressed content is checked). Use
        `read_idx` for IDX files of your own.

    Examples
    --------
    >>> from fastsbl.datasets import fetch_mnist, load_small_digits
    >>> mnist = fetch_mnist()  # doctest: +SKIP

    The digits bundled with scikit-learn have the same form and need no file:

    >>> load_small_digits().keys() == ('train_images', 'train_labels', 'test_images', 'test_labels')
    True
    """
    paths = _locate(data_home)
    arrays = {field: _read_idx(paths[field], shape, digest=digest) for field, (_, shape, digest) in FILES.items()}
    return DigitImages(**arrays)


def _locate(data_home: PathLike | None) -> dict[str, Path]:
    folders = search_folders(data_home, ("mnist",))
    found: dict[str, Path] = {}
    for field, (name, _, _) in FILES.items():
        path = find_file(folders, (f"{name}.gz", name))
        if path is None:
            path = _download_one(field, data_home, folders)
        found[field] = path
    return found


def _download_one(field: str, data_home: PathLike | None, folders: list[Path]) -> Path:
    name, shape, digest = FILES[field]

    def check(path: Path) -> None:
        _read_idx(path, shape, digest=digest)

    target = download_folder(data_home, "mnist") / f"{name}.gz"
    try:
        return download([f"{mirror}{name}.gz" for mirror in MIRRORS], target, check)
    except DownloadError as error:
        wanted = ", ".join(f"{name}.gz" for name, _, _ in FILES.values())
        raise FileNotFoundError(
            f"MNIST: {name} was not found and could not be downloaded. Put the four files {wanted} (or the "
            f"same without .gz) into one folder and pass it as data_home, or name it in the environment "
            f"variable {DATA_VARIABLE}. Looked in: {', '.join(map(str, folders))}. Download: {error}"
        ) from error


def _read_idx(path: Path, shape: tuple[int, ...] | None, *, digest: str | None) -> Bytes:
    with open_binary(path) as file:
        magic = bytes(read_at_most(file, 4))
        if len(magic) < 4 or magic[:2] != b"\0\0" or magic[3] == 0:
            raise ValueError(
                f"{path}: expected an IDX file (first bytes 00 00 08 ..), got {magic.hex(' ') or 'nothing'}"
            )
        if magic[2] != 8:
            raise ValueError(f"{path}: expected IDX values of type 0x08 (unsigned byte), got 0x{magic[2]:02x}")
        rank = magic[3]
        if shape is not None and rank != len(shape):
            raise ValueError(f"{path}: expected {len(shape)} dimensions, the header announces {rank}")
        header = bytes(read_at_most(file, 4 * rank))
        if len(header) < 4 * rank:
            raise ValueError(f"{path}: expected {4 * rank} bytes of dimensions, the file ends after {len(header)}")
        dims: tuple[int, ...] = struct.unpack(f">{rank}I", header)
        if shape is not None and dims != shape:
            raise ValueError(f"{path}: expected the dimensions {shape}, the header announces {dims}")
        size = math.prod(dims)
        content = read_at_most(file, size)
        if len(content) < size:
            raise ValueError(
                f"{path}: the header announces {dims}, that is {size} bytes of values, but the file holds "
                f"only {len(content)}"
            )
        if file.read(1):
            raise ValueError(f"{path}: the header announces {size} bytes of values, but the file goes on after them")
    if digest is not None:
        got = hashlib.sha256(magic + header)
        got.update(content)
        if got.hexdigest() != digest:
            raise ValueError(
                f"{path}: the content is not the original MNIST file: expected SHA-256 {digest} "
                f"(decompressed), got {got.hexdigest()}"
            )
    return np.frombuffer(content, dtype=np.uint8).reshape(dims)
