"""The command ``fastsbl``: one module per command, each imported when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

MISSING_EXTRA = 3
_NEEDED = ("click", "rich")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 1: something went wrong, one sentence on the error stream says what; 2: wrong use; 3: a package is
    missing, the sentence holds the pip line that brings it; 130: interrupted.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> from fastsbl.cli import main
    >>> main(["--version"])
    fastsbl ...
    0
    """
    try:
        from fastsbl.cli import _app
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _NEEDED:
            raise
        sys.stderr.write(
            f'fastsbl: the command line needs {name}, which is not installed: pip install "fastsbl[apps]"\n'
        )
        return MISSING_EXTRA
    return _app.run(sys.argv[1:] if argv is None else argv)
