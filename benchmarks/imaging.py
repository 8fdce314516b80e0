"""Small crowded images with known truth: localisation and denoising beside other tools.

The setting: 28 x 28 pixels, 4 Gaussian sources of width U(1, 3) at U(2, 25), weights U(.5, 1), white noise of
SNR_dB = 10 log10(mean f^2 / variance). PSNR takes the peak of the clean image; found and true sources are matched one
to one within 1.5 pixels. fastsbl gets the image and nothing else. All others get the true noise variance, and the
setting (width, threshold, wavelet) that does best on these very images, which is more than a user could know:

- wavelet: scikit-image's `denoise_wavelet` as it is; cycle-spun: the best of five wavelets, all 64 shifts by 0 to 7;
- gauss: a Gaussian filter, the best width; bm3d;
- DAOStarFinder, blob_log, IterativePSFPhotometry (photutils, scikit-image), best threshold and width;
- OMP: atoms of a sampled dictionary of 10,000, added until the residual falls to the best level; sliding: the same
  atoms, each step followed by a joint fit of all positions, widths and fluxes;
- truth: that joint fit started from the truth, which is what no method can be expected to beat.

Pulls are (x_fit - x_true) / x_err of matched sources, x and y together: of all; of those whose catalogue entry is not
flagged as blended; and of those that are not blended in truth either (no other true source within 2.15 combined
widths, where the product of two Gaussians has fallen to a tenth).

Results go to a file line by line, and what it has already is not computed again.

    python benchmarks/imaging.py --keep imaging.jsonl
    python benchmarks/imaging.py --only fastsbl truth --images 200
    python benchmarks/imaging.py --noise --images 600
    python benchmarks/imaging.py --time
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.optimize import least_squares

from fastsbl.imaging import (
    GaussianPSF,
    SourceFlag,
    denoise_details,
    denoise_image,
    locate_sources,
    make_starfield,
    match_sources,
    psnr,
    sample_source_dictionary,
)
from fastsbl.studies._denoisers import bm3d_image, wavelet_images

SNR = (20, 15, 10, 5, 0)
LOCATED_AT = (20, 10, 0)
FIRST_SEED = 9000
TOLERANCE = 1.5
BLENDED = 2.15
LOW, HIGH = np.array([-1.0, -1.0, 0.0, 0.5]), np.array([28.0, 28.0, np.inf, 5.0])


@dataclass
class Answer:
    """What a method made of an image: the clean image, positions, the catalogue."""

    image: np.ndarray | None = None
    xy: np.ndarray | None = None
    catalog: object = None


# --- ours, which see the image only ------------------------------------------------------------------------------


def ours(field):
    answer = denoise_details(field.image)
    return {"": Answer(answer.image, answer.catalog.xy, answer.catalog)}


def ours_mixture(field):
    return {"": Answer(denoise_image(field.image, method="mixture"))}


# --- the others, which know the variance -------------------------------------------------------------------------


def noisy(field):
    return {"": Answer(field.image)}


def wavelet(field):
    from skimage.restoration import denoise_wavelet

    return {"": Answer(denoise_wavelet(field.image, sigma=field.noise_variance**0.5))}


def cycle_spun(field):
    images = wavelet_images(field.image, field.noise_variance)
    return {name: Answer(image) for name, image in images if name != "wavelet"}


def smoothed(field):
    return {f"{width:.1f}": Answer(gaussian_filter(field.image, width)) for width in np.arange(0.4, 2.6, 0.2)}


def block_matching(field):
    return {"": Answer(bm3d_image(field.image, field.noise_variance))}


def dao(field):
    from photutils.detection import DAOStarFinder

    def find(width, times):
        found = DAOStarFinder(times * field.noise_variance**0.5, width, min_separation=0)(field.image)
        if found is None:
            return np.empty((0, 2))
        x = "x_centroid" if "x_centroid" in found.colnames else "xcentroid"
        return np.column_stack([found[x], found[x.replace("x", "y", 1)]])

    return {
        f"fwhm {width:g}, {times:g} sd": Answer(xy=find(width, times))
        for width in (2.0, 3.0, 4.0, 5.0)
        for times in (1.0, 2.0, 3.0, 5.0, 8.0)
    }


def blobs(field):
    from skimage.feature import blob_log

    def find(share, overlap):
        found = blob_log(
            field.image,
            min_sigma=1.0,
            max_sigma=3.0,
            num_sigma=9,
            threshold=share,
            overlap=overlap,
            exclude_border=False,
        )
        return found[:, 1::-1]

    return {
        f"threshold {share:g}, overlap {overlap:g}": Answer(xy=find(share, overlap))
        for share in (0.02, 0.05, 0.08, 0.12, 0.18, 0.25)
        for overlap in (0.5, 0.9)
    }


def photometry(field):
    from photutils.detection import DAOStarFinder
    from photutils.psf import CircularGaussianSigmaPRF, IterativePSFPhotometry, SourceGrouper

    def find(width, times):
        model = CircularGaussianSigmaPRF(sigma=width / 2.355)
        model.sigma.fixed = False
        model.sigma.bounds = (0.5, 5.0)
        finder = DAOStarFinder(times * field.noise_variance**0.5, width, min_separation=0)
        error = np.full(field.image.shape, field.noise_variance**0.5)
        run = IterativePSFPhotometry(
            model,
            (9, 9),
            finder,
            grouper=SourceGrouper(2 * width),
            aperture_radius=4,
            xy_bounds=3.0,
            sub_shape=(21, 21),
        )
        found = run(field.image, error=error)
        if found is None:
            return np.empty((0, 2))
        xy = np.column_stack([found["x_fit"], found["y_fit"]])
        return xy[np.isfinite(xy).all(axis=1) & (np.asarray(found["flux_fit"]) > 0)]

    return {
        f"fwhm {width:g}, {times:g} sd": Answer(xy=find(width, times)) for width in (3.0, 4.0) for times in (3.0, 5.0)
    }


@cache
def dictionary():
    return sample_source_dictionary((28, 28), 10_000, rng=0)


def joint_fit(image, rows):
    """Least squares over x, y, flux and width of all sources."""
    psf = GaussianPSF(1.0)

    def stamps(p):
        x, y, flux, sigma = p.reshape(-1, 4).T
        answer = psf.stamp_and_gradient(x, y, (28, 28), sigma=sigma)
        return answer, flux[:, None, None]

    def residual(p):
        answer, flux = stamps(p)
        return ((flux * answer.value).sum(axis=0) - image).ravel()

    def jacobian(p):
        answer, flux = stamps(p)
        parts = [flux * answer.d_x, flux * answer.d_y, answer.value, flux * answer.d_sigma]
        return np.stack(parts, axis=1).reshape(p.size, -1).T

    low, high = np.tile(LOW, len(rows)), np.tile(HIGH, len(rows))
    start = np.clip(np.ravel(rows), low + 1e-6, high - 1e-6)
    fit = least_squares(residual, start, jacobian, (low, high), x_scale="jac", max_nfev=60)
    return fit.x.reshape(-1, 4), fit.fun.reshape(28, 28)


def pursuit(field):
    sources = dictionary()
    y = field.image.ravel()
    chosen, residual, out = [], y, {}
    for level in (5.0, 3.0, 2.0, 1.5, 1.2, 1.1, 1.0):
        while residual @ residual > level * y.size * field.noise_variance and len(chosen) < 60:
            chosen.append(int(np.argmax(sources.matrix.T @ residual)))
            columns = sources.matrix[:, chosen]
            residual = y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
        xy = np.column_stack([sources.x, sources.y])[chosen]
        out[f"residual {level:g} x noise"] = Answer((y - residual).reshape(28, 28), xy)
    return out


def sliding(field):
    sources = dictionary()
    rows, residual = np.empty((0, 4)), field.image
    cost = np.sum(residual**2)
    while len(rows) < 20:
        k = int(np.argmax(sources.matrix.T @ residual.ravel()))
        start = [
            sources.x[k],
            sources.y[k],
            (sources.matrix[:, k] @ residual.ravel()) / sources.norms[k],
            sources.sigma[k],
        ]
        more, left = joint_fit(field.image, np.vstack([rows, start]))
        if cost - np.sum(left**2) < 25.0 * field.noise_variance:
            break
        rows, residual, cost = more, -left, np.sum(left**2)
    return {"": Answer(field.image - residual, rows[:, :2])}


def from_truth(field):
    rows, left = joint_fit(field.image, np.column_stack([field.x, field.y, field.flux, field.sigma]))
    return {"": Answer(field.image + left, rows[:, :2])}


METHODS = {
    "fastsbl": ours,
    "fastsbl, mixture": ours_mixture,
    "noisy": noisy,
    "wavelet": wavelet,
    "cycle-spun": cycle_spun,
    "gauss": smoothed,
    "bm3d": block_matching,
    "DAOStarFinder": dao,
    "blob_log": blobs,
    "IterativePSFPhotometry": photometry,
    "OMP": pursuit,
    "sliding": sliding,
    "truth": from_truth,
}
ONLY_POSITIONS = ("DAOStarFinder", "blob_log", "IterativePSFPhotometry")


# --- scores ------------------------------------------------------------------------------------------------------


def pulls(field, catalog, match):
    """Error over stated error of each matched source, and how blended it is: 0 not, 1 in truth only, 2 by its flag."""
    i, j = match.pairs.T
    table = catalog.table[i]
    distance = np.hypot(field.x[j, None] - field.x, field.y[j, None] - field.y)
    distance /= np.hypot(field.sigma[j, None], field.sigma)
    distance[np.arange(j.size), j] = np.inf
    kind = np.where(distance.min(axis=1, initial=np.inf) < BLENDED, 1, 0)
    kind[(np.asarray(table["flags"]) & int(SourceFlag.BLENDED)) != 0] = 2
    out = []
    for name, truth in (("x", field.x), ("y", field.y)):
        pull = (np.asarray(table[f"{name}_fit"]) - truth[j]) / np.asarray(table[f"{name}_err"])
        out += [[float(value), int(which)] for value, which in zip(pull, kind, strict=True) if np.isfinite(value)]
    return out


def score(name, snr, seed):
    """One line of results for each setting of a method."""
    field = make_starfield(snr_db=snr, rng=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages: no sources found, odd fits
        answers = METHODS[name](field)
    for setting, answer in answers.items():
        line = {"method": name, "snr": snr, "seed": seed, "setting": setting}
        if answer.image is not None:
            line["psnr"] = psnr(field.clean, answer.image)
        if answer.xy is not None:
            match = match_sources(answer.xy, field.xy, TOLERANCE)
            line |= {"matched": match.n_matched, "found": match.n_found, "true": match.n_true}
            line["squared"] = float(np.sum(match.distances**2))
            if answer.catalog is not None:
                line["pulls"] = pulls(field, answer.catalog, match)
        yield line


def seeds(snr, images):
    """Other images at every SNR."""
    return range(FIRST_SEED + 1000 * snr, FIRST_SEED + 1000 * snr + images)


def collect(methods, images, file):
    """Lines of all methods, from the file where it has them."""
    lines = []
    if file is not None and file.exists():
        lines = [json.loads(text) for text in file.read_text().splitlines()]
    done = {(line["method"], line["snr"], line["seed"]) for line in lines}
    for name in methods:
        for snr in LOCATED_AT if name in ONLY_POSITIONS else SNR:
            for seed in seeds(snr, images):
                if (name, snr, seed) in done:
                    continue
                fresh = list(score(name, snr, seed))
                lines += fresh
                if file is not None:
                    with file.open("a") as out:
                        out.writelines(json.dumps(line) + "\n" for line in fresh)
    return [line for line in lines if line["method"] in methods and line["seed"] in seeds(line["snr"], images)]


def best(lines, value):
    """Lines of the setting with the largest value."""
    by_setting = defaultdict(list)
    for line in lines:
        by_setting[line["setting"]].append(line)
    return max(by_setting.values(), key=value) if by_setting else []


def mean_psnr(lines):
    return float(np.mean([line["psnr"] for line in lines]))


def f1(lines):
    total = sum(line["found"] + line["true"] for line in lines)
    return 2 * sum(line["matched"] for line in lines) / total


def tables(lines, methods):
    """Markdown tables of PSNR, F1 and error, and pulls."""
    cells = defaultdict(list)
    for line in lines:
        cells[line["method"], line["snr"]].append(line)
    ends = [" | ".join(map(str, SNR)) + " |", "|---|" + "---:|" * len(SNR)]
    out = ["| PSNR in dB at SNR in dB | " + ends[0], ends[1]]
    for name in methods:
        if name not in ONLY_POSITIONS:
            values = [mean_psnr(best(cells[name, snr], mean_psnr)) for snr in SNR]
            out.append(f"| {name} | " + " | ".join(f"{value:.1f}" for value in values) + " |")
    out += [
        "",
        "| F1 / error in pixels at SNR in dB | " + " | ".join(map(str, SNR)) + " |",
        "|---|" + "---:|" * len(SNR),
    ]
    for name in methods:
        row = []
        for snr in SNR:
            found = [line for line in cells[name, snr] if "found" in line]
            if found:
                chosen = best(found, f1)
                squared = sum(line["squared"] for line in chosen) / max(1, sum(line["matched"] for line in chosen))
                row.append(f"{f1(chosen):.3f} / {squared**0.5:.3f}")
            else:
                row.append("")
        if any(row):
            out.append(f"| {name} | " + " | ".join(row) + " |")
    out += ["", "| pulls of fastsbl, mean +- sd (number) | " + ends[0], ends[1]]
    for label, most in (("unblended in truth and by flag", 0), ("unblended by flag", 1), ("all", 2)):
        row = []
        for snr in SNR:
            some = [v for line in cells["fastsbl", snr] for v, kind in line["pulls"] if kind <= most]
            row.append(f"{np.mean(some):+.2f} +- {np.std(some):.2f} ({len(some)})" if some else "")
        out.append(f"| {label} | " + " | ".join(row) + " |")
    return "\n".join(out)


def times(images):
    """Milliseconds per image, end to end, at 10 dB."""
    fields = [make_starfield(snr_db=10.0, rng=seed) for seed in seeds(10, images)]
    out = ["| ms per image at 10 dB | median | mean | slowest |", "|---|---:|---:|---:|"]
    for name, task in (("locate_sources", locate_sources), ("denoise_image", denoise_image)):
        task(fields[0].image)  # compile
        seconds = []
        for field in fields:
            clock = time.perf_counter()
            task(field.image)
            seconds.append(1e3 * (time.perf_counter() - clock))
        out.append(f"| {name} | {np.median(seconds):.1f} | {np.mean(seconds):.1f} | {np.max(seconds):.1f} |")
    return "\n".join(out)


def false_alarms(images):
    """Sources found in pure noise, per image."""
    cases = {
        "unknown width, noise estimated": (None, None),
        "known PSF, noise estimated": (GaussianPSF(1.3), None),
        "known PSF, known noise": (GaussianPSF(1.3), 1.0),
    }
    out = ["| sources per image of pure noise | asked | found |", "|---|---:|---:|"]
    for asked in (0.1, 0.01):
        for name, (psf, variance) in cases.items():
            noise = (np.random.default_rng(FIRST_SEED + k).normal(size=(28, 28)) for k in range(images))
            found = sum(len(locate_sources(image, psf, variance, false_alarms=asked)) for image in noise)
            out.append(f"| {name} | {asked:g} | {found / images:.3f} +- {np.sqrt(found) / images:.3f} |")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100, help="images per SNR (100)")
    parser.add_argument("--only", nargs="+", choices=tuple(METHODS), default=tuple(METHODS), help="some of the methods")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="file of results to go on with (JSON lines)")
    parser.add_argument("--noise", action="store_true", help="only count sources in pure noise")
    parser.add_argument("--time", action="store_true", help="only time locate_sources and denoise_image")
    asked = parser.parse_args()
    if asked.time:
        print(times(asked.images))
    elif asked.noise:
        print(false_alarms(asked.images))
    else:
        print(tables(collect(asked.only, asked.images, asked.keep), asked.only))


if __name__ == "__main__":
    main()
