"""The study engine: configurations, the store, resuming, failures, exports."""

import csv
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from fastsbl.studies import (
    Claim,
    ConfigError,
    Store,
    StoreError,
    Study,
    Unit,
    claims_markdown,
    config_to_toml,
    find_study,
    median_interval,
    parse_config,
    read_config,
    replace_config,
    run_study,
    study_names,
)
from fastsbl.studies.runner import _context


@dataclass(frozen=True)
class Inner:
    rule: str = "auto"
    ratios: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Config:
    targets: int = 3
    lam: float = 0.5
    name: Literal["a", "b"] = "a"
    flag: bool = False
    parts: tuple[Inner, ...] = (Inner(),)
    size: int | None = None

    def __post_init__(self):
        if self.targets < 0:
            raise ValueError(f"targets must be at least 0, got {self.targets}")


class Counting(Study[Config, dict]):
    """Records the unit's number and its square; fails or warns where told."""

    name = "counting"
    title = "Counting"
    config_type = Config
    timings = frozenset({"seconds"})
    fail_at: tuple[int, ...] = ()
    prepared = 0

    def quick(self, config):
        return Config(targets=1)

    def units(self, config):
        return [Unit({"target": k, "name": config.name}) for k in range(config.targets)]

    def prepare(self, config):
        type(self).prepared += 1
        return {"lam": config.lam}

    def run_unit(self, context, unit):
        k = unit.key["target"]
        if k in self.fail_at:
            raise RuntimeError(f"no luck with {k}")
        return [{"value": context["lam"] * k**2, "seconds": time.perf_counter(), "list": np.arange(k)}]

    def claims(self, store):
        done = len(store.records())
        return [Claim("Counting works.", "a test", f"{done} records", "holds" if done else "not measured", done)]


# -- configurations ----------------------------------------------------------------------------------------------
def test_toml_goes_round():
    config = Config(
        targets=7,
        lam=1e-8,
        name="b",
        flag=True,
        size=None,
        parts=(Inner('quo"te\\ und Umlaut ä\n', (0.1, 1.0)), Inner("none")),
    )
    text = config_to_toml(config)
    assert parse_config(Config, text) == config
    assert parse_config(Config, config_to_toml(Config(parts=()))) == Config(parts=())


def test_a_file_is_read(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('targets = 4\n[[parts]]\nrule = "none"\nratios = 0.5\n')
    assert read_config(Config, path) == Config(targets=4, parts=(Inner("none", (0.5,)),))
    path.write_text("target = 4\n")
    with pytest.raises(ConfigError, match=r"study\.toml: unknown key 'target'; did you mean 'targets'\?"):
        read_config(Config, path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("targest = 1", "unknown key 'targest'; did you mean 'targets'"),
        ("[[parts]]\nrul = 'x'", r"unknown key 'parts\[0\]\.rul'; did you mean 'rule'"),
        ("targets = 1.5", "targets must be a whole number, got 1.5"),
        ("targets = true", "targets must be a whole number, got True"),
        ("targets = -1", "targets must be at least 0, got -1"),
        ("lam = 'x'", "lam must be a number, got 'x'"),
        ("lam = nan", "lam must be a finite number, got nan"),
        ("flag = 1", "flag must be true or false, got 1"),
        ("name = 'c'", "name must be one of 'a', 'b'; got 'c'"),
        ("parts = [3]", r"parts\[0\] must be a table of keys, got 3"),
        ("parts = [{ratios = ['a']}]", r"parts\[0\]\.ratios\[0\] must be a number, got 'a'"),
        ("targets = ", "not valid TOML"),
    ],
)
def test_bad_configurations_are_named(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(Config, text)


def test_replacing_keys_is_as_strict():
    assert replace_config(Config(), {"size": 4, "parts": [{"rule": "holder"}]}) == Config(
        size=4, parts=(Inner("holder"),)
    )
    with pytest.raises(ConfigError, match="did you mean 'size'"):
        replace_config(Config(), {"sice": 4})


# -- the store ---------------------------------------------------------------------------------------------------
def test_a_unit_is_stored_whole_or_not_at_all(tmp_path):
    with Store.create(tmp_path, "counting", "") as store:
        run = store.begin_run({"python": "3"})
        with pytest.raises(TypeError, match="field 'bad' of a record must be"):
            store.add(0, Unit({"k": 0}), [{"fine": 1.0}, {"bad": object()}], run=run, seconds=0.0)
        with pytest.raises(ValueError, match="field 'x' of a record must be finite, got inf"):
            store.add(0, Unit({"k": 0}), [{"x": np.inf}], run=run, seconds=0.0)
        with pytest.raises(ValueError, match="changes its key 'k' to 5"):
            store.add(0, Unit({"k": 0}), [{"k": 5}], run=run, seconds=0.0)
        assert store.records() == []
        assert store.done() == set()
        store.add(1, Unit({"k": 1}), [{"x": np.float64(2.0)}, {"x": np.nan}], run=run, seconds=0.5, warnings=["W: w"])
        store.add(0, Unit({"k": 0}), [{"x": np.int64(1)}], run=run, seconds=0.25)
        store.add(0, Unit({"k": 0}), [{"x": 99}], run=run, seconds=0.25)  # somebody else was faster: the first stays
        assert store.records() == [{"k": 0, "x": 1}, {"k": 1, "x": 2.0}, {"k": 1, "x": None}]
        assert store.records(x=2.0) == [{"k": 1, "x": 2.0}]
        assert store.unit_seconds() == 0.75
        assert store.warnings() == {"W: w": 1}


def test_what_is_not_a_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match="there are no results"):
        Store.open(tmp_path)
    (tmp_path / "results.sqlite").write_bytes(b"not a database at all, but long enough to look at" * 10)
    with pytest.raises(StoreError, match="not the results of a study"):
        Store.open(tmp_path)
    (tmp_path / "results.sqlite").unlink()
    with sqlite3.connect(tmp_path / "results.sqlite") as db:
        db.execute("CREATE TABLE meta (name TEXT, value TEXT)")
        db.execute("INSERT INTO meta VALUES ('layout', '99')")
    db.close()
    with pytest.raises(StoreError, match="another version of this library"):
        Store.open(tmp_path)


