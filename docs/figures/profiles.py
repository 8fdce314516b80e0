"""Draw flame graphs of the hottest paths, from the stacks that ``benchmarks/profiles.py`` recorded.

Reads ``profiles.json`` beside itself and writes ``profile-<path>-light.svg`` and ``profile-<path>-dark.svg`` there, or
into the folder given on the command line. The documentation runs it while it is being built.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from screening_regions import DARK, LIGHT, Ink

HERE = Path(__file__).parent
HUES = {"dictionary": "#56b4e9", "lasso": "#e69f00", "sbl": "#5fbf9f", "screening": "#cc79a7"}
OTHER = "#b8b8b8"
WIDTH = 9.6  # inches
LETTER = 0.068  # inches, at the size of the labels


def tree(stacks: dict[str, int]) -> dict[str, Any]:
    """Nested counts: ``{"count": n, "inner": {name: ...}}``."""
    root: dict[str, Any] = {"count": 0, "inner": {}}
    for stack, count in stacks.items():
        node = root
        node["count"] += count
        for name in stack.split(";"):
            node = node["inner"].setdefault(name, {"count": 0, "inner": {}})
            node["count"] += count
    return root


def place(
    node: dict[str, Any], left: float, level: int, boxes: list[tuple[str, float, float, int]], total: int
) -> None:
    """Collect a box (name, left, width, level) for every call that is wide enough to be seen."""
    for name, inner in sorted(node["inner"].items()):
        width = inner["count"] / total
        if width > 0.002:
            boxes.append((name, left, width, level))
            place(inner, left, level + 1, boxes, total)
        left += width


def draw(item: dict[str, Any], ink: Ink) -> Figure:
    """The outermost call below, what it calls above; widths are shares of time."""
    root = tree(item["stacks"])
    boxes: list[tuple[str, float, float, int]] = []
    place(root, 0.0, 0, boxes, root["count"])
    levels = 1 + max(level for *_, level in boxes)
    figure = Figure(figsize=(WIDTH, 0.62 + 0.215 * levels), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots()
    axes.patch.set_alpha(0.0)
    used = set()
    for name, left, width, level in boxes:
        layer = re.search(r"\((\w+)/", name)
        key = layer[1] if layer and layer[1] in HUES else ""
        used.add(key)
        axes.add_patch(Rectangle((left, level), max(width - 0.0015, 0.0007), 0.94, fc=HUES.get(key, OTHER), ec="none"))
        letters = int((width * WIDTH * 0.97 - 0.06) / LETTER)
        short = name.split(" (")[0]
        label = name if len(name) <= letters else short if len(short) <= letters else short[: letters - 2] + "..."
        if letters >= 6:
            axes.text(left + 0.003, level + 0.45, label, fontsize=7.5, va="center", color="#1a1a1a")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, levels)
    axes.axis("off")
    axes.set_title(
        f"{item['title'][0].upper()}{item['title'][1:]}: {item['samples']:,} samples", color=ink.text, fontsize=10.5
    )
    keys = [Patch(color=colour, label=name) for name, colour in HUES.items() if name in used]
    legend = figure.legend(
        handles=[*keys, Patch(color=OTHER, label="others")],
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=9,
    )
    for text in legend.get_texts():
        text.set_color(ink.text)
    return figure


def main(folder: Path) -> None:
    """Write all pictures."""
    recorded = json.loads((HERE / "profiles.json").read_text(encoding="utf-8"))
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastsbl"}):
        for path, item in recorded["paths"].items():
            for name, ink in (("light", LIGHT), ("dark", DARK)):
                draw(item, ink).savefig(folder / f"profile-{path}-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
