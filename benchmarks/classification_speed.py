"""The paper's classification experiment on one core: batches of fits beside a loop over celer, one image at a time.

The columns are `fastsbl.datasets.mnist_dictionary` (784 x 10,000, unit norm), the images those of the first run of
`fastsbl study classification`, the ratios lambda / lambda_max its grid, with .001 in the place of 0; init="unit", tol
1e-4. The images of a run are fitted together, on a dictionary that holds the inner products of its columns in single
precision; they are computed once, and that time is printed. Times are processor time. The 50 runs of 100 images draw
some images more than once; the study fits each once, and the sum is printed for both.

The loop solves each weighted lasso with celer, from the answer before, and takes all weights from one product
(`fastsbl.bench`). It is given the ratios up to .8: above, most fits end with nothing, and celer stops short of its
tolerance after a very long time; for the sum they count as those at .8. The Loss of both is computed here from gamma.

    python benchmarks/classification_speed.py                            # 100 images in batches, celer on 3
    python benchmarks/classification_speed.py --images 20 --celer 1      # quicker
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from fastsbl._base.parallel import one_thread_each
from fastsbl.bench.data import Problem
from fastsbl.bench.sbl import SBL_SOLVERS
from fastsbl.bench.solvers import quiet
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl import fit_sbl_batch, loss
from fastsbl.studies._classifiers import Digits
from fastsbl.studies.classification import PAPER_RATIOS, ZERO_RATIO

RUNS, IMAGES = 50, 100
MOST_FOR_CELER = 0.8


def clock(task):
    start = time.process_time()
    answer = task()
    return time.process_time() - start, answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100, help="images fitted together")
    parser.add_argument("--celer", type=int, default=3, help="images given to the loop over celer")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    arguments = parser.parse_args()
    digits = Digits("mnist", None, 0)
    matrix, queries = digits.columns(0).matrix, digits.test_queries(0, arguments.images)
    plain = as_dictionary(matrix)
    loop = next(solver for solver in SBL_SOLVERS if solver.module == "celer")
    with one_thread_each():
        seconds, phi = clock(lambda: plain.with_gram(single=True))
        print(f"inner products of all columns: {seconds:.1f} s, once", flush=True)
        largest = np.abs(plain.correlate(queries.targets)).max(axis=0)
        fit_sbl_batch(phi, queries.targets[:, :2], 0.05 * largest[:2], init="unit", n_jobs=1)  # compiles
        rows, celer = [], float("nan")
        print(
            "ratio   batch, ms an image   celer, ms an image   ratio of times   largest difference of Loss", flush=True
        )
        for value in PAPER_RATIOS:
            lam = (value or ZERO_RATIO) * largest
            took, fits = clock(lambda lam=lam: fit_sbl_batch(phi, queries.targets, lam, init="unit", n_jobs=1))
            ours, theirs, gaps = 1e3 * took / len(fits), [], []
            for k in range(arguments.celer if loop.installed and value <= MOST_FOR_CELER else 0):
                problem = Problem("mnist", "MNIST", matrix, np.ascontiguousarray(queries.targets[:, k]))
                took, answer = clock(lambda p=problem, k=k, lam=lam: quiet(lambda: loop.solve(p, float(lam[k]), 1e-4)))
                theirs.append(1e3 * took)
                found = loss(matrix, problem.y, answer.values, float(lam[k]))
                gaps.append(abs(found - fits[k].loss) / abs(found))
            if theirs:
                celer = float(np.mean(theirs))
            rows.append({"ratio": value, "batch_ms": ours, "celer_ms": celer, "loss": max(gaps, default=None)})
            print(
                f"{value:5g} {ours:20.1f} {celer:20.0f} {celer / ours:16.0f}   {max(gaps, default=np.nan):.1e}",
                flush=True,
            )
    ours, celer = (1e-3 * sum(row[name] for row in rows) for name in ("batch_ms", "celer_ms"))
    fits, different = RUNS * IMAGES, np.unique([digits.drawn(run, IMAGES) for run in range(RUNS)]).size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for count in (fits, different):
        print(
            f"{len(rows) * count:,} fits, on one core: {ours * count / 60:.1f} minutes in batches, "
            f"{celer * count / 3600:.1f} hours with celer"
        )
    print(f"most memory of this process: {peak:.2f} GiB")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"rows": rows, "peak_gib": peak, "inner_products_s": seconds}, indent=1))


if __name__ == "__main__":
    main()
