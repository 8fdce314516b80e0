"""Does any rule ever reject an active feature? Many random problems made to be hard on screening.

Shapes N 5..60 by n 5..200; iid, AR(.95), AR(.99), positive and low-rank columns; unit norms and norms
spread 100x; exact, scaled, antiparallel and near copies (angles 1e-11..1e-1); zero, unpenalised and excluded
columns; y sparse, noise, parallel to a column; weights spread 1e-3..1e1; lambda from 1e-6 to 1.2 lambda_max,
and at lambda_max to the last digit; float32 and float64; both signs and positive. Static rules see the
target, dynamic ones coefficients that are zero, mid-solve, near and at convergence, and awkward (1e-14 of the
answer, one coordinate, another penalty's answer, nonsense).

A rejection is wrong if the feature's dual constraint is tight (and so also if its coefficient is nonzero);
close calls are settled in 60-digit arithmetic.

    python benchmarks/screening_safety.py --problems 100000 --out safety.md
"""

import argparse
import importlib
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
problems = importlib.import_module("screening_problems")


def run(first, last):
    totals = defaultdict(problems.Tally)
    for seed in range(first, last):
        problems.examine(seed, totals)
    return dict(totals)


def table(totals):
    lines = [
        "| rule | at | problems | columns | rejected | % | wrong | errors |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (rule, place), t in sorted(totals.items()):
        counts = f"{t.problems:,} | {t.columns:,} | {t.rejected:,} | {100 * t.rejected / t.columns:.1f}"
        lines.append(f"| {rule} | {place} | {counts} | {t.wrong} | {t.errors} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1_000_000, help="seed of the first problem; the others follow")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the table there as markdown")
    options = parser.parse_args()

    started = time.perf_counter()
    last = options.seed + options.problems
    chunks = [(low, min(low + 1000, last)) for low in range(options.seed, last, 1000)]
    totals = defaultdict(problems.Tally)
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, found in enumerate(pool.map(run, *zip(*chunks, strict=True)), 1):
            for key, tally in found.items():
                totals[key].add(tally)
            wrong = sum(t.wrong for t in totals.values())
            print(f"\r{done * 1000:,} problems, {wrong} wrong rejections", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    minutes = (time.perf_counter() - started) / 60
    wrong = sum(t.wrong for t in totals.values())
    errors = sum(t.errors for t in totals.values())
    rejected = sum(t.rejected for t in totals.values())
    summary = (
        f"{options.problems:,} problems (seeds {options.seed} to {last - 1}), {rejected:,} rejections, "
        f"{wrong} wrong, {errors} errors; {minutes:.1f} minutes with {options.jobs} job(s)."
    )
    print(table(totals))
    print(summary)
    for (rule, place), tally in sorted(totals.items()):
        if tally.wrong or tally.errors:
            print(f"{rule} at {place}: seeds {tally.seeds}")
    if options.out:
        command = f"python benchmarks/screening_safety.py --problems {options.problems} --seed {options.seed}"
        options.out.write_text(f"{summary}\n\n{table(totals)}\n\nPrinted by `{command}`.\n")
    return 1 if wrong or errors else 0


if __name__ == "__main__":
    sys.exit(main())
