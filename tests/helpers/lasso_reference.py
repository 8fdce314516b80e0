"""Independent reference solutions of the weighted lasso, for judging screening rules.

Nothing here uses the package. `solve` is plain coordinate descent followed by a direct solve on the
support it finds; `solve_rows` does the same job for several targets and complex data; `decide` settles
doubtful features with 60-digit arithmetic.

The problem is ``0.5 ||y - X theta||^2 + sum limits_i |theta_i|``; limit 0 is unpenalised, inf excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numba import njit


@njit(cache=True)
def _sweep(columns, squares, limits, positive, theta, residual, index):
    """One pass of exact coordinate updates over ``index``; returns the largest move of the fit."""
    largest = 0.0
    for i in index:
        if squares[i] == 0.0 or np.isinf(limits[i]):
            continue
        old = theta[i]
        rho = 0.0
        for j in range(residual.size):
            rho += columns[i, j] * residual[j]
        z = rho + squares[i] * old
        if z > limits[i]:
            new = (z - limits[i]) / squares[i]
        elif z < -limits[i] and not positive:
            new = (z + limits[i]) / squares[i]
        else:
            new = 0.0
        if new != old:
            step = old - new
            for j in range(residual.size):
                residual[j] += step * columns[i, j]
            theta[i] = new
            move = abs(step) * np.sqrt(squares[i])
            if move > largest:
                largest = move
    return largest


@njit(cache=True)
def _descend(columns, squares, limits, positive, theta, residual, n_sweeps, floor):
    """Alternate a full sweep with up to ten over the support, until the fit moves less than ``floor``."""
    everything = np.arange(limits.size)
    done = 0
    while done < n_sweeps:
        move = _sweep(columns, squares, limits, positive, theta, residual, everything)
        done += 1
        if move <= floor:
            return done
        support = np.flatnonzero(theta)
        for _ in range(10):
            if done >= n_sweeps or _sweep(columns, squares, limits, positive, theta, residual, support) <= 0.1 * move:
                break
            done += 1
    return done


@dataclass(frozen=True)
class Solution:
    """A reference solution: coefficients, dual point and the relative duality gap between them."""

    coef: np.ndarray
    dual: np.ndarray
    gap: float


def descend(X, y, limits, *, positive=False, n_sweeps=10, start=None, full=False):
    """Return coefficients after some sweeps of coordinate descent: a point that is not yet optimal.

    Most sweeps visit the support alone, unless ``full`` asks that all visit every column.
    """
    columns = np.ascontiguousarray(np.asarray(X, dtype=np.float64).T)
    theta = np.zeros(limits.size) if start is None else np.array(start, dtype=np.float64)
    residual = y - columns.T @ theta
    squares = np.einsum("ij,ij->i", columns, columns)
    if full:
        for _ in range(n_sweeps):
            _sweep(columns, squares, limits, positive, theta, residual, np.arange(limits.size))
    else:
        _descend(columns, squares, limits, positive, theta, residual, n_sweeps, 0.0)
    return theta


def objective(X, y, limits, theta):
    """Return the primal objective."""
    used = theta != 0
    residual = y - X[:, used] @ theta[used]
    return 0.5 * residual @ residual + limits[used] @ np.abs(theta[used])


def duality_gap(X, y, limits, theta, residual, positive):
    """Return (gap relative to 0.5||y||^2, dual point) with the best feasible multiple of the residual."""
    size = 0.5 * y @ y
    if size == 0.0:
        return 0.0, residual
    free = (limits == 0.0) & (np.einsum("ij,ij->j", X, X) > 0.0)
    if positive:
        free &= theta > 0.0  # the others ask only phi'eta <= 0, which the caller's accuracy must provide
    if free.any():
        basis, scale, _ = np.linalg.svd(X[:, free], full_matrices=False)
        basis = basis[:, scale > 1e-13 * scale[0]]
        residual = residual - basis @ (basis.T @ residual)
    correlations = X.T @ residual
    if not positive:
        correlations = np.abs(correlations)
    used = limits > 0
    ratio = max(float(np.max(correlations[used] / limits[used], initial=0.0)), 0.0)
    squared = residual @ residual
    t = 1.0 if squared == 0.0 else max(residual @ y / squared, 0.0)
    if ratio > 0.0:
        t = min(t, 1.0 / ratio)
    dual = t * residual
    fit = X @ theta
    penalty = limits[theta != 0] @ np.abs(theta[theta != 0])
    # P - D with y = fit + residual put in, so that near convergence nothing large cancels
    gap = 0.5 * (1.0 - t) ** 2 * squared + penalty - t * (residual @ fit)
    return float(max(gap, 0.0) / size), dual


def _polish(X, y, limits, theta, positive):
    """Solve the optimality conditions on the support directly; None if a sign comes out wrong."""
    support = np.flatnonzero(theta)
    if support.size == 0 or support.size > X.shape[0]:
        return None
    sign = np.sign(theta[support])
    norms = np.linalg.norm(X[:, support], axis=0)
    Q, R = np.linalg.qr(X[:, support] / norms)
    diagonal = np.abs(np.diag(R))
    if diagonal.min() < 1e-9 * diagonal.max():
        return None
    # R'R z = (X'y - w s)/norms  =>  z = R^-1 (Q'y - R^-T w s / norms)
    values = np.linalg.solve(R, Q.T @ y - np.linalg.solve(R.T, limits[support] * sign / norms)) / norms
    if (values * sign < 0).any():
        return None
    out = np.zeros_like(theta)
    out[support] = values
    return out


def solve(X, y, limits, *, positive=False, tol=1e-15, max_sweeps=20_000):
    """Solve to a relative duality gap of ``tol``, or until coordinate descent stalls.

    Parameters
    ----------
    X : array of shape (N, n)
        Any real precision; computed in float64.
    y, limits : arrays of shape (N,) and (n,)
        Target and ``lam * weights``.

    Returns
    -------
    Solution
        ``gap`` says how good it is.
    """
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    columns = np.ascontiguousarray(X.T)
    squares = np.einsum("ij,ij->i", columns, columns)
    theta = np.zeros(limits.size)
    residual = y.copy()
    best = Solution(theta.copy(), y, np.inf)
    spent, chunk = 0, 20
    floor = 1e-17 * float(np.linalg.norm(y))
    while spent < max_sweeps:
        done = _descend(columns, squares, limits, positive, theta, residual, chunk, floor)
        spent += chunk
        residual = y - X @ theta
        polished = _polish(X, y, limits, theta, positive)
        for candidate in (theta,) if polished is None else (polished, theta):
            gap, dual = duality_gap(X, y, limits, candidate, y - X @ candidate, positive)
            if gap < best.gap:
                best = Solution(candidate.copy(), dual, gap)
        if best.gap <= tol or done < chunk:
            break
        chunk = min(2 * chunk, 2000)
    return best


def magnitudes(values):
    """Return moduli, or the norms of the rows of a two-dimensional array."""
    return np.abs(values) if values.ndim == 1 else np.linalg.norm(values, axis=1)


def solve_rows(X, Y, limits, *, tol=1e-14, max_sweeps=5000):
    """Solve the problem for several targets (penalty on row norms) and complex data, by block descent."""
    X = np.asarray(X, dtype=np.result_type(X, np.float64))
    Y = np.asarray(Y, dtype=np.result_type(Y, X))
    flat = Y.ndim == 1
    target = Y[:, None] if flat else Y
    squares = np.linalg.norm(X, axis=0) ** 2
    theta = np.zeros((X.shape[1], target.shape[1]), dtype=target.dtype)
    residual = target.copy()
    used = np.flatnonzero((squares > 0) & np.isfinite(limits))
    free = (limits == 0) & (squares > 0)
    basis = np.linalg.qr(X[:, free])[0] if free.any() else np.zeros((X.shape[0], 0))
    size = 0.5 * np.linalg.norm(target) ** 2
    gap, dual = np.inf, residual
    for sweep in range(max_sweeps):
        for i in used if sweep % 10 == 0 else np.flatnonzero(magnitudes(theta)):
            z = X[:, i].conj() @ residual + squares[i] * theta[i]
            length = np.linalg.norm(z)
            new = z * (max(0.0, 1.0 - limits[i] / length) / squares[i]) if length > 0 else 0.0 * z
            residual -= np.outer(X[:, i], new - theta[i])
            theta[i] = new
        if sweep % 10 == 0:
            residual = target - X @ theta
            point = residual - basis @ (basis.conj().T @ residual)
            ratio = np.max(magnitudes(X.conj().T @ point)[limits > 0] / limits[limits > 0], initial=0.0)
            t = min(
                np.vdot(point, target).real / max(np.vdot(point, point).real, 1e-300),
                1.0 / max(ratio, 1e-300),
            )
            dual = max(t, 0.0) * point
            rows = magnitudes(theta)
            primal = 0.5 * np.linalg.norm(residual) ** 2 + limits[rows > 0] @ rows[rows > 0]
            gap = (primal - size + 0.5 * np.linalg.norm(dual - target) ** 2) / max(size, 1e-300)
            if gap <= tol:
                break
    return Solution(theta[:, 0] if flat else theta, dual[:, 0] if flat else dual, float(max(gap, 0.0)))


def suspects(X, limits, solution, rejected, positive=False):
    """Rejected features that the reference does not clearly show to be zero.

    A feature is suspect if its coefficient is nonzero (beyond 1e-7 of the largest contribution) or its
    dual constraint is within 1e-9, or within the accuracy of the reference, of being tight.
    """
    norms = np.linalg.norm(X, axis=0)
    contribution = np.abs(solution.coef) * norms
    correlations = X.T @ solution.dual
    if not positive:
        correlations = np.abs(correlations)
    accuracy = 4.0 * np.sqrt(max(solution.gap, 0.0)) if solution.gap > 1e-14 else 0.0
    tight = correlations + accuracy * np.linalg.norm(solution.dual) * norms >= limits * (1.0 - 1e-9)
    tight &= (norms > 0) & np.isfinite(limits)
    nonzero = contribution > 1e-7 * max(float(contribution.max(initial=0.0)), 1e-300)
    return np.flatnonzero(rejected & (nonzero | tight))


def _eliminate(matrix, right):
    """Gaussian elimination with pivoting on Decimals; None if singular."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(size):
        pivot = max(range(k, size), key=lambda r: abs(rows[r][k]))
        if abs(rows[pivot][k]) < Decimal(10) ** -50:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        top = rows[k]
        for r in range(k + 1, size):
            factor = rows[r][k] / top[k]
            if factor:
                rows[r] = [Decimal(0)] * (k + 1) + [
                    a - factor * b for a, b in zip(rows[r][k + 1 :], top[k + 1 :], strict=True)
                ]
    out = [Decimal(0)] * size
    for k in reversed(range(size)):
        known = sum((rows[k][c] * out[c] for c in range(k + 1, size)), Decimal(0))
        out[k] = (rows[k][size] - known) / rows[k][k]
    return out


