"""Where a study ran: versions, processor, threads, command. Nothing in it names the user or a path."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

__all__ = ["describe_environment", "peak_memory"]

_PACKAGES = ("fastsbl", "numpy", "scipy", "numba", "scikit-learn", "joblib", "cvxpy", "clarabel")


def describe_environment(
    *, n_jobs: int | None = None, command: str | None = None, seed: int | None = None
) -> dict[str, str]:
    """Return what a reader needs to judge timings, as names and texts.

    Examples
    --------
    >>> from fastsbl.studies import describe_environment
    >>> "numpy" in describe_environment()
    True
    """
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    found["processor"] = _processor()
    found["cores"] = str(os.cpu_count() or 1)
    memory = _memory()
    if memory:
        found["memory"] = f"{memory / 2**30:.1f} GiB"
    if n_jobs is not None:
        found["worker processes"] = str(n_jobs)
        found["threads of a worker"] = "1"
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if "fastsbl" not in found:
        from fastsbl import __version__

        found["fastsbl"] = __version__
    found["blas"] = _blas()
    if seed is not None:
        found["seed"] = str(seed)
    if command:
        found["command"] = command
    return found


def peak_memory() -> int:
    """Return the most memory that this process has held so far, in bytes; 0 where the system does not tell.

    Examples
    --------
    >>> from fastsbl.studies.environment import peak_memory
    >>> peak_memory() >= 0
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _processor() -> str:
    if sys.platform == "linux":
        try:
            with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.startswith("model name"):
                        return line.partition(":")[2].strip()
        except OSError:
            return platform.processor() or "unknown"
    return platform.processor() or "unknown"


def _memory() -> int:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names and "SC_PAGE_SIZE" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def _blas() -> str:
    import numpy as np  # noqa: F401  (its BLAS is what is looked for)
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    return (
        ", ".join(sorted({f"{pool['internal_api']} {pool.get('version') or ''}".strip() for pool in pools})) or "none"
    )
