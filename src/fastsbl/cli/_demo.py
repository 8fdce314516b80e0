"""What ``fastsbl demo`` works out: stars, a clean image, a regression, and what screening proves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fastsbl._base.types import FloatArray

if TYPE_CHECKING:
    from fastsbl.report import Section

__all__ = ["BEGUN", "CHAPTERS", "NEEDS", "Chapter", "Demo", "compile_fits", "compile_meanwhile"]

Row: TypeAlias = tuple[str, str, str]

_PENALTIES = (0.9, 0.7, 0.5, 0.3, 0.2)
_STAGES = (0.9, 0.5, 0.2, 0.05, 0.01)


@dataclass(frozen=True)
class Chapter:
    """One part of the demonstration.

    Attributes
    ----------
    rows : tuple of (str, str, str)
        For the short table: what, the answer, the truth beside it.
    section : Section
        For the report.
    """

    rows: tuple[Row, ...]
    section: Section


class Demo:
    """The problems, each simulated once, and their answers."""

    @cached_property
    def field(self) -> Any:
        """A star field: stars, some of them close together, whose widths differ, under noise."""
        from fastsbl.imaging import make_starfield

        return make_starfield((40, 40), 6, snr_db=12.0, rng=5)

    @cached_property
    def catalog(self) -> Any:
        """What is found in it, from the image alone."""
        from fastsbl.imaging import locate_sources

        return locate_sources(self.field.image)

    @cached_property
    def problem(self) -> Any:
        """A regression: 200 samples, 5,000 correlated features, eight of which count."""
        from fastsbl.datasets import make_sparse_regression

        return make_sparse_regression(200, 5000, n_nonzero=8, design="ar", snr_db=20, rng=0)

    def write(self, folder: Path) -> None:
        """Write data and answers as files, to try the other commands on."""
        from fastsbl.imaging import write_image

        write_image(folder / "stars.fits", self.field.image)
        self.catalog.write(folder / "sources.ecsv")
        np.savez(folder / "regression.npz", X=self.problem.dictionary, y=self.problem.y)


def stars(demo: Demo) -> Chapter:
    """Locate the stars."""
    from fastsbl.imaging import match_sources
    from fastsbl.report import Note, Section
    from fastsbl.report.sources import source_pictures, source_table

    field, catalog = demo.field, demo.catalog
    match = match_sources(catalog.xy, field.xy, 1.0)
    distance = float(np.median(match.distances)) if match.n_matched else float("nan")
    stated = float(np.median(np.hypot(catalog.table["x_err"], catalog.table["y_err"])))
    false = len(catalog) - match.n_matched
    noise = float(catalog.meta["noise_variance"])
    rows = (
        ("stars found", f"{match.n_matched}, and {false} false", f"{field.x.size}"),
        ("their places are off by", f"{distance:.2f} pixel (median)", f"{stated:.2f} stated"),
        ("noise variance of the image", f"{noise:.3g}", f"{field.noise_variance:.3g}"),
    )
    text = (
        f"A simulated field of {field.x.size} stars of different widths and unknown number. Places, fluxes and widths "
        "were fitted together, each with a standard error; their number was decided by how much each star explains."
    )
    return Chapter(rows, Section("Stars", [Note(text), source_pictures(field.image, catalog, truth=field.xy),
                                           source_table(catalog)]))  # fmt: skip


def stages(demo: Demo) -> Chapter:
    """Walk through the noise variance: few sources explain the image if it is large, more as it falls."""
    from fastsbl.imaging import sample_source_dictionary
    from fastsbl.report import Note, Section
    from fastsbl.sbl import sbl_path
    from fastsbl.studies.figures import ImageGrid, ImagePanel, Marks

    field = demo.field
    candidates = sample_source_dictionary(field.image.shape, 4000, rng=0)
    phi = candidates.matrix
    path = sbl_path(phi, field.image.ravel(), _STAGES, init="unit")
    truth = Marks("true", field.x, field.y, "truth")
    panels = [ImagePanel(field.image, title="image", marks=(truth,))]
    for ratio, result in zip(_STAGES, path, strict=True):
        xy = np.column_stack([candidates.x, candidates.y])[result.support]
        used = Marks("candidates in the answer", xy[:, 0], xy[:, 1], "found")
        model = (phi[:, result.support] @ result.coef[result.support]).reshape(field.image.shape)
        note = f"{result.support.size} candidates, {result.n_iter} weighted lassos"
        panels.append(ImagePanel(model, "what they explain", note, (used,), step=f"{ratio:g}"))
    grid = ImageGrid(
        name="stages",
        title="From a large noise variance to a small one",
        alt="The image with the true stars, and beside it what the chosen candidate sources explain.",
        caption="Move the slider: each position is an answer of its own, found beforehand.",
        panels=tuple(panels),
        columns=2,
        slider="lambda / lambda_max",
        shared_scale=True,
    )
    text = (
        f"The same image, explained by few of {phi.shape[1]} candidate sources with random places and widths. The "
        "noise variance lambda decides how much is worth explaining. A candidate is near a star, not on it; the "
        "search above moves its sources off such grids."
    )
    last = path[-1]
    rows = (
        ("candidate sources used", f"{last.support.size} of {phi.shape[1]}", f"at lambda/lambda_max {_STAGES[-1]:g}"),
    )
    return Chapter(rows, Section("Stages", [Note(text), grid]))


def clean(demo: Demo) -> Chapter:
    """Take the noise out of the image."""
    from fastsbl.imaging import denoise_details, psnr
    from fastsbl.report import Note, Section
    from fastsbl.report.sources import denoised_pictures

    field = demo.field
    answer = denoise_details(field.image)
    before, after = psnr(field.clean, field.image), psnr(field.clean, answer.image)
    rows = (("image quality (PSNR)", f"{after:.1f} dB", f"{before:.1f} dB before"),)
    text = (
        "The same image with its noise estimated and taken out, beside the one without noise, which nobody sees "
        f"outside a simulation. The peak signal to noise ratio rises from {before:.1f} to {after:.1f} dB."
    )
    return Chapter(
        rows, Section("A clean image", [Note(text), denoised_pictures(field.image, answer, truth=field.clean)])
    )


def regression(demo: Demo) -> Chapter:
    """Fit a sparse regression with the noise learned."""
    from fastsbl.dictionary import as_dictionary
    from fastsbl.report import Note, Picture, PosteriorDisplay, Section, drawing
    from fastsbl.report.theme import new_figure
    from fastsbl.sbl import fit_sbl
    from fastsbl.studies.study import Table

    problem = demo.problem
    phi = as_dictionary(problem.dictionary)
    result = fit_sbl(phi, problem.y)
    posterior = result.posterior()
    found = np.intersect1d(posterior.support, problem.support).size
    mean, std, true = posterior.mean, posterior.std, problem.coef[posterior.support]
    with drawing():
        page = new_figure(5.8, 3.2)
        ax = page.subplots()
        PosteriorDisplay(posterior.support, mean - true, std).plot(ax)
        ax.set_xlabel("coefficient less true coefficient")
    figure = Picture(
        page,
        f"{found} of {problem.support.size} true features found; the errors of their coefficients, with intervals.",
        "Zero is the truth. About 19 of 20 such bars should reach it.",
    )
    table = Table(
        "regression", "The features in the model", ("feature", "mean", "std", "truth"),
        tuple(zip(posterior.support.tolist(), mean.tolist(), std.tolist(), true.tolist(), strict=True)),
    )  # fmt: skip
    rows, columns = problem.dictionary.shape
    text = (
        f"{rows} samples, {columns} features of which {problem.support.size} made the target. Nothing was tuned: the "
        "variance of the noise was learned from the same data."
    )
    extra = posterior.support.size - found
    return Chapter(
        (
            ("true features found", f"{found}, and {extra} false", f"{problem.support.size} of {columns}"),
            ("noise variance of the target", f"{result.lam:.3f}", f"{problem.noise_variance:.3f}"),
            ("cost of the fit", f"{result.n_iter} weighted lassos", f"{phi.passes:.1f} reads of the data"),
        ),
        Section("A sparse regression", [Note(text), figure, table]),
    )


def screening(demo: Demo) -> Chapter:
    """Show how many features each rule proves to be zero before a weighted lasso is solved."""
    from fastsbl.dictionary import as_dictionary
    from fastsbl.lasso import weighted_lasso_path
    from fastsbl.report import Note, Section
    from fastsbl.report.rules import STATIC_RULES, rule_label, screening_shares
    from fastsbl.studies.figures import LineFigure, Series
    from fastsbl.studies.study import Table

    problem = demo.problem
    phi = as_dictionary(problem.dictionary)
    weights: FloatArray = phi.column_norms()  # so that the scale of a column does not matter
    path = weighted_lasso_path(phi, problem.y, _PENALTIES, weights)
    shares = {
        f"{rule_label(name)}{'' if name in STATIC_RULES else ', from the answer before'}": (100 * share).tolist()
        for name, share in screening_shares(phi, problem.y, path, weights).items()
    }
    zeros = [100 * (1 - solution.support.size / phi.n_features) for solution in path]
    shares["zero in the answer"] = zeros
    lines = tuple(Series(name, _PENALTIES, share, emphasis=name.startswith("Hölder")) for name, share in shares.items())
    figure = LineFigure(
        name="screening", title="Features proved to be zero before solving",
        alt="Share of features that each rule rejects, against the penalty: all rules reject nearly everything at "
        "large penalties, only the Hölder dome does so at small ones.",
        x_label="penalty / largest useful penalty", y_label="percent of all features",
        series=lines,
    )  # fmt: skip
    table = Table(
        "screening", "Features proved to be zero, in percent", ("rule", *(f"{ratio:g}" for ratio in _PENALTIES)),
        tuple((name, *(f"{value:.1f}" for value in values)) for name, values in shares.items()),
        caption="One column for each penalty, as a share of the largest useful one.",
    )  # fmt: skip
    text = (
        "A weighted lasso has a dual, and every rule encloses the dual's optimum in a region. A feature whose column "
        "stays below its weight on all of the region is zero in every answer: it is left out before anything is "
        "solved, and the answer is the same."
    )
    best = shares["Hölder dome, from the answer before"]
    rows = (
        ("proved zero before solving", f"{best[-1]:.1f} % of the features", f"{zeros[-1]:.1f} % are zero"),
        ("largest gap of the answers", f"{max(solution.gap for solution in path):.1e}", "0 is exact"),
    )
    return Chapter(rows, Section("Screening at work", [Note(text), figure, table]))


CHAPTERS: dict[str, Callable[[Demo], Chapter]] = {
    "locating stars": stars,
    "cleaning the image": clean,
    "walking over lambda": stages,
    "fitting a regression": regression,
    "screening": screening,
}
"""What is done, in the order of the report, under the names the progress bar shows."""
BEGUN = ("locating stars", "cleaning the image", "screening", "walking over lambda", "fitting a regression")
"""The order in which they are begun: first what waits least for loops that `compile_fits` compiles."""
NEEDS = {"screening": "lassos", "walking over lambda": "fits", "fitting a regression": "fits"}
"""What `compile_fits` has to have told before a chapter begins, so that nothing is compiled twice."""


def compile_fits() -> None:
    """Run what compiles the loops of lassos, then those of fits; tells on standard output how far."""
    from fastsbl.lasso import weighted_lasso_path

    demo = Demo()
    weighted_lasso_path(demo.problem.dictionary, demo.problem.y, (0.5,))
    _tell("lassos")
    regression(demo)
    _tell("fits")


def compile_meanwhile() -> None:
    """Compile what the fits of `compile_fits` reach last, iterations under a guard, and a lasso on sparse data."""
    from scipy.sparse import csc_array

    from fastsbl.lasso import solve_weighted_lasso
    from fastsbl.sbl.guarded import Guarded
    from fastsbl.sbl.model import SupportModel

    row, one = np.array([[1.0, 0.0]]), np.ones(1)
    first = np.arange(1)
    y = np.array([2.0, 0.0])
    guard = Guarded(first, row, one, 0.1 * one, SupportModel(row, row @ row.T, one, 1.0), y, y, 10.0, 10.0)
    guard.follow(first, one, one, 0.5 * y, positive=False, tol=1e-4, n_effective=2.0, most_steps=1)
    solve_weighted_lasso(csc_array(np.eye(2)), y, 1.0)


def _tell(part: str) -> None:
    sys.stdout.write(f"{part}\n")
    sys.stdout.flush()
