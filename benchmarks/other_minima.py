"""Where do sparse Bayesian learning and MNE's gamma_map end on the same small problems?

The objective has several minima. Both programs descend from a start of their own, `fit_sbl` from gamma = 0 (or from
the plain lasso), MNE's from gamma = 1, and neither can promise the lowest. 30 x 90 Gaussian columns, three sources,
noise of variance .25 known to both, 1, 2 or 5 targets, both updates of gamma_map (1: MacKay's, 2: the convex bound), as
in MNE's own tests; every fit runs to its end, and the objective of every answer is recomputed from its gamma.

    python benchmarks/other_minima.py
"""

import argparse
import warnings

import numpy as np

from fastsbl.sbl import fit_sbl, loss

ALPHA, SAME = 0.25, 1e-3
STARTS = {"null": {}, "unit": {"init": "unit"}, "ones": {"warm_start": np.ones(90)}}


def by_mne(G, M, mode):
    """Gamma of MNE's solution; it returns coefficients only, so its iteration goes on from them on their support."""
    from mne.inverse_sparse._gamma_map import _gamma_map_opt

    coef, active = _gamma_map_opt(
        M.copy(), G.copy(), ALPHA, maxit=3000, tol=1e-8, update_mode=mode, gammas=None, verbose=False
    )[:2]
    B, gamma = G[:, active], np.mean(coef**2, axis=1)
    for _ in range(2000):
        S = ALPHA * np.eye(M.shape[0]) + (B * gamma) @ B.T
        mean = gamma[:, None] * (B.T @ np.linalg.solve(S, M))
        gamma = np.sqrt(np.mean(mean**2, axis=1) / np.einsum("ij,ij->j", B, np.linalg.solve(S, B)))
    full = np.zeros(G.shape[1])
    full[active] = gamma
    return full


def differences(n_targets, mode, seed):
    """Our objective less MNE's, for each of our starts."""
    rng = np.random.default_rng(seed)
    G = rng.standard_normal((30, 90))
    M = G[:, :3] @ (3.0 * rng.standard_normal((3, n_targets))) + 0.5 * rng.standard_normal((30, n_targets))
    y = M if n_targets > 1 else M[:, 0]
    theirs = loss(G, y, by_mne(G, M, mode), ALPHA)
    return {
        name: fit_sbl(G, y, ALPHA, tol=1e-7, max_iter=5000, **start).loss - theirs for name, start in STARTS.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="problems for each number of targets and update (20)")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of MNE
    print("| targets | gamma_map's update | start | lower | same | higher | mean difference |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for n_targets in (1, 2, 5):
        for mode in (1, 2):
            found = [differences(n_targets, mode, seed) for seed in range(asked.seeds)]
            for name in STARTS:
                values = np.array([each[name] for each in found])
                lower, higher = int((values < -SAME).sum()), int((values > SAME).sum())
                same = values.size - lower - higher
                print(f"| {n_targets} | {mode} | {name} | {lower} | {same} | {higher} | {values.mean():+.3f} |")


if __name__ == "__main__":
    main()
