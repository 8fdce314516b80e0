"""Pictures of answers, and the report: one HTML file that needs nothing else.

Needs matplotlib, and jinja2 for the report: ``pip install "fastsbl[apps]"``.
"""

from fastsbl.report.draw import draw
from fastsbl.report.page import Note, Part, Picture, Report, Section, render_report, write_report
from fastsbl.report.path import PathDisplay, plot_path
from fastsbl.report.posterior import PosteriorDisplay, plot_posterior
from fastsbl.report.rules import ScreeningDisplay, plot_screening
from fastsbl.report.sources import SourcesDisplay, plot_sources
from fastsbl.report.theme import drawing, write_picture

__all__ = [
    "Note",
    "Part",
    "PathDisplay",
    "Picture",
    "PosteriorDisplay",
    "Report",
    "ScreeningDisplay",
    "Section",
    "SourcesDisplay",
    "draw",
    "drawing",
    "plot_path",
    "plot_posterior",
    "plot_screening",
    "plot_sources",
    "render_report",
    "write_picture",
    "write_report",
]
