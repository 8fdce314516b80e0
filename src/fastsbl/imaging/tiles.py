"""Large frames: tiles with a halo, each searched by itself, then once more with its neighbours held fixed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from fastsbl._base.types import BoolArray, FloatArray
from fastsbl.imaging.refine import Scene, SourceShape
from fastsbl.imaging.search import Search

__all__ = ["Tile", "search_tiles", "tiles_of"]


@dataclass(frozen=True)
class Tile:
    """A part of a frame: the core it answers for, and the halo around it.

    Attributes
    ----------
    core, outer : (slice, slice)
        Rows and columns without and with the halo.
    """

    core: tuple[slice, slice]
    outer: tuple[slice, slice]

    @property
    def corner(self) -> tuple[int, int]:
        """Column and row of the first pixel of the outer part."""
        return self.outer[1].start, self.outer[0].start

    def owns(self, par: FloatArray, frame: tuple[int, int]) -> BoolArray:
        """Which sources lie in the core; those outside the frame belong to the tile at the edge."""
        x = np.clip(np.floor(par[:, 0] + 0.5), 0, frame[1] - 1)
        y = np.clip(np.floor(par[:, 1] + 0.5), 0, frame[0] - 1)
        rows, columns = self.core
        return np.asarray((x >= columns.start) & (x < columns.stop) & (y >= rows.start) & (y < rows.stop))

    def core_pixels(self) -> BoolArray:
        """Mask of the core within the outer part."""
        out = np.zeros(tuple(s.stop - s.start for s in self.outer), dtype=np.bool_)
        rows, columns = (slice(c.start - o.start, c.stop - o.start) for c, o in zip(self.core, self.outer, strict=True))
        out[rows, columns] = True
        return out


def tiles_of(frame: tuple[int, int], size: int, halo: int) -> list[Tile]:
    """Divide a frame into tiles of about equal size.

    Parameters
    ----------
    frame : (height, width)
        Size of the frame.
    size : int
        Largest side of a core.
    halo : int
        Pixels around it.

    Returns
    -------
    list of Tile
        Row by row; the cores cover the frame once.

    Examples
    --------
    >>> [tile.core[1] for tile in tiles_of((50, 100), 60, 8)]
    [slice(0, 50, None), slice(50, 100, None)]
    """
    cuts = []
    for side in frame:
        count = -(-side // size)
        edges = [side * k // count for k in range(count + 1)]
        cuts.append([(slice(a, b), slice(max(0, a - halo), min(side, b + halo))) for a, b in itertools.pairwise(edges)])
    return [Tile((r, c), (ro, co)) for r, ro in cuts[0] for c, co in cuts[1]]


def halo_of(shape: SourceShape) -> int:
    """Pixels that a source in the core may reach, or be disturbed from."""
    return int(np.ceil(4.0 * shape.sigma_range[1] if shape.numbers[0] == 0.0 else 5.0 * shape.sigma_range[1])) + 2


def search_tiles(
    scene: Scene,
    options: dict[str, Any],
    *,
    tile: int,
    n_jobs: int,
    progress: Callable[[int, int], object] | None,
) -> Search:
    """Search a large frame tile by tile.

    Parameters
    ----------
    scene : Scene
        The frame, without sources.
    options : dict
        What `Search` takes, for the frame.
    tile : int
        Side of a tile.
    n_jobs : int
        Processes.
    progress : callable or None
        Called with (tiles done, tiles in all); every tile is visited twice.

    Returns
    -------
    Search
        Of the whole frame, with all sources, refined.
    """
    frame = (scene.data.shape[0], scene.data.shape[1])
    parts = tiles_of(frame, tile, halo_of(scene.shape))
    total = 2 * len(parts)
    done = 0
    whole = Search(scene, **options)
    jobs = (_job(scene, part, options, scene.level, None) for part in parts)
    answers = []
    for answer in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_search)(*job) for job in jobs):
        answers.append(answer)
        done += 1
        if progress is not None:
            progress(done, total)
    found = []
    for part, (par, _, _) in zip(parts, answers, strict=True):
        moved = par + np.array([*part.corner, 0.0, 0.0])
        found.append(moved[part.owns(moved, frame)])
    if options["with_level"]:
        scene.set_level(float(np.median([level for _, level, _ in answers])))
    scene.append(np.vstack(found))
    whole.refresh()
    whole.polish()
    whole.refresh()

    # Once more with the neighbours held fixed: sources lost or doubled at the seams, the noise of the whole frame.
    # Tiles of one colour do not touch, so they may go side by side.
    settled = True
    fixed = {**options, "with_level": False, "learn_noise": False}
    columns = sum(1 for part in parts if part.core[0].start == 0)
    for colour in range(4):
        mine = [part for k, part in enumerate(parts) if ((k // columns) % 2) * 2 + (k % columns) % 2 == colour]
        inside = [part.owns(scene.par, frame) for part in mine]
        jobs = (_job(scene, part, fixed, 0.0, own) for part, own in zip(mine, inside, strict=True))
        answers = []
        for answer in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_search)(*job) for job in jobs):
            answers.append(answer)
            done += 1
            if progress is not None:
                progress(done, total)
        keep = ~np.any(inside, axis=0) if inside else np.ones(scene.n, dtype=np.bool_)
        new = [par + np.array([*part.corner, 0.0, 0.0]) for part, (par, _, _) in zip(mine, answers, strict=True)]
        settled &= all(converged for *_, converged in answers)
        scene.par = np.vstack([scene.par[keep], *new])
        scene.rebuild()
    whole.polish(sweeps=3)
    whole.refresh(final=True)
    whole.converged = settled
    return whole


def _job(
    scene: Scene, part: Tile, options: dict[str, Any], level: float, own: BoolArray | None
) -> tuple[FloatArray, FloatArray, SourceShape, FloatArray, float, dict[str, Any]]:
    """What one tile needs: its pixels (without the sources of others), weights, own sources and options."""
    options = dict(options)
    if options["variance_of"] is not None:
        options["variance_of"] = options["variance_of"].part(part.outer)
    weight = scene.weight[part.outer].copy()
    corner = np.array([*part.corner, 0.0, 0.0])
    if own is None:
        return scene.data[part.outer].copy(), weight, scene.shape, np.empty((0, 4)), level, options
    options["where"] = part.core_pixels()
    mine = scene.par[own]
    others = scene.residual[part.outer].copy()
    scene_like = Scene(others, weight, scene.shape)
    scene_like.paint(others, mine - corner, 1.0)
    if options["variance_of"] is not None:  # the light of the level and of other tiles' sources is noisy here too
        options["variance_of"] = options["variance_of"].plus(scene.data[part.outer] - others)
    return others, weight, scene.shape, mine - corner, 0.0, options


def _search(
    data: FloatArray,
    weight: FloatArray,
    shape: SourceShape,
    start: FloatArray,
    level: float,
    options: dict[str, Any],
) -> tuple[FloatArray, float, bool]:
    scene = Scene(data, weight, shape)
    scene.set_level(level)
    if start.shape[0]:
        scene.append(start)
    if not np.any(weight > 0):
        return start, level, True
    search = Search(scene, **options)
    search.run()
    return scene.par, scene.level, search.converged
