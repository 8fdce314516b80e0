"""Reader of the UCI bag-of-words layout: streamed, strict, memory bounded by what the file really holds."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from . import _kernels
from ._files import open_binary

BLOCK = 1 << 20
LONGEST_LINE = 1 << 12
LONGEST_WORD = 256
UINT16_MAX = 2**16 - 1

FIELDS = ("document", "word", "count")


class Header(NamedTuple):
    """The three header lines."""

    n_documents: int
    n_words: int
    n_entries: int


class Triples(NamedTuple):
    """The parsed body, in pieces."""

    words: list[NDArray[np.int32]]
    counts: list[NDArray[Any]]
    run_documents: NDArray[np.int32]
    run_starts: NDArray[np.int64]
    n_entries: int
    is_sorted: bool


def read_docword(path: Path) -> csr_array:
    """Parse a docword file, gzipped or plain, into counts (CSR, documents x words, int32)."""
    with open_binary(path) as file:
        header, rest = _read_header(path, file)
        triples = _read_triples(path, file, header, rest)
    if triples.n_entries < header.n_entries:
        raise ValueError(
            f"{path}: the header announces {header.n_entries:,} entries ({header.n_documents:,} documents, "
            f"{header.n_words:,} words), but the file holds only {triples.n_entries:,}: it is truncated, "
            f"or its header belongs to another file"
        )
    if header.n_documents > max(1_000_000, 10 * triples.n_entries):
        raise ValueError(
            f"{path}: the header announces {header.n_documents:,} documents, but the file holds only "
            f"{triples.n_entries:,} entries"
        )
    if triples.is_sorted:
        return _assemble_sorted(header, triples)
    return _assemble_unsorted(header, triples)


def read_vocabulary(path: Path, n_words: int) -> NDArray[np.str_]:
    """Read one word per line; there must be exactly ``n_words`` of them."""
    words: list[str] = []
    with open_binary(path) as file:
        while line := file.readline(4 * LONGEST_WORD + 2):
            if len(words) == n_words:
                if line.strip():
                    raise ValueError(f"{path}: expected {n_words:,} words, as the docword file says; there are more")
                continue
            try:
                word = line.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {len(words) + 1}: expected text in UTF-8 ({error})") from error
            if not 0 < len(word) <= LONGEST_WORD:
                raise ValueError(
                    f"{path}, line {len(words) + 1}: expected a word of 1 to {LONGEST_WORD} characters, "
                    f"got {word[:40]!r}{'...' if word else ''}"
                )
            words.append(word)
    if len(words) < n_words:
        raise ValueError(f"{path}: expected {n_words:,} words, as the docword file says, got {len(words):,}")
    return np.array(words, dtype=np.str_)


def _read_header(path: Path, file: IO[bytes]) -> tuple[Header, bytes]:
    """Read the three numbers; return them and what was read of the lines after them."""
    start = file.read(BLOCK // 4)
    *lines, rest = start.split(b"\n", 3)
    values = []
    for number, (name, lowest) in enumerate((("documents", 1), ("words", 1), ("entries", 0))):
        line = lines[number].strip() if number < len(lines) else rest.strip() if number == len(lines) else b""
        if not (line.removeprefix(b"-").isdigit() and len(line) <= 20):
            raise ValueError(
                f"{path}, line {number + 1}: expected the number of {name} (three header lines: documents, "
                f"words, entries), got {_shown(line)}"
            )
        value = int(line)
        if value < lowest:
            raise ValueError(f"{path}, line {number + 1}: expected a number of {name} >= {lowest}, got {value}")
        if name != "entries" and value > _kernels.INT32_MAX:
            raise ValueError(
                f"{path}, line {number + 1}: expected at most {_kernels.INT32_MAX:,} {name}, got {value:,}"
            )
        values.append(value)
    return Header(*values), rest if len(lines) == 3 else b""


def _read_triples(path: Path, file: IO[bytes], header: Header, rest: bytes) -> Triples:
    text = np.empty(BLOCK + LONGEST_LINE, np.uint8)
    view = memoryview(text)  # type: ignore[arg-type]
    capacity = text.size // 6 + 1  # the shortest line is "1 1 1\n"
    words = np.empty(capacity, np.int32)
    counts = np.empty(capacity, np.int32)
    run_documents = np.empty(capacity, np.int32)
    run_starts = np.empty(capacity, np.int64)
    limits = np.array([header.n_documents, header.n_words, _kernels.INT32_MAX], np.int64)
    state = _kernels.new_state()

    word_pieces: list[NDArray[np.int32]] = []
    count_pieces: list[NDArray[Any]] = []
    document_pieces: list[NDArray[np.int32]] = []
    start_pieces: list[NDArray[np.int64]] = []
    filled = len(rest)
    view[:filled] = rest
    at_end = False
    while not at_end:
        got = file.readinto(view[filled : filled + BLOCK]) if filled < LONGEST_LINE else 0  # type: ignore[attr-defined]
        at_end = filled < LONGEST_LINE and got == 0
        filled += got
        if at_end and filled:
            text[filled] = 10
            filled += 1
        whole = bytes(view[:filled]).rfind(b"\n") + 1
        state[_kernels.LARGEST] = 0
        found = _kernels.parse_triples(text, whole, limits, state, words, counts, run_documents, run_starts)
        if state[_kernels.ERROR] != _kernels.FINE:
            _refuse(path, state, limits)
        if filled - whole >= LONGEST_LINE:
            raise ValueError(
                f"{path}, line {state[_kernels.LINE] + 1}: expected 'document word count', got a line "
                f"longer than {LONGEST_LINE} characters"
            )
        if state[_kernels.ENTRIES] > header.n_entries:
            raise ValueError(
                f"{path}: the header announces {header.n_entries:,} entries, but the file goes on after them "
                f"(line {header.n_entries + 4:,} and later)"
            )
        small = state[_kernels.LARGEST] <= UINT16_MAX
        word_pieces.append(words[:found].copy())
        count_pieces.append(counts[:found].astype(np.uint16 if small else np.int32))
        runs = state[_kernels.RUNS]
        document_pieces.append(run_documents[:runs].copy())
        start_pieces.append(run_starts[:runs].copy())
        view[: filled - whole] = view[whole:filled]
        filled -= whole
    return Triples(
        word_pieces,
        count_pieces,
        np.concatenate(document_pieces),
        np.concatenate(start_pieces),
        int(state[_kernels.ENTRIES]),
        bool(state[_kernels.SORTED]),
    )


def _assemble_sorted(header: Header, triples: Triples) -> csr_array:
    """Build the rows directly: the triples already are in CSR order."""
    index_type = np.int32 if triples.n_entries <= _kernels.INT32_MAX else np.int64
    indptr = np.zeros(header.n_documents + 1, index_type)
    lengths = np.diff(triples.run_starts, append=triples.n_entries)
    np.add.at(indptr, triples.run_documents.astype(np.int64) + 1, lengths.astype(index_type))
    np.cumsum(indptr, out=indptr)
    indices = _joined(triples.words, np.dtype(index_type))
    data = _joined(triples.counts, np.dtype(np.int32))
    matrix = csr_array((data, indices, indptr), shape=(header.n_documents, header.n_words))
    matrix.has_canonical_format = True
    return matrix


def _assemble_unsorted(header: Header, triples: Triples) -> csr_array:
    """Sort the triples by document and word; counts of the same pair are added."""
    lengths = np.diff(triples.run_starts, append=triples.n_entries)
    documents = np.repeat(triples.run_documents, lengths)
    total = sum(int(piece.sum(dtype=np.int64)) for piece in triples.counts)
    counts = _joined(triples.counts, np.dtype(np.int32 if total <= _kernels.INT32_MAX else np.int64))
    words = _joined(triples.words, np.dtype(np.int32))
    matrix = coo_array((counts, (documents, words)), shape=(header.n_documents, header.n_words)).tocsr()
    matrix.sum_duplicates()
    if matrix.data.dtype != np.int32 and matrix.data.max(initial=0) <= _kernels.INT32_MAX:
        matrix = matrix.astype(np.int32)
    return matrix


def _joined(pieces: list[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Concatenate and release the pieces one by one, so that both copies never exist in full."""
    whole = np.empty(sum(len(piece) for piece in pieces), dtype)
    end = len(whole)
    while pieces:
        piece = pieces.pop()
        whole[end - len(piece) : end] = piece
        end -= len(piece)
    return whole


def _refuse(path: Path, state: NDArray[np.int64], limits: NDArray[np.int64]) -> NoReturn:
    """Say which line is wrong, what was expected there and what came."""
    field = int(state[_kernels.FIELD])
    name = FIELDS[min(field, 2)]
    value = int(state[_kernels.VALUE])
    sentence = {
        _kernels.NOT_A_NUMBER: f"expected a whole number as the {name}, got other characters",
        _kernels.NEGATIVE: f"expected a {name} >= 1, got a negative number",
        _kernels.ZERO: f"expected a {name} >= 1, got 0",
        _kernels.TOO_LARGE: f"expected a {name} <= {limits[field]:,}, got "
        + (f"{value:,}" if value <= _kernels.INT32_MAX else "a larger number"),
        _kernels.TOO_FEW_FIELDS: f"expected 'document word count', got only {field} of the three numbers",
        _kernels.TOO_MANY_FIELDS: "expected 'document word count', got more than three fields",
    }[int(state[_kernels.ERROR])]
    raise ValueError(f"{path}, line {state[_kernels.LINE]:,}: {sentence}")


def _shown(line: bytes) -> str:
    return repr(line[:40].decode("latin-1")) if line else "nothing"
