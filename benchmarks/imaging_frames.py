"""Frames of real size: a crowded star field, microscopy frames, a large frame on two cores, and photographs.

crowded: 4,000 stars on 200 x 200 pixels (`images/mock200_*`), measured PSF, noise of the light at 4.62 electrons per
count. Completeness against true flux, purity against the flux found, matches within 1 pixel; which stars we miss.
IterativePSFPhotometry and sep get the frame without its background, which fastsbl fits itself, and the true noise; the
setting with the best F1 is shown. `truth` is our joint fit started from the true list, sources that do not pay for
themselves dropped: what a search could find at best.

microscopy: simulated frames of 32 x 32 pixels of 100 nm with about 42 emitters each (`images/smlm_md_*`), width known.
Jaccard index and error at tolerances of 100 and 250 nm, frames per second on one core. `peaks` takes the local maxima
of the smoothed frame and fits a Gaussian to 7 x 7 pixels around each, all at once; `OMP` takes atoms of a grid with 4
places per pixel and axis until the residual reaches a level. Both know background and noise; the best level is shown.

large: 2,000 sources on 512 x 512 pixels at 10 dB, with a known PSF and with widths U(1, 3) that are not known; seconds
and peak memory (of all processes, added up) with two processes.

photographs: what `denoise_image` does to images that are not made of point sources. The images that come with
scikit-image and scikit-learn, in grey, their middle 96 x 96 pixels, with noise of standard deviation 2 to
40 (of 255) added: change in PSNR with the noise variance estimated and known.

Data are read from the folder that FASTSBL_DATA names; photographs need none.

    python benchmarks/imaging_frames.py crowded --keep frames
    python benchmarks/imaging_frames.py microscopy --frames 100
    python benchmarks/imaging_frames.py large
    python benchmarks/imaging_frames.py photographs --only camera coins
"""

import argparse
import gzip
import os
import resource
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter, maximum_filter

from fastsbl.imaging import (
    GaussianPSF,
    NotPointSourcesWarning,
    PixelPSF,
    SourceFlag,
    completeness_purity,
    denoise_details,
    grid_source_dictionary,
    iter_frames,
    locate_sources,
    make_starfield,
    match_sources,
    psnr,
    render_sources,
)

EDGES = [200.0, 300.0, 500.0, 1000.0, 3000.0, 10_000.0, np.inf]
APART = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.inf]
GAIN, LEVEL = 4.62, 178.8
WIDTH, NM = 1.08806, 100.0


def images(name):
    folder = os.environ.get("FASTSBL_DATA")
    path = Path(folder or "") / "images" / name
    if folder is None or not path.exists():
        raise SystemExit(f"FASTSBL_DATA must name a folder with images/{name}")
    return path


def rows_of(catalog):
    return np.column_stack([np.asarray(catalog.table[name]) for name in ("x_fit", "y_fit", "flux_fit")])


# --- crowded -----------------------------------------------------------------------------------------------------


class Field:
    """The crowded frame, its PSF and its truth."""

    def __init__(self):
        self.image = np.loadtxt(images("mock200_cts.txt.gz"))
        self.true = np.loadtxt(images("mock200_tru.txt.gz"))
        self.samples = np.loadtxt(images("mock200_psf.txt.gz"), skiprows=1)
        self.psf = PixelPSF(self.samples, 5, center=(60, 60), normalize=False)
        model = render_sources(self.image.shape, *self.true.T, psf=self.psf) + LEVEL
        self.error = np.sqrt(model / GAIN)


def ours(field, asked):
    catalog = locate_sources(field.image, field.psf, gain=GAIN, n_jobs=asked.jobs)
    if asked.keep is not None:
        names = ("x_fit", "y_fit", "x_err", "y_err", "flags")
        np.save(asked.keep / "pulls.npy", np.column_stack([np.asarray(catalog.table[name]) for name in names]))
    return {"": rows_of(catalog)}


