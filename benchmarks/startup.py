"""What a user waits for at the start: importing, the first fit ever (compiling), the first fit of a later process.

Each measurement is a process of its own; medians and extremes are printed. "Without compiled caches" means an empty
NUMBA_CACHE_DIR. Import and fit times are taken inside the process, the total includes starting the interpreter.

    python benchmarks/startup.py            # 5 processes each
    python benchmarks/startup.py --quick    # 1 process each
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import fastsbl

LIMITS = {"import": 1.0, "first fit ever": 15.0, "first fit of a later process": 0.5}
DATA = {
    "dense": "np.asfortranarray(X)",
    "row-major float32": "X.astype(np.float32)",
    "sparse": "sparse.csc_array(X * (np.abs(X) > 1))",
    "complex": "X + 1j * X[::-1]",
}
IMPORT = """
import json, time
start = time.perf_counter()
import {module}
print(json.dumps({{"import": time.perf_counter() - start}}))
"""
FIT = """
import json, time
import numpy as np
from scipy import sparse
X = np.random.default_rng(0).standard_normal((100, 500))
y = X[:, 0] + X[:, 1] + 0.1
X = {data}
start = time.perf_counter()
from fastsbl.lasso import solve_weighted_lasso
imported = time.perf_counter()
solution = solve_weighted_lasso(X, y, 20.0)
done = time.perf_counter()
assert solution.converged
print(json.dumps({{"import": imported - start, "fit": done - imported}}))
"""


def run(code: str, cache: Path) -> dict[str, float]:
    """Run code in a process of its own; its times, and the total from outside."""
    source = str(Path(fastsbl.__file__).parents[1])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return {**json.loads(done.stdout), "total": time.perf_counter() - start}


def summary(values: list[float]) -> str:
    return f"{np.median(values):7.3f} s  [{min(values):.3f}, {max(values):.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one process each, dense data only")
    parser.add_argument("--repeats", type=int, help="processes per line (5, or 1 with --quick)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    args = parser.parse_args()
    repeats = args.repeats or (1 if args.quick else 5)
    report: dict[str, Any] = {"repeats": repeats}

    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores; median [least, most] of {repeats}")
    for module in ("fastsbl", "fastsbl.dictionary", "fastsbl.lasso", "fastsbl.imaging"):
        with tempfile.TemporaryDirectory() as cache:
            run(IMPORT.format(module=module), Path(cache))  # Python's own bytecode is there from now on
        times = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                times.append(run(IMPORT.format(module=module), Path(cache)))
        report[f"import {module}"] = times
        values = [t["import"] for t in times]
        print(f"import {module:<22} {summary(values)}   (aim: below {LIMITS['import']:g} s)")

    for name, data in list(DATA.items())[: 1 if args.quick else None]:
        first, later = [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                first.append(run(FIT.format(data=data), Path(cache)))
                later.append(run(FIT.format(data=data), Path(cache)))
        report[f"first fit ever, {name}"], report[f"later fit, {name}"] = first, later
        for label, times in (("first fit ever", first), ("first fit of a later process", later)):
            values = [t["fit"] for t in times]
            whole = [t["total"] for t in times]
            aim = f"(aim: below {LIMITS[label]:g} s; with interpreter and imports {np.median(whole):.2f} s)"
            print(f"{label}, {name:<18} {summary(values)}   {aim}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
        print(f"written to {args.json}")


if __name__ == "__main__":
    main()
