"""Bag-of-words corpora in the UCI layout: the New York Times, KOS, NIPS, Enron, or a file of your own."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ._docword import UINT16_MAX, read_docword, read_vocabulary
from ._download import DownloadError, download
from ._files import (
    DATA_VARIABLE,
    Bunch,
    PathLike,
    download_folder,
    find_file,
    search_folders,
    user_cache,
)

logger = logging.getLogger(__name__)

MIRRORS = ("https://archive.ics.uci.edu/ml/machine-learning-databases/bag-of-words/",)
DOWNLOADABLE = ("nytimes", "kos", "nips", "enron")
NAMES = (*DOWNLOADABLE, "nyt8447")
CACHE_VERSION = 1
SMALLEST_CACHED = 1 << 20  # a smaller file parses in a tenth of a second


@dataclass(frozen=True, repr=False)
class BagOfWords(Bunch):
    """Word counts of a corpus.

    Attributes
    ----------
    counts : csr_array, shape (n_documents, n_words)
        How often each word occurs in each document.
    vocabulary : ndarray of str, shape (n_words,)
        The words, in the order of the columns.

    Examples
    --------
    >>> from fastsbl.datasets import make_zipf_corpus
    >>> corpus = make_zipf_corpus(n_words=50, n_documents=20, rng=0)
    >>> corpus
    BagOfWords(20 documents x 50 words, ... nonzeros)
    >>> corpus.counts.shape, corpus.vocabulary[:2].tolist()
    ((20, 50), ['word0001', 'word0002'])
    """

    counts: csr_array
    vocabulary: NDArray[np.str_]

    def __repr__(self) -> str:
        """Show the size, not the contents."""
        documents, words = self.counts.shape
        return f"BagOfWords({documents:,} documents x {words:,} words, {self.counts.nnz:,} nonzeros)"


def fetch_bag_of_words(
    name_or_path: PathLike, data_home: PathLike | None = None, *, download_if_missing: bool = True
) -> BagOfWords:
    r"""Load a corpus stored in the UCI bag-of-words layout.

    The layout is three header lines (numbers of documents, words and entries) and then one line ``document
    word count`` per entry, with numbers from 1, gzipped or plain; the vocabulary lies beside it, one word
    per line. Entries may come in any order; counts of a repeated pair are added. The parsed matrix is kept
    in the user's cache folder (``FASTSBL_CACHE`` moves it) and is read from there as long as the size and
    the modification time of the source file stay the same.

    Parameters
    ----------
    name_or_path : str or path
        "nytimes" (300,000 documents), "kos", "nips", "enron" (downloaded when absent), "nyt8447" (a part of
        the New York Times corpus that you provide), or the path of a docword file. A name NAME stands for
        ``docword.NAME.txt.gz`` (or without .gz) in ``data_home``, in the folder named by the environment
        variable ``FASTSBL_DATA``, in the user's cache folder, or in the ``bag_of_words``, ``nytimes`` or
        NAME subfolder of each.
    data_home : str or path, optional
        A folder of your own to look in first; downloads go there.
    download_if_missing : bool, default=True
        Whether to download a corpus that is not there; otherwise that is a FileNotFoundError.

    Returns
    -------
    BagOfWords
        ``counts``, CSR of int32, shape (n_documents, n_words), and ``vocabulary``, shape (n_words,).

    Raises
    ------
    FileNotFoundError
        If the corpus or its vocabulary is absent; the message says which files to put where.
    ValueError
        If a file is malformed: truncated, longer than its header says, out of range, not numeric, or with a
        vocabulary of another length. Memory stays proportional to the entries the file really holds.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fastsbl.datasets import fetch_bag_of_words
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = pathlib.Path(folder)
    ...     _ = (home / "docword.toy.txt").write_text("2\n3\n3\n1 1 4\n1 3 1\n2 2 5\n")
    ...     _ = (home / "vocab.toy.txt").write_text("lambda\ngamma\ntheta\n")
    ...     corpus = fetch_bag_of_words(home / "docword.toy.txt")
    >>> corpus.counts.toarray()
    array([[4, 0, 1],
           [0, 5, 0]], dtype=int32)
    >>> corpus.vocabulary.tolist()
    ['lambda', 'gamma', 'theta']
    """
    docword = _locate(name_or_path, data_home, download_if_missing)
    counts = _read_cached(docword)
    vocabulary = _find_vocabulary(docword)
    if vocabulary is None:
        wanted = docword.parent / _vocabulary_names(docword)[0]
        raise FileNotFoundError(
            f"{docword}: its vocabulary is not beside it; expected {wanted} (or with .gz), "
            f" with one word per line, {counts.shape[1]:,} in all"
        )
    return BagOfWords(counts, read_vocabulary(vocabulary, counts.shape[1]))


def _locate(name_or_path: PathLike, data_home: PathLike | None, download_if_missing: bool) -> Path:
    name = os.fspath(name_or_path)
    if name not in NAMES:
        path = Path(name).expanduser()
        if path.is_file():
            return path
        if path.exists():
            raise ValueError(f"name_or_path: expected a docword file, got the folder {path}")
        if isinstance(name_or_path, str) and path.name == name and not path.suffix:
            known = ", ".join(map(repr, NAMES))
            raise ValueError(f"name_or_path: expected {known} or the path of a docword file, got {name!r}")
        raise FileNotFoundError(f"name_or_path: there is no file {path}")
    folders = search_folders(data_home, dict.fromkeys(("bag_of_words", "nytimes", name)))
    found = find_file(folders, _with_and_without_gz(f"docword.{name}.txt"))
    return found or _download(name, data_home, folders, allowed=download_if_missing)


def _download(name: str, data_home: PathLike | None, folders: list[Path], *, allowed: bool) -> Path:
    reason = "this corpus is not offered for download" if allowed else "not asked for (download_if_missing=False)"
    if name in DOWNLOADABLE and allowed:
        folder = download_folder(data_home, "bag_of_words")
        try:
            for file, check in (
                (f"vocab.{name}.txt", _check_vocabulary),
                (f"docword.{name}.txt.gz", _check_docword),
            ):
                if not (folder / file).is_file():
                    download([mirror + file for mirror in MIRRORS], folder / file, check)
            return folder / f"docword.{name}.txt.gz"
        except DownloadError as error:
            reason = str(error)
    raise FileNotFoundError(
        f"{name}: docword.{name}.txt.gz was not found and could not be downloaded. Put docword.{name}.txt.gz "
        f"and vocab.{name}.txt (UCI bag-of-words layout) into one folder and pass it as data_home, or name "
        f"it in the environment variable {DATA_VARIABLE}. Looked in: {', '.join(map(str, folders))}. "
        f"Download: {reason}"
    )


def _check_docword(path: Path) -> None:
    read_docword(path)


def _check_vocabulary(path: Path) -> None:
    """Refuse a server's error page; the number of words is checked on reading."""
    with path.open("rb") as raw:
        if not raw.read(1) or b"<" in raw.read(256):
            raise ValueError(f"{path.name}: expected one word per line, got something else")


