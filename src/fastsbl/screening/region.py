"""Regions of the dual space that are known to hold the optimum, and what a test made of them returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastsbl._base.brief import Brief
from fastsbl._base.types import Array, BoolArray, FloatArray
from fastsbl.screening import _kernels

__all__ = ["HalfSpace", "Region", "Screening"]


@dataclass(frozen=True, eq=False, repr=False)
class HalfSpace(Brief):
    """The points eta with ``normal' eta <= offset``; ``normal`` has unit length."""

    normal: FloatArray
    offset: float


@dataclass(frozen=True, eq=False, repr=False)
class Region(Brief):
    """A ball, cut by no, one or two half-spaces, that contains the dual optimum.

    Attributes
    ----------
    center : array of shape (N,) or (N, L)
        Centre of the ball.
    radius : float
        Radius of the ball (Frobenius norm for several targets).
    half_spaces : tuple of HalfSpace
        The cuts.
    """

    center: Array
    radius: float
    half_spaces: tuple[HalfSpace, ...] = ()

    def contains(self, point: Array, tolerance: float = 1e-9) -> bool:
        """Whether ``point`` lies in the region, to ``tolerance`` times its scale."""
        scale = float(np.linalg.norm(self.center)) + self.radius
        if float(np.linalg.norm(point - self.center)) > self.radius + tolerance * scale:
            return False
        return all(float(cut.normal @ point) <= cut.offset + tolerance * scale for cut in self.half_spaces)

    def maximum(self, vectors: FloatArray) -> FloatArray:
        """Exact maximum of ``v' eta`` over the region for each column v of ``vectors`` (real regions only)."""
        vectors = np.asarray(vectors, dtype=np.float64)
        base = self.center @ vectors
        norms = np.linalg.norm(vectors, axis=0)
        if self.radius == 0.0:
            return np.asarray(base)
        t = [cut.normal @ vectors for cut in self.half_spaces]
        psi = [
            min((float(cut.normal @ self.center) - cut.offset) / self.radius, 1.0 - 1e-15) for cut in self.half_spaces
        ]
        if not t:
            return np.asarray(base + self.radius * norms)
        out = np.empty(norms.size)
        tau = float(self.half_spaces[0].normal @ self.half_spaces[-1].normal)
        for i, norm in enumerate(norms):
            if len(t) == 1:
                out[i] = _kernels.dome_maximum(t[0][i], norm, self.radius, psi[0], 0.0)
            else:
                out[i] = _kernels.two_plane_maximum(
                    t[0][i], t[1][i], norm, self.radius, psi[0], psi[1], tau, 0.0, 1e-10
                )
        return np.asarray(base + out)


@dataclass(frozen=True, eq=False, repr=False)
class Screening:
    """What a screening test found.

    Attributes
    ----------
    rejected : bool array of shape (n,)
        True where the coefficient is proved to be zero in every solution.
    rule : str
        Name of the rule, e.g. ``"two_hyperplanes:diameter"``; a union is joined by ``"+"``.
    region : Region or tuple of Region
        Where the dual optimum lies; one region for each rule of a union.
    passes : float
        Reads of the dictionary that the test took.
    """

    rejected: BoolArray
    rule: str
    region: Region | tuple[Region, ...]
    passes: float = 0.0

    def __repr__(self) -> str:
        """How much was rejected, not which."""
        return (
            f"Screening(rule={self.rule!r}, rejected={np.count_nonzero(self.rejected)} of {self.rejected.size}, "
            f"passes={self.passes:.2f})"
        )

    @property
    def share(self) -> float:
        """Share of the columns that is rejected."""
        return float(np.mean(self.rejected))

    def __or__(self, other: Screening) -> Screening:
        """Reject what either test rejects: both are safe, so their union is."""
        if not isinstance(other, Screening):
            return NotImplemented
        if self.rejected.shape != other.rejected.shape:
            raise ValueError(
                "both screenings must be of the same dictionary, "
                f"got {self.rejected.size} and {other.rejected.size} features"
            )
        regions = tuple(
            part
            for region in (self.region, other.region)
            for part in (region if isinstance(region, tuple) else (region,))
        )
        return Screening(
            self.rejected | other.rejected, f"{self.rule}+{other.rule}", regions, self.passes + other.passes
        )
