"""Configurations: frozen dataclasses in and out of TOML, strict about names and types.

A field may be int, float, str, bool, a Literal, another such dataclass, a tuple of these (``tuple[int, ...]``), or
any of them ``| None``; a None is left out of the TOML text. A single value where a tuple is expected is a tuple of one.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["ConfigError", "config_to_toml", "parse_config", "read_config", "replace_config"]

C = TypeVar("C")


class ConfigError(ValueError):
    """A configuration names an unknown key or holds a value of the wrong type; the message says which."""


def read_config(config_type: type[C], path: str | Path) -> C:
    """Read a configuration from a TOML file.

    Raises
    ------
    ConfigError
        If the file is not TOML, or does not fit the configuration.
    """
    try:
        return parse_config(config_type, Path(path).read_text(encoding="utf-8"))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_config(config_type: type[C], source: str | Mapping[str, Any]) -> C:
    """Make a configuration from TOML text or from nested mappings.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from fastsbl.studies.config import parse_config
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     targets: int = 20
    ...     ratios: tuple[float, ...] = (0.1, 0.5)
    >>> parse_config(Config, "ratios = [0.3, 1]")
    Config(targets=20, ratios=(0.3, 1.0))
    >>> parse_config(Config, "target = 3")
    Traceback (most recent call last):
        ...
    fastsbl.studies.config.ConfigError: unknown key 'target'; did you mean 'targets'? (known keys: targets, ratios)
    """
    if isinstance(source, str):
        try:
            source = tomllib.loads(source)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"not valid TOML: {error}") from error
    made: C = _make(config_type, source, "")
    return made


def replace_config(config: C, changes: Mapping[str, Any]) -> C:
    """Return a configuration with some keys changed, checked as if they came from a file.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from fastsbl.studies.config import replace_config
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     targets: int = 20
    >>> replace_config(Config(), {"targets": 3})
    Config(targets=3)
    """
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    _check_names(changes, tuple(values), "")
    plain = {name: _plain(value) for name, value in {**values, **changes}.items() if value is not None}
    return parse_config(type(config), plain)


def config_to_toml(config: Any) -> str:
    """Write a configuration as TOML; reading it back gives an equal one."""
    return _to_toml({name: value for name, value in _plain(config).items()})


def _make(config_type: type, values: Any, where: str) -> Any:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where.rstrip('.') or 'a configuration'} must be a table of keys, got {values!r}")
    hints = get_type_hints(config_type)
    names = tuple(field.name for field in dataclasses.fields(config_type))
    _check_names(values, names, where)
    converted = {name: _convert(value, hints[name], f"{where}{name}") for name, value in values.items()}
    try:
        return config_type(**converted)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}{error}") from error


def _check_names(values: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in values:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1, cutoff=0.0)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"unknown key {where + key!r}{hint} (known keys: {', '.join(names)})")


def _convert(value: Any, wanted: Any, name: str) -> Any:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _convert(value, inner, name)
    if origin is Literal:
        if value not in arguments or isinstance(value, bool) != isinstance(arguments[0], bool):
            raise ConfigError(f"{name} must be one of {', '.join(map(repr, arguments))}; got {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            value = [value]
        return tuple(_convert(item, arguments[0], f"{name}[{k}]") for k, item in enumerate(value))
    if dataclasses.is_dataclass(wanted):
        return value if isinstance(value, wanted) else _make(wanted, value, f"{name}.")  # type: ignore[arg-type]
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ConfigError(f"{name} must be a finite number, got {value!r}")
        return float(value)
    if wanted in (int, str, bool) and isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
        return value
    kinds = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    raise ConfigError(f"{name} must be {kinds.get(wanted, wanted)}, got {value!r}")


def _plain(value: Any) -> Any:
    """Dataclasses as dicts without their Nones, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: _plain(item) for name, item in pairs.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _to_toml(values: dict[str, Any]) -> str:
    return "".join(f"{name} = {_literal(value)}\n" for name, value in values.items())


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML takes JSON's escapes
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            return "[\n" + "".join(f"    {_literal(item)},\n" for item in value) + "]"
        return "[" + ", ".join(map(_literal, value)) + "]"
    assert isinstance(value, dict)
    return "{ " + ", ".join(f"{name} = {_literal(item)}" for name, item in value.items()) + " }"
