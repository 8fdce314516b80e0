"""The finished fit as a catalogue: errors, quality numbers, flags, images."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fastsbl._base.types import BoolArray, FloatArray, IntArray
from fastsbl.imaging.catalog import SourceCatalog, SourceFlag
from fastsbl.imaging.matching import near_pairs
from fastsbl.imaging.refine import Scene
from fastsbl.imaging.search import Search

_OVERLAP = 2.15  # widths (added in quadrature) at which two Gaussians have a tenth of their product at zero distance


def catalogue_of(
    search: Search,
    valid: BoolArray,
    background: FloatArray,
    noise_variance: Any,
    false_alarms: float,
    wcs: Any,
) -> SourceCatalog:
    """Build the catalogue of a finished search; `background` is what had been subtracted from the image."""
    scene = search.scene
    errors, flags = _errors(search)
    par = scene.par
    order = np.argsort(-par[:, 2], kind="stable")
    groups, blended = _groups(par)
    flags |= np.where(blended, int(SourceFlag.BLENDED), 0)
    flags |= _place_flags(scene, valid)
    qfit, cfit = _quality(scene)
    free = scene.shape.free
    sigma = par[:, 3] if free or scene.shape.is_circular else np.full(scene.n, np.nan)
    columns: dict[str, Any] = {
        "x_fit": par[:, 0],
        "y_fit": par[:, 1],
        "x_err": errors[:, 0],
        "y_err": errors[:, 1],
        "sigma_fit": sigma,
        "flux_fit": par[:, 2],
        "flux_err": errors[:, 2],
        "group_id": groups,
        "qfit": qfit,
        "cfit": cfit,
        "flags": flags,
        "sigma_err": errors[:, 3],
    }
    sources = scene.model() - scene.level
    model = sources + scene.level + background
    residual = np.where(valid, scene.residual, np.nan)
    catalog = SourceCatalog.from_columns(
        model=model,
        residual=residual,
        significance=residual * np.sqrt(scene.weight),
        meta={
            "noise_variance": noise_variance,
            "background": scene.level + background if background.ndim else float(scene.level + background),
            "threshold": search.threshold,
            "false_alarms": false_alarms,
            "converged": search.converged,
        },
        wcs=wcs,
        **{name: values[order] for name, values in columns.items()},
    )
    table = catalog.table
    _, table["group_id"] = np.unique(np.asarray(table["group_id"]), return_inverse=True)
    table["group_id"] += 1
    table["sigma_err"].info.description = "standard error of sigma_fit [pixel]; NaN for a known PSF"
    for name, value in catalog.meta.items():
        if np.ndim(value) == 0 and value is not None:
            table.meta[name] = value
    return catalog


def _errors(search: Search) -> tuple[FloatArray, IntArray]:
    """Standard errors (x, y, flux, sigma) from the joint fit around each source, and the flags that go with them."""
    scene = search.scene
    n_par = scene.shape.n_par
    errors = np.full((scene.n, 4), np.nan)
    flags = np.zeros(scene.n, dtype=np.int64)
    together = search.joint_fit
    parts = [(np.arange(scene.n), np.arange(scene.n))] if together else search.chunks()
    for core, active in parts if scene.n else []:
        fit = scene.fit(active, with_level=search.with_level and together, max_iter=100, tol=1e-6, covariance=True)
        if not fit.converged:
            flags[core] |= int(SourceFlag.NOT_CONVERGED)
        if fit.covariance is None:
            flags[core] |= int(SourceFlag.NO_COVARIANCE)
            continue
        spread = np.sqrt(np.diag(fit.covariance)[: active.size * n_par]).reshape(active.size, n_par)
        errors[core, :n_par] = spread[: core.size]
    scene.rebuild()
    low, high = scene.bounds(scene.par)
    moving = slice(0, n_par)
    bound = ((scene.par <= low) | (scene.par >= high))[:, moving].any(axis=1)
    flags[bound] |= int(SourceFlag.AT_BOUND)
    errors[errors == 0.0] = np.nan
    return errors, flags


def _groups(par: FloatArray) -> tuple[IntArray, BoolArray]:
    """Number of the group of overlapping sources each belongs to, and whether it overlaps with any."""
    n = par.shape[0]
    if n == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    reach = _OVERLAP * np.sqrt(2.0) * float(par[:, 3].max())
    i, j, distance = near_pairs(par[:, :2], par[:, :2], reach)
    near = (distance <= _OVERLAP * np.hypot(par[i, 3], par[j, 3])) & (i != j)
    i, j = i[near], j[near]
    links = coo_array((np.ones(i.size), (i, j)), shape=(n, n))
    _, labels = connected_components(links, directed=False)
    return labels.astype(np.int64), np.bincount(i, minlength=n) > 0


def _place_flags(scene: Scene, valid: BoolArray) -> IntArray:
    height, width = scene.data.shape
    x, y, _, sigma = scene.par.T
    reach = 2.0 * sigma
    edge = (x - reach < -0.5) | (x + reach > width - 0.5) | (y - reach < -0.5) | (y + reach > height - 0.5)
    flags = np.where(edge, int(SourceFlag.EDGE), 0)
    if not valid.all():
        for k in range(scene.n):
            box, distance = _disc(scene, k, 2.0)
            if np.any(~valid[box] & (distance <= reach[k])):
                flags[k] |= int(SourceFlag.MASKED)
    return flags


def _disc(scene: Scene, k: int, widths: float) -> tuple[tuple[slice, slice], FloatArray]:
    """Box around a source and the distances of its pixels from the source."""
    height, width = scene.data.shape
    x, y, _, sigma = scene.par[k]
    reach = max(1.0, widths * sigma)
    rows = slice(max(0, int(y - reach)), min(height, int(y + reach) + 2))
    columns = slice(max(0, int(x - reach)), min(width, int(x + reach) + 2))
    distance = np.hypot(
        np.arange(rows.start, rows.stop)[:, None] - y, np.arange(columns.start, columns.stop)[None, :] - x
    )
    return (rows, columns), distance


def _quality(scene: Scene) -> tuple[FloatArray, FloatArray]:
    """Sum of absolute residuals within two widths, and the residual of the central pixel, over the flux."""
    height, width = scene.data.shape
    qfit, cfit = np.full(scene.n, np.nan), np.full(scene.n, np.nan)
    for k in range(scene.n):
        x, y, flux, _ = scene.par[k]
        if flux <= 0:
            continue
        box, distance = _disc(scene, k, 2.0)
        inside = (distance <= max(1.0, 2.0 * scene.par[k, 3])) & (scene.weight[box] > 0)
        qfit[k] = np.abs(scene.residual[box][inside]).sum() / flux
        row, column = min(max(round(y), 0), height - 1), min(max(round(x), 0), width - 1)
        if scene.weight[row, column] > 0:
            cfit[k] = scene.residual[row, column] / flux
    return qfit, cfit
