"""``fastsbl study`` and ``fastsbl bench``."""

import json

import pytest

pytest.importorskip("matplotlib", reason="reports need the extra apps")
pytest.importorskip("jinja2")

SMALL = (
    "--data", "simulated", "--n-rows", "30", "--n-columns=60", "--targets", "1", "--ratios", "0.3,0.6", "--rejection",
    "false", "--plans", '[{solver="cd", rules=["auto"]}]',
)  # fmt: skip


def test_lists_and_shows(fastsbl):
    listed = fastsbl("study", "--json").data["studies"]
    assert "screening" in listed
    assert "screening" in fastsbl("study").out
    shown = fastsbl("study", "screening", "--show", "--json", *SMALL).data["config"]
    assert shown["data"] == ["simulated"]
    assert shown["n_rows"] == 30
    assert shown["ratios"] == [0.3, 0.6]
    assert shown["rejection"] is False
    import tomllib

    assert tomllib.loads(fastsbl("study", "screening", "--show", *SMALL).out) == shown


def test_runs_resumes_and_reports(fastsbl, tmp_path):
    outcome = fastsbl("study", "screening", *SMALL)
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "study-screening"
    assert "the report: study-screening/report.html" in outcome.out
    there = {path.name for path in folder.iterdir()}
    assert {"results.sqlite", "results.csv", "claims.md", "config.toml", "report.html"} <= there
    pictures = {name for name in there if name.endswith((".png", ".svg"))}
    assert pictures
    assert {name.rpartition(".")[0] + ".png" for name in pictures} <= there
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "fastsbl study screening --data simulated" in page
    assert "Screening tests inside sparse Bayesian learning" in page
    again = fastsbl("study", "screening", *SMALL, "--json")
    assert again.code == 0, again.err
    assert (again.data["done"], again.data["before"]) == (0, 2)
    assert again.data["claims"]
    other = fastsbl("study", "screening", *SMALL, "--seed", "1")
    assert other.code == 1
    assert "made with another configuration" in other.sentence()
    fresh = fastsbl("study", "screening", *SMALL, "--seed", "1", "--force", "--json")
    assert (fresh.data["done"], fresh.data["before"]) == (2, 0)


def test_configuration_from_a_file(fastsbl, tmp_path):
    (tmp_path / "mine.toml").write_text("targets = 3\nratios = [0.5]\n")
    shown = fastsbl("study", "screening", "--config", "mine.toml", "--targets", "4", "--show", "--json").data["config"]
    assert (shown["targets"], shown["ratios"]) == (4, [0.5])


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("screaming",), 1, "did you mean 'screening'"),
        (("screening", "--target", "3"), 1, "did you mean 'targets'"),
        (("screening", "--targets", "many"), 1, "targets"),
        (("screening", "loose"), 2, "unexpected argument loose"),
        (("screening", "--config", "none.toml"), 1, "there is no file none.toml"),
        (("screening", "--config", "bad.toml"), 1, "bad.toml: not valid TOML"),
        (("screening", "--out", "bad.toml", *SMALL), 1, "bad.toml is a file"),
        (("screening", "--out", "no/where", *SMALL), 1, "the folder no for where does not exist"),
    ],
)
def test_wrong_use(fastsbl, tmp_path, arguments, code, text):
    (tmp_path / "bad.toml").write_text("targets = [")
    outcome = fastsbl("study", *arguments)
    assert outcome.code == code, outcome.err
    assert text in outcome.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_interrupted_it_keeps_what_is_done(fastsbl, tmp_path, monkeypatch):
    from fastsbl.studies.screening import ScreeningStudy

    whole = ScreeningStudy.run_unit
    calls = []

    def stop_at_the_second(self, context, unit):
        calls.append(unit)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, context, unit)

    monkeypatch.setattr(ScreeningStudy, "run_unit", stop_at_the_second)
    stopped = fastsbl("study", "screening", *SMALL)
    assert stopped.code == 130
    assert "the same command goes on from there" in stopped.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    resumed = fastsbl("study", "screening", *SMALL, "--json")
    assert (resumed.data["done"], resumed.data["before"]) == (1, 1)


def test_bench(fastsbl, tmp_path, monkeypatch):
    from dataclasses import replace
    from functools import partial

    import fastsbl.bench as bench

    cases = (("lasso", "gaussian-1e3", (0.5,)),)
    plan = replace(bench.QUICK, cases=cases, repeats=1, costs=False, solvers=("fastsbl", "scikit-learn"))
    run = bench.run_benchmark
    monkeypatch.setattr(bench, "run_benchmark", partial(run, plan=plan))
    outcome = fastsbl("bench", "--quick", "--only", "lasso")
    assert outcome.code == 0, outcome.err
    assert "## Weighted lasso" in outcome.out
    assert "| scikit-learn |" in outcome.out
    found = json.loads((tmp_path / "bench.json").read_text())
    assert {row["solver"] for row in found["rows"]} == {"fastsbl", "scikit-learn"}
    assert (tmp_path / "bench.md").read_text() in outcome.out + "\n"
    assert "bench.json exists" in fastsbl("bench", "--quick").sentence()
    assert "only must name parts of the benchmark" in fastsbl("bench", "--force", "--only", "x").sentence()
    more = replace(plan, cases=(("lasso", "gaussian-1e3", (0.7,)),))
    monkeypatch.setattr(bench, "run_benchmark", partial(run, plan=more))
    fastsbl("bench", "--add")
    assert {row["ratio"] for row in json.loads((tmp_path / "bench.json").read_text())["rows"]} == {0.5, 0.7}
    (tmp_path / "other.json").write_text("[]")
    assert "--add needs results of an earlier run" in fastsbl("bench", "--add", "--out", "other.json").sentence()
    assert fastsbl("bench", "--out", "a.md").code == 2