def from_truth(field, asked):
    from fastsbl.imaging.detect import gain_threshold
    from fastsbl.imaging.refine import Scene, SourceShape
    from fastsbl.imaging.search import Search

    shape = SourceShape.of(field.psf, (1.0, 1.0))
    scene = Scene(field.image, field.error**-2.0, shape)
    scene.set_level(LEVEL)
    scene.append(np.column_stack([field.true, np.full(len(field.true), shape.sigma_range[0])]))
    search = Search(
        scene,
        threshold=gain_threshold(shape, field.image.size, 0.01),
        learn_noise=False,
        with_level=False,
        max_sources=len(field.true),
    )
    search.refresh()
    search.polish(sweeps=3)
    search.run()
    return {"": scene.par[:, :3]}


def photometry(field, asked):
    from photutils.detection import DAOStarFinder
    from photutils.psf import ImagePSF, IterativePSFPhotometry, SourceGrouper

    model = ImagePSF(field.samples, oversampling=5, origin=(60, 60))
    out = {}
    for times, any_shape in ((2.0, False), (3.0, True), (4.0, True), (5.0, True)):
        limits = {"sharpness_range": (0.0, 2.0), "roundness_range": (-2.0, 2.0)} if any_shape else {}
        finder = DAOStarFinder(times * np.median(field.error), 2.2, min_separation=0, **limits)
        run = IterativePSFPhotometry(
            model,
            (5, 5),
            finder,
            grouper=SourceGrouper(3.0),
            aperture_radius=2.5,
            sub_shape=(25, 25),
            xy_bounds=2.0,
        )
        found = run(field.image - LEVEL, error=field.error)
        rows = np.column_stack([np.asarray(found[name], float) for name in ("x_fit", "y_fit", "flux_fit")])
        setting = f"{times:g} sd{', any shape' if any_shape else ''}"
        out[setting] = rows[np.isfinite(rows).all(axis=1) & (rows[:, 2] > 0)]
    return out


def extractor(field, asked):
    import sep

    sep.set_extract_pixstack(1_000_000)
    out = {}
    for box in (None, 16, 8):
        sky = LEVEL if box is None else sep.Background(field.image, bw=box, bh=box).back()
        for kernel in (None, field.psf.stamp(1, 1, (3, 3))):
            for times in (2.0, 4.0, 8.0, 16.0):
                found = sep.extract(
                    field.image - sky,
                    times,
                    err=field.error,
                    filter_kernel=kernel,
                    minarea=1,
                    deblend_nthresh=64,
                    deblend_cont=0.0,
                )
                setting = f"{times:g} sd, sky {box or 'known'}{'' if kernel is None else ', filtered'}"
                out[setting] = np.column_stack([found["x"], found["y"], found["flux"]])
    return out


CROWDED = {"fastsbl": ours, "truth": from_truth, "IterativePSFPhotometry": photometry, "sep": extractor}


def answers_of(name, field, asked):
    """Positions and fluxes for each setting of a method, and seconds for one; from the folder if they are there."""
    file = asked.keep / f"crowded-{name}.npz" if asked.keep else None
    if file is not None and file.exists():
        found = dict(np.load(file))
    else:
        clock = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = CROWDED[name](field, asked)
        found["seconds"] = (time.perf_counter() - clock) / len(found)
        if file is not None:
            np.savez(file, **found)
    return found, float(found.pop("seconds"))


def crowded(asked):
    field = Field()
    print("| method | setting | s | found | completeness | purity | F1 | error px |\n|---|---|" + "---:|" * 6)
    curves, own = [], None
    for name in asked.only or CROWDED:
        found, seconds = answers_of(name, field, asked)
        matches = {setting: match_sources(rows[:, :2], field.true[:, :2], 1.0) for setting, rows in found.items()}
        setting = max(matches, key=lambda one: matches[one].f1)
        match = matches[setting]
        curve = completeness_purity(match, field.true[:, 2], found[setting][:, 2], EDGES)
        shares = zip(curve.completeness, curve.purity, strict=True)
        curves.append(f"| {name} | " + " | ".join(f"{share:.2f} / {pure:.2f}" for share, pure in shares) + " |")
        print(
            f"| {name} | {setting} | {seconds:.0f} | {match.n_found} | {match.recall:.3f} | {match.precision:.3f} "
            f"| {match.f1:.3f} | {match.rmse:.3f} |",
            flush=True,
        )
        if name == "fastsbl" and asked.keep:
            print_pulls(np.load(asked.keep / "pulls.npy"), match, field)
        own = match if name == "fastsbl" else own
    ranges = " | ".join(f"{low:g} to {high:g}" for low, high in pairwise(EDGES))
    print(f"\n| completeness / purity at flux | {ranges} |\n|---|" + "---:|" * (len(EDGES) - 1))
    print("\n".join(curves))
    if own is not None:
        print_blends(own, field)


