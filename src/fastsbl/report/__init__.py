"""Pictures of answers, and the report that holds them: one HTML file that needs nothing else.

Needs matplotlib, and jinja2 for the report: ``pip install "fastsbl[apps]"``.
"""

from fastsbl.report.draw import draw
from fastsbl.report.page import Note, Part, Picture, Report, Section, render_report, write_report
from fastsbl.report.sources import SourcesDisplay, plot_sources
from fastsbl.report.theme import drawing, write_picture

__all__ = [
    "Note",
    "Part",
    "Picture",
    "Report",
    "Section",
    "SourcesDisplay",
    "draw",
    "drawing",
    "plot_sources",
    "render_report",
    "write_picture",
    "write_report",
]
