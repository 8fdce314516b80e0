"""What a sparse Bayesian fit costs: passes and time on the MNIST dictionary, beside other packages, and against n.

The dictionary is `fastsbl.datasets.mnist_dictionary` (784 x 10,000, unit columns), the targets are test images
with unit norm, init="unit", tol 1e-4. The unit of time is one product Phi' r by BLAS, timed in turn with the fits.
Every fit gets a fresh dictionary: norms, products and Gram columns of another fit are not there. Compilation is
done before. The Loss of each result is computed here from its gamma, the same way for all packages.

    python benchmarks/sbl_speed.py                  # 20 digits (about a minute), celer on 3 of them
    python benchmarks/sbl_speed.py --quick          # 5 digits, n up to 10^4
    python benchmarks/sbl_speed.py --mne --ard      # MNE's gamma_map (minutes) and ARDRegression as well
"""

import argparse
import json
import os
import time
import warnings

import numpy as np

from fastsbl.datasets import fetch_mnist, mnist_dictionary
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl import fit_sbl, fit_sbl_batch, loss, sbl_lambda_max

RATIOS = (0.01, 0.05, 0.1, 0.3, 0.5)


def clock(task):
    start = time.perf_counter()
    answer = task()
    return 1e3 * (time.perf_counter() - start), answer


def one_pass(phi, vector, repeats=5):
    return min(clock(lambda: phi.T @ vector)[0] for _ in range(repeats))


def ours(phi, y, lam, **options):
    return fit_sbl(as_dictionary(phi), y, lam, init="unit", **options)


def loop_over_celer(phi, y, lam, tol=1e-4, max_iter=500):
    """Algorithm 1 by hand: celer solves each weighted lasso from the answer before, all weights by one product."""
    import celer

    n_samples, n_features = phi.shape
    squared_norms = np.einsum("ij,ij->j", phi, phi)
    solver = celer.Lasso(lam / n_samples, fit_intercept=False, tol=1e-8, warm_start=True, max_iter=200)
    u, gamma = np.ones(n_features), np.zeros(n_features)
    for _ in range(max_iter):
        solver.weights = u
        theta = solver.fit(phi, y).coef_
        before, gamma = gamma, np.abs(theta) / u
        sizes = gamma * squared_norms
        if np.max(np.abs(sizes - before * squared_norms)) <= tol * sizes.max():
            break
        used = np.flatnonzero(gamma)
        left, values, _ = np.linalg.svd(phi[:, used] * np.sqrt(gamma[used]), full_matrices=False)
        squares = (left.T @ phi) ** 2
        rest = np.maximum(squared_norms - squares.sum(axis=0), 0.0)
        u = np.sqrt(rest / lam + (squares / (lam + values[:, None] ** 2)).sum(axis=0))
    return gamma


def loop_over_mne(phi, y, lam):
    from mne.inverse_sparse._gamma_map import _gamma_map_opt

    coef, active = _gamma_map_opt(
        y[:, None].copy(), phi.copy(), lam, maxit=10_000, tol=1e-6, update_mode=2, verbose=False
    )[:2]
    gamma = np.zeros(phi.shape[1])
    gamma[active] = coef[:, 0] ** 2
    return gamma