def _with_and_without_gz(name: str) -> tuple[str, str]:
    return f"{name}.gz", name


def _vocabulary_names(docword: Path) -> list[str]:
    """Return the names a vocabulary may have: docword.a.b.txt goes with vocab.a.b.txt, else vocab.a.txt."""
    stem = docword.name.removesuffix(".gz").removesuffix(".txt").removeprefix("docword.")
    parts = stem.split(".")
    return [f"vocab.{'.'.join(parts[:k])}.txt" for k in range(len(parts), 0, -1)]


def _find_vocabulary(docword: Path) -> Path | None:
    names = [each for name in _vocabulary_names(docword) for each in _with_and_without_gz(name)]
    return find_file([docword.parent], names)


def _read_cached(docword: Path) -> csr_array:
    """Return the counts from the cache when it belongs to this very file, else parse and store them."""
    status = docword.stat()
    if status.st_size < SMALLEST_CACHED:
        return read_docword(docword)
    source = np.array([CACHE_VERSION, status.st_size, status.st_mtime_ns], np.int64)
    key = hashlib.sha256(os.fsencode(docword.resolve())).hexdigest()[:16]
    cached = user_cache() / "parsed" / f"{docword.name.removesuffix('.gz')}-{key}.npz"
    counts = _load(cached, source)
    if counts is None:
        counts = read_docword(docword)
        _store(cached, source, counts)
    return counts


def _load(cached: Path, source: NDArray[np.int64]) -> csr_array | None:
    if not cached.is_file():
        return None
    try:
        with cached.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if not np.array_equal(stored["source"], source):
                return None
            data = stored["data"]
            if data.dtype == np.uint16:
                data = data.astype(np.int32)
            rows, columns = stored["shape"]
            counts = csr_array((data, stored["indices"], stored["indptr"]), shape=(int(rows), int(columns)))
        counts.check_format(full_check=True)
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        logger.warning("the cached file %s cannot be read and is made anew (%s)", cached, error)
        return None
    return counts


def _store(cached: Path, source: NDArray[np.int64], counts: csr_array) -> None:
    """Write the cache under its name only when it is whole; a cache that cannot be written is no error."""
    small = counts.data.max(initial=0) <= UINT16_MAX
    arrays: dict[str, Any] = {
        "source": source,
        "shape": np.array(counts.shape, np.int64),
        "indptr": counts.indptr,
        "indices": counts.indices,
        "data": counts.data.astype(np.uint16) if small else counts.data,
    }
    try:
        _write_atomically(cached, lambda file: np.savez(file, **arrays))
    except OSError as error:
        logger.warning("the parsed corpus could not be kept in %s (%s)", cached, error)


def _write_atomically(target: Path, write: Callable[[Any], None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
