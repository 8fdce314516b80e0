"""How fast a bag-of-words file is read, and in how much memory.

The New York Times corpus of the UCI archive, 300,000 documents of 102,660 words, has 69.7 million lines "document word
count". A file of its shape is written (a gigabyte; words by Zipf's law, about 232 different ones a document), and read,
plain or compressed, in a process of its own that tells its seconds and its peak memory.

    python benchmarks/docword_speed.py                       # 10 million lines
    python benchmarks/docword_speed.py --triples 70000000    # the whole size: three minutes to write
"""

import argparse
import gzip
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_WORDS, PER_DOCUMENT = 102_660, 232
AT_ONCE = 4000  # documents


def write(path, n_triples, rng):
    """Write the file, some documents at a time."""
    n_documents = -(-n_triples // PER_DOCUMENT)
    ranks = np.exp(rng.uniform(0.0, np.log(N_WORDS), 1 << 22)).astype(np.int64)
    with open(path, "wb") as file:
        file.write(f"{n_documents}\n{N_WORDS}\n{n_triples}\n".encode())
        left = n_triples
        for first in range(0, n_documents, AT_ONCE):
            lines = []
            for document in range(first, min(first + AT_ONCE, n_documents)):
                size = min(PER_DOCUMENT, left)
                words = np.unique(ranks[rng.integers(0, ranks.size, 2 * size)])
                while words.size < size:
                    words = np.union1d(words, rng.integers(1, N_WORDS + 1, size))
                words = np.sort(rng.permutation(words)[:size])
                counts = np.minimum(rng.geometric(0.6, size), 500)
                number = document + 1
                pairs = zip(words.tolist(), counts.tolist(), strict=True)
                lines += [f"{number} {word} {count}\n" for word, count in pairs]
                left -= size
            file.write("".join(lines).encode())


def read(path):
    """What the process of its own does."""
    from fastsbl.datasets._docword import read_docword

    small = path.with_name("docword.small.txt")
    small.write_text("1\n1\n1\n1 1 1\n")
    read_docword(small)  # compile
    start = time.perf_counter()
    counts = read_docword(path)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{counts.nnz / seconds / 1e6:.1f} million lines a second ({seconds:.1f} s), peak {peak:.2f} GiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=10_000_000, help="lines (10 million)")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        read(asked.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "docword.simulated.txt"
        write(plain, asked.triples, np.random.default_rng(0))
        packed = plain.with_name(plain.name + ".gz")
        with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target, 1 << 24)
        for path in (plain, packed):
            print(f"{path.suffix[1:]:>4}, {path.stat().st_size / 1e6:.0f} MB: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "--read", str(path)], check=True)


if __name__ == "__main__":
    main()