def print_blends(match, field):
    """Completeness by flux and by the distance to the nearest star of at least half that flux."""
    x, y, flux = field.true.T
    found = np.zeros(flux.size, dtype=bool)
    found[match.pairs[:, 1]] = True
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    distance[(flux < 0.5 * flux[:, None]) | np.eye(flux.size, dtype=bool)] = np.inf
    nearest = distance.min(axis=1)
    ranges = [f"{low:g} to {high:g}" for low, high in pairwise(APART)]
    print(f"\n| completeness at flux, rival at px | {' | '.join(ranges)} |\n|---|" + "---:|" * len(ranges))
    for low, high in pairwise(EDGES):
        here = [(flux >= low) & (flux < high) & (nearest >= a) & (nearest < b) for a, b in pairwise(APART)]
        shares = " | ".join(f"{found[which].mean():.2f} ({which.sum()})" if which.any() else "" for which in here)
        print(f"| {low:g} to {high:g} | {shares} |")


def print_pulls(table, match, field):
    i, j = match.pairs.T
    pull = np.concatenate([(table[i, k] - field.true[j, k]) / table[i, 2 + k] for k in (0, 1)])
    alone = np.tile((table[i, 4].astype(int) & int(SourceFlag.BLENDED)) == 0, 2) & np.isfinite(pull)
    print(f"<!-- pulls without blend flag: {pull[alone].mean():+.2f} +- {pull[alone].std():.2f} ({alone.sum()}) -->")


# --- microscopy --------------------------------------------------------------------------------------------------


class Camera:
    """What the finders that must be told are told: background, and noise that is the light less an offset."""

    background, offset = 1000.0, 200.0

    def error(self, light):
        return np.sqrt(np.maximum(light - self.offset, 1.0))


def peaks(frame, psf, camera):
    """Local maxima, smoothed more and less, and a Gaussian fitted to each; all those above a few levels."""
    padded = np.pad(frame, 3, mode="edge")
    out = {}
    for smoothing in (0.5, 0.8, WIDTH):
        smooth = gaussian_filter(frame - camera.background, smoothing)
        y, x = np.nonzero((smooth == maximum_filter(smooth, 3)) & (smooth > 0))
        windows = np.stack([padded[a : a + 7, b : b + 7] for a, b in zip(y, x, strict=True)])
        shift = fit_windows(windows, psf, 2 * np.pi * (WIDTH**2 + smoothing**2) * smooth[y, x], camera.background)
        noise = camera.error(camera.background) / (2 * np.sqrt(np.pi) * smoothing)
        for times in (3.0, 5.0, 8.0):
            kept = smooth[y, x] > times * noise
            out[f"smoothed {smoothing:.1f}, {times:g} sd"] = (np.column_stack([x, y]) + shift)[kept]
    return out


def fit_windows(windows, psf, flux, background):
    """Gauss-Newton steps for x, y, flux and background of all windows at once; how far each source moves."""
    shift, level = np.zeros((flux.size, 2)), np.full(flux.size, background)
    for _ in range(8):
        stamp = psf.stamp_and_gradient(3 + shift[:, 0], 3 + shift[:, 1], (7, 7))
        scale = flux[:, None, None]
        rest = windows - scale * stamp.value - level[:, None, None]
        parts = [scale * stamp.d_x, scale * stamp.d_y, stamp.value, np.ones_like(stamp.value)]
        jacobian = np.stack(parts, axis=1).reshape(flux.size, 4, -1)
        normal = jacobian @ jacobian.transpose(0, 2, 1) + 1e-6 * np.eye(4)
        step = np.linalg.solve(normal, jacobian @ rest.reshape(flux.size, -1, 1))[..., 0]
        shift = np.clip(shift + np.clip(step[:, :2], -0.5, 0.5), -2, 2)
        flux, level = np.maximum(flux + step[:, 2], 1.0), level + step[:, 3]
    return shift


