"""Downloads through pooch (an optional dependency): several mirrors, checked before they are kept."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

logger = logging.getLogger(__name__)


class DownloadError(OSError):
    """No mirror gave the file; the message lists what each of them answered."""


def download(urls: Iterable[str], target: Path, check: Callable[[Path], None]) -> Path:
    """Fetch ``target`` from the first mirror whose file passes ``check`` (a ValueError means: refuse it).

    The file appears under its name only when it is whole and checked.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"the folder {target.parent} cannot be made ({error})") from error
    reasons = []
    for url in urls:
        logger.info("downloading %s to %s", url, target)
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder:
                partial = _retrieve(url, Path(folder), target.name)
                check(partial)
                os.replace(partial, target)
        except (OSError, ValueError) as error:
            reasons.append(f"{url}: {error}")
        else:
            return target
    raise DownloadError("; ".join(reasons))


def _retrieve(url: str, folder: Path, name: str) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise DownloadError('downloads need pooch: pip install "fastsbl[apps]"') from error
    return Path(pooch.retrieve(url=url, known_hash=None, fname=name, path=folder))
