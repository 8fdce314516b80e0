"""Commands run through their entry point, in a folder of their own."""

import json

import pytest

pytest.importorskip("click", reason="the command line needs the extra apps")
pytest.importorskip("rich", reason="the command line needs the extra apps")


class Outcome:
    """What a command did."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def data(self):
        return json.loads(self.out)

    def sentence(self):
        """The only line of the error stream."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self.err
        return lines[0]


@pytest.fixture
def fastsbl(tmp_path, monkeypatch, capsys):
    """Run a command in a fresh folder and give its exit code and what it printed."""
    from fastsbl.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err or "--debug" in arguments
        return Outcome(code, captured.out, captured.err)

    return run


def names(folder):
    """Names of all files in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())
