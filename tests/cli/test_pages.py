"""What the pages name exists: scripts, files, commands and their options."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))]
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not beside the tests")


def texts():
    return [(path, path.read_text(encoding="utf-8")) for path in PAGES if path.is_file()]


def test_scripts_exist():
    named = {name for _, text in texts() for name in re.findall(r"(?:python|bash) ([\w./]+\.(?:py|sh))", text)}
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_links_lead_somewhere():
    """Links of pages to files; the builder of the documentation checks places within pages."""
    missing = []
    for path, text in texts():
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if "://" in target or target.startswith(("auto_examples/", "api/")):
                continue
            if not (path.parent / target).is_file():
                missing.append(f"{path.name}: {target}")
    assert missing == []


def test_commands_and_options_exist():
    from fastsbl.cli import _app

    shown = []
    for path, text in texts():
        blocks = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        blocks = re.sub(r"\\\n\s*", "", blocks)  # a line that goes on
        lines = re.findall(r"^(?:\$ )?(fastsbl .*)$", blocks, re.MULTILINE)
        lines += re.findall(r"`(fastsbl [^`\n]*)`", text)
        shown += [(path.name, line) for line in lines]
    assert len(shown) > 30
    for page, line in shown:
        words = shlex.split(line, comments=True)[1:]
        if not words or words[0] in ("COMMAND", "--help"):
            continue
        command = _app.group.get_command(None, words[0])  # None if there is no such command
        assert command is not None, f"{page}: {line}"
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        if words[0] == "study":  # fields of its configuration are options too
            continue
        assert [word for word in words if word.startswith("--") and word not in known] == [], f"{page}: {line}"


def test_examples_in_help_are_valid(monkeypatch):
    """Each example of a help page is a command that click accepts."""
    import click

    from fastsbl.cli import _app

    for name in _app.COMMANDS:
        command = _app.group.get_command(None, name)
        examples = re.findall(r"^ +(fastsbl .*)$", command.epilog or "", re.MULTILINE)
        assert examples, name
        for line in examples:
            words = shlex.split(line, comments=True)
            assert words[1] == name
            with click.Context(command, info_name=name, **command.context_settings) as context:
                command.parse_args(context, words[2:])