def test_an_empty_file_left_by_a_killed_start_does_not_block(tmp_path):
    (tmp_path / "results.sqlite").touch()
    assert not Store.exists(tmp_path)
    assert run_study(Counting(), Config(), tmp_path).done == 3


# -- running -----------------------------------------------------------------------------------------------------
def test_a_study_runs_and_writes_its_tables(tmp_path):
    _context.clear()
    Counting.prepared = 0
    summary = run_study(Counting(), Config(), tmp_path / "out", command="fastsbl study counting")
    assert (summary.done, summary.before, summary.failed) == (3, 0, 0)
    assert Counting.prepared == 1
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["target"], row["name"], row["value"], row["list"]) for row in rows] == [
        ("0", "a", "0.0", "[]"),
        ("1", "a", "0.5", "[0]"),
        ("2", "a", "2.0", "[0, 1]"),
    ]
    text = (tmp_path / "out" / "claims.md").read_text()
    assert "| Counting works. | a test | 3 records | holds | 3 |" in text
    assert "| command | fastsbl study counting |" in text
    assert "| numpy | " in text
    assert parse_config(Config, (tmp_path / "out" / "config.toml").read_text()) == Config()


def test_a_second_run_does_only_what_is_missing(tmp_path):
    study = Counting()
    study.fail_at = (1,)
    first = run_study(study, Config(), tmp_path)
    assert (first.done, first.failed) == (2, 1)
    text = (tmp_path / "claims.md").read_text()
    assert '{"target":1,"name":"a"}: RuntimeError: no luck with 1 (in run_unit, test_engine.py line' in text
    study.fail_at = ()
    second = run_study(study, Config(), tmp_path)
    assert (second.done, second.before, second.failed) == (1, 2, 0)
    with Store.open(tmp_path) as store:
        assert store.failures() == {}
        assert [row["target"] for row in store.records()] == [0, 1, 2]
        assert len(store.environments()) == 2
    third = run_study(study, Config(), tmp_path)
    assert (third.done, third.before) == (0, 3)


def test_results_of_another_study_are_not_touched(tmp_path):
    run_study(Counting(), Config(), tmp_path)
    with pytest.raises(StoreError, match=r"another configuration; there: targets = 3; asked: targets = 4"):
        run_study(Counting(), Config(targets=4), tmp_path)
    with pytest.raises(StoreError, match="holds results already"):
        run_study(Counting(), Config(), tmp_path, resume=False)
    with pytest.raises(StoreError, match="holds the study 'counting', not 'screening'"):
        run_study(find_study("screening"), find_study("screening").config_type(), tmp_path)


def test_an_error_in_preparing_ends_the_run(tmp_path):
    class Broken(Counting):
        def prepare(self, config):
            raise FileNotFoundError("put the four files there")

    with pytest.raises(FileNotFoundError, match="put the four files"):
        run_study(Broken(), Config(lam=0.125), tmp_path)


