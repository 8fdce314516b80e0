"""The studies by name; a module is imported when its study is asked for."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

from fastsbl.studies.study import Study

__all__ = ["find_study", "study_names"]

_HOMES = {
    "screening": "fastsbl.studies.screening:ScreeningStudy",
    "classification": "fastsbl.studies.classification:ClassificationStudy",
    "localization": "fastsbl.studies.localization:LocalizationStudy",
    "denoising": "fastsbl.studies.denoising:DenoisingStudy",
}


def study_names() -> tuple[str, ...]:
    """Return the names of all studies."""
    return tuple(_HOMES)


def find_study(name: str) -> Study[Any, Any]:
    """Return the study called ``name``.

    Examples
    --------
    >>> from fastsbl.studies import find_study
    >>> find_study("screening").title
    'Screening tests inside sparse Bayesian learning'
    """
    if name not in _HOMES:
        close = difflib.get_close_matches(str(name), _HOMES, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"study must be one of {', '.join(map(repr, _HOMES))}, got {name!r}{hint}")
    module, _, attribute = _HOMES[name].partition(":")
    found: Study[Any, Any] = getattr(import_module(module), attribute)()
    return found
