"""``fastsbl demo``: what a new user sees first."""

import pytest

pytest.importorskip("jinja2", reason="the demonstration needs the extra apps")
pytest.importorskip("astropy")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One run, in a folder of its own."""
    import os

    from fastsbl.cli import main

    folder = tmp_path_factory.mktemp("demo")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["demo", "--json"]) == 0
    finally:
        os.chdir(before)
    return folder / "fastsbl-demo"


def test_everything_is_there(done):
    assert sorted(path.name for path in done.iterdir()) == [
        "regression.npz", "report.html", "sources.ecsv", "stars.fits",
    ]  # fmt: skip
    assert list(done.parent.iterdir()) == [done]
    page = (done / "report.html").read_text(encoding="utf-8")
    for heading in ("Stars", "A clean image", "Stages", "A sparse regression", "Screening at work"):
        assert f">{heading}</h2>" in page
    assert "<code>fastsbl demo --json</code>" in page


def test_answers_are_good(done):
    """All stars and features are found and nothing else, and the image is much cleaner."""
    from fastsbl.cli._demo import Demo, clean, regression, stars

    demo = Demo()
    answers = dict((what, found) for chapter in (stars, clean, regression) for what, found, _ in chapter(demo).rows)
    assert answers["stars found"] == f"{demo.field.x.size}, and 0 false"
    assert answers["true features found"] == "8, and 0 false"
    assert float(answers["image quality (PSNR)"].split()[0]) > 40


def test_guide_has_the_numbers_of_the_report(done):
    """The table in the page on screening is that of the report."""
    import re
    from pathlib import Path

    guide = Path(__file__).parents[2] / "docs" / "screening.md"
    if not guide.exists():
        pytest.skip("the documentation is not beside the tests")
    page = (done / "report.html").read_text(encoding="utf-8")
    rows = (re.findall(r"<td[^>]*>([^<]*)</td>", line) for line in page.splitlines() if line.startswith("<tr><td"))
    in_report = {row[0].partition(",")[0]: row[1:] for row in rows if len(row) == 6}
    in_guide = {}
    for line in guide.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].partition(",")[0] in in_report:
            in_guide[cells[0].partition(",")[0]] = cells[1:]
    assert len(in_guide) == 6
    for name, cells in in_guide.items():
        assert cells == in_report[name]


def test_what_is_there_is_kept(fastsbl, tmp_path):
    (tmp_path / "fastsbl-demo").mkdir()
    outcome = fastsbl("demo")
    assert outcome.code == 1
    assert outcome.sentence() == "fastsbl: error: fastsbl-demo exists; --force replaces it, --out names another place"
    assert list((tmp_path / "fastsbl-demo").iterdir()) == []


def test_files_work_with_the_other_commands(fastsbl, done):
    outcome = fastsbl("locate", done / "stars.fits", "--json")
    assert outcome.data["sources"] == 6
    outcome = fastsbl("fit", done / "regression.npz", "--json", "--noise-ratio", "0.01")
    assert outcome.code == 0, outcome.err
    assert len(outcome.data["selected"]) >= 8


def test_interrupted_it_leaves_nothing(fastsbl, tmp_path, monkeypatch):
    from fastsbl.cli import _demo

    def stop(self, folder):
        (folder / "half").write_text("x")
        raise KeyboardInterrupt

    monkeypatch.setattr(_demo, "CHAPTERS", {"locating stars": _demo.stars})
    monkeypatch.setattr(_demo.Demo, "write", stop)
    assert fastsbl("demo").code == 130
    assert list(tmp_path.iterdir()) == []
