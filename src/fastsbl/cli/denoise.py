"""``fastsbl denoise``: the clean images behind noisy ones."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fastsbl.cli._console import Session, command_line, subcommand
from fastsbl.cli._images import (
    Frame,
    image_options,
    jobs_option,
    read_background,
    read_frames,
    read_map,
    read_mask,
    read_psf,
)
from fastsbl.cli._output import check_more_places, check_place, writing_file, writing_folder

if TYPE_CHECKING:
    from fastsbl.report import Report

__all__ = ["command"]

_ENDINGS = (".fits", ".fits.gz", ".tif", ".tiff", ".png", ".npy")
_PICTURES = 8


@subcommand(
    "denoise",
    examples=(
        "fastsbl denoise field.fits --out clean.fits",
        "fastsbl denoise field.fits --std --report clean.html",
        "fastsbl denoise a.fits b.fits --psf 1.3 --out clean",
        "fastsbl denoise frames.tif --frames 0:10 --out clean",
    ),
)
@image_options
@click.option(
    "--method",
    type=click.Choice(["auto", "refined", "mixture"]),
    default="auto",
    show_default=True,
    help="The image of the catalogue, the mean over all candidate sources, or the better of both.",
)
@click.option("--std", is_flag=True, help="Write the standard deviation of each pixel too (-std in the name).")
@jobs_option("Processes for large images; -1 for all cores.")
@click.option("--report", "page", type=click.Path(path_type=Path), help="HTML page with pictures to write.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Image to write, or folder for several.  [default: denoised.fits, or the folder denoised]",
)
@click.option("--force", is_flag=True, help="Replace what is there already.")
def command(
    session: Session,
    images: tuple[Path, ...],
    psf: str,
    oversampling: int,
    noise_variance: str | None,
    background: str,
    mask: Path | None,
    frames: str | None,
    hdu: str | None,
    skip_rows: int,
    sigma_range: tuple[float, float],
    method: str,
    std: bool,
    jobs: int,
    page: Path | None,
    out: Path | None,
    force: bool,
) -> None:
    """Take the noise out of each IMAGE, which must be made of point sources on a smooth background.

    IMAGE is FITS (.fz too), TIFF, PNG, NPY or a text table (.gz too); stacks are taken frame by frame. An image of
    something else comes back nearly as it was, with a warning.
    """
    options = {
        "psf": read_psf(psf, oversampling, skip_rows=skip_rows),
        "noise_variance": read_map(noise_variance, "--noise-variance"),
        "background": read_background(background),
        "mask": read_mask(mask),
        "sigma_range": sigma_range,
        "method": method,
        "n_jobs": jobs,
    }
    every = read_frames(images, frames, hdu=hdu, skip_rows=skip_rows)
    first = next(every)
    several = len(images) > 1 or first.frame is not None
    place = out if out is not None else Path("denoised" if several else "denoised.fits")
    if several == place.name.lower().endswith(_ENDINGS):
        wanted = "a folder, for several images or frames" if several else "an image, such as a.fits"
        raise click.UsageError(f"--out must name {wanted}; got {place}")
    check_place(place, force=force, folder=several)
    more = None
    if std and not several:
        ending = _ending(place)
        more = check_place(place.with_name(f"{place.name.removesuffix(ending)}-std{ending}"), force=force)
    check_more_places(page, None, place, force=force)
    done: list[tuple[Frame, Any]] = []
    kept: list[tuple[Frame, Any]] = []
    if several:
        with writing_folder(place, force=force) as temporary, session.progress("denoising") as advance:
            for frame in chain((first,), every):
                answer = _denoise(frame, options)
                _write(temporary / f"{frame.stem}.fits", answer.image, frame)
                if std:
                    _write(temporary / f"{frame.stem}-std.fits", answer.std, frame)
                done.append((frame, _numbers(answer)))
                if len(kept) < _PICTURES:
                    kept.append((frame, answer))
                advance(frame.label)
    else:
        answer = _denoise(first, options)
        _write(place, answer.image, first)
        if more is not None:
            _write(more, answer.std, first)
        done, kept = [(first, _numbers(answer))], [(first, answer)]
    if page is not None:
        from fastsbl.report import write_report

        with writing_file(page, force=force) as temporary:
            write_report(_report(kept, len(done), command_line()), temporary)
    columns = ("noise variance", "method", "share of the model", "sources")
    session.table(("image", *columns), [(frame.label, *(numbers[name] for name in columns)) for frame, numbers in done])
    for written in (place, more, page):
        if written is not None:
            session.say(f"wrote {written}")
    session.finish({"images": [{"image": frame.label, **numbers} for frame, numbers in done], "out": str(place)})


def _ending(path: Path) -> str:
    return next((ending for ending in sorted(_ENDINGS, key=len)[::-1] if path.name.lower().endswith(ending)), "")


def _denoise(frame: Frame, options: dict[str, Any]) -> Any:
    from fastsbl.imaging import denoise_details

    try:
        return denoise_details(frame.data.array, **options)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{frame.label}: {error}") from error


def _write(path: Path, values: Any, frame: Frame) -> None:
    from fastsbl.imaging import write_image

    write_image(path, values, wcs=frame.data.wcs if _ending(path).startswith(".fits") else None, overwrite=True)


def _numbers(answer: Any) -> dict[str, Any]:
    return {
        "noise variance": float(np.mean(answer.noise_variance)),
        "method": answer.method,
        "share of the model": float(np.mean(answer.share)),
        "sources": None if answer.catalog is None else len(answer.catalog),
    }


def _report(kept: list[tuple[Frame, Any]], count: int, command: str) -> Report:
    from fastsbl.report import Report, Section
    from fastsbl.report.sources import denoised_pictures
    from fastsbl.studies import describe_environment

    sections = [
        Section(frame.label, [denoised_pictures(frame.data.array, answer, name=f"image{k}")])
        for k, (frame, answer) in enumerate(kept)
    ]
    lead = f"{count} {'image' if count == 1 else 'images'}, by fastsbl denoise."
    return Report("Images without their noise", lead, sections, command, describe_environment())