def on_digits(phi, Y, n_celer, with_mne):
    rows = []
    fit_sbl(phi, Y[:, 0], 0.1)  # compile
    one_pass(phi, Y[:, 0])
    largest = np.abs(phi.T @ Y).max(axis=0)
    for ratio in RATIOS:
        times, units, passes, reads, iterations = [], [], [], [], []
        celer_ratio, celer_gap, mne_ratio, mne_gap = [], [], [], []
        for k in range(Y.shape[1]):
            y, lam = np.ascontiguousarray(Y[:, k]), ratio * largest[k]
            unit = one_pass(phi, y)
            counted = as_dictionary(phi)
            spent, result = clock(lambda y=y, lam=lam, counted=counted: fit_sbl(counted, y, lam, init="unit"))
            unit = min(unit, one_pass(phi, y))
            assert result.converged
            times.append(spent)
            units.append(spent / unit)
            passes.append(counted.passes)
            reads.append(sum(record["singles"] for record in result.history))
            iterations.append(result.n_iter)
            if k < n_celer:
                theirs, gamma = clock(lambda y=y, lam=lam: loop_over_celer(phi, y, lam))
                celer_ratio.append(theirs / min(spent, clock(lambda y=y, lam=lam: ours(phi, y, lam))[0]))
                celer_gap.append(loss(phi, y, result.gamma, lam) - loss(phi, y, gamma, lam))
            if with_mne and k == 0 and ratio in (0.05, 0.1):
                theirs, gamma = clock(lambda y=y, lam=lam: loop_over_mne(phi, y, lam))
                mne_ratio.append(theirs / spent)
                mne_gap.append(loss(phi, y, result.gamma, lam) - loss(phi, y, gamma, lam))
        rows.append(
            {
                "ratio": ratio,
                "milliseconds": float(np.median(times)),
                "in_passes": float(np.median(units)),
                "in_passes_10_90": np.percentile(units, [10, 90]).tolist(),
                "passes": float(np.median(passes)),
                "most_passes": float(np.max(passes)),
                "singles": float(np.median(reads)),
                "iterations": float(np.median(iterations)),
                "celer": float(np.median(celer_ratio)) if celer_ratio else None,
                "celer_loss": float(np.max(celer_gap)) if celer_gap else None,
                "mne": mne_ratio[0] if mne_ratio else None,
                "mne_loss": mne_gap[0] if mne_gap else None,
            }
        )
    return rows


def against_ard(phi, y, ratio=0.1, n_features=1000):
    from sklearn.linear_model import ARDRegression

    few = np.asfortranarray(phi[:, :: phi.shape[1] // n_features])
    lam = ratio * np.abs(few.T @ y).max()
    theirs, _ = clock(lambda: ARDRegression(fit_intercept=False).fit(few, y))
    given, _ = clock(lambda: ours(few, y, lam))
    learned, _ = clock(lambda: fit_sbl(as_dictionary(few), y))
    return {"n_features": few.shape[1], "ard_ms": theirs, "ours_ms": given, "ours_learning_the_noise_ms": learned}


def batch(phi, Y, ratio=0.1, repeats=3):
    """One BLAS thread, on every core; the median of some batches, each with a fresh dictionary."""
    lam = ratio * np.abs(phi.T @ Y).max(axis=0)
    jobs = os.cpu_count() or 1
    fit_sbl_batch(as_dictionary(phi), Y[:, :4], lam[:4], init="unit", n_jobs=jobs)  # compile
    spent, units = [], []
    for _ in range(repeats):
        units.append(one_pass(phi, Y[:, 0]))
        seconds, results = clock(lambda: fit_sbl_batch(as_dictionary(phi), Y, lam, init="unit", n_jobs=jobs))
        assert all(result.converged for result in results)
        spent.append(seconds / Y.shape[1])
    each = float(np.median(spent))
    return {"digits": Y.shape[1], "jobs": jobs, "ms_each": each, "in_passes": each / float(np.median(units))}


def growth(largest, n_samples=200, ratio=0.3, seeds=3):
    """Median time of Gaussian problems; one slope over float64 sizes, one over all (float32 above 10^5)."""
    sizes = [n for n in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= largest]
    times = []
    for n_features in sizes:
        spent = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            dtype = np.float32 if n_features > 100_000 else np.float64
            phi = rng.standard_normal((n_features, n_samples), dtype=dtype).T
            y = phi[:, :10] @ (1.0 + np.abs(rng.standard_normal(10))) + rng.standard_normal(n_samples)
            lam = ratio * sbl_lambda_max(phi, y)
            fit_sbl(phi[:, :1000], y, lam)  # compile
            spent.append(clock(lambda phi=phi, y=y, lam=lam: fit_sbl(as_dictionary(phi), y, lam))[0])
        times.append(float(np.median(spent)))
    slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0]) if len(sizes) > 1 else None
    return {"sizes": sizes, "milliseconds": times, "slope": slope}


