"""``fastsbl locate``: a catalogue of the point sources in images."""

from __future__ import annotations

from collections.abc import Iterator
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
from fastsbl.cli._output import check_more_places, check_place, output_options, writing_file, writing_folder

if TYPE_CHECKING:
    from fastsbl.report import Report

__all__ = ["command"]

_SHOWN = 15
_PICTURES = 8
_LISTED = 200


@subcommand(
    "locate",
    examples=(
        "fastsbl locate field.fits",
        "fastsbl locate field.fits --psf psf.fits --oversampling 5 --gain 4 --out stars.fits",
        "fastsbl locate a.fits b.fits --report found.html --images found",
        "fastsbl locate frames.tif --frames 0:100 --psf 1.09 --jobs 2 --out molecules.csv --pixel-size 100",
    ),
)
@image_options
@click.option("--gain", type=float, help="Electrons per unit of the image: the light itself is then noisy.")
@click.option(
    "--false-alarms", type=float, default=0.01, show_default=True, help="False sources per image to expect from noise."
)
@click.option("--max-sources", type=click.IntRange(0), help="Most sources of an image.")
@jobs_option("Processes; -1 for all cores.")
@click.option("--pixel-size", type=float, help="Pixel in nm: a .csv is then written as ThunderSTORM does.")
@click.option("--images", "folder", type=click.Path(path_type=Path), help="Folder for model and residual as FITS.")
@click.option("--report", "page", type=click.Path(path_type=Path), help="HTML page with pictures to write.")
@output_options("sources.ecsv", "Catalogue (.ecsv, .fits or .csv)")
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
    gain: float | None,
    sigma_range: tuple[float, float],
    false_alarms: float,
    max_sources: int | None,
    jobs: int,
    pixel_size: float | None,
    folder: Path | None,
    page: Path | None,
    out: Path,
    force: bool,
) -> None:
    """Find the point sources of each IMAGE: positions, fluxes and widths, with their standard errors.

    IMAGE is FITS (.fz too), TIFF, PNG, NPY or a text table (.gz too); stacks are taken frame by frame. All sources go
    into one catalogue, with the columns image and frame where there are several. Positions are in pixels, centres at
    integers from 0, x = column; FITS images with sky coordinates add ra and dec.
    """
    check_place(out, force=force)
    check_more_places(page, folder, out, force=force)
    if out.suffix.lower() not in (".ecsv", ".fits", ".csv"):
        raise click.UsageError(f"--out must end in .ecsv, .fits or .csv, got {out.name}")
    if pixel_size is not None and out.suffix.lower() != ".csv":
        raise click.UsageError(f"--pixel-size goes with an --out that ends in .csv, got {out.name}")
    options = {
        "psf": read_psf(psf, oversampling, skip_rows=skip_rows),
        "noise_variance": read_map(noise_variance, "--noise-variance"),
        "background": read_background(background),
        "gain": gain,
        "sigma_range": sigma_range,
        "false_alarms": false_alarms,
        "max_sources": max_sources,
        "mask": read_mask(mask),
    }
    every = read_frames(images, frames, hdu=hdu, skip_rows=skip_rows)
    several = len(images) > 1
    found: list[tuple[Frame, Any]] = []
    with session.progress("locating") as advance:
        for frame, catalog in _locate_all(every, options, jobs, one=not several and _is_single(images[0])):
            keep = folder is not None or len(found) < _PICTURES
            found.append((frame, catalog if keep else _without_images(catalog)))
            advance(f"{frame.label}: {len(catalog)} sources")
    joined = _join(found, with_image=several)
    with writing_file(out, force=force) as temporary:
        joined.write(
            temporary, format=None if pixel_size is None else "thunderstorm", pixel_size=pixel_size, overwrite=True
        )
    if folder is not None:
        _write_images(folder, found, force=force)
    if page is not None:
        from fastsbl.report import write_report

        with writing_file(page, force=force) as temporary:
            write_report(_report(found, joined, command_line()), temporary)
    _show(session, found, joined)
    for place in (out, folder, page):
        if place is not None:
            session.say(f"wrote {place}")
    session.finish(_summary(found, joined, out))


def _is_single(path: Path) -> bool:
    """Whether the file is most likely one image, whose tiles rather than frames are then shared out."""
    return not path.name.lower().removesuffix(".gz").endswith((".tif", ".tiff", ".npy"))


def _locate_one(frame: Frame, options: dict[str, Any], jobs: int) -> tuple[Frame, Any]:
    from fastsbl.imaging import locate_sources

    try:
        return frame, locate_sources(frame.data.array, **options, wcs=frame.data.wcs, n_jobs=jobs)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{frame.label}: {error}") from error


def _locate_all(
    frames: Iterator[Frame], options: dict[str, Any], jobs: int, *, one: bool
) -> Iterator[tuple[Frame, Any]]:
    """Answers in the order of the frames; the tiles of a single image, or else the frames, are shared out."""
    if jobs == 1 or one:
        for frame in frames:
            yield _locate_one(frame, options, jobs)
        return
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=jobs, return_as="generator")(delayed(_locate_one)(f, options, 1) for f in frames)