def test_a_unit_listed_twice_is_an_error(tmp_path):
    class Twice(Counting):
        def units(self, config):
            return [Unit({"k": 1}), Unit({"k": 1})]

    with pytest.raises(ValueError, match="lists a unit twice"):
        run_study(Twice(), Config(), tmp_path)


def test_progress_hears_of_everything(tmp_path):
    heard = []

    class Ear:
        def begin(self, total, done):
            heard.append(("begin", total, done))

        def advance(self, unit, seconds, error):
            heard.append((unit.key["target"], error is None))

        def end(self):
            heard.append("end")

    study = Counting()
    study.fail_at = (2,)
    run_study(study, Config(), tmp_path, progress=Ear())
    assert heard == [("begin", 3.0, 0), (0, True), (1, True), (2, False), "end"]


def test_names_are_helped_with():
    assert "screening" in study_names()
    with pytest.raises(ValueError, match="did you mean 'screening'"):
        find_study("screning")


# -- killing -----------------------------------------------------------------------------------------------------
SCRIPT = """
import sys
from fastsbl.studies import find_study, run_study
from fastsbl.studies.screening import ScreeningConfig, SolverPlan
plans = (SolverPlan("working-set", ("auto",), pairs=1), SolverPlan("cd", ("holder",), pairs=1))
config = ScreeningConfig(data=("simulated",), targets=4, ratios=(0.05, 0.3, 0.9), n_rows=40, n_columns=200, plans=plans)
if __name__ == "__main__":
    run_study(find_study("screening"), config, sys.argv[1], n_jobs=int(sys.argv[2]))
"""


def _exported(folder, study):
    with Store.open(folder) as store:
        store.export_csv(folder / "compare.csv", leave_out=study.timings)
    return (folder / "compare.csv").read_bytes()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_and_resumed_equals_uninterrupted(tmp_path):
    study = find_study("screening")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    whole, broken = tmp_path / "whole", tmp_path / "broken"

    def start(folder):
        return subprocess.Popen([sys.executable, str(script), str(folder), "1"], env=os.environ)

    assert start(whole).wait(120) == 0
    expected = _exported(whole, study)
    assert expected.count(b"\n") > 36
    rng = random.Random()
    stops = []
    for _ in range(5):
        process = start(broken)
        until = time.monotonic() + 60
        known = 0
        if Store.exists(broken):
            with Store.open(broken) as store:
                known = len(store.done())
        wanted = known + rng.randint(1, 6)
        while time.monotonic() < until and process.poll() is None:
            if Store.exists(broken):
                with Store.open(broken) as store:
                    if len(store.done()) >= wanted:
                        break
            time.sleep(0.001)
        time.sleep(rng.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        with Store.open(broken) as store:
            stops.append(len(store.done()))
    assert stops == sorted(stops)
    assert 0 < stops[0] < 36, "the first kill must fall into the work"
    assert start(broken).wait(120) == 0
    assert _exported(broken, study) == expected, f"killed after {stops} units"


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_workers_end_when_the_study_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path / "out"), "2"], start_new_session=True)
    try:
        _wait_for(lambda: Store.exists(tmp_path / "out") and len(_processes_of_session(process.pid)) >= 3, 60)
        with Store.open(tmp_path / "out") as store:
            _wait_for(lambda: store.done() or process.poll() is not None, 60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    _wait_for(lambda: not _processes_of_session(process.pid), 20)


def _wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def _processes_of_session(session):
    """Living processes of a session, without those that only track the files of others."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                with open(f"/proc/{entry.name}/cmdline") as file:
                    command = file.read()
            except OSError:  # it ended meanwhile
                continue
            if int(fields[3]) == session and fields[0] != "Z" and "resource_tracker" not in command:
                found.append(int(entry.name))
    return found


# -- claims ------------------------------------------------------------------------------------------------------
def test_verdicts_are_one_of_four():
    with pytest.raises(ValueError, match="verdict must be one of"):
        Claim("s", "paper", "m", "maybe")
    text = claims_markdown([Claim("a | b", "paper", "m", "holds for MNIST only", np.float32(0.5))])
    assert "| a \\| b | paper | m | holds for MNIST only | 0.5 |" in text


def test_the_interval_of_a_median_covers_it():
    rng = np.random.default_rng(0)
    hits = [(found := median_interval(rng.exponential(size=20))).low <= np.log(2) <= found.high for _ in range(2000)]
    assert 0.95 <= np.mean(hits) <= 0.97  # exactly .9586 for 20 values
    assert median_interval([3.0]).low == 3.0
    with pytest.raises(ValueError, match="at least one number"):
        median_interval([])
