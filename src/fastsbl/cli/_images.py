"""What the commands for images share: the images themselves, their PSF, noise and background."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click

__all__ = [
    "Frame",
    "image_options",
    "jobs_option",
    "read_background",
    "read_frames",
    "read_map",
    "read_mask",
    "read_psf",
]


@dataclass(frozen=True)
class Frame:
    """One image of a run.

    Attributes
    ----------
    path : Path
        The file it came from.
    frame : int or None
        Its number in a stack, from 0; None for a file with one image.
    data : fastsbl.imaging.ImageData
        Pixels, mask, coordinates.
    """

    path: Path
    frame: int | None
    data: Any

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.path.name if self.frame is None else f"{self.path.name} frame {self.frame}"

    @property
    def stem(self) -> str:
        """What files made from it begin with."""
        stem = self.path.name.removesuffix(".gz").removesuffix(".fz").rpartition(".")[0]
        return stem if self.frame is None else f"{stem}-{self.frame:05d}"


def jobs_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --jobs: a number of processes, or negative to count from all cores."""

    def not_zero(ctx: click.Context, param: click.Parameter, jobs: int) -> int:
        if jobs == 0:
            raise click.BadParameter("0 is not a number of processes; -1 stands for all cores.", ctx, param)
        return jobs

    return click.option("--jobs", type=int, default=1, show_default=True, callback=not_zero, help=about)


def image_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that say what the images are."""
    for option in (
        click.option(
            "--sigma-range",
            nargs=2,
            type=float,
            default=(0.8, 4.0),
            show_default=True,
            help="Smallest and largest width in pixels, for --psf free.",
        ),
        click.option("--skip-rows", type=click.IntRange(0), default=0, help="Lines to leave out atop a text table."),
        click.option("--hdu", help="FITS extension, by number or name; by default the first with an image."),
        click.option("--frames", metavar="FIRST:STOP", help="Frames of a stack, from 0; by default all of them."),
        click.option("--mask", type=click.Path(path_type=Path), help="Image that is not 0 where pixels are left out."),
        click.option(
            "--background",
            metavar="constant|map|none|NUMBER|FILE",
            default="constant",
            show_default=True,
            help="Light under the sources: fitted, a smooth map, none, or given.",
        ),
        click.option("--noise-variance", metavar="NUMBER|FILE", help="Variance of the noise; learned by default."),
        click.option(
            "--oversampling",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Samples per pixel of --psf FILE.",
        ),
        click.option(
            "--psf",
            metavar="free|SIGMA|FILE",
            default="free",
            show_default=True,
            help="Shape of a source: Gaussian of any width, Gaussian of this width in pixels, or an image of it.",
        ),
        click.argument("images", nargs=-1, required=True, metavar="IMAGE...", type=click.Path(path_type=Path)),
    ):
        function = option(function)
    return function


def read_frames(
    paths: Sequence[Path], frames: str | None, *, hdu: str | None = None, skip_rows: int = 0
) -> Iterator[Frame]:
    """Go through all images, and through all chosen frames of those that are stacks."""
    from fastsbl.imaging import iter_frames, read_image
    from fastsbl.imaging._stacks import STACKS

    chosen = _frame_range(frames)
    extension: int | str | None = int(hdu) if hdu is not None and hdu.isdigit() else hdu
    for path in paths:
        if path.suffix.lower().replace(".gz", "") not in STACKS and Path(path.stem).suffix.lower() not in STACKS:
            yield Frame(path, None, read_image(path, skip_rows=skip_rows))
            continue
        with contextlib.closing(iter_frames(path, hdu=extension)) as stack:  # type: ignore[type-var]
            some = False
            for data in islice(stack, chosen.start, chosen.stop):
                some = True
                several = data.meta.get("n_frames", 1) > 1
                yield Frame(path, data.meta["frame"] if several else None, data)
            if not some:
                raise ValueError(f"--frames {frames}: {path.name} has no such frames")


def _frame_range(text: str | None) -> slice:
    if text is None:
        return slice(0, None)
    first, colon, stop = text.partition(":")
    try:
        start = int(first) if first else 0
        end = (int(stop) if stop else None) if colon else start + 1
    except ValueError:
        start, end = -1, None
    if start < 0 or (end is not None and end <= start):
        raise click.UsageError(f"--frames must be like 0:100 (from 0, the last left out) or 7, got {text}")
    return slice(start, end)


def read_psf(text: str, oversampling: int, *, skip_rows: int = 0) -> Any:
    """Return the PSF that --psf means; None for Gaussians of unknown width."""
    from fastsbl.imaging import GaussianPSF, PixelPSF, read_image

    if text == "free":
        return None
    with contextlib.suppress(ValueError):
        return GaussianPSF(_positive(text, "--psf"))
    if not Path(text).is_file():
        raise click.UsageError(f"--psf must be free, a width in pixels above 0, or an image file; got {text}")
    return PixelPSF(read_image(text, skip_rows=skip_rows).array, oversampling)


def _positive(text: str, name: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise click.UsageError(f"{name} must be above 0, got {text}")
    return value


def read_map(text: str | None, name: str) -> Any:
    """Return a number above 0, or the pixels of an image file."""
    if text is None:
        return None
    with contextlib.suppress(ValueError):
        return _positive(text, name)
    from fastsbl.imaging import read_image

    if not Path(text).is_file():
        raise click.UsageError(f"{name} must be a number above 0 or an image file; got {text}")
    return read_image(text).array


def read_mask(path: Path | None) -> Any:
    """Return where the pixels of a mask are not 0, or not finite."""
    if path is None:
        return None
    from fastsbl.imaging import read_image

    image = read_image(path)
    return (image.array != 0) | image.mask


def read_background(text: str) -> Any:
    """Return what --background means."""
    if text in ("constant", "map"):
        return text
    if text == "none":
        return None
    with contextlib.suppress(ValueError):
        return float(text)
    from fastsbl.imaging import read_image

    if not Path(text).is_file():
        raise click.UsageError(f"--background must be constant, map, none, a number or an image file; got {text}")
    return read_image(text).array
