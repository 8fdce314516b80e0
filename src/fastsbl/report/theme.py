"""Colours, fonts and files: one drawing serves a light page, a dark page and paper."""

from __future__ import annotations

import io
import os
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "FAINT",
    "FOUND",
    "GRID",
    "INK",
    "SERIES",
    "TRUTH",
    "colour_variables",
    "drawing",
    "inline_svg",
    "new_axes",
    "new_figure",
    "printable",
    "tidy_axes",
    "write_picture",
]

INK, FAINT, GRID = "#20242b", "#6b7280", "#d9dde3"
TRUTH, FOUND = "#018a62", "#cf4a02"
# The hues of Okabe and Ito, made for all kinds of colour vision, darkened until they can be read on white.
SERIES = ("#0072b2", "#d05a00", "#018f6b", "#b0518c", "#8a6d00", "#3b8fc4", "#5a5f66")

# What stands for each of them on a dark page.
_DARK = {
    INK: "#e6e9ee", FAINT: "#9aa4b2", GRID: "#363d47", TRUTH: "#3ddbab", FOUND: "#ff9257",
    "#0072b2": "#5db5ea", "#d05a00": "#f79a51", "#018f6b": "#35cfa3", "#b0518c": "#e796c3",
    "#8a6d00": "#e3c24a", "#3b8fc4": "#93cdf2", "#5a5f66": "#aab2bd",
}  # fmt: skip

_STYLE: Any = {
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.facecolor": "none",
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "image.interpolation": "none",
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "text.color": INK,
    "text.parse_math": False,  # names come from files, and $ in them means nothing
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Context in which everything is drawn in the style of the reports."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def new_figure(width: float = 5.8, height: float = 3.5) -> Figure:
    """Return an empty figure, in inches, that no window shows."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_axes(ax: Axes | None, width: float = 5.8, height: float = 3.5) -> Axes:
    """Return ``ax``, or axes in a new figure of pyplot, which a notebook shows."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    figure.set_facecolor("white")  # the notebook around it may be dark
    return axes


def tidy_axes(ax: Axes) -> None:
    """Write numbers on logarithmic axes plainly (0.01 rather than a power)."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    for axis, scale, limits in ((ax.xaxis, ax.get_xscale(), ax.get_xlim()), (ax.yaxis, ax.get_yscale(), ax.get_ylim())):
        if scale != "log":
            continue
        low, high = min(limits), max(limits)
        span = high / low if low > 0 else np.inf
        if span < 10:
            axis.set_major_locator(MaxNLocator(5))
        else:
            axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if span < 200 else (1,), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def write_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG or SVG, by the name of the file, for white paper; the same figure gives the same bytes."""
    import matplotlib as mpl

    target = Path(path)
    if target.suffix.lower() == ".svg":
        target.write_text(_svg_of(figure, "path", "fastsbl", facecolor="white"), encoding="utf-8")
        return
    if target.suffix.lower() != ".png":
        raise ValueError(f"path must end in .png or .svg, got {target.name!r}")
    with _any_letters(), mpl.rc_context({"text.parse_math": False}):
        figure.savefig(target, format="png", dpi=144, facecolor="white", metadata={"Software": None})


def _svg_of(figure: Figure, fonts: Any, salt: str, **options: Any) -> str:
    """Return a figure as SVG, without letters that XML does not allow."""
    import matplotlib as mpl

    target = io.StringIO()
    with _any_letters(), mpl.rc_context({"svg.fonttype": fonts, "svg.hashsalt": salt, "text.parse_math": False}):
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None}, **options)
    return printable(target.getvalue())


@contextmanager
def _any_letters() -> Iterator[None]:
    """Do not complain about letters that the font for measuring lacks: names may be in any script."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


def printable(text: str) -> str:
    r"""Return text without the characters that have no place in XML or HTML, each shown as a replacement sign.

    Examples
    --------
    >>> printable("bell\x07") == "bell\ufffd"
    True
    """
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


_SVG = "http://www.w3.org/2000/svg"
_LEAST_LETTERS = 8.0  # pixels: a drawing too wide for the page at this size is scrolled, not shrunk further
_XLINK = "{http://www.w3.org/1999/xlink}href"


def inline_svg(figure: Figure, prefix: str) -> str:
    """Return a figure as an SVG element for an HTML page, its colours as variables that follow the page's theme.

    It shrinks with the page until its smallest letters are 8 pixels high, and no further.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn within `drawing`.
    prefix : str
        Letters and digits that no other figure of the page has: the names inside begin with it.
    """
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ET.fromstring(_svg_of(figure, "none", prefix, transparent=True).encode("utf-8"))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}title"):
                parent.remove(child)
    for element in root.iter():
        _localise(element, prefix)
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    least = _LEAST_LETTERS / min(_sizes_of_letters(root), default=10.0) * width
    size = f"min-width: {least:.0f}px; max-width: {max(least, width * 1.5):.0f}px"
    root.set("style", f"{size}; aspect-ratio: {width:g} / {height:g}")
    root.set("aria-hidden", "true")  # the text alternative is on the figure around it
    text = ET.tostring(root, encoding="unicode")
    for colour in _DARK:
        text = re.sub(re.escape(colour), f"var({_variable(colour)})", text, flags=re.IGNORECASE)
    return text


def _sizes_of_letters(root: ET.Element) -> Iterator[float]:
    """Font sizes of the texts of a drawing, in its own units."""
    for element in root.iter(f"{{{_SVG}}}text"):
        found = re.search(r"font(?:-size)?: [^;]*?([\d.]+)px", element.get("style", ""))
        if found:
            yield float(found.group(1))


def _localise(element: ET.Element, prefix: str) -> None:
    """Give names a prefix, so that several drawings fit on one page, and texts the font of the page."""
    if "id" in element.attrib:
        element.set("id", f"{prefix}-{element.attrib['id']}")
    link = element.get(_XLINK, "")
    if link.startswith("#"):
        element.set(_XLINK, f"#{prefix}-{link[1:]}")
    for name, value in element.attrib.items():
        if "url(#" in value:
            element.set(name, value.replace("url(#", f"url(#{prefix}-"))
    if element.tag == f"{{{_SVG}}}text" and "style" in element.attrib:
        style = re.sub(r"font-family:[^;]*", "font-family: inherit", element.attrib["style"])
        element.set("style", re.sub(r"(font: [\d.]+px) [^;]*", r"\1 inherit", style))
    if element.tag == f"{{{_SVG}}}style":
        element.text = ""  # matplotlib's rule for all elements would reach the whole page


def _variable(colour: str) -> str:
    return f"--c-{colour[1:]}"


def colour_variables(*, dark: bool) -> str:
    """Return the colours of drawings as CSS declarations."""
    return "; ".join(f"{_variable(light)}: {night if dark else light}" for light, night in _DARK.items())
