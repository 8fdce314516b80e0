"""One-to-one assignment on sparse graphs, one connected component at a time."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from fastsbl._base.types import FloatArray, IntArray

_DENSE_LIMIT = 250_000  # entries of a component's cost matrix up to which the dense solver is used


def assign(
    left: IntArray, right: IntArray, cost: FloatArray, shape: tuple[int, int], penalty: float | None
) -> IntArray:
    """Choose edges, each node in at most one, of least total cost.

    Minimises the sum of the costs of the chosen edges plus `penalty` for every node left alone. With
    ``penalty=None`` the number of edges is maximised first, and their cost minimised second.

    Parameters
    ----------
    left, right : ndarray of shape (e,)
        Ends of the edges.
    cost : ndarray of shape (e,)
        Costs of the edges; at least zero when ``penalty=None``.
    shape : (int, int)
        Number of nodes on either side.
    penalty : float or None
        Cost of a node left alone.

    Returns
    -------
    ndarray of shape (chosen,)
        Indices of the chosen edges, in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> left, right = np.array([0, 0, 1]), np.array([0, 1, 0])
    >>> assign(left, right, np.array([0.1, 1.0, 1.0]), (2, 2), None).tolist()
    [1, 2]
    """
    m, n = shape
    if left.size == 0:
        return np.empty(0, dtype=np.int64)
    graph = sparse.coo_array((np.ones(left.size), (left, right + m)), shape=(m + n, m + n))
    n_parts, labels = connected_components(graph, directed=False)
    part = labels[left]
    sizes = np.bincount(part, minlength=n_parts)
    chosen: list[IntArray] = []
    alone = np.flatnonzero(sizes[part] == 1)  # components of one edge
    chosen.append(alone if penalty is None else alone[cost[alone] < 2 * penalty])
    order = np.argsort(part, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for label in np.flatnonzero(sizes > 1):
        edges = order[starts[label] : starts[label + 1]]
        chosen.append(edges[_assign_component(left[edges], right[edges], cost[edges], penalty)])
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def _assign_component(left: IntArray, right: IntArray, cost: FloatArray, penalty: float | None) -> IntArray:
    """Chosen edges of one connected component."""
    rows, row = np.unique(left, return_inverse=True)
    columns, column = np.unique(right, return_inverse=True)
    m, n = rows.size, columns.size
    if penalty is None:  # more than any change of the total cost of the edges can outweigh
        penalty = 1.0 + float(cost.max()) * min(m, n)
    if m * n <= _DENSE_LIMIT:
        gain = np.zeros((m, n))
        gain[row, column] = np.minimum(0.0, cost - 2.0 * penalty)
        i, j = linear_sum_assignment(gain)
        number = np.full((m, n), -1, dtype=np.int64)
        number[row, column] = np.arange(left.size)
        picked = number[i, j]
        return picked[(picked >= 0) & (gain[i, j] < 0)]
    return _assign_sparse(row, column, cost, (m, n), penalty)


def _assign_sparse(
    row: IntArray, column: IntArray, cost: FloatArray, shape: tuple[int, int], penalty: float
) -> IntArray:
    """Sparse solver: every node gets a dummy partner, so that a full matching always exists.

    Left nodes plus one dummy per right node face right nodes plus one dummy per left node; two dummies meet,
    for free, along a mirrored edge. A full matching has m + n edges, so adding one to all weights (explicit
    zeros are not allowed) and to bring them above zero changes nothing.
    """
    m, n = shape
    nodes_m, nodes_n = np.arange(m), np.arange(n)
    i = np.concatenate([row, nodes_m, m + nodes_n, m + column])
    j = np.concatenate([column, n + nodes_m, nodes_n, n + row])
    shift = 1.0 - min(0.0, float(cost.min()))
    weight = np.concatenate([cost, np.full(m, penalty), np.full(n, penalty), np.zeros(row.size)]) + shift
    graph = sparse.csr_array((weight, (i, j)), shape=(m + n, m + n))
    matched_i, matched_j = min_weight_full_bipartite_matching(graph)
    real = (matched_i < m) & (matched_j < n)
    key = matched_i[real] * n + matched_j[real]
    return np.flatnonzero(np.isin(row * n + column, key))
