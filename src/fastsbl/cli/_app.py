"""The group of all commands, and what becomes of their errors."""

from __future__ import annotations

import logging
import shlex
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import click
import rich  # noqa: F401  (tables and bars need it: better said now than after the work)

import fastsbl
from fastsbl.cli import MISSING_EXTRA
from fastsbl.cli._console import plain

__all__ = ["COMMANDS", "run"]

COMMANDS = ("demo", "fit", "predict", "classify", "locate", "denoise", "study", "bench", "info")

_EXPECTED = (ValueError, TypeError, OSError, EOFError, MemoryError)


class Commands(click.Group):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"fastsbl.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="fastsbl COMMAND --help describes a command, with examples.",
)
@click.version_option(fastsbl.__version__, message="fastsbl %(version)s")
@click.option("--debug", is_flag=True, help="Show the whole traceback of an error.")
def group(debug: bool) -> None:
    """Sparse Bayesian learning: few features, how sure they are, and a certificate on every answer."""


def run(argv: Sequence[str]) -> int:
    """Run one command and turn whatever happens into an exit code and at most one sentence."""
    debug = "--debug" in argv
    try:
        with (
            _warnings_as_notes(),
            _terminated_as_interrupt(),
            group.make_context("fastsbl", list(argv)) as context,
        ):
            context.meta["fastsbl.command"] = shlex.join(["fastsbl", *argv])
            code = group.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, click.UsageError):
            error.show()
        else:
            _complain(plain(error.format_message()))
        return error.exit_code
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("fastsbl: stopped before the end; no half-written file is left\n")
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as in `fastsbl ... | head`
        sys.stderr.close()
        return 1
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            _complain(_sentence(error))
        return MISSING_EXTRA if isinstance(error, ImportError) else 1
    return code if isinstance(code, int) else 0


def _complain(text: str) -> None:
    sys.stderr.write(f"fastsbl: error: {text}\n")


def _sentence(error: Exception) -> str:
    """Say in one line what went wrong."""
    text = " ".join(plain(line) for line in str(error).split("\n") if line.strip())
    if isinstance(error, OSError) and error.strerror:
        return plain(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    if isinstance(error, MemoryError):
        return f"not enough memory: {text}" if text else "not enough memory"
    if isinstance(error, ModuleNotFoundError) and error.name and "pip install" not in text:
        return f'this needs {error.name.partition(".")[0]}, which is not installed: pip install "fastsbl[apps]"'
    if isinstance(error, (*_EXPECTED, ImportError)) and text:
        return text
    return f"an error that should not happen, {type(error).__name__}: {text} (--debug shows where)"


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show warnings as single lines, without the line of code they come from; and our log's warnings likewise."""

    def show(message: Warning | str, *rest: Any, **more: Any) -> None:
        sys.stderr.write(f"fastsbl: warning: {' '.join(plain(line) for line in str(message).splitlines())}\n")

    logger = logging.getLogger("fastsbl")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("fastsbl: %(message)s"))
    logger.addHandler(handler)
    level = logger.level
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """Let a request to terminate run the same cleaning up as Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
