"""Results on disk: one SQLite file, one transaction per unit of work."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from fastsbl.studies.study import Record, Unit

__all__ = ["Store", "StoreError"]

FILE_NAME = "results.sqlite"
_LAYOUT = 1
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (number INTEGER PRIMARY KEY, started TEXT NOT NULL, environment TEXT NOT NULL);
CREATE TABLE units (
    id TEXT PRIMARY KEY, position INTEGER NOT NULL UNIQUE, run INTEGER NOT NULL, seconds REAL NOT NULL,
    warnings TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (
    position INTEGER NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (position, number)) WITHOUT ROWID;
CREATE TABLE failures (id TEXT PRIMARY KEY, run INTEGER NOT NULL, message TEXT NOT NULL) WITHOUT ROWID;
"""


class StoreError(RuntimeError):
    """The results on disk are not those of this study; the message says what differs."""


class Store:
    """The results of one study in ``folder/results.sqlite``.

    A unit is either there with all its records or not at all, whatever happens to the process that writes it. Use
    `Store.create` to start and `Store.open` to read or go on; close it, or use it in a ``with`` block.

    Examples
    --------
    >>> import tempfile
    >>> from fastsbl.studies import Store, Unit
    >>> with tempfile.TemporaryDirectory() as folder, Store.create(folder, "demo", "") as store:
    ...     run = store.begin_run({})
    ...     store.add(0, Unit({"target": 0}), [{"loss": 1.5}], run=run, seconds=0.1)
    ...     store.records()
    [{'target': 0, 'loss': 1.5}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None, timeout=60.0)

    @classmethod
    def create(cls, folder: str | Path, study: str, config_toml: str) -> Self:
        """Start the results of a study in a folder that holds none."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        path = place / FILE_NAME
        if cls.exists(folder):
            raise StoreError(f"{path} exists already")
        store = cls(path)
        store._db.execute("PRAGMA journal_mode = WAL")
        with store._transaction():
            for statement in filter(str.strip, _TABLES.split(";")):
                store._db.execute(statement)
            pairs = {"layout": str(_LAYOUT), "study": study, "config": config_toml}
            store._db.executemany("INSERT INTO meta VALUES (?, ?)", pairs.items())
        return store

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open the results in a folder."""
        path = Path(folder) / FILE_NAME
        if not path.is_file():
            raise StoreError(f"{path}: there are no results of a study here")
        store = cls(path)
        try:
            layout = store._meta("layout")
        except sqlite3.DatabaseError as error:
            store.close()
            raise StoreError(f"{path}: not the results of a study ({error})") from error
        if layout != str(_LAYOUT):
            store.close()
            raise StoreError(
                f"{path}: written by another version of this library (layout {layout}, expected {_LAYOUT})"
            )
        return store

    @staticmethod
    def exists(folder: str | Path) -> bool:
        """Whether a folder holds results; a file without tables (its maker was killed) does not count."""
        path = Path(folder) / FILE_NAME
        if not path.is_file():
            return False
        db = sqlite3.connect(path, timeout=60.0)
        try:
            return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        except sqlite3.DatabaseError:
            return True  # something else: opening it says what
        finally:
            db.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        """Use the store in a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _meta(self, name: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path}: not the results of a study (no {name})")
        return str(row[0])

    # -- what it holds ------------------------------------------------------------------------
    @property
    def study_name(self) -> str:
        """Name of the study."""
        return self._meta("study")

    @property
    def config_toml(self) -> str:
        """Configuration of the study, as TOML."""
        return self._meta("config")

    def environments(self) -> list[dict[str, str]]:
        """Where each run (the first, and one for each resumption) took place, with its start."""
        rows = self._db.execute("SELECT started, environment FROM runs ORDER BY number").fetchall()
        return [{"started": started, **json.loads(text)} for started, text in rows]

    def done(self) -> set[str]:
        """Ids of the units that are complete."""
        return {row[0] for row in self._db.execute("SELECT id FROM units")}

    def failures(self) -> dict[str, str]:
        """Ids of units that raised an error the last time they were tried, with the message."""
        return dict(self._db.execute("SELECT id, message FROM failures ORDER BY id").fetchall())

    def unit_seconds(self) -> float:
        """Time that the complete units took, added up over all workers."""
        return float(self._db.execute("SELECT coalesce(sum(seconds), 0) FROM units").fetchone()[0])

    def warnings(self) -> dict[str, int]:
        """Every warning that units gave, with the number of units."""
        found: dict[str, int] = {}
        for (text,) in self._db.execute("SELECT warnings FROM units WHERE warnings != '[]' ORDER BY position"):
            for message in json.loads(text):
                found[message] = found.get(message, 0) + 1
        return found

    def records(self, **wanted: Any) -> list[Record]:
        """Records in the order of the units, each with its unit's key; only those with these values.

        Examples: ``store.records(kind="time", solver="cd")``.
        """
        out = []
        rows = self._db.execute(
            "SELECT units.id, records.data FROM units JOIN records USING (position) ORDER BY position, number"
        )
        for key, data in rows:
            record = {**json.loads(key), **json.loads(data)}
            if all(record.get(name) == value for name, value in wanted.items()):
                out.append(record)
        return out

    # -- writing ------------------------------------------------------------------------------
    def begin_run(self, environment: Mapping[str, str]) -> int:
        """Note where work begins or goes on; returns the number of the run."""
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO runs (started, environment) VALUES (?, ?)",
                (datetime.now(UTC).isoformat(timespec="seconds"), json.dumps(dict(environment))),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def note(self, run: int, more: Mapping[str, str]) -> None:
        """Add to what is known about a run."""
        with self._transaction():
            (text,) = self._db.execute("SELECT environment FROM runs WHERE number = ?", (run,)).fetchone()
            merged = json.dumps({**json.loads(text), **more})
            self._db.execute("UPDATE runs SET environment = ? WHERE number = ?", (merged, run))

    def add(
        self,
        position: int,
        unit: Unit,
        records: Sequence[Record],
        *,
        run: int,
        seconds: float,
        warnings: Sequence[str] = (),
    ) -> None:
        """Keep a finished unit with all its records, in one transaction; a unit that is here already stays as it is."""
        lines = []
        for number, record in enumerate(records):
            clash = [name for name in record if name in unit.key and record[name] != unit.key[name]]
            if clash:
                raise ValueError(f"a record of unit {unit.id} changes its key {clash[0]!r} to {record[clash[0]]!r}")
            data = {name: _plain(value, name) for name, value in record.items() if name not in unit.key}
            lines.append((position, number, json.dumps(data, allow_nan=False)))
        with self._transaction():
            cursor = self._db.execute(
                "INSERT OR IGNORE INTO units VALUES (?, ?, ?, ?, ?)",
                (unit.id, position, run, seconds, json.dumps(list(warnings))),
            )
            if cursor.rowcount == 1:
                self._db.executemany("INSERT INTO records VALUES (?, ?, ?)", lines)
            self._db.execute("DELETE FROM failures WHERE id = ?", (unit.id,))

    def add_failure(self, unit: Unit, message: str, *, run: int) -> None:
        """Note that a unit raised an error; it is tried again when the study is resumed."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", (unit.id, run, message))

    # -- export -------------------------------------------------------------------------------
    def export_csv(self, path: str | Path, *, leave_out: frozenset[str] = frozenset()) -> None:
        """Write all records as CSV: the units' keys first, then every field in order of appearance."""
        records = self.records()
        keys = [json.loads(key) for (key,) in self._db.execute("SELECT id FROM units ORDER BY position")]
        names = dict.fromkeys(name for key in keys for name in key)
        names.update(dict.fromkeys(name for record in records for name in record))
        columns = [name for name in names if name not in leave_out]
        partial = Path(path).with_suffix(".partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for record in records:
                writer.writerow([_cell(record.get(name)) for name in columns])
        partial.replace(path)


def _plain(value: Any, name: str) -> Any:
    """Return numbers, texts and lists as JSON knows them; NaN as None."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"field {name!r} of a record must be finite, got {value}")
        return None if math.isnan(value) else value
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"field {name!r} of a record must be a number, a text, a list or None, got {type(value).__name__}")


def _cell(value: Any) -> Any:
    return "" if value is None else json.dumps(value) if isinstance(value, list) else value
