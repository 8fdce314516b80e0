"""Figures as plain data: what a study wants drawn. The report draws them; nothing here knows how.

Every figure has a name (its file name), a title, axis labels, a caption, and an alternative text that says in words
what the picture shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fastsbl._base.types import FloatArray

__all__ = [
    "BarStrip",
    "Figure",
    "HeatMap",
    "ImageGrid",
    "ImagePanel",
    "LineFigure",
    "Marks",
    "ScatterFigure",
    "Series",
]

Scale: TypeAlias = Literal["linear", "log"]


@dataclass(frozen=True, kw_only=True)
class _Titled:
    name: str
    title: str
    alt: str
    caption: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        for field in ("name", "title", "alt"):
            if not getattr(self, field).strip():
                raise ValueError(f"{field} of a figure must not be empty")
        if not all(c.isalnum() or c in "-_" for c in self.name):
            raise ValueError(f"name of a figure must be letters, digits, '-' and '_', got {self.name!r}")


@dataclass(frozen=True, kw_only=True)
class _WithAxes(_Titled):
    x_label: str
    y_label: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Series:
    """One labelled line or cloud of points.

    Attributes
    ----------
    label : str
        For the legend.
    x, y : arrays of shape (k,)
        The points; a NaN in y leaves a gap.
    low, high : arrays of shape (k,), optional
        The band around the line, or the error bars of the points.
    emphasis : bool
        Draw it stronger than the others.
    group : str
        Series of one group share a colour.
    place : int, optional
        Which of the colours and markers to take, so that a label looks the same in several figures; by default the
        next one.

    Examples
    --------
    >>> from fastsbl.studies.figures import Series
    >>> Series("sphere", [0.1, 0.5], [3, 40]).y
    array([ 3., 40.])
    """

    label: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    emphasis: bool = False
    group: str = ""
    place: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("x", "y", "low", "high"):
            value = getattr(self, name)
            if value is None and name in ("low", "high"):
                continue
            array = np.asarray(value, dtype=np.float64)
            if array.ndim != 1 or (name != "x" and array.shape != self.x.shape):
                raise ValueError(f"{name} of series {self.label!r} must be as long as x, got shape {array.shape}")
            object.__setattr__(self, name, array)
        if (self.low is None) != (self.high is None):
            raise ValueError(f"series {self.label!r}: give both low and high, or neither")


@dataclass(frozen=True, kw_only=True)
class LineFigure(_WithAxes):
    """Lines over a common axis, each with an optional band.

    Attributes
    ----------
    series : tuple of Series
        The lines.
    guides : tuple of (float, str)
        Horizontal reference lines with their labels, such as ``(1.0, "no gain")``.
    places : tuple of (float, str)
        The same across: vertical lines, such as ``(0.01, "true noise variance")``.
    stretches : tuple of (float, float, str)
        Shaded parts of the horizontal axis, such as ``(0.5, 0.6, "best in the paper")``.
    """

    series: tuple[Series, ...]
    guides: tuple[tuple[float, str], ...] = ()
    places: tuple[tuple[float, str], ...] = ()
    stretches: tuple[tuple[float, float, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScatterFigure(_WithAxes):
    """Clouds of points.

    Attributes
    ----------
    series : tuple of Series
        One cloud per label.
    """

    series: tuple[Series, ...]
    guides: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeatMap(_Titled):
    """A table of numbers as colours.

    Attributes
    ----------
    values : array of shape (rows, columns)
        NaN is drawn as "no value".
    rows, columns : tuple of str
        Labels, from the top down and from left to right.
    value_label : str
        What the colours mean.
    limits : (float, float), optional
        Values at the ends of the colour scale.
    show_values : bool
        Whether to write the numbers into the cells.
    """

    values: Any
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    x_label: str
    y_label: str
    value_label: str
    limits: tuple[float, float] | None = None
    show_values: bool = False

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        values = np.asarray(self.values, dtype=np.float64)
        if values.shape != (len(self.rows), len(self.columns)):
            raise ValueError(
                f"values of heat map {self.name!r} must have one row per row label and one column per column label, "
                f"{(len(self.rows), len(self.columns))}, got {values.shape}"
            )
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Marks:
    """Points marked on an image, pixel centres at integers from 0, x = column.

    Attributes
    ----------
    label : str
        For the legend: "true", "found".
    x, y : arrays of shape (k,)
        Where.
    style : {"truth", "found", "box", "point"}
        "truth" is a green cross, "found" a red circle, "box" a square of side ``size``, "point" a dot.
    size : float
        Diameter or side in pixels, where the style has one.
    """

    label: str
    x: Any
    y: Any
    style: Literal["truth", "found", "box", "point"] = "point"
    size: float = 3.0

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("x", "y"):
            object.__setattr__(self, name, np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64)))
        if self.x.shape != self.y.shape:
            raise ValueError(f"marks {self.label!r}: x and y must be equally long, got {self.x.size} and {self.y.size}")


@dataclass(frozen=True)
class ImagePanel:
    """One grey image with a title above, a note below, and marked points.

    Attributes
    ----------
    image : array of shape (height, width)
        Grey values; where all are NaN, the place stays empty.
    title, note : str
        Short texts.
    marks : tuple of Marks
        Points on it.
    step : str
        Which position of the slider shows this panel, if the grid has one.
    """

    image: Any
    title: str = ""
    note: str = ""
    marks: tuple[Marks, ...] = ()
    step: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        image = np.asarray(self.image, dtype=np.float64)
        if image.ndim != 2 or image.size == 0:
            raise ValueError(f"image of panel {self.title!r} must have two dimensions, got shape {image.shape}")
        object.__setattr__(self, "image", image)


@dataclass(frozen=True, kw_only=True)
class ImageGrid(_Titled):
    """A strip or page of images.

    Attributes
    ----------
    panels : tuple of ImagePanel
        Row by row.
    columns : int
        Panels in a row.
    shared_scale : bool
        Whether all panels share the limits of the grey scale.
    slider : str
        If not empty: what the panels' ``step`` is, such as "lambda / lambda_max"; a report on a screen
        may then walk through the panels, and a printed one shows them all.
    """

    panels: tuple[ImagePanel, ...]
    columns: int
    shared_scale: bool = False
    slider: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if self.columns < 1 or not self.panels:
            raise ValueError(f"image grid {self.name!r} needs at least one panel and one column")


@dataclass(frozen=True, kw_only=True)
class BarStrip(_Titled):
    """Scores of a few classes against a parameter, as a strip of colours with the true class marked.

    Attributes
    ----------
    scores : array of shape (classes, steps)
        The colours.
    classes : tuple of str
        From the bottom up.
    steps : array of shape (steps,)
        The parameter, on the horizontal axis.
    truth : str, optional
        The class that is marked by a line.
    image : ImagePanel, optional
        What was classified, drawn beside the strip.
    """

    scores: Any
    classes: tuple[str, ...]
    steps: Any
    x_label: str
    y_label: str
    value_label: str
    truth: str | None = None
    image: ImagePanel | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        scores: FloatArray = np.asarray(self.scores, dtype=np.float64)
        steps: FloatArray = np.asarray(self.steps, dtype=np.float64)
        if scores.shape != (len(self.classes), steps.size):
            raise ValueError(
                f"scores of {self.name!r} must have one row per class and one column per step, "
                f"{(len(self.classes), steps.size)}, got {scores.shape}"
            )
        if self.truth is not None and self.truth not in self.classes:
            raise ValueError(f"truth of {self.name!r} must be one of the classes, got {self.truth!r}")
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "steps", steps)


Figure: TypeAlias = LineFigure | ScatterFigure | HeatMap | ImageGrid | BarStrip
"""What a study's ``figures`` may return."""