def _dot(a, b):
    return sum((u * v for u, v in zip(a, b, strict=True)), Decimal(0))


class _Exact:
    """Active-set method for the problem in 60-digit arithmetic, on the data exactly as they are.

    Columns are scaled to about unit norm by powers of two, which is exact. Each column's two signs are
    separate nonnegative variables ``(i, s)``.
    """

    tiny = Decimal(10) ** -40

    def __init__(self, X, y, limits, positive):
        norms = np.linalg.norm(X, axis=0)
        self.usable = [i for i in range(X.shape[1]) if norms[i] > 0 and np.isfinite(limits[i])]
        self.scale = {i: 2.0 ** -np.round(np.log2(norms[i])) for i in self.usable}
        self.columns = {i: [Decimal(v) for v in (X[:, i] * self.scale[i]).tolist()] for i in self.usable}
        self.limit = {i: Decimal(float(limits[i])) * Decimal(float(self.scale[i])) for i in self.usable}
        self.target = [Decimal(v) for v in y.tolist()]
        self.size = _dot(self.target, self.target).sqrt() + self.tiny
        self.rho = {i: _dot(self.columns[i], self.target) for i in self.usable}
        self.signs = (1,) if positive else (1, -1)
        self.products = {}
        self.active, self.values = [], []

    def product(self, i, j):
        key = (min(i, j), max(i, j))
        if key not in self.products:
            self.products[key] = _dot(self.columns[i], self.columns[j])
        return self.products[key]

    def gram(self, active):
        return [[s * r * self.product(i, j) for j, r in active] for i, s in active]

    def eta(self):
        out = list(self.target)
        for (i, s), value in zip(self.active, self.values, strict=True):
            out = [o - s * value * c for o, c in zip(out, self.columns[i], strict=True)]
        return out

    def move(self, direction, longest):
        """Move along a direction up to ``longest`` or the first coefficient to reach zero, and drop that."""
        steps = [(v / -d, k) for k, (v, d) in enumerate(zip(self.values, direction, strict=True)) if d < 0]
        step, drop = min(steps, default=(longest, None))
        if longest is not None and step >= longest:
            step, drop = longest, None
        if step is None:
            raise RuntimeError("the exact problem is unbounded")
        self.values = [v + step * d for v, d in zip(self.values, direction, strict=True)]
        if drop is not None:
            del self.active[drop], self.values[drop]
        return drop is None

    def settle(self):
        """Optimise over the active variables, dropping those that reach zero."""
        while self.active:
            right = [s * self.rho[i] - self.limit[i] for i, s in self.active]
            goal = _eliminate(self.gram(self.active), right)
            if self.move([g - v for g, v in zip(goal, self.values, strict=True)], Decimal(1)):
                return

    def enter(self, i, s):
        """Add a variable; if it depends on the active ones, exchange it for one of them."""
        column = [-s * r * self.product(i, j) for j, r in self.active]
        self.active.append((i, s))
        self.values.append(Decimal(0))
        if _eliminate(self.gram(self.active), [Decimal(0)] * len(self.active)) is None:
            self.move([*_eliminate(self.gram(self.active[:-1]), column), Decimal(1)], None)

    def solve(self, start):
        for i in sorted(self.usable, key=lambda i: -abs(start[i]) / self.scale[i]):
            if start[i] != 0:
                trial = [*self.active, (i, 1 if start[i] > 0 else -1)]
                if _eliminate(self.gram(trial), [Decimal(0)] * len(trial)) is not None:
                    self.active = trial
                    self.values.append(Decimal(abs(float(start[i] / self.scale[i]))))
        for _ in range(2000):
            self.settle()
            eta = self.eta()
            held = set(self.active)
            excess = {
                (i, s): s * rho - self.limit[i]
                for i in self.usable
                for rho in (_dot(self.columns[i], eta),)
                for s in self.signs
                if (i, s) not in held
            }
            worst = max(excess, key=excess.__getitem__, default=None)
            if worst is None or excess[worst] <= self.tiny * self.size:
                return eta
            self.enter(*worst)
        raise RuntimeError("the exact active-set method did not finish")


def decide(X, y, limits, features, *, start, positive=False):
    """Return the slack ``limit_i - |phi_i'eta_hat|`` of features, from a solution in 60-digit arithmetic.

    It is relative to ``||phi_i|| ||y||``, to a factor below 2. 0 (to 1e-30) means that the constraint is
    tight, so that rejecting the feature is wrong. ``start`` only saves time.
    """
    with localcontext() as context:
        context.prec = 60
        exact = _Exact(np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64), limits, positive)
        eta = exact.solve(np.asarray(start, dtype=np.float64))
        out = []
        for i in features:
            if i not in exact.columns:
                out.append(1.0)
                continue
            rho = _dot(exact.columns[i], eta)
            slack = exact.limit[i] - (rho if positive else abs(rho))
            out.append(float(slack / exact.size))
    return np.array(out)
