"""Sources off the grid: joint least squares for positions, fluxes and widths of overlapping sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray, IntArray
from fastsbl.imaging import _fit_kernels as kernels
from fastsbl.imaging.pixel_psf import _PAD, PixelPSF
from fastsbl.imaging.psf import PSF, GaussianPSF

__all__ = ["Scene", "SourceShape"]

_REACH = 5.0  # widths at which a Gaussian is cut off; 4e-6 of its peak
_OUTSIDE = 0.5  # how far beyond the frame's edge a source may sit, pixels


@dataclass(frozen=True, eq=False)
class SourceShape:
    """The shape of all sources in the form the kernels use.

    Attributes
    ----------
    numbers : ndarray of shape (13,)
        Kind (0 Gaussian, 1 measured), whether the width is free, widths, centre and oversampling of the measured
        image, reach of a measured PSF to the left, right, up and down, reach of a Gaussian in widths.
    coefficients : ndarray
        Spline coefficients of a measured PSF.
    sigma_range : (float, float)
        Bounds of a free width; for a known PSF twice its equivalent width.
    psf : PSF or None
        What it was made from.
    """

    numbers: FloatArray
    coefficients: FloatArray
    sigma_range: tuple[float, float]
    psf: PSF | None

    @property
    def free(self) -> bool:
        """Whether each source has a width of its own."""
        return bool(self.numbers[1])

    @property
    def is_circular(self) -> bool:
        """Whether one number says the width of every source."""
        return self.free or (isinstance(self.psf, GaussianPSF) and self.psf.is_circular)

    @property
    def n_par(self) -> int:
        """Parameters of a source."""
        return 4 if self.free else 3

    @classmethod
    def of(cls, psf: PSF | None, sigma_range: tuple[float, float]) -> SourceShape:
        """Describe a PSF; None means circular Gaussians with widths in `sigma_range`."""
        numbers = np.zeros(13)
        numbers[12] = _REACH
        empty = np.zeros((1, 1))
        if psf is None:
            numbers[1] = 1.0
            return cls(numbers, empty, sigma_range, None)
        if isinstance(psf, GaussianPSF) and psf.is_separable:
            numbers[2:4] = psf.sigma_x, psf.sigma_y
            width = float(np.sqrt(psf.sigma_x * psf.sigma_y))
            return cls(numbers, empty, (width, width), psf)
        measured = psf if isinstance(psf, PixelPSF) else tabulate(psf)
        ox, oy = measured.oversampling
        cx, cy = measured.center
        rows, columns = measured.image.shape
        numbers[0] = 1.0
        numbers[4:8] = cx + _PAD, cy + _PAD, ox, oy
        numbers[8:12] = (cx + 2) / ox, (columns + 1 - cx) / ox, (cy + 2) / oy, (rows + 1 - cy) / oy
        width = equivalent_width(measured)
        return cls(numbers, measured._coefficients, (width, width), psf)

    def stamp(self, sigma: float) -> FloatArray:
        """Pixel values of a unit-flux source on the centre of an odd box that holds all of it."""
        one = np.array([0.0, 0.0, 1.0, sigma])
        if self.numbers[0] == 0.0:
            half = int(_REACH * (sigma if self.free else self.numbers[2:4].max())) + 1
        else:
            half = int(self.numbers[8:12].max()) + 1
        one[:2] = half
        image = np.zeros((2 * half + 1, 2 * half + 1))
        kernels.add_sources(image, one[None], self.numbers, self.coefficients, 1.0)
        return image


def tabulate(psf: PSF) -> PixelPSF:
    """Sample any PSF finely enough for its spline to stand for it."""
    half = int(np.ceil(psf.radius(0.99999))) + 1
    narrow = min(psf.sigma_x, psf.sigma_y) if isinstance(psf, GaussianPSF) else 1.0
    over = int(np.clip(np.ceil(6.0 / narrow), 4, 16))
    side = 2 * half + 1
    image = np.zeros((side * over, side * over))
    for row in range(over):
        for column in range(over):  # sample (r, c) is the pixel value (r - R) / over, (c - C) / over from the source
            image[row::over, column::over] = psf.stamp(half - column / over, half - row / over, (side, side))
    return PixelPSF(image, over, normalize=False, center=(half * over, half * over))


def equivalent_width(psf: PixelPSF) -> float:
    """Width of the Gaussian whose position can be told equally well: from the slope of the PSF."""
    side = 2 * int(np.ceil(psf.radius(0.999))) + 3
    answer = psf.stamp_and_gradient((side - 1) / 2, (side - 1) / 2, (side, side))
    slope = (np.sum(answer.d_x**2) + np.sum(answer.d_y**2)) / 2.0
    return float(np.sqrt(0.5 * np.sum(answer.value**2) / slope))


class Scene:
    """An image, its sources and what they leave unexplained.

    Parameters
    ----------
    data : ndarray of shape (height, width)
        The image; masked pixels hold any finite number.
    weight : ndarray of shape (height, width)
        Inverse variances, 0 where masked.
    shape : SourceShape
        Shape of the sources.

    Attributes
    ----------
    par : ndarray of shape (n, 4)
        x, y, flux and width of the sources.
    level : float
        Constant under them.
    residual : ndarray of shape (height, width)
        Data minus level and sources.
    """

    def __init__(self, data: FloatArray, weight: FloatArray, shape: SourceShape) -> None:
        self.data = data
        self.weight = weight
        self.shape = shape
        self.par: FloatArray = np.empty((0, 4))
        self.level = 0.0
        self.residual: FloatArray = data.copy()

    @property
    def n(self) -> int:
        """Number of sources."""
        return int(self.par.shape[0])

    def paint(self, image: FloatArray, par: FloatArray, sign: float) -> None:
        """Add sources, times a sign, to an image."""
        kernels.add_sources(image, np.ascontiguousarray(par), self.shape.numbers, self.shape.coefficients, sign)

    def model(self) -> FloatArray:
        """Sources and level."""
        image = np.full(self.data.shape, self.level)
        self.paint(image, self.par, 1.0)
        return image

    def rebuild(self) -> None:
        """Compute the residual afresh."""
        self.residual = self.data - self.model()

    def set_level(self, level: float) -> None:
        """Move the constant."""
        self.residual -= level - self.level
        self.level = level

    def append(self, par: FloatArray) -> IntArray:
        """Add sources and return their numbers."""
        rows = np.atleast_2d(par)
        self.paint(self.residual, rows, -1.0)
        self.par = np.vstack([self.par, rows])
        return np.arange(self.n - rows.shape[0], self.n)

    def remove(self, which: IntArray | BoolArray | int) -> None:
        """Take sources out."""
        keep = np.ones(self.n, dtype=np.bool_)
        keep[which] = False
        self.paint(self.residual, self.par[~keep], 1.0)
        self.par = self.par[keep]

    def snapshot(self) -> tuple[FloatArray, float, FloatArray]:
        """What `restore` needs to come back here."""
        return self.par.copy(), self.level, self.residual.copy()

    def restore(self, state: tuple[FloatArray, float, FloatArray]) -> None:
        """Go back to a snapshot."""
        self.par, self.level, self.residual = state[0].copy(), state[1], state[2].copy()

    def bounds(self, par: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Limits of the parameters."""
        height, width = self.data.shape
        low = np.empty_like(par)
        high = np.empty_like(par)
        low[:], high[:] = (
            (-0.5 - _OUTSIDE, -0.5 - _OUTSIDE, 0.0, self.shape.sigma_range[0]),
            (width - 0.5 + _OUTSIDE, height - 0.5 + _OUTSIDE, np.inf, self.shape.sigma_range[1]),
        )
        return low, high

    def window(self, par: FloatArray) -> tuple[slice, slice]:
        """Rows and columns that these sources reach, with room to move."""
        height, width = self.data.shape
        numbers = self.shape.numbers
        if numbers[0] == 0.0:
            sx = par[:, 3] * 1.25 if self.shape.free else numbers[2]
            sy = par[:, 3] * 1.25 if self.shape.free else numbers[3]
            left = right = _REACH * sx + 2.0
            up = down = _REACH * sy + 2.0
        else:
            left, right, up, down = numbers[8:12] + 1.0
        first = max(0, int(np.min(par[:, 0] - left)))
        last = min(width, int(np.max(par[:, 0] + right)) + 2)
        top = max(0, int(np.min(par[:, 1] - up)))
        bottom = min(height, int(np.max(par[:, 1] + down)) + 2)
        return slice(top, max(bottom, top + 1)), slice(first, max(last, first + 1))

    def scores(self, candidates: FloatArray, moving: IntArray) -> tuple[FloatArray, FloatArray]:
        """Score and power of unit-flux candidates to first order, with some sources free to give way.

        The gain in chi-square of a candidate is about score^2 / power, where the score is positive; for a source of
        flux f that is there already, leaving it out would cost about f^2 power.
        """
        par = np.ascontiguousarray(self.par[moving])
        rows, columns = self.window(np.vstack([candidates, par]))
        corner = np.array([columns.start, rows.start, 0.0, 0.0])
        score, power, share = (np.empty(candidates.shape[0]) for _ in range(3))
        kernels.projected_scores(
            np.ascontiguousarray(self.residual[rows, columns]),
            np.ascontiguousarray(self.weight[rows, columns]),
            par - corner,
            self.shape.n_par,
            candidates - corner,
            self.shape.numbers,
            self.shape.coefficients,
            score,
            power,
            share,
        )
        power[share < 1e-6] = 0.0
        return score, power

    def fit(
        self,
        active: IntArray,
        *,
        with_level: bool = False,
        max_iter: int = 30,
        tol: float = 1e-2,
        covariance: bool = False,
    ) -> Fit:
        """Move the active sources (and the level) to their joint optimum, all others held.

        Parameters
        ----------
        active : array of int
            Sources that move.
        with_level : bool
            Whether the constant moves as well; the whole frame counts then.
        max_iter, tol : int, float
            Most steps; the fall of chi-square at which to stop.
        covariance : bool
            Whether to compute the covariance of all that moved.

        Returns
        -------
        Fit
            How chi-square changed, and the covariance.
        """
        old = np.ascontiguousarray(self.par[active])
        par = old.copy()
        if with_level or old.shape[0] == 0:
            rows, columns = slice(0, self.data.shape[0]), slice(0, self.data.shape[1])
        else:
            rows, columns = self.window(old)
        corner = np.array([columns.start, rows.start, 0.0, 0.0])
        low, high = self.bounds(par)
        target = self.residual[rows, columns].copy()
        weight = np.ascontiguousarray(self.weight[rows, columns])
        numbers, coefficients = self.shape.numbers, self.shape.coefficients
        par -= corner
        before = float(np.vdot(weight * target, target))
        kernels.add_sources(target, par, numbers, coefficients, 1.0)
        size = old.shape[0] * self.shape.n_par + int(with_level)
        matrix = np.empty((size, size) if covariance else (0, 0))
        cost, shift, _, done, found = kernels.least_squares(
            target,
            weight,
            par,
            low - corner,
            high - corner,
            0.0,
            with_level,
            self.shape.n_par,
            numbers,
            coefficients,
            max_iter,
            tol,
            matrix,
        )
        par += corner
        self.paint(self.residual, old, 1.0)
        self.paint(self.residual, par, -1.0)
        self.par[active] = par
        if with_level:
            self.set_level(self.level + shift)
        return Fit(before - cost, done, matrix if found else None)


@dataclass(frozen=True, eq=False)
class Fit:
    """Outcome of `Scene.fit`: the fall of chi-square, whether it settled, the covariance if asked for and found."""

    gain: float
    converged: bool
    covariance: FloatArray | None
