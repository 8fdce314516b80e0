"""Draws the figures that studies describe as data."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np

from fastsbl.report.theme import FAINT, FOUND, INK, SERIES, TRUTH, drawing, new_figure, tidy_axes
from fastsbl.studies import figures as described

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_panels", "steps_of"]

_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_MARKERS = "osD^vPX"
_EASY = 4  # so many colours are told apart by everybody
_HATCHES = ("", "//", "xx")
_IMAGES = "gray"


def draw(figure: described.Figure) -> Figure:
    """Draw one described figure.

    Parameters
    ----------
    figure : LineFigure, ScatterFigure, HeatMap, ImageGrid or BarStrip
        From `fastsbl.studies.figures`.

    Returns
    -------
    matplotlib.figure.Figure
        Not connected to pyplot.

    Examples
    --------
    >>> from fastsbl.studies.figures import LineFigure, Series
    >>> line = Series("sphere", [0.1, 0.5], [3.0, 40.0])
    >>> draw(LineFigure(name="rates", title="Rates", alt="Rising", x_label="x", y_label="y", series=(line,)))
    <Figure size 580x... with 1 Axes>
    """
    with drawing():
        match figure:
            case described.LineFigure():
                return _lines(figure)
            case described.ScatterFigure():
                return _scatter(figure)
            case described.HeatMap():
                return _heat_map(figure)
            case described.ImageGrid():
                return draw_panels(figure, figure.panels)
            case described.BarStrip():
                return _strip(figure)
            case _:
                assert_never(figure)


def steps_of(figure: described.ImageGrid) -> list[str]:
    """Positions of the slider of an image grid, in the order in which they appear."""
    return list(dict.fromkeys(panel.step for panel in figure.panels if panel.step)) if figure.slider else []


def shorten(label: str, most: int = 40) -> str:
    """Return a label short enough for a legend.

    Examples
    --------
    >>> shorten("a name that goes on", 10)
    'a name th…'
    """
    return label if len(label) <= most else label[: most - 1] + "…"


def _styles(series: Sequence[described.Series]) -> list[dict[str, Any]]:
    """A colour for each series or group of series; within a group, beyond the colours and among many, dashes differ.

    Some of the colours are alike to some eyes, and all of them are in grey print. Emphasised lines stay whole.
    """
    crowded = len(series) > _EASY
    seen: dict[str, int] = {}
    members: dict[str, int] = {}
    styles = []
    for k, one in enumerate(series):
        group = one.group or f"\0{k}"
        place = seen.setdefault(group, len(seen)) if one.place is None else one.place
        rank = members.get(group, 0)
        members[group] = rank + 1
        if crowded and not one.group:
            rank = 0 if one.emphasis else place + place // len(SERIES)
        dash = (rank + place // len(SERIES)) % len(_DASHES)
        styles.append({"color": SERIES[place % len(SERIES)], "place": place, "dash": _DASHES[dash]})
    return styles


def _axes(figure: described.LineFigure | described.ScatterFigure) -> tuple[Figure, Axes]:
    page = new_figure()
    ax = page.subplots()
    _name_axes(ax, figure)
    ax.set(xscale=figure.x_scale, yscale=figure.y_scale)
    return page, ax


def _name_axes(
    ax: Axes, figure: described.LineFigure | described.ScatterFigure | described.HeatMap | described.BarStrip
) -> None:
    ax.set(
        title=fill(shorten(figure.title, 116), 58),
        xlabel=shorten(figure.x_label, 80),
        ylabel=fill(shorten(figure.y_label, 84), 42),
    )


def _finish(figure: described.LineFigure | described.ScatterFigure, page: Figure, ax: Axes) -> None:
    if figure.x_limits is not None:
        ax.set_xlim(figure.x_limits)
    if figure.y_limits is not None:
        ax.set_ylim(figure.y_limits)
    for height, label in figure.guides:
        ax.axhline(height, color=FAINT, linewidth=1.0, linestyle=(0, (2, 2)))
        ax.annotate(
            shorten(label),
            (1.0, height),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=10,
            color=FAINT,
        )
    tidy_axes(ax)
    handles, labels = ax.get_legend_handles_labels()
    if labels:
        labels = [shorten(label) for label in labels]
        columns = max(1, min(len(labels), 76 // (max(map(len, labels)) + 8)))
        width, height = page.get_size_inches()
        page.set_size_inches(width, height + 0.21 * -(-len(labels) // columns))
        page.legend(handles, labels, loc="outside lower left", ncols=columns, fontsize=10)


def _lines(figure: described.LineFigure) -> Figure:
    page, ax = _axes(figure)
    for one, style in zip(figure.series, _styles(figure.series), strict=True):
        if one.x.size == 1:  # a place on another line
            ax.plot(one.x, one.y, "o", label=one.label, color=style["color"], markersize=11, mew=1.8, fillstyle="none")
            continue
        few = one.x.size <= 16
        ax.plot(
            one.x, one.y, label=one.label, color=style["color"], linestyle=style["dash"], markersize=4.5,
            linewidth=2.6 if one.emphasis else 1.6, zorder=3 if one.emphasis else 2,
            marker=_MARKERS[style["place"] % len(_MARKERS)] if few else None,
        )  # fmt: skip
        if one.low is not None:
            ax.fill_between(one.x, one.low, one.high, color=style["color"], alpha=0.18, linewidth=0)
    for k, (low, high, label) in enumerate(figure.stretches):
        ax.axvspan(low, high, fc=FAINT, ec=FAINT, alpha=0.25, lw=0, hatch=_HATCHES[k % len(_HATCHES)], label=label)
    for k, (place, label) in enumerate(figure.places):
        ax.axvline(place, color=INK, linewidth=1.2, linestyle=_DASHES[(k + 1) % len(_DASHES)], label=label)
    _finish(figure, page, ax)
    return page


def _scatter(figure: described.ScatterFigure) -> Figure:
    page, ax = _axes(figure)
    for one, style in zip(figure.series, _styles(figure.series), strict=True):
        marker = _MARKERS[style["place"] % len(_MARKERS)]
        size = 7.0 if one.emphasis else 5.0
        if one.low is not None:
            bars = np.abs(np.vstack([one.y - one.low, one.high - one.y]))
            ax.errorbar(one.x, one.y, bars, fmt="none", ecolor=style["color"], elinewidth=1.0, alpha=0.7)
        alpha = 0.9 if one.x.size <= 60 else 0.5
        ax.plot(one.x, one.y, marker, label=one.label, color=style["color"], markersize=size, alpha=alpha, mew=0)
    _finish(figure, page, ax)
    return page


def _heat_map(figure: described.HeatMap) -> Figure:
    rows, columns = figure.values.shape
    page = new_figure(min(2.6 + 0.62 * columns, 9.0), min(1.7 + 0.36 * rows, 9.0))
    ax = page.subplots()
    ax.grid(visible=False)
    low, high = figure.limits if figure.limits is not None else (None, None)
    shown = ax.imshow(np.ma.masked_invalid(figure.values), cmap="viridis", vmin=low, vmax=high, aspect="auto")
    _name_axes(ax, figure)
    long = max(map(len, figure.columns), default=0) > 6
    ax.set_xticks(range(columns), [shorten(name, 20) for name in figure.columns], rotation=45 if long else 0)
    ax.set_yticks(range(rows), [shorten(name, 24) for name in figure.rows])
    for side in ax.spines.values():
        side.set_visible(False)
    ax.tick_params(length=0)
    bar = page.colorbar(shown, ax=ax, shrink=0.9)
    bar.set_label(shorten(figure.value_label))
    bar.outline.set_visible(False)
    if figure.show_values:
        for i, j in np.argwhere(np.isfinite(figure.values)):
            bright = float(np.asarray(shown.norm(figure.values[i, j]))) > 0.6
            text = f"{figure.values[i, j]:.3g}"
            ax.text(j, i, text, ha="center", va="center", fontsize=10, color="#101010" if bright else "#fafafa")
    return page


def draw_panels(figure: described.ImageGrid, panels: Sequence[described.ImagePanel], *, titled: bool = True) -> Figure:
    """Draw some panels of an image grid, with the limits of the grey scale that all of them share if they do."""
    with drawing():
        columns = min(figure.columns, len(panels))
        rows = -(-len(panels) // columns)
        shape = panels[0].image.shape
        width = min(2.9 * columns, 9.0) if columns > 1 else 4.2
        cell = width / columns
        texts = 0.28 * max(bool(p.title) for p in panels) + 0.28 * max(bool(p.note) for p in panels)
        legend = 0.35 if any(p.marks for p in panels) else 0.05
        page = new_figure(width, rows * (cell * shape[0] / shape[1] + texts) + legend + 0.3)
        grid = page.subplots(rows, columns, squeeze=False)
        limits: tuple[float | None, float | None] = (None, None)
        if figure.shared_scale:
            every = [panel.image[np.isfinite(panel.image)] for panel in figure.panels]
            limits = min(float(v.min()) for v in every if v.size), max(float(v.max()) for v in every if v.size)
        handles: dict[str, Any] = {}
        for ax in grid.flat:
            ax.set_axis_off()
        for ax, panel in zip(grid.flat, panels, strict=False):
            handles |= _panel(ax, panel, limits)
        if titled:
            page.suptitle(shorten(figure.title, 80), x=0.01, ha="left", fontsize=11)
        if handles:
            page.legend(
                list(handles.values()),
                [shorten(label) for label in handles],
                loc="outside lower center",
                ncols=len(handles),
                fontsize=10,
            )
        return page


def _panel(ax: Axes, panel: described.ImagePanel, limits: tuple[float | None, float | None]) -> dict[str, Any]:
    if not np.isfinite(panel.image).any():  # an empty place in the grid
        return {}
    ax.imshow(panel.image, cmap=_IMAGES, vmin=limits[0], vmax=limits[1])
    height, width = panel.image.shape
    ax.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    ax.set_title(shorten(panel.title), fontsize=10)
    if panel.note:
        ax.text(
            0.0, -0.03, shorten(panel.note, 60), transform=ax.transAxes, ha="left", va="top", fontsize=10, color=FAINT
        )
    handles = {}
    for marks in panel.marks:
        drawn = add_marks(ax, marks)
        if marks.label:
            handles[marks.label] = drawn
    return handles


def add_marks(ax: Axes, marks: described.Marks) -> Any:
    """Mark points on an image and return something for the legend."""
    if marks.style == "box":
        from matplotlib.patches import Rectangle

        half = marks.size / 2
        for x, y in zip(marks.x, marks.y, strict=True):
            ax.add_patch(Rectangle((x - half, y - half), marks.size, marks.size, fill=False, ec=FOUND, lw=1.2))
        return Rectangle((0, 0), 1, 1, fill=False, ec=FOUND, lw=1.2)
    many = marks.x.size > 40
    options: dict[str, dict[str, Any]] = {
        "truth": {"marker": "+", "color": TRUTH, "markersize": 5 if many else 8, "mew": 1.0 if many else 1.6},
        "found": {"marker": "o", "color": FOUND, "markersize": 5 if many else 9, "mew": 1.0 if many else 1.4},
        "point": {"marker": ".", "color": SERIES[0], "markersize": 4, "mew": 0},
    }
    return ax.plot(
        marks.x,
        marks.y,
        linestyle="none",
        fillstyle="full" if marks.style == "point" else "none",
        **options[marks.style],
    )[0]


def _strip(figure: described.BarStrip) -> Figure:
    rows = len(figure.classes)
    page = new_figure(5.8, 1.4 + 0.24 * rows)
    if figure.image is None:
        ax = page.subplots()
    else:
        side, ax = page.subplots(1, 2, width_ratios=(1, 3))
        side.set_axis_off()
        _panel(side, figure.image, (None, None))
    ax.grid(visible=False)
    shown = ax.pcolormesh(
        np.arange(figure.steps.size + 1) - 0.5, np.arange(rows + 1) - 0.5, figure.scores, cmap="viridis"
    )
    _name_axes(ax, figure)
    every = -(-figure.steps.size // 6)
    places = range(0, figure.steps.size, every)
    ax.set_xticks(list(places), [f"{figure.steps[k]:.3g}" for k in places])
    ax.set_yticks(range(rows), [shorten(name, 24) for name in figure.classes])
    if figure.truth is not None:
        place = figure.classes.index(figure.truth)
        ax.axhline(place - 0.5, color=FOUND, linewidth=1.4)
        ax.axhline(place + 0.5, color=FOUND, linewidth=1.4)
        ax.get_yticklabels()[place].set_color(FOUND)
        ax.get_yticklabels()[place].set_fontweight("bold")
    bar = page.colorbar(shown, ax=ax, shrink=0.9)
    bar.set_label(shorten(figure.value_label))
    bar.outline.set_visible(False)
    return page
