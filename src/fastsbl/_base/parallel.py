"""Threads over columns: compiled kernels that release the GIL, run on chunks of the dictionary.

A plain thread pool rather than numba's parallel regions: several fits may run at once from the
caller's own threads, which numba's default threading layer does not allow, and kernels without
parallel regions compile in a fraction of the time.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from fastsbl._base.types import IndexArray

_LEAST_WORK = 2e5
_crowded = 0  # how many blocks of side-by-side fits are open
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def n_threads() -> int:
    """Threads that a kernel may use now (1 inside `one_thread_each`)."""
    return 1 if _crowded else available_threads()


def available_threads() -> int:
    """Cores this process may run on, or the number OMP_NUM_THREADS asks for."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Blas:
    """Holds BLAS at one thread while anybody asks for it: its own threads only get in the way of small products.

    The setting belongs to the process, so users are counted: the first sets it, the last restores it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._controller: Any = None
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                if self._controller is None:
                    import scipy.linalg  # noqa: F401  (brings the BLAS it uses, for the controller to find)
                    from threadpoolctl import ThreadpoolController

                    self._controller = ThreadpoolController()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limiter.restore_original_limits()


_blas = _Blas()


def quiet_blas() -> _Blas:
    """Context in which BLAS uses one thread; whole reads of the dictionary still use all cores."""
    return _blas


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Within this block BLAS and our kernels use one thread per caller: for fits that run side by side.

    This holds for the whole process: a fit started elsewhere meanwhile uses one thread as well.
    """
    global _crowded
    with _blas:
        with _lock:
            _crowded += 1
        try:
            yield
        finally:
            with _lock:
                _crowded -= 1


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(available_threads() - 1, 1), thread_name_prefix="fastsbl")
        return _pool


def _forget_pool() -> None:
    global _pool, _lock, _crowded, _blas
    _pool, _lock, _crowded, _blas = None, threading.Lock(), 0, _Blas()


if hasattr(os, "register_at_fork"):  # a forked child has the pool's object but none of its threads
    os.register_at_fork(after_in_child=_forget_pool)


def run_in_chunks(task: Callable[[int, int], object], size: int, work: float, ends: IndexArray | None = None) -> None:
    """Call ``task(start, stop)`` over ``range(size)``, on all threads if ``work`` is worth it.

    Parameters
    ----------
    task : callable
        Releases the GIL and writes only its own part of the output.
    size : int
        Number of items.
    work : float
        Numbers read in all; below ``_LEAST_WORK`` the hand-over costs more than it saves.
    ends : int array of shape (size + 1,), optional
        Numbers that the items before each one hold, if they differ: every thread gets as many numbers, not items.
    """
    threads = min(n_threads(), size)
    if threads <= 1 or work < _LEAST_WORK:
        task(0, size)
        return
    edges = [size * k // threads for k in range(threads + 1)]
    if ends is not None:
        edges[1:-1] = np.searchsorted(ends, [ends[-1] * k // threads for k in range(1, threads)]).tolist()
    pool = _shared_pool()
    futures: list[Future[object]] = [pool.submit(task, edges[k], edges[k + 1]) for k in range(threads - 1)]
    try:
        task(edges[-2], edges[-1])
    finally:
        for future in futures:
            future.result()
