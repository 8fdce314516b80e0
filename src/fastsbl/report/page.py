"""The report: one HTML file that needs nothing else, on a screen or on paper, in light or dark."""

from __future__ import annotations

import base64
import hashlib
import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from fastsbl.report.draw import draw, draw_panels, steps_of
from fastsbl.report.theme import colour_variables, inline_svg, printable
from fastsbl.studies.claims import Claim
from fastsbl.studies.figures import Figure, ImageGrid
from fastsbl.studies.study import Table

__all__ = ["Note", "Part", "Picture", "Report", "Section", "render_report", "write_report"]

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Note:
    """A paragraph of plain text.

    Attributes
    ----------
    text : str
        Shown as it is; markup in it has no meaning.
    """

    text: str


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure, for what `fastsbl.studies.figures` has no description.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        Drawn within `fastsbl.report.theme.drawing`, for the colours to follow the page.
    alt : str
        What it shows, in words.
    caption : str
        What a reader has to know.
    """

    figure: Any
    alt: str
    caption: str = ""


Part: TypeAlias = Note | Table | Picture | Figure | tuple[Claim, ...]
"""What a section may hold; a tuple of claims becomes the table of claims."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it.

    Attributes
    ----------
    title : str
        The heading.
    parts : sequence of Note, Table, Picture, figures of `fastsbl.studies.figures`, or a tuple of claims
        From the top down.
    """

    title: str
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Report:
    """What `write_report` writes.

    Attributes
    ----------
    title : str
        Of the page.
    lead : str
        What the page is about, in a sentence or two.
    sections : sequence of Section
        From the top down.
    command : str
        What repeats it.
    environment : mapping of str to str
        Where it was made, see `fastsbl.studies.describe_environment`.
    highlights : mapping of str to str
        A few numbers for the top of the page, by name.
    """

    title: str
    lead: str = ""
    sections: Sequence[Section] = ()
    command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    highlights: Mapping[str, str] = field(default_factory=dict)


def write_report(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write a report as one HTML file.

    Parameters
    ----------
    report : Report
        What to write.
    path : path-like
        The file; one that exists is replaced.

    Returns
    -------
    Path
        Where it is.
    """
    target = Path(path)
    target.write_text(render_report(report), encoding="utf-8")
    return target


def render_report(report: Report) -> str:
    """Return a report as a self-contained HTML page.

    All texts are escaped. The page carries a policy that forbids any request and any script but its own.

    Examples
    --------
    >>> from fastsbl.report import Report, Section, Note, render_report
    >>> page = render_report(Report("Stars", sections=[Section("Found", [Note("<script>1</script>")])]))
    >>> "<script>1</script>" in page, "&lt;script&gt;1&lt;/script&gt;" in page
    (False, True)
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    style = style.replace("/* light */", colour_variables(dark=False)).replace(
        "/* dark */", colour_variables(dark=True)
    )
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, finalize=_finalize, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    counter = iter(range(10_000))
    sections = [
        {"title": section.title, "id": f"s{k}", "parts": [_part(part, counter) for part in section.parts]}
        for k, section in enumerate(report.sections, 1)
    ]
    return environment.get_template("report.html").render(
        report=report, sections=sections, script=Markup(script), digest=digest, style=Markup(style)
    )


def _finalize(value: Any) -> Any:
    """Clean what is shown of characters that have no place on a page; markup of our own stays as it is."""
    return printable(value) if type(value) is str else value


def _part(part: Part, counter: Any) -> dict[str, Any]:
    """What the template needs to know of one part."""
    if isinstance(part, Note):
        return {"kind": "note", "text": part.text}
    if isinstance(part, Table):
        rows = [[_cell(value) for value in row] for row in part.rows]
        numeric = [bool(rows) and all(row[k]["numeric"] for row in rows) for k in range(len(part.columns))]
        return {"kind": "table", "table": part, "rows": rows, "numeric": numeric}
    if isinstance(part, tuple):
        return {"kind": "claims", "claims": [(claim, _verdict_class(claim.verdict)) for claim in part]}
    if isinstance(part, Picture):
        return {"kind": "figure", "svg": _svg(part.figure, counter), "alt": part.alt, "caption": part.caption}
    if isinstance(part, ImageGrid) and len(steps_of(part)) > 1:
        return _slider(part, counter)
    return {"kind": "figure", "svg": _svg(draw(part), counter), "alt": part.alt, "caption": part.caption}


def _slider(grid: ImageGrid, counter: Any) -> dict[str, Any]:
    """One picture for each position; panels without a position are part of all of them."""
    steps = []
    for step in steps_of(grid):
        panels = [panel for panel in grid.panels if panel.step in ("", step)]
        notes = "; ".join(
            f"{panel.title}: {panel.note}" if panel.title else panel.note for panel in panels if panel.note
        )
        steps.append({"label": step, "svg": _svg(draw_panels(grid, panels, titled=False), counter), "notes": notes})
    return {
        "kind": "slider", "name": grid.slider, "steps": steps, "title": grid.title, "alt": grid.alt,
        "caption": grid.caption, "id": f"slider{next(counter)}",
    }  # fmt: skip


def _svg(figure: Any, counter: Any) -> Any:
    from markupsafe import Markup

    return Markup(inline_svg(figure, f"f{next(counter)}"))


def _cell(value: Any) -> dict[str, Any]:
    """A cell as it is shown, and by what it is sorted."""
    if isinstance(value, bool) or value is None:
        return {"text": {True: "yes", False: "no", None: ""}[value], "key": str(value), "numeric": value is None}
    if isinstance(value, numbers.Real):
        number = float(value)
        text = str(value) if isinstance(value, numbers.Integral) else f"{number:.4g}"
        return {"text": text, "key": repr(number) if math.isfinite(number) else "", "numeric": True}
    text = str(value)
    found = re.match(r"\s*[-+−]?\d+(\.\d+)?(e[-+]?\d+)?", text, re.IGNORECASE)
    return {"text": text, "key": found.group().strip().replace("−", "-") if found else text, "numeric": bool(found)}


def _verdict_class(verdict: str) -> str:
    return {"holds": "good", "does not hold": "bad", "not measured": "open"}.get(verdict, "partly")