class Pursuit:
    """Orthogonal matching pursuit on a grid of four places per pixel and axis."""

    def __init__(self, psf):
        self.sources = grid_source_dictionary((32, 32), psf=psf, step=0.25)
        self.columns = sparse.csc_array(self.sources.matrix)
        self.rows = sparse.csr_array(self.columns.T)

    def __call__(self, frame, psf, camera):
        residual = (frame - camera.background).ravel()
        variance = camera.error(frame.ravel()) ** 2
        out, chosen, basis = {}, [], np.empty((200, residual.size))
        for level in (3.0, 2.0, 1.5, 1.2, 1.0):
            while np.mean(residual**2 / variance) > level and len(chosen) < len(basis):
                best = int(np.argmax(self.rows @ residual))
                new = self.columns[:, [best]].toarray().ravel()
                for _ in range(2):  # orthogonal to those before, to rounding
                    new -= basis[: len(chosen)].T @ (basis[: len(chosen)] @ new)
                basis[len(chosen)] = new / np.linalg.norm(new)
                residual = residual - basis[len(chosen)] * (basis[len(chosen)] @ residual)
                chosen.append(best)
            out[f"residual {level:g} x noise"] = np.column_stack([self.sources.x, self.sources.y])[chosen]
        return out


def microscopy(asked):
    with gzip.open(images("smlm_md_truth.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1, usecols=(1, 3, 4))  # frame, x and y in nm
    every = max(1, 500 // asked.frames)
    chosen = {
        number: frame.array
        for number, frame in enumerate(iter_frames(images("smlm_md_frames.tif.gz")))
        if number % every == 0
    }
    psf, camera = GaussianPSF(WIDTH), Camera()
    truth = {number: table[table[:, 0] == number + 1, 1:] / NM - 0.5 for number in chosen}
    methods = {
        "fastsbl": lambda frame, psf, camera: {"": locate_sources(frame, psf).xy},
        "fastsbl, gain known": lambda frame, psf, camera: {"": locate_sources(frame - camera.offset, psf, gain=1.0).xy},
        "peaks": peaks,
        "OMP": Pursuit(psf),
    }
    emitters = np.mean([len(xy) for xy in truth.values()])
    print(f"<!-- {len(chosen)} frames, {emitters:.1f} emitters each -->")
    print("| method | setting | found | Jaccard, error at 100 nm | Jaccard, error at 250 nm | frames per second |")
    print("|---|---|" + "---:|" * 4)
    for name in asked.only or methods:
        found, seconds = {}, 0.0
        methods[name](next(iter(chosen.values())), psf, camera)  # compile
        for number, frame in chosen.items():
            clock = time.perf_counter()
            answer = methods[name](frame, psf, camera)
            seconds += time.perf_counter() - clock
            for setting, xy in answer.items():
                found.setdefault(setting, {})[number] = xy
        best = max(((*summary(found[setting], truth), setting) for setting in found), key=lambda line: line[0])
        near, near_error, far, far_error, count, setting = best
        print(
            f"| {name} | {setting} | {count:.1f} | {near:.3f}, {near_error:.1f} nm | {far:.3f}, {far_error:.1f} nm "
            f"| {len(chosen) / seconds:.1f} |",
            flush=True,
        )


def summary(found, truth):
    """Jaccard index and error at both tolerances over all frames, and the mean number found."""
    out = []
    for tolerance in (100.0, 250.0):
        pairs, total, squared = 0, 0, 0.0
        for number, xy in found.items():
            match = match_sources(xy, truth[number], tolerance / NM)
            pairs += match.n_matched
            total += match.n_found + match.n_true - match.n_matched
            squared += float(np.sum(match.distances**2))
        out += [pairs / total, NM * (squared / max(1, pairs)) ** 0.5]
    return (*out, float(np.mean([len(xy) for xy in found.values()])))


# --- large -------------------------------------------------------------------------------------------------------


def large(asked):
    from joblib.externals.loky import get_reusable_executor

    cases = {"known PSF": GaussianPSF(1.5), "unknown widths": None}
    print("| 512 x 512, 2,000 sources | s | memory GB | found | F1 | error px | pulls |")
    print("|---|" + "---:|" * 6)
    for name in asked.only or cases:
        field = make_starfield((512, 512), 2000, psf=cases[name], snr_db=10.0, rng=3)
        locate_sources(field.image[:40, :200], cases[name], n_jobs=asked.jobs, tile=96)  # compile, start the workers
        clock = time.perf_counter()
        catalog = locate_sources(field.image, cases[name], n_jobs=asked.jobs)
        seconds = time.perf_counter() - clock
        get_reusable_executor().shutdown(wait=True)
        own, one = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        match = match_sources(catalog.xy, field.xy, 1.5)
        i, j = match.pairs.T
        alone = (np.asarray(catalog.table["flags"][i]) & int(SourceFlag.BLENDED)) == 0
        pull = (catalog.xy[i, 0] - field.x[j])[alone] / np.asarray(catalog.table["x_err"][i])[alone]
        print(
            f"| {name} | {seconds:.1f} | {(own + asked.jobs * one) / 1e6:.2f} | {len(catalog)} | {match.f1:.3f} "
            f"| {match.rmse:.3f} | {np.nanmean(pull):+.2f} +- {np.nanstd(pull):.2f} |",
            flush=True,
        )


# --- photographs -------------------------------------------------------------------------------------------------

NOISE = (2.0, 5.0, 10.0, 20.0, 40.0)


def bundled():
    """Files of all images that lie in the folders of scikit-image and scikit-learn, by name."""
    import skimage
    import sklearn.datasets

    folders = Path(skimage.__file__).parent / "data", Path(sklearn.datasets.__file__).parent / "images"
    return {
        file.stem: file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in (".png", ".jpg")
    }


def photograph(file):
    """An image in grey from 0 to 255."""
    from skimage.io import imread

    image = imread(file).astype(float)
    image = image[..., :3] @ [0.2125, 0.7154, 0.0721] if image.ndim == 3 else image
    return image * 255.0 if image.max() <= 1.0 else image


def middle(image, side):
    top, left = ((size - side) // 2 for size in image.shape)
    return image[max(0, top) : max(0, top) + side, max(0, left) : max(0, left) + side]


def photographs(asked):
    levels = " | ".join(f"{sd:g}" for sd in NOISE)
    print(f"| image, change in dB (noise estimated / known) at noise sd | {levels} | s |")
    print("|---|" + "---:|" * (len(NOISE) + 1))
    worst = np.full((len(NOISE), 2), np.inf)
    files = bundled()
    for name in asked.only or files:
        clean = middle(photograph(files[name]), asked.side)
        if np.ptp(clean) == 0.0:
            print(f"<!-- the middle of {name} is empty -->")
            continue
        changes, clock = np.empty((len(NOISE), 2)), time.perf_counter()
        for row, sd in enumerate(NOISE):
            noisy = clean + np.random.default_rng(0).normal(0.0, sd, clean.shape)
            for column, variance in enumerate((None, sd**2)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotPointSourcesWarning)
                    answer = denoise_details(noisy, noise_variance=variance)
                changes[row, column] = psnr(clean, answer.image) - psnr(clean, noisy)
        worst = np.minimum(worst, changes)
        print_changes(name, changes, f"{(time.perf_counter() - clock) / changes.size:.1f}")
    print_changes("worst", worst, "")


def print_changes(name, changes, last):
    print(f"| {name} | " + " | ".join(f"{one:+.2f} / {two:+.2f}" for one, two in changes) + f" | {last} |", flush=True)


PARTS = {"crowded": crowded, "microscopy": microscopy, "large": large, "photographs": photographs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--only", nargs="+", help="some of the methods or cases")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="crowded: folder of answers to go on with")
    parser.add_argument("--frames", type=int, default=100, help="microscopy: frames, of 500 (100)")
    parser.add_argument("--side", type=int, default=96, help="photographs: pixels of their middle, per axis (96)")
    parser.add_argument("--jobs", type=int, default=2, help="processes of ours, crowded and large (2)")
    asked = parser.parse_args()
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    PARTS[asked.part](asked)


if __name__ == "__main__":
    main()
