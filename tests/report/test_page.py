"""The report as a file."""

from html.parser import HTMLParser

import numpy as np
import pytest
from sample_report import EVIL, sample_report

from fastsbl.report import Note, Picture, Report, Section, draw, drawing, render_report, write_picture, write_report
from fastsbl.report.theme import _DARK, inline_svg, new_figure
from fastsbl.studies import Table
from fastsbl.studies.figures import HeatMap, ImageGrid, ImagePanel, LineFigure, Series


class Elements(HTMLParser):
    """Collects the elements of a page, and checks their nesting."""

    VOID = ("meta", "link", "input", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.open, self.attributes = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page():
    return render_report(sample_report())


def test_elements_are_nested_and_names_differ(page):
    elements = Elements(page)
    assert elements.open == []
    assert len(elements.ids) == len(set(elements.ids))
    assert elements.tags.count("h1") == 1
    assert elements.tags.count("svg") == 4 + 3  # the slider has three positions


def test_nothing_is_asked_for_outside(page):
    for tag, name, value in Elements(page).attributes:
        if name in ("src", "href", "xlink:href", "action", "srcset"):
            assert value.startswith(("data:", "#")), (tag, name, value[:80])
    assert "@import" not in page
    for part in page.split("url(")[1:]:
        assert part.startswith("#")


def test_every_picture_has_words(page):
    elements = Elements(page)
    roles = [value for tag, name, value in elements.attributes if (tag, name) == ("div", "role")]
    labels = [value for tag, name, value in elements.attributes if (tag, name) == ("div", "aria-label")]
    assert roles.count("img") == elements.tags.count("svg")
    assert sum(label.startswith("The field lambda share 0.") for label in labels) == 3
    assert "The field lambda share 0.3. model: 1 sources" in labels


def test_hostile_names_stay_text(page):
    elements = Elements(render_report(sample_report(EVIL)))
    assert elements.open == []
    assert elements.tags.count("script") == 1
    assert elements.tags.count("img") == 0
    assert not [name for _, name, _ in elements.attributes if name.startswith("on")]
    assert set(elements.tags) == set(Elements(page).tags)


def test_the_same_report_gives_the_same_bytes(page):
    assert render_report(sample_report()) == page


def test_every_colour_of_a_drawing_follows_the_theme(page):
    for colour in _DARK:
        assert colour not in page.partition("</style>")[2].lower()
        assert f"--c-{colour[1:]}:" in page


def test_cells_sort_by_their_numbers():
    rows = (("x", 1.23456789, True, None), ("y", 1e9, False, "12.5 [3, 4]"))
    page = render_report(Report("t", sections=[Section("s", [Table("n", "t", ("a", "b", "c", "d"), rows)])]))
    assert '<td class="number" data-key="1.23456789">1.235</td>' in page
    assert '<td class="number" data-key="12.5">12.5 [3, 4]</td>' in page
    assert ">yes<" in page


def test_own_pictures_and_empty_reports(tmp_path):
    with drawing():
        figure = new_figure()
        figure.subplots().plot([1, 2], [3, 4])
    report = Report("t", sections=[Section("s", [Picture(figure, "a line", "below"), Note("n")])])
    text = write_report(report, tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'aria-label="a line"' in text
    assert "How to repeat" not in text
    assert "<h1>only</h1>" in render_report(Report("only"))


def test_drawings_do_not_read_mathematics_into_names():
    with drawing():
        figure = new_figure()
        figure.subplots().set_title(r"costs $\frac and $5")
        text = inline_svg(figure, "p")
    assert r"costs $\frac and $5" in text


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_pictures_on_disk(tmp_path, kind):
    lines = sample_report(EVIL).sections[0].parts[1]
    for name in "ab":
        write_picture(draw(lines), tmp_path / f"{name}.{kind}")
    content = (tmp_path / f"a.{kind}").read_bytes()
    assert content == (tmp_path / f"b.{kind}").read_bytes()
    assert len(content) > 5000
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        write_picture(draw(lines), tmp_path / "a.gif")


@pytest.mark.parametrize("x", [[1.0, 1e6], [0.05, 0.9], [1.0, 1.0]])
def test_logarithmic_axes_have_plain_numbers(x):
    one = Series("a", x, [1.0, np.nan])
    figure = draw(LineFigure(name="n", title="t", alt="a", x_label="x", y_label="y", x_scale="log", series=(one,)))
    figure.canvas.draw()
    texts = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert texts
    assert all(float(text) > 0 for text in texts)


def test_places_and_stretches_stand_in_the_legend():
    one = Series("a", [0.0, 0.5, 1.0], [1.0, 3.0, 2.0])
    stretch = (0.5, 0.6, "best in the paper")
    axes = {"name": "n", "title": "t", "alt": "a", "x_label": "x", "y_label": "y"}
    figure = draw(LineFigure(**axes, series=(one,), places=((0.2, "true noise"),), stretches=(stretch,)))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "best in the paper", "true noise"]
    (ax,) = figure.axes
    assert [line.get_xdata()[0] for line in ax.lines] == [0.0, 0.2]
    (shaded,) = (patch for patch in ax.patches if patch.get_label() == "best in the paper")
    assert shaded.get_extents().transformed(ax.transData.inverted()).intervalx == pytest.approx([0.5, 0.6])


def test_little_to_draw():
    """No series, an empty one, one image of one grey, a map of nothing."""
    axes = {"name": "n", "title": "t", "alt": "a", "x_label": "x", "y_label": "y"}
    empty = HeatMap(**axes, values=[[np.nan]], rows=("r",), columns=("c",), value_label="v", show_values=True)
    grey = ImageGrid(name="n", title="t", alt="a", columns=3, panels=(ImagePanel(np.zeros((2, 5))),))
    for one in (LineFigure(**axes, series=()), LineFigure(**axes, series=(Series("", [], []),)), grey, empty):
        figure = draw(one)
        figure.canvas.draw()
        assert figure.axes[0].get_title(loc="left") == "t" or figure.get_suptitle() == "t"
