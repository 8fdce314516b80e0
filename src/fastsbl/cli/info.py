"""``fastsbl info``: versions, threads and caches, for reports of problems."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

from fastsbl.cli._console import Session, subcommand

__all__ = ["command"]

_EXTRAS = {
    "apps": ("click", "rich", "matplotlib", "jinja2", "astropy", "photutils", "scikit-image", "PyWavelets", "tifffile",
             "pooch", "pyarrow"),
    "scale": ("dask", "distributed", "zarr"),
    "cvxpy": ("cvxpy",),
}  # fmt: skip


@subcommand("info", examples=("fastsbl info", "fastsbl info --json"))
def command(session: Session) -> None:
    """Show versions, threads, BLAS and caches: put it into a report of a problem."""
    from fastsbl._base.parallel import available_threads
    from fastsbl.studies import describe_environment

    machine = {"fastsbl": "", **describe_environment()}
    machine |= {"threads of a fit": str(available_threads())}
    machine |= {
        f"${name}": os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name in os.environ
    }
    folders = _folders()
    packages = {name: _version(name) for extra in _EXTRAS.values() for name in extra}
    missing = {extra: [name for name in names if packages[name] is None] for extra, names in _EXTRAS.items()}
    session.table(("on this machine", ""), list(machine.items()))
    session.table(("folders", ""), list(folders.items()))
    session.table(("optional packages", ""), [(name, version or "missing") for name, version in packages.items()])
    for extra, names in missing.items():
        if names:
            session.say(f'missing {", ".join(names)}: pip install "fastsbl[{extra}]"')
    session.finish({"machine": machine, "folders": folders, "packages": packages, "missing": missing})


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _folders() -> dict[str, str]:
    """Where things are kept: compiled loops, downloads, data."""
    import numba

    import fastsbl
    from fastsbl.datasets._files import user_cache

    compiled = numba.config.CACHE_DIR or "__pycache__ beside the package"
    return {
        "package": str(Path(fastsbl.__file__).parent),
        "compiled loops": str(compiled),
        "downloads": str(user_cache()),
        "data (FASTSBL_DATA)": os.environ.get("FASTSBL_DATA", "not set"),
    }