def _without_images(catalog: Any) -> Any:
    from dataclasses import replace

    return replace(catalog, model=None, residual=None, significance=None)


def _join(found: list[tuple[Frame, Any]], *, with_image: bool) -> Any:
    """One catalogue of all, its sources numbered through."""
    from astropy.table import vstack

    from fastsbl.imaging import SourceCatalog

    stacks = any(frame.frame is not None for frame, _ in found)
    if not stacks and not with_image:
        return found[0][1]
    tables = []
    start = groups = 0
    for frame, catalog in found:
        table = catalog.table.copy()
        table["id"] = table["id"] + start
        table["group_id"] = table["group_id"] + groups
        start += len(table)
        groups = max([groups, *table["group_id"]])
        if with_image:
            table["image"] = np.full(len(table), str(frame.path))
        if stacks:
            table["frame"] = np.full(len(table), frame.frame or 0, dtype=np.int64)
            table["local_bkg"] = np.full(len(table), _single(catalog.meta.get("background")))
            table["bkg_std"] = np.full(len(table), np.sqrt(_single(catalog.meta.get("noise_variance"))))
        tables.append(table)
    return SourceCatalog(vstack(tables, metadata_conflicts="silent"), meta=dict(found[0][1].meta))


def _single(value: Any) -> float:
    """A number that holds for the whole frame, or NaN."""
    return float(value) if value is not None and np.ndim(value) == 0 else float("nan")


def _write_images(folder: Path, found: list[tuple[Frame, Any]], *, force: bool) -> None:
    from fastsbl.imaging import write_image

    with writing_folder(folder, force=force) as temporary:
        for frame, catalog in found:
            for name in ("model", "residual", "significance"):
                write_image(temporary / f"{frame.stem}-{name}.fits", getattr(catalog, name), wcs=frame.data.wcs)


def _show(session: Session, found: list[tuple[Frame, Any]], joined: Any) -> None:
    if len(found) > 1:
        rows = [(frame.label, len(catalog), _noise(catalog)) for frame, catalog in found[:_SHOWN]]
        session.table(("image", "sources", "noise variance"), rows)
        if len(found) > _SHOWN:
            session.say(f"and {len(found) - _SHOWN} more images")
    else:
        table = joined.table
        names = ("id", "x_fit", "y_fit", "x_err", "y_err", "sigma_fit", "flux_fit", "flux_err", "snr", "flags")
        brightest = np.argsort(-np.asarray(table["flux_fit"]), kind="stable")[:_SHOWN]
        if len(brightest):
            from fastsbl.report.sources import readable

            session.table(names, [[readable(name, table[name][k]) for name in names] for k in brightest])
        if len(table) > _SHOWN:
            session.say(f"and {len(table) - _SHOWN} fainter ones")
        if found[0][1].meta.get("noise_variance") is not None:  # else it is the light's own
            session.say(f"noise variance {_noise(found[0][1]):.4g}")
    unsettled = sum(not catalog.meta.get("converged", True) for _, catalog in found)
    if unsettled:
        session.note(f"the search did not settle in {unsettled} of {len(found)} images")
    session.say(f"{len(joined)} sources in {len(found)} {'image' if len(found) == 1 else 'images'}")


def _noise(catalog: Any) -> float:
    return float(np.mean(catalog.meta.get("noise_variance") or 0.0))


def _summary(found: list[tuple[Frame, Any]], joined: Any, out: Path) -> dict[str, Any]:
    return {
        "sources": len(joined),
        "images": [
            {
                "image": str(frame.path),
                "frame": frame.frame,
                "sources": len(catalog),
                "noise_variance": _noise(catalog),
                "converged": bool(catalog.meta.get("converged", True)),
            }
            for frame, catalog in found
        ],
        "catalogue": str(out),
    }


def _report(found: list[tuple[Frame, Any]], joined: Any, command: str) -> Report:
    from fastsbl.report import Note, Report, Section
    from fastsbl.report.sources import source_pictures, source_table
    from fastsbl.studies import describe_environment

    sections = [
        Section(frame.label, [source_pictures(frame.data.array, catalog, name=f"image{k}")])
        for k, (frame, catalog) in enumerate(found[:_PICTURES])
    ]
    rest = len(found) - _PICTURES
    if rest > 0:
        sections[-1] = Section(
            sections[-1].title, [*sections[-1].parts, Note(f"{rest} more images have no picture here.")]
        )
    sections.append(Section("Sources", [source_table(joined, most=_LISTED)]))
    return Report(
        "Point sources",
        f"{len(joined)} sources in {len(found)} {'image' if len(found) == 1 else 'images'}, found by fastsbl locate.",
        sections,
        command=command,
        environment=describe_environment(),
        highlights={"sources": str(len(joined)), "images": str(len(found))},
    )
