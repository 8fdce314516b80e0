"""Draw how point sources are found, how close they may be, and what is left of the noise.

Writes ``sources-found-light.svg``, ``sources-pairs-light.svg``, ``sources-denoised-light.svg``, and the same in dark,
beside itself or into the folder given on the command line. The documentation runs it while it is being built.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from photutils.detection import DAOStarFinder
from screening_regions import DARK, LIGHT, Ink

from fastsbl.imaging import (
    GaussianPSF,
    SourceCatalog,
    StarField,
    denoise_image,
    locate_sources,
    make_starfield,
    match_sources,
    psnr,
    render_sources,
)
from fastsbl.studies._denoisers import wavelet_images

SEPARATIONS = np.arange(0.5, 5.1, 0.5)  # of two equal sources, in widths
PAIRS = 24


def panel(axes: Axes, image: np.ndarray, title: str, ink: Ink, **options) -> None:
    """One image, without ticks."""
    axes.imshow(image, origin="lower", interpolation="nearest", **options)
    axes.set_title(title, color=ink.text, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(ink.faint)


def keys(figure: Figure, handles: list, ink: Ink) -> None:
    """A legend below all panels."""
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9.5)
    for text in legend.get_texts():
        text.set_color(ink.text)


def found(field: StarField, catalog: SourceCatalog, ink: Ink) -> Figure:
    """The image, what was found in it, and what is left."""
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    figure.patch.set_alpha(0.0)
    image, model, rest = figure.subplots(1, 3)
    scale = {"cmap": "gray", "vmin": field.image.min(), "vmax": field.image.max()}
    panel(image, field.image, "image", ink, **scale)
    panel(model, catalog.model, f"model: {len(catalog)} sources", ink, **scale)
    panel(rest, catalog.significance, "what is left, in units of the noise", ink, cmap="RdBu_r", vmin=-5, vmax=5)
    for axes in (image, model):
        axes.plot(field.x, field.y, ls="none", marker="o", ms=11, mfc="none", mec="#7fff7f", mew=1.2)
    for row in catalog.table:
        place = (row["x_fit"], row["y_fit"])
        model.plot(*place, marker="+", ms=6, color="#ff5c5c", mew=1.3)
        model.add_patch(Ellipse(place, 6 * row["x_err"], 6 * row["y_err"], fill=False, color="#ff5c5c", lw=0.9))
    keys(
        figure,
        [
            Line2D([], [], ls="none", marker="o", ms=9, mfc="none", mec="#2ca02c", mew=1.4, label="true"),
            Line2D([], [], ls="none", marker="+", ms=8, color="#ff5c5c", mew=1.4, label="found, with three errors"),
        ],
        ink,
    )
    return figure


def pairs() -> tuple[list[float], list[float]]:
    """Share of pairs of equal sources that are told apart, by us and by a peak finder, for each separation."""
    width, side = 1.5, 21
    psf = GaussianPSF(width)
    ours, peaks = [], []
    for separation in SEPARATIONS:
        hits = np.zeros(2)
        for number in range(PAIRS):
            rng = np.random.default_rng(1000 + number)
            angle, middle = rng.uniform(0, 2 * np.pi), 10.0 + rng.uniform(-0.5, 0.5, 2)
            half = 0.5 * separation * width * np.array([np.cos(angle), np.sin(angle)])
            true = np.array([middle - half, middle + half])
            image = render_sources((side, side), *true.T, [140.0, 140.0], psf=psf)
            image += rng.normal(0.0, 1.0, image.shape)  # the peak of one source stands at about 10
            tolerance = 0.5 * separation * width
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = DAOStarFinder(4.0, 2.355 * width, min_separation=0)(image)
            names = [name for name in (table.colnames if table is not None else ()) if "centroid" in name]
            peak = np.column_stack([table[name] for name in names]) if names else np.empty((0, 2))
            for k, xy in enumerate((locate_sources(image, psf).xy, peak)):
                hits[k] += match_sources(xy, true, tolerance).n_matched == 2
        ours.append(hits[0] / PAIRS)
        peaks.append(hits[1] / PAIRS)
    return ours, peaks


def told_apart(shares: tuple[list[float], list[float]], ink: Ink) -> Figure:
    """The two shares against separation."""
    figure = Figure(figsize=(6.2, 3.2), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots()
    axes.patch.set_alpha(0.0)
    for values, colour, marker, label in (
        (shares[0], ink.region, "o", "locate_sources"),
        (shares[1], ink.target, "s", "DAOStarFinder"),
    ):
        axes.plot(SEPARATIONS, values, color=colour, marker=marker, ms=5, lw=1.8, label=label)
    axes.axvline(2.355, color=ink.faint, ls=":", lw=1.2)
    axes.text(2.4, 0.03, "full width at half maximum", color=ink.text, fontsize=8.5)
    axes.set_xlabel("distance of two equal sources, in widths sigma", color=ink.text)
    axes.set_ylabel("share told apart", color=ink.text)
    axes.set_ylim(-0.03, 1.03)
    axes.tick_params(colors=ink.text, labelsize=8.5)
    for spine in axes.spines.values():
        spine.set_color(ink.faint)
    legend = axes.legend(frameon=False, fontsize=9.5, loc="center right")
    for text in legend.get_texts():
        text.set_color(ink.text)
    return figure


def denoised(field: StarField, images: dict[str, np.ndarray], ink: Ink) -> Figure:
    """The clean image, the noisy one, and what becomes of it."""
    figure = Figure(figsize=(9.6, 2.5), layout="constrained")
    figure.patch.set_alpha(0.0)
    scale = {"cmap": "gray", "vmin": field.clean.min(), "vmax": field.clean.max()}
    for axes, (name, image) in zip(figure.subplots(1, len(images)), images.items(), strict=True):
        score = psnr(field.clean, image)
        panel(axes, image, name if np.isinf(score) else f"{name}\n{score:.1f} dB", ink, **scale)
    return figure


def main(folder: Path) -> None:
    """Write all pictures."""
    field = make_starfield((48, 64), 14, sigma_range=(1.0, 2.2), snr_db=12.0, rng=2)
    catalog = locate_sources(field.image)
    assert match_sources(catalog.xy, field.xy, 1.5).f1 > 0.9
    shares = pairs()
    small = make_starfield(snr_db=10.0, rng=5)
    wavelets = dict(wavelet_images(small.image, small.noise_variance))
    images = {
        "clean": small.clean,
        "with noise, 10 dB": small.image,
        "wavelet": wavelets["wavelet"],
        "wavelet, cycle-spun": wavelets["cycle-spun sym4"],
        "denoise_image": denoise_image(small.image),
    }
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastsbl"}):
        for name, ink in (("light", LIGHT), ("dark", DARK)):
            for what, figure in (
                ("found", found(field, catalog, ink)),
                ("pairs", told_apart(shares, ink)),
                ("denoised", denoised(small, images, ink)),
            ):
                figure.savefig(folder / f"sources-{what}-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
