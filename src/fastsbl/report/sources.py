"""Found sources, for people: pictures with the places marked, and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl.imaging import Denoised, SourceCatalog, SourceFlag
from fastsbl.report.draw import add_marks
from fastsbl.report.theme import drawing, new_axes
from fastsbl.studies.figures import ImageGrid, ImagePanel, Marks
from fastsbl.studies.study import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SourcesDisplay", "denoised_pictures", "plot_sources", "source_pictures", "source_table"]

_COLUMNS = (
    "id",
    "image",
    "frame",
    "x_fit",
    "y_fit",
    "x_err",
    "y_err",
    "sigma_fit",
    "flux_fit",
    "flux_err",
    "snr",
    "flags",
)


def stretched(image: Any, like: Any = None) -> Any:
    """Brightness for the eye: linear near the sky of ``like``, compressed where sources are far brighter; any units."""
    values = np.asarray(image, dtype=np.float64)
    sample = values if like is None else np.asarray(like, dtype=np.float64)
    finite = sample[np.isfinite(sample)]
    if finite.size == 0:
        return values
    sky = np.median(finite)
    spread = 1.4826 * np.median(np.abs(finite - sky)) or np.ptp(finite) / 100 or 1.0
    return np.arcsinh((values - sky) / (3 * spread))


def source_pictures(
    image: ArrayLike, catalog: SourceCatalog, *, truth: ArrayLike | None = None, name: str = "sources"
) -> ImageGrid:
    """Describe an image with its sources marked, the model, and what is left in units of the noise.

    Parameters
    ----------
    image : array of shape (height, width)
        The data.
    catalog : SourceCatalog
        What `fastsbl.imaging.locate_sources` found in it.
    truth : array of shape (n, 2), optional
        True positions, to be marked as well.
    name : str
        Of the figure.
    """
    found = Marks("found", catalog.xy[:, 0], catalog.xy[:, 1], "found")
    marks = [found]
    if truth is not None:
        places = np.asarray(truth, dtype=np.float64).reshape(-1, 2)
        marks.append(Marks("true", places[:, 0], places[:, 1], "truth"))
    panels = [ImagePanel(stretched(image), title="image", marks=tuple(marks))]
    if catalog.model is not None:
        panels.append(ImagePanel(stretched(catalog.model, image), title="model"))
    if catalog.significance is not None:
        panels.append(ImagePanel(np.clip(catalog.significance, -5, 5), title="residual / noise"))
    count = len(catalog)
    return ImageGrid(
        name=name,
        title=f"{count} sources",
        alt=f"The image with {count} found sources marked, the model of them, and the residual in units of the noise.",
        caption="Brightness is compressed (arcsinh) in the image and the model; the residual runs from -5 to 5.",
        panels=tuple(panels),
        columns=3 if panels[0].image.shape[0] <= 64 else 2,
    )


def denoised_pictures(
    image: ArrayLike, answer: Denoised, *, truth: ArrayLike | None = None, name: str = "denoised"
) -> ImageGrid:
    """Describe a noisy image, the clean one, and what was taken out in units of the noise.

    Parameters
    ----------
    image : array of shape (height, width)
        The data.
    answer : Denoised
        What `fastsbl.imaging.denoise_details` made of it.
    truth : array of shape (height, width), optional
        The image without noise, if it is known.
    name : str
        Of the figure.
    """
    noisy = np.asarray(image, dtype=np.float64)
    taken = (noisy - answer.image) / np.sqrt(np.maximum(answer.noise_variance, np.finfo(float).tiny))
    panels = [
        ImagePanel(stretched(noisy), title="noisy"),
        ImagePanel(stretched(answer.image, noisy), title="cleaned"),
        ImagePanel(np.clip(taken, -5, 5), title="taken out / noise"),
    ]
    if truth is not None:
        panels.append(ImagePanel(stretched(truth, noisy), title="the truth"))
    return ImageGrid(
        name=name,
        title="Before and after",
        alt="The noisy image, the cleaned one, and their difference in units of the noise"
        + ("; and the truth." if truth is not None else "."),
        caption="Brightness is compressed (arcsinh); the difference runs from -5 to 5.",
        panels=tuple(panels),
        columns=2 if len(panels) == 4 or noisy.shape[0] > 64 else 3,
    )


def source_table(catalog: SourceCatalog, *, most: int = 200) -> Table:
    """Describe the brightest ``most`` sources as a table of a report."""
    table = catalog.table
    names = tuple(name for name in _COLUMNS if name in table.colnames)
    order = np.argsort(-np.asarray(table["flux_fit"]), kind="stable")[:most]
    rows = tuple(tuple(readable(name, table[name][k]) for name in names) for k in order)
    title = "Sources" if len(order) == len(table) else f"The brightest {len(order)} of {len(table)} sources"
    return Table("sources", title, names, rows, "Positions and widths in pixels, pixel centres at integers from 0.")


def readable(column: str, value: Any) -> Any:
    """A cell of a catalogue for people: positions to a thousandth of a pixel, flags as words.

    Examples
    --------
    >>> readable("flags", 5), readable("x_fit", 230.9321)
    ('edge blended', '230.932')
    """
    if column in ("x_fit", "y_fit"):
        return f"{value:.3f}"
    if column == "flags":
        return " ".join(flag.name.lower() for flag in SourceFlag if flag & int(value) and flag.name) or "-"
    return value.item() if isinstance(value, np.generic) else str(value)


class SourcesDisplay:
    """An image with sources marked on it.

    Parameters
    ----------
    image : array of shape (height, width)
        The data.
    xy : array of shape (n, 2)
        Found positions, x = column.
    truth : array of shape (m, 2), optional
        True positions.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure around it.
    image_ : matplotlib.image.AxesImage
        The drawn image.

    Examples
    --------
    >>> from fastsbl.imaging import locate_sources, make_starfield
    >>> from fastsbl.report import SourcesDisplay
    >>> field = make_starfield(snr_db=20.0, rng=5)
    >>> display = SourcesDisplay.from_catalog(locate_sources(field.image), field.image, truth=field.xy)
    >>> len(display.xy)
    4
    """

    def __init__(self, image: ArrayLike, xy: ArrayLike, *, truth: ArrayLike | None = None) -> None:
        self.image = np.asarray(image, dtype=np.float64)
        self.xy = np.asarray(xy, dtype=np.float64).reshape(-1, 2)
        self.truth = None if truth is None else np.asarray(truth, dtype=np.float64).reshape(-1, 2)
        if self.image.ndim != 2 or self.image.size == 0:
            raise ValueError(f"image must be a two-dimensional array that is not empty, got shape {self.image.shape}")

    @classmethod
    def from_catalog(
        cls, catalog: SourceCatalog, image: ArrayLike, *, truth: ArrayLike | None = None, ax: Axes | None = None
    ) -> SourcesDisplay:
        """Draw an image and the sources of a catalogue.

        Parameters
        ----------
        catalog : SourceCatalog
            What was found.
        image : array of shape (height, width)
            Where it was found.
        truth : array of shape (m, 2), optional
            True positions.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        SourcesDisplay
            With `ax_`, `figure_` and `image_`.
        """
        return cls(image, catalog.xy, truth=truth).plot(ax)

    def plot(self, ax: Axes | None = None) -> SourcesDisplay:
        """Draw it, in ``ax`` or a new figure."""
        with drawing():
            ax = new_axes(ax, 5.0, 5.0)
            ax.grid(visible=False)
            self.image_ = ax.imshow(stretched(self.image), cmap="gray")
            add_marks(ax, Marks("found", self.xy[:, 0], self.xy[:, 1], "found")).set_label("found")
            if self.truth is not None:
                add_marks(ax, Marks("true", self.truth[:, 0], self.truth[:, 1], "truth")).set_label("true")
            height, width = self.image.shape
            ax.set(xlabel="x [pixel]", ylabel="y [pixel]", xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def plot_sources(
    catalog: SourceCatalog, image: ArrayLike, *, truth: ArrayLike | None = None, ax: Axes | None = None
) -> SourcesDisplay:
    """Draw an image with the sources of a catalogue; see `SourcesDisplay.from_catalog`."""
    return SourcesDisplay.from_catalog(catalog, image, truth=truth, ax=ax)
