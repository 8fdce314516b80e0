"""Compiled byte parser for the UCI bag-of-words layout."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

# Entries of the state that the parser carries from one block of lines to the next.
LINE, ENTRIES, LAST_DOCUMENT, LAST_WORD, SORTED, RUNS, LARGEST, ERROR, FIELD, VALUE, STATE_SIZE = range(11)

# Reasons for stopping, found in state[ERROR].
(FINE, NOT_A_NUMBER, NEGATIVE, ZERO, TOO_LARGE, TOO_FEW_FIELDS, TOO_MANY_FIELDS) = range(7)

INT32_MAX = 2**31 - 1


@numba.njit(cache=True, nogil=True)
def parse_triples(
    text: NDArray[np.uint8],
    length: int,
    limits: NDArray[np.int64],
    state: NDArray[np.int64],
    words: NDArray[np.int32],
    counts: NDArray[np.int32],
    run_documents: NDArray[np.int32],
    run_starts: NDArray[np.int64],
) -> int:
    """Parse whole lines ``document word count`` out of ``text[:length]``; return how many triples were found.

    Parameters
    ----------
    text : (capacity,) uint8
        Text; ``text[:length]`` must end with a line feed.
    length : int
        How much of ``text`` to read.
    limits : (3,) int64
        Largest allowed document, word and count.
    state : (STATE_SIZE,) int64
        Carried between calls; on an error, says the line, the field and the offending value.
    words, counts : (capacity // 6 + 1,) int32
        Filled with the zero-based word and the count of each triple.
    run_documents, run_starts : (capacity // 6 + 1,)
        A run is a stretch of triples of one document: its zero-based document, and the number (over the whole
        file) of its first triple. A run never crosses calls.
    """
    values = np.zeros(3, np.int64)
    found = 0
    runs = 0
    previous_document = state[LAST_DOCUMENT]
    previous_word = state[LAST_WORD]
    run_document = -1
    position = 0
    while position < length:
        state[LINE] += 1
        field = 0
        while True:
            byte = text[position]
            if byte == 10:  # line feed
                position += 1
                break
            if byte == 32 or byte == 9 or byte == 13:  # space, tab, carriage return
                position += 1
                continue
            if field == 3:
                state[ERROR] = TOO_MANY_FIELDS
                return found
            value = np.int64(0)
            digits = 0
            while 48 <= byte <= 57:
                if value <= INT32_MAX:  # beyond it the value is refused anyway: do not overflow
                    value = value * 10 + (np.int64(byte) - 48)
                digits += 1
                position += 1
                byte = text[position]
            if digits == 0 or not (byte == 10 or byte == 32 or byte == 9 or byte == 13):
                state[ERROR] = NEGATIVE if digits == 0 and byte == 45 else NOT_A_NUMBER
                state[FIELD] = field
                return found
            if value < 1 or value > limits[field]:
                state[ERROR] = ZERO if value < 1 else TOO_LARGE
                state[FIELD] = field
                state[VALUE] = value
                return found
            values[field] = value
            field += 1
        if field == 0:  # a blank line
            continue
        if field < 3:
            state[ERROR] = TOO_FEW_FIELDS
            state[FIELD] = field
            return found
        document = values[0] - 1
        word = values[1] - 1
        if document < previous_document or (document == previous_document and word <= previous_word):
            state[SORTED] = 0
        if document != run_document:
            run_documents[runs] = document
            run_starts[runs] = state[ENTRIES] + found
            runs += 1
            run_document = document
        previous_document = document
        previous_word = word
        words[found] = word
        counts[found] = values[2]
        if values[2] > state[LARGEST]:
            state[LARGEST] = values[2]
        found += 1
    state[LAST_DOCUMENT] = previous_document
    state[LAST_WORD] = previous_word
    state[ENTRIES] += found
    state[RUNS] = runs
    return found


def new_state() -> NDArray[Any]:
    """Return the state before the first triple; the three header lines are already read."""
    state = np.zeros(STATE_SIZE, np.int64)
    state[LINE] = 3
    state[LAST_DOCUMENT] = state[LAST_WORD] = -1
    state[SORTED] = 1
    return state
