"""What a study is: a configuration, units of work, records, and what is read off them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from fastsbl.studies.claims import Claim
    from fastsbl.studies.figures import Figure
    from fastsbl.studies.store import Store

__all__ = ["Record", "Study", "Table", "Unit"]

Record: TypeAlias = dict[str, Any]
"""One row of results: names to numbers, texts, truth values, None, or (nested) lists of these."""

Config = TypeVar("Config")
Context = TypeVar("Context")


@dataclass(frozen=True)
class Unit:
    """One piece of work, done whole or not at all.

    Attributes
    ----------
    key : mapping of str to str, int, float, bool or None
        What tells it from all others: target, ratio, rule, solver, repetition. Every record of the unit carries it.
    cost : float
        How much work it is beside the others, for the time left.

    Examples
    --------
    >>> from fastsbl.studies import Unit
    >>> Unit({"target": 3, "ratio": 0.1}).id
    '{"target":3,"ratio":0.1}'
    """

    key: Mapping[str, str | int | float | bool | None]
    cost: float = 1.0

    @cached_property
    def id(self) -> str:
        """The key as one line of JSON."""
        return json.dumps(dict(self.key), separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Table:
    """A table of the summary.

    Attributes
    ----------
    name, title : str
        What it is.
    columns : tuple of str
        Headings.
    rows : tuple of tuples
        Texts and numbers.
    caption : str
        What a reader has to know.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        """Check the fields."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name!r} has {len(self.columns)} columns, got a row of {len(row)}: {row}")


class Study(ABC, Generic[Config, Context]):
    """An experiment that can be run, interrupted, resumed and read.

    A subclass is stateless: everything it knows comes with its arguments, so that workers in other processes can
    make their own. `fastsbl.studies.run_study` runs it.

    Attributes
    ----------
    name : str
        As on the command line.
    title : str
        One line on what it is about.
    config_type : type
        A frozen dataclass, every field with a default; see `fastsbl.studies.config` for the types a field may have.
        Its ``__post_init__`` raises ValueError for values that make no sense.
    timings : frozenset of str
        Names of record fields that differ from run to run because they are, or depend on, times.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    config_type: ClassVar[type]
    timings: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def quick(self, config: Config) -> Config:
        """Return the same study so small that it takes less than a minute."""

    @abstractmethod
    def units(self, config: Config) -> Sequence[Unit]:
        """Return all units of work, always the same and in the same order for the same configuration."""

    @abstractmethod
    def prepare(self, config: Config) -> Context:
        """Build what all units share (dictionary, targets); called once in every worker process."""

    @abstractmethod
    def run_unit(self, context: Context, unit: Unit) -> list[Record]:
        """Do one unit. Apart from the fields in `timings`, the records depend on config and unit alone."""

    @abstractmethod
    def claims(self, store: Store) -> list[Claim]:
        """Hold the paper's sentences against the results at hand (all or some of the units)."""

    def tables(self, store: Store) -> list[Table]:
        """Return the tables of the summary."""
        return []

    def figures(self, store: Store) -> list[Figure]:
        """Return the figures, as data; those whose results are missing are left out."""
        return []

    def config(self, store: Store) -> Config:
        """Return the configuration that a store was made with."""
        from fastsbl.studies.config import parse_config

        found: Config = parse_config(self.config_type, store.config_toml)
        return found
