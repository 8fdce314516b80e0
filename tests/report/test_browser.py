"""The report in chromium: no complaint, no request, a slider that works, readable on a desk and on a phone."""

import pytest
from sample_report import EVIL, sample_report

from fastsbl.report import write_report


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_report(sample_report(), tmp_path_factory.mktemp("report") / "report.html")


@pytest.mark.parametrize("name", ["plain", EVIL.replace("\x1b", "")])
def test_loads_quietly(open_page, tmp_path, name):
    path = write_report(sample_report(name), tmp_path / "report.html")
    page = open_page(path)
    assert page.console == []
    assert [url for url in page.requests if not url.startswith("data:")] == [path.as_uri()]
    assert page.run("return document.title").startswith("A sample")
    assert page.run("return document.querySelector('h1').textContent") == f"A sample {name}"


def test_the_policy_stops_scripts_and_requests(open_page, tmp_path):
    """What a mistake in escaping would let in is refused by the page's own policy."""
    path = write_report(sample_report(), tmp_path / "report.html")
    evil = "<script>document.title='owned'</script><img src='http://127.0.0.1:9/x.png'>"
    path.write_text(path.read_text(encoding="utf-8").replace("<main>", "<main>" + evil), encoding="utf-8")
    page = open_page(path)
    assert page.run("return document.title").startswith("A sample")
    assert sum("Content Security Policy" in entry["message"] for entry in page.console) >= 2


def test_slider_changes_the_picture(open_page, file):
    page = open_page(file)
    shown = "return [...document.querySelectorAll('.step')].filter(s => s.offsetHeight > 0).map(s => s.dataset.label)"
    said = "return document.querySelector('output').textContent"
    move = """const range = document.querySelector('input[type=range]'); range.value = arguments[0];
              range.dispatchEvent(new Event('input'))"""
    seen = set()
    for position, label in enumerate(("0.5", "0.3", "0.1")):
        page.run(move, position)
        assert page.run(shown) == [label]
        assert page.run(said) == label
        visible = next(s for s in page.driver.find_elements("css selector", ".step") if s.is_displayed())
        seen.add(visible.screenshot_as_base64)
    assert len(seen) == 3
    page.driver.find_element("css selector", "input[type=range]").send_keys("\ue012")  # arrow to the left
    assert page.run(said) == "0.3"


def test_tables_sort(open_page, file):
    page = open_page(file)
    table = "document.querySelectorAll('table.sortable')[0]"
    first = f"return [...{table}.tBodies[0].rows].map(r => r.cells[0].innerText[0]).join('')"
    press = f"{table}.tHead.rows[0].cells[arguments[0]].firstChild.click()"
    assert page.run(first) == "bac"
    for column, expected in ((0, "abc"), (0, "cba"), (2, "abc"), (1, "abc")):  # the number that is none comes last
        page.run(press, column)
        assert page.run(first) == expected
    assert page.run("return document.querySelectorAll('[aria-sort]').length") == 1


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_readable(open_page, file, width, dark):
    """Nothing sticks out to the right; letters are large enough and stand out from the paper."""
    page = open_page(file, width=width, dark=dark)
    assert page.run("return document.documentElement.scrollWidth") <= width
    style = "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e)[arguments[1]])"
    sizes = page.run(style, "p, td, th, dd, dt, h2, figcaption", "fontSize")
    assert min(float(size.removesuffix("px")) for size in sizes) >= 13
    drawn = page.run(
        """return [...document.querySelectorAll('svg text')].filter(e => e.getBoundingClientRect().height > 0)
           .map(e => Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b) * parseFloat(getComputedStyle(e).fontSize))"""
    )
    assert min(drawn) >= 7
    paper = page.run("return getComputedStyle(document.body).backgroundColor")
    inks = set(page.run(style, "p, td, h1, dd, dt, a, .verdict, figcaption", "color"))
    inks |= set(page.run(style, "svg text", "fill")) - {"rgb(16, 16, 16)", "rgb(250, 250, 250)"}  # on coloured cells
    assert min(contrast(ink, paper) for ink in inks) >= 4.5


def test_prints_every_position_on_white(open_page, file):
    page = open_page(file, media="print", dark=True)
    assert page.run("return [...document.querySelectorAll('.step')].filter(s => s.offsetHeight > 0).length") == 3
    assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.run("return getComputedStyle(document.querySelector('.control')).display") == "none"


def test_without_scripts_every_position_shows(open_page, file):
    page = open_page(file)
    page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.driver.get(file.as_uri())
        steps = page.driver.find_elements("css selector", ".step")
        assert [step.is_displayed() for step in steps] == [True] * 3
        assert not page.driver.find_element("css selector", ".control").is_displayed()
    finally:
        page.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def contrast(ink, paper):
    """Contrast ratio of two colours as the web's guidelines define it."""

    def luminance(colour):
        parts = [float(v) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (high + 0.05) / (low + 0.05)
