"""The frame of the command line: help, exit codes, errors, what a plain install says."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fastsbl import __version__
from fastsbl.cli import _app, _console, _output
from fastsbl.cli.fit import command as fit_command


def python(code, *, cwd):
    import fastsbl

    path = os.pathsep.join([str(Path(fastsbl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_and_help(fastsbl):
    assert fastsbl("--version").out == f"fastsbl {__version__}\n"
    page = fastsbl("--help")
    assert page.code == 0
    for name in _app.COMMANDS:
        assert f"\n  {name} " in page.out
    assert "..." not in page.out.partition("Commands:")[2]  # no sentence is cut short
    assert fastsbl().code == 2


@pytest.mark.parametrize("name", _app.COMMANDS)
def test_every_command_explains_itself(fastsbl, name):
    page = fastsbl(name, "--help")
    assert page.code == 0
    assert f"Usage: fastsbl {name}" in page.out
    assert "Examples:" in page.out
    assert f"\n    fastsbl {name}" in page.out
    for option in ("--json", "--debug", "--help"):
        assert option in page.out


def test_wrong_use(fastsbl):
    wrong = fastsbl("fti")
    assert wrong.code == 2
    assert "fti" in wrong.err
    assert fastsbl("fit").code == 2
    assert fastsbl("fit", "--no-such-option").code == 2


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_plain_install_names_the_pip_line(tmp_path, missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from fastsbl.cli import main; sys.exit(main(['info']))"
    done = python(code, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert 'pip install "fastsbl[apps]"' in done.stderr
    assert missing in done.stderr


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("pyarrow", ("fit", "t.csv", "--target", "y")),
        ("astropy", ("locate", "a.npy")),
        ("tifffile", ("locate", "a.tif")),
        ("jinja2", ("locate", "a.npy", "--report", "r.html")),
        ("matplotlib", ("denoise", "a.npy", "--out", "b.npy", "--report", "r.html")),
        ("matplotlib", ("demo",)),
        ("jinja2", ("study", "screening", "--data", "digits")),
    ],
)
def test_a_missing_package_is_named_before_the_work(fastsbl, tmp_path, monkeypatch, missing, arguments):
    import numpy as np

    (tmp_path / "t.csv").write_text("a,y\n1,2\n3,4\n")
    (tmp_path / "a.tif").write_bytes(b"II*\0")
    np.save(tmp_path / "a.npy", np.eye(8))
    before = sorted(tmp_path.iterdir())
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    outcome = fastsbl(*arguments)
    assert outcome.code == 3, outcome.out + outcome.err
    assert f'needs {missing}, which is not installed: pip install "fastsbl[apps]"' in outcome.sentence()
    assert sorted(tmp_path.iterdir()) == before


def test_help_loads_nothing_heavy(tmp_path):
    heavy = "numba", "scipy", "sklearn", "matplotlib", "rich.console", "pyarrow", "astropy"
    done = python(
        f"import sys; from fastsbl.cli import main; main(['--help']); "
        f"print(*[name for name in {heavy} if name in sys.modules], file=sys.stderr)",
        cwd=tmp_path,
    )
    assert done.stderr.strip() == ""
    assert "fit" in done.stdout


def test_module_runs_and_returns_the_exit_code(tmp_path):
    import fastsbl

    path = os.pathsep.join([str(Path(fastsbl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "fastsbl.cli", "fit", "missing.csv", "--target", "y"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "fastsbl: error: there is no file missing.csv\n"


def fail_with(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(fit_command, "callback", fail)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ValueError("two\nlines"), 1, "fastsbl: error: two lines"),
        (FileNotFoundError(2, "No such file or directory", "a.csv"), 1, "fastsbl: error: a.csv: No such file"),
        (MemoryError(), 1, "fastsbl: error: not enough memory"),
        (ImportError("X needs Y: pip install Y"), 3, "fastsbl: error: X needs Y: pip install Y"),
        (
            ModuleNotFoundError("No module named 'a.b'", name="a.b"),
            3,
            "this needs a, which is not installed: pip install",
        ),
        (ZeroDivisionError("1/0"), 1, "should not happen, ZeroDivisionError: 1/0 (--debug shows where)"),
        (click.ClickException("no"), 1, "fastsbl: error: no"),
        (KeyboardInterrupt(), 130, "stopped before the end"),
        (ValueError("evil\x1b[31m"), 1, r"evil\x1b[31m"),
    ],
)
def test_errors_are_one_sentence(fastsbl, monkeypatch, error, code, text):
    fail_with(monkeypatch, error)
    outcome = fastsbl("fit", "x.csv")
    assert outcome.code == code
    assert text in outcome.sentence()
    assert outcome.out == ""


@pytest.mark.parametrize("arguments", [("--debug", "fit", "x.csv"), ("fit", "x.csv", "--debug")])
def test_debug_shows_the_traceback(fastsbl, monkeypatch, arguments):
    fail_with(monkeypatch, ValueError("deep down"))
    outcome = fastsbl(*arguments)
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert "deep down" in outcome.err


def test_a_request_to_terminate_cleans_up(fastsbl, monkeypatch, tmp_path):
    def stop(*_, **__):
        with _output.writing_file(tmp_path / "out.txt", force=False) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("the signal did not arrive")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(fit_command, "callback", stop)
    assert fastsbl("fit", "x.csv").code == 130
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_plain_escapes_what_steers_a_terminal():
    assert _console.plain("a\x1b[2Jb\u202ec\r\n") == r"a\x1b[2Jb\u202ec\r\n"
    assert _console.plain("Grüße, 星") == "Grüße, 星"


def test_tables_do_not_read_markup(capsys):
    _console.Session().table(("[bold]name[/bold]", "n"), [("[red]x[/red]", 1)])
    out = capsys.readouterr().out
    assert "[bold]name[/bold]" in out
    assert "[red]x[/red]" in out


def test_progress_without_a_terminal_is_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr(_console._PlainProgress, "every", 0.0)
    with _console.Session().progress("frames", 3) as advance:
        for k in range(3):
            advance(f"{k} sources")
    assert capsys.readouterr().err.splitlines() == [
        "fastsbl: frames: 1 of 3 0 sources",
        "fastsbl: frames: 2 of 3 1 sources",
        "fastsbl: frames: 3 of 3 2 sources",
    ]


class TestPlaces:
    def test_existing_file_needs_force(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text("old")
        with pytest.raises(click.ClickException, match=r"a\.json exists; --force replaces it"):
            _output.check_place(path, force=False)
        with _output.writing_file(path, force=True) as temporary:
            temporary.write_text("new")
        assert path.read_text() == "new"
        assert list(tmp_path.iterdir()) == [path]

    def test_missing_folder_and_wrong_kind(self, tmp_path):
        with pytest.raises(click.ClickException, match="does not exist"):
            _output.check_place(tmp_path / "no" / "a.json", force=False)
        with pytest.raises(click.ClickException, match="is a folder"):
            _output.check_place(tmp_path, force=True)
        (tmp_path / "f").touch()
        with pytest.raises(click.ClickException, match="is a file"):
            _output.check_place(tmp_path / "f", force=True, folder=True)

    def test_place_that_cannot_be_written_to(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_output.os, "access", lambda *_: False)
        with pytest.raises(click.ClickException, match=f"the folder {tmp_path} cannot be written to"):
            _output.check_place(tmp_path / "a.json", force=False)

    @pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nothing can be made")
    def test_place_that_only_seems_to_be_one(self):
        def write():
            with _output.writing_file(Path("/proc/a.json"), force=False):
                raise AssertionError("there is nowhere to write")

        with pytest.raises(click.ClickException, match=r"/proc/a\.json cannot be written|/proc cannot be written to"):
            write()

    def test_folder_appears_whole_or_not_at_all(self, tmp_path):
        target = tmp_path / "out"

        def half():
            with _output.writing_folder(target, force=False) as temporary:
                (temporary / "half.txt").write_text("x")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            half()
        assert list(tmp_path.iterdir()) == []
        with _output.writing_folder(target, force=False) as temporary:
            (temporary / "sub").mkdir()
            (temporary / "sub" / "a.txt").write_text("1")
        assert (target / "sub" / "a.txt").read_text() == "1"
        (target / "mine.txt").write_text("kept")
        with _output.writing_folder(target, force=True) as temporary:
            (temporary / "sub").mkdir()
            (temporary / "sub" / "a.txt").write_text("2")
        assert (target / "sub" / "a.txt").read_text() == "2"
        assert (target / "mine.txt").read_text() == "kept"
        assert list(tmp_path.iterdir()) == [target]
        assert target.stat().st_mode & 0o700 == 0o700