def show(report):
    print(f"one product Phi' r: {report['one_pass_ms']:.2f} ms; targets: {report['digits']}")
    head = (
        "ratio",
        "ms",
        "in products",
        "10-90 %",
        "passes",
        "most",
        "singly",
        "iter",
        "celer/ours",
        "Loss",
        "MNE/ours",
        "Loss",
    )
    line = "{:>6}{:>9}{:>13}{:>15}{:>8}{:>7}{:>8}{:>6}{:>12}{:>10}{:>10}{:>10}"
    print(line.format(*head))
    for row in report["mnist"]:
        spread = "{:.1f} to {:.1f}".format(*row["in_passes_10_90"])
        others = [
            "-" if row[name] is None else f"{row[name]:{form}}"
            for name, form in (("celer", ".0f"), ("celer_loss", "+.0e"), ("mne", ".0f"), ("mne_loss", "+.0e"))
        ]
        print(
            line.format(
                row["ratio"], f"{row['milliseconds']:.1f}", f"{row['in_passes']:.1f}", spread, f"{row['passes']:.1f}",
                f"{row['most_passes']:.1f}", f"{row['singles']:.0f}", f"{row['iterations']:.0f}", *others,
            )
        )  # fmt: skip
    print("Loss: the largest amount by which ours is above theirs (negative: ours is lower)")
    many = report["batch"]
    print(
        f"batch of {many['digits']} digits at .1, {many['jobs']} jobs: {many['ms_each']:.2f} ms each, "
        f"{many['in_passes']:.2f} products each"
    )
    if report["ard"]:
        print(
            "n = {n_features}: ARDRegression {ard_ms:.0f} ms, ours {ours_ms:.1f} ms, with the noise learned "
            "{ours_learning_the_noise_ms:.0f} ms".format(**report["ard"])
        )
    sizes = report["growth"]
    print("n         " + "".join(f"{n:>10}" for n in sizes["sizes"]))
    print("ms        " + "".join(f"{ms:>10.1f}" for ms in sizes["milliseconds"]))
    if sizes["slope"] is not None:
        print(f"log-log slope {sizes['slope']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 digits, batch of 20, n up to 10^4")
    parser.add_argument("--digits", type=int, help="test digits (20)")
    parser.add_argument("--celer", type=int, default=3, help="digits for which celer is run too (3)")
    parser.add_argument("--mne", action="store_true", help="MNE's gamma_map on one digit")
    parser.add_argument("--ard", action="store_true", help="scikit-learn's ARDRegression on 1,000 columns")
    parser.add_argument("--largest", type=int, help="largest n of the growth curve (10^6)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    asked = parser.parse_args()
    digits = asked.digits or (5 if asked.quick else 20)
    bunch = fetch_mnist()
    phi = mnist_dictionary(bunch).matrix
    many = 20 if asked.quick else 100
    Y = bunch.test_images[: max(many, digits)].reshape(-1, phi.shape[0]).T.astype(float)
    Y = np.asfortranarray(Y / np.linalg.norm(Y, axis=0))
    n_celer = min(asked.celer, digits)
    if n_celer:
        try:
            import celer  # noqa: F401
        except ImportError:
            n_celer = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the other packages
        report = {
            "one_pass_ms": one_pass(phi, Y[:, 0], 20),
            "digits": digits,
            "mnist": on_digits(phi, Y[:, :digits], n_celer, asked.mne),
            "batch": batch(phi, Y[:, :many]),
            "ard": against_ard(phi, Y[:, 7] if digits > 7 else Y[:, 0]) if asked.ard else None,
            "growth": growth(asked.largest or (10_000 if asked.quick else 1_000_000)),
        }
    show(report)
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
