"""Where the time goes in the three hottest paths, and what bounds each: memory, arithmetic or Python.

One path after the other runs again and again in a process of its own, while py-spy looks at its stack 500 times a
second. Each sample is counted for what its innermost frame does: a whole read of the dictionary, single columns of it,
a compiled loop, linear algebra, or Python (and calls of numpy too small to matter by themselves). The rate
at which whole reads go through memory stands beside that of BLAS.

    python benchmarks/profiles.py                      # prints the table, writes docs/figures/profiles.json
    python benchmarks/profiles.py --path fit --seconds 5

The documentation draws the flame graphs from that file. py-spy has to be installed (``pip install py-spy``).
"""

import argparse
import json
import linecache
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import fastsbl
from fastsbl.datasets import fetch_mnist, mnist_dictionary
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import solve_weighted_lasso
from fastsbl.sbl import fit_sbl, fit_sbl_batch

PATHS = {
    "lasso": "a lasso at .1 of the largest penalty",
    "fit": "a sparse Bayesian fit at .1",
    "batch": "fits of 50 digits at .1, side by side",
}
KINDS = ("whole reads", "single columns", "compiled loops", "linear algebra", "Python")
ENTRIES = ("solve_weighted_lasso", "fit_sbl", "fit_sbl_batch", "work")
SOURCE = Path(fastsbl.__file__).parent
_FRAME = re.compile(r"^(?P<name>.+) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")


def problem():
    bunch = fetch_mnist()
    phi = mnist_dictionary(bunch).matrix
    Y = bunch.test_images[:50].reshape(50, -1).T.astype(float)
    return phi, np.asfortranarray(Y / np.linalg.norm(Y, axis=0))


def work(path):
    """One call of the path for each digit (or for all), without end; yields seconds spent."""
    phi, Y = problem()
    largest = np.abs(phi.T @ Y).max(axis=0)
    targets = [np.ascontiguousarray(Y[:, k]) for k in range(Y.shape[1])]
    while True:
        if path == "batch":
            start = time.perf_counter()
            fit_sbl_batch(as_dictionary(phi), Y, 0.1 * largest, init="unit")
            yield (time.perf_counter() - start) / len(targets)
            continue
        for y, most in zip(targets, largest, strict=True):
            start = time.perf_counter()
            if path == "lasso":
                solve_weighted_lasso(as_dictionary(phi), y, 0.1 * most)
            else:
                fit_sbl(as_dictionary(phi), y, 0.1 * most, init="unit")
            yield time.perf_counter() - start


def warm_up(calls):
    for _ in range(3):
        next(calls)


def run(path, seconds):
    """The process that is looked at: says when it is warm, works, and prints what it measured."""
    calls = work(path)
    warm_up(calls)
    stop, times = time.perf_counter() + seconds, []
    while time.perf_counter() < stop:
        times.append(next(calls))
    print(json.dumps({"median": float(np.median(times)), "calls": len(times)}))


def bandwidth():
    """Bytes per second of a read of the dictionary: by our kernel, and by the matrix product of BLAS."""
    phi, Y = problem()
    counted = as_dictionary(phi)
    y = np.ascontiguousarray(Y[:, 0])
    best = {"read": np.inf, "BLAS": np.inf}
    for _ in range(20):
        for name, task in (("read", lambda: counted.correlate(y)), ("BLAS", lambda: phi.T @ y)):
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return {name: phi.nbytes / seconds for name, seconds in best.items()}


def kind(stack):
    """What a sample was doing, from the innermost frame of ours and what it called."""
    name, file, line = next(frame for frame in reversed(stack) if frame[1].startswith("fastsbl/"))
    text = linecache.getline(str(SOURCE / file.removeprefix("fastsbl/")), line)
    if file == "fastsbl/dictionary/dense.py":
        return "single columns" if "_some" in text or "_columns" in name else "whole reads"
    if file == "fastsbl/lasso/columns.py":
        return "single columns"
    if "_kernels." in text:
        return "compiled loops"
    if "linalg" in stack[-1][1] or " @ " in text or re.search(r"dpotrf|dsyev|dtrtri|_potr|einsum", text):
        return "linear algebra"
    return "Python"


def parse(text):
    """Stacks from the call of a fit inwards, and how often each was seen at work."""
    stacks = Counter()
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        if ";warm_up (" in path:
            continue
        frames = []
        for part in path.split(";"):
            found = _FRAME.match(part)
            if found:
                frames.append((found["name"].rpartition(".")[2], found["file"], int(found["line"] or 0)))
        while frames and not (frames[0][0] in ENTRIES and frames[0][1].startswith("fastsbl/")):
            frames.pop(0)
        if frames and not frames[-1][1].startswith("threading"):  # waiting is not work
            stacks[tuple(frames)] += int(count)
    return stacks


def record(path, seconds):
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "stacks.txt"
        command = ["py-spy", "record", "-r", "500", "-f", "raw", "-o", str(raw), "--", sys.executable, __file__]
        done = subprocess.run([*command, "--run", path, "--seconds", str(seconds)], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        stacks = parse(raw.read_text())
        told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    kinds, folded = Counter(), Counter()
    for stack, count in stacks.items():
        kinds[kind(stack)] += count
        names = []
        for name, file, _ in stack:
            place = file.removeprefix("fastsbl/") if file.startswith("fastsbl/") else "numpy, scipy"
            if name == "<lambda>" or name == "task":
                continue
            label = f"{name} ({place})" if place != "numpy, scipy" else place
            if not names or names[-1] != label:
                names.append(label)
        folded[";".join(names)] += count
    total = sum(kinds.values())
    return {
        "title": PATHS[path],
        "milliseconds": 1e3 * told["median"],
        "calls": told["calls"],
        "samples": total,
        "shares": {name: kinds[name] / total for name in KINDS},
        "stacks": {stack: count for stack, count in sorted(folded.items()) if count >= 0.002 * total},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", choices=PATHS, action="append", help="only this path (repeatable)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each path (15)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "figures" / "profiles.json")
    parser.add_argument("--run", choices=PATHS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        run(asked.run, asked.seconds)
        return
    rates = bandwidth()
    found = {path: record(path, asked.seconds) for path in asked.path or PATHS}
    print(f"whole reads {rates['read'] / 1e9:.0f} GB/s, by BLAS {rates['BLAS'] / 1e9:.0f} GB/s")
    print("| path | ms | " + " | ".join(KINDS) + " |")
    print("|---|---:|" + "---:|" * len(KINDS))
    for item in found.values():
        shares = " | ".join(f"{100 * item['shares'][name]:.0f} %" for name in KINDS)
        print(f"| {item['title']} | {item['milliseconds']:.1f} | {shares} |")
    asked.out.write_text(json.dumps({"rates": rates, "paths": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
