"""Many fits side by side whose whole reads of the dictionary are made together.

Reading the dictionary for one vector is bound by memory; for thirty vectors at once each costs a fraction. So a
fit that needs a whole read waits until others need one too. Every fit has a thread of its own, of which only
as many run as there are cores. As soon as enough vectors wait for a read, or there is nothing else to run, a core
makes the product for them; other fits go on meanwhile, since a product does not need the interpreter.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from fastsbl._base.parallel import one_thread_each
from fastsbl._base.types import Array
from fastsbl.dictionary import Dictionary

__all__ = ["run_together"]

_MOST_VECTORS = 32  # per read: more gains nothing
_MOST_FITS = 64
_BYTES = 2**30  # of all fits at work


class _Stopped(Exception):
    """Another fit failed, or the caller was interrupted."""


class _Request:
    """A product that somebody waits for."""

    def __init__(self, vectors: Array) -> None:
        self.vectors = vectors
        self.answered = threading.Event()
        self.product: Array | None = None
        self.error: BaseException | None = None


class SharedReads:
    """Collects the whole reads that fits ask for, and makes them together.

    Parameters
    ----------
    phi : Dictionary
        What is read.
    cores : int
        Fits that may run at the same time.
    """

    def __init__(self, phi: Dictionary, cores: int) -> None:
        self.phi = phi
        self.cores = cores
        self._lock = threading.Lock()
        self._cores = threading.Semaphore(cores)
        self._waiting: deque[_Request] = deque()
        self._width = 0  # vectors that wait
        self._ready = 0  # fits that run or could
        self._stopped = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Hold a core for a fit."""
        with self._lock:
            self._ready += 1
        self._cores.acquire()
        try:
            yield
        finally:
            with self._lock:
                self._ready -= 1
            try:
                self._serve_idle(None)
            finally:
                self._cores.release()

    def correlate(self, vectors: Array) -> Array:
        """``Phi^H vectors``, by a read that others may share."""
        request = _Request(vectors)
        with self._lock:
            if self._stopped:
                raise _Stopped
            self._waiting.append(request)
            self._width += _width(request)
            self._ready -= 1
        self._serve_idle(request)
        if not request.answered.is_set():
            self._cores.release()
            try:
                request.answered.wait()
            finally:
                self._cores.acquire()
        if request.error is not None:
            raise request.error
        assert request.product is not None
        return request.product

    def stop(self) -> None:
        """Wake everybody who waits; no fit goes on after its next read."""
        with self._lock:
            self._stopped = True
            for request in self._waiting:
                request.error = _Stopped()
                request.answered.set()
            self._ready += len(self._waiting)
            self._waiting.clear()
            self._width = 0

    def _serve_idle(self, own: _Request | None) -> None:
        """While enough vectors wait, or this core has nothing else to run, read for them, up to one's own request."""
        while own is None or not own.answered.is_set():
            batch: list[_Request] = []
            with self._lock:
                early = self.cores > 1 and self._width >= _MOST_VECTORS  # a single core gains nothing by it
                if self._ready >= self.cores and not early:
                    return
                width = 0
                while self._waiting and (not batch or width + _width(self._waiting[0]) <= _MOST_VECTORS):
                    batch.append(self._waiting.popleft())
                    width += _width(batch[-1])
                if not batch:
                    return
                self._width -= width
                self._ready += len(batch)
            self._read(batch)

    def _read(self, batch: list[_Request]) -> None:
        try:
            product = self.phi.correlate(np.column_stack([request.vectors for request in batch]))
            place = 0
            for request in batch:
                wide = _width(request)
                part = product[:, place : place + wide]
                request.product = part.copy(order="F") if request.vectors.ndim == 2 else part[:, 0].copy()
                place += wide
        except BaseException as error:
            for request in batch:
                request.error = error
            raise
        finally:
            for request in batch:
                request.answered.set()


def _width(request: _Request) -> int:
    return 1 if request.vectors.ndim == 1 else int(request.vectors.shape[1])


def run_together(phi: Dictionary, fit: Callable[[Dictionary, int], None], tasks: Iterable[int], *, cores: int) -> None:
    """Call ``fit(view, task)`` for every task, several at a time, each with a view of ``phi`` whose reads are shared.

    The first exception ends everything and is raised here.
    """
    reads = SharedReads(phi, cores)
    pending = deque(tasks)
    errors: list[BaseException] = []
    # each fit keeps some vectors of length n: products of the directions it has seen, bounds, limits
    most = int(np.clip(_BYTES // (256 * phi.n_features), cores, _MOST_FITS))

    def work() -> None:
        while not errors:
            try:
                task = pending.popleft()
            except IndexError:
                return
            try:
                with reads.at_work():
                    fit(phi.read_by(reads.correlate), task)
            except _Stopped:
                return
            except BaseException as error:
                errors.append(error)
                reads.stop()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(most, len(pending)))]
    with one_thread_each():
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:  # an interruption, which only this thread sees
            pending.clear()
            reads.stop()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
            raise
    if errors:
        raise errors[0]
