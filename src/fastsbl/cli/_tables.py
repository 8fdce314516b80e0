"""Reading rows and a target from the files people have."""

from __future__ import annotations

import contextlib
import gzip
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from fastsbl._base.types import Array, FloatArray

__all__ = ["KINDS", "Rows", "as_classes", "check_finite", "read_rows", "reading_options"]

KINDS = {
    ".csv": "CSV", ".tsv": "CSV", ".txt": "CSV", ".parquet": "Parquet", ".pq": "Parquet", ".npz": "NPZ",
    ".npy": "NPY", ".mtx": "Matrix Market", ".svm": "libsvm", ".libsvm": "libsvm", ".svmlight": "libsvm",
}  # fmt: skip
_LOOKED_AT = 2**22  # numbers at a time


@dataclass(frozen=True)
class Rows:
    """What a file holds: rows of features, and their target if it is known.

    Attributes
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        The features.
    y : array of shape (n_rows,) or None
        The target; texts or whole numbers if it names classes.
    names : list of str or None
        Names of the features, if the file has any.
    target : str or None
        What the target is called.
    """

    X: Any
    y: Array | None
    names: list[str] | None
    target: str | None


@dataclass(frozen=True)
class Reading:
    """How to read a table of text: what the user said about it."""

    header: bool = True
    ignore: tuple[str, ...] = ()
    drop_missing: bool = False
    only: tuple[str, ...] | None = None
    least_rows: int = 2
    classes: bool = False


def reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how to read a file."""
    for option in (
        click.option(
            "--drop-missing", is_flag=True, help="Leave out the rows in which a value is missing (CSV, Parquet)."
        ),
        click.option(
            "--ignore", multiple=True, metavar="COL", help="Leave out this column (CSV, Parquet); repeatable."
        ),
        click.option("--no-header", is_flag=True, help="The first line of the CSV holds numbers, not names."),
    ):
        function = option(function)
    return function


def read_rows(
    path: Path,
    target: str | None,
    *,
    header: bool = True,
    ignore: Sequence[str] = (),
    drop_missing: bool = False,
    only: Sequence[str] | None = None,
    least_rows: int = 2,
    classes: bool = False,
) -> Rows:
    """Read features, and the target if ``target`` says where it is.

    ``target`` is the name of a column, its number (0 is the first, -1 the last), the name of an array in an NPZ
    file, or another file that holds one number per row. A libsvm file holds its target itself. Of columns with
    names only those in ``only`` are features, if it is given; others may then hold anything. With ``classes`` the
    target names classes: whole numbers or texts.
    """
    kind = _kind_of(path)
    how = Reading(header, tuple(ignore), drop_missing, None if only is None else tuple(only), least_rows, classes)
    if (how.ignore or how.drop_missing) and kind not in ("CSV", "Parquet"):
        raise ValueError(f"--ignore and --drop-missing are for CSV and Parquet; {path.name} is {kind}")
    if kind in ("CSV", "Parquet"):
        return _from_table(path, kind, target, how)
    if kind == "NPZ":
        rows = _from_npz(path, target, how)
    elif kind == "libsvm":
        rows = _from_libsvm(path, target, how)
    else:
        with _reading(path, kind):
            X = np.load(path, mmap_mode="r", allow_pickle=False) if kind == "NPY" else _matrix_market(path)
        rows = _from_matrix(path, X, target, how)
    return _large_enough(path, rows, how)


def _kind_of(path: Path) -> str:
    from fastsbl.imaging._files import is_compressed, suffix_of

    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file of data")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    kind = KINDS.get(suffix_of(path))
    if kind is None:
        raise ValueError(f"{path.name} has none of the known endings {', '.join(KINDS)}")
    if is_compressed(path) and kind in ("NPY", "NPZ", "Parquet"):
        raise ValueError(f"{path.name}: unpack it first, {kind} is not read from .gz")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    return kind


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Name the file in whatever goes wrong while it is read."""
    try:
        yield
    except ImportError:
        raise
    except (ValueError, OSError, EOFError, KeyError, TypeError, IndexError, zipfile.BadZipFile) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, UnicodeDecodeError):
            first = "it is not text in UTF-8"
        raise ValueError(f"{path} cannot be read as {kind}: {first}") from error


def _from_table(path: Path, kind: str, target: str | None, how: Reading) -> Rows:
    with _reading(path, kind):
        table = _arrow_csv(path, header=how.header) if kind == "CSV" else _arrow_parquet(path)
    names = list(table.column_names)
    if table.num_rows == 0:
        raise ValueError(f"{path.name} has names of columns, but no rows")
    if kind == "CSV" and how.header and _looks_like_numbers(names):
        raise ValueError(
            f"the first line of {path.name} holds numbers ({', '.join(names[:3])}, ...), not names; "
            "say --no-header if the file has no names"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path.name} has several columns called {twice[0]!r}; names must be different")
    for name in how.ignore:
        if name not in names:
            raise ValueError(f"--ignore {name}: {_no_column(path, name, names)}")
    names = [name for name in names if name not in how.ignore]
    label, file_of_target = _find_target(path, target, names)
    features = [name for name in names if name != label and (how.only is None or name in how.only)]
    numbers = [name for name in names if name in features or (name == label and not how.classes)]
    columns = {name: table.column(name) for name in numbers}
    data, kept = _numbers(path, columns, table.num_rows, drop_missing=how.drop_missing)
    if label is not None and how.classes:
        given = table.column(label).to_numpy(zero_copy_only=False)
        known = np.array([value is not None and value == value and value != "" for value in given], dtype=bool)
        if how.drop_missing:
            kept &= known
        elif not known.all():
            raise ValueError(
                f"column {label!r} of {path.name} lacks the class of row {int(np.argmin(known)) + 1}; fill it in, or "
                "leave such rows out with --drop-missing"
            )
    X = np.empty((int(kept.sum()), len(features)), order="F")
    for k, name in enumerate(features):
        X[:, k] = data[name][kept]
    y: Array | None = None
    if label is not None:
        y = as_classes(given[kept], f"column {label!r} of {path.name}") if how.classes else data[label][kept]
    elif file_of_target is not None:
        y = _one_column(file_of_target, kept.size, how)[kept]
        label = file_of_target.name
    named = how.header or kind == "Parquet"
    if not named and label in names:
        label = f"column {names.index(label)}"
    rows = Rows(X, y, features if named else None, label)
    return _large_enough(path, rows, how)


def _find_target(path: Path, target: str | None, names: list[str]) -> tuple[str | None, Path | None]:
    """Return the name of the target's column, or the file that holds it."""
    if target is None:
        return None, None
    if target in names:
        return target, None
    number = _whole_number(target)
    if number is not None:
        if not -len(names) <= number < len(names):
            raise ValueError(f"--target {target}: {path.name} has {len(names)} columns, 0 to {len(names) - 1}")
        return names[number], None
    if Path(target).is_file():
        return None, Path(target)
    raise ValueError(f"--target {target}: {_no_column(path, target, names)}")


def _no_column(path: Path, name: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    known = f"did you mean {' or '.join(near)}" if near else f"there are {', '.join(names[:8])}"
    return f"{path.name} has no column of this name; {known}{', ...' if not near and len(names) > 8 else ''}"


def _numbers(
    path: Path, columns: dict[str, Any], n_rows: int, *, drop_missing: bool
) -> tuple[dict[str, FloatArray], Array]:
    """Columns as float64, and the rows to keep."""
    types = _arrow("pyarrow.types")
    data: dict[str, FloatArray] = {}
    kept = np.ones(n_rows, dtype=bool)
    text, missing = [], []
    for name, column in columns.items():
        kind = column.type
        if types.is_null(kind):
            missing.append((name, len(column), 0))
            continue
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
            text.append(name)
            continue
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        bad = np.isnan(values)
        kept &= ~bad
        if bad.any():
            missing.append((name, int(bad.sum()), int(np.argmax(bad))))
        data[name] = values
    if text:
        more = f" and {len(text) - 1} more" if len(text) > 1 else ""
        raise ValueError(
            f"column {text[0]!r}{more} of {path.name} does not hold numbers; leave it out with --ignore {text[0]}"
        )
    whole = [name for name, count, _ in missing if name not in data]
    if whole:
        raise ValueError(f"column {whole[0]!r} of {path.name} is empty; leave it out with --ignore {whole[0]}")
    if missing and not drop_missing:
        name, count, row = missing[0]
        values = "1 value" if count == 1 else f"{count} values"
        more = f" (and {len(missing) - 1} other columns have some)" if len(missing) > 1 else ""
        raise ValueError(
            f"column {name!r} of {path.name} lacks {values}{more}, the first in row {row + 1}; "
            "fill them in, or leave such rows out with --drop-missing"
        )
    return data, kept


def _arrow_csv(path: Path, *, header: bool) -> Any:
    csv = _arrow("pyarrow.csv")
    separator = max(",;\t", key=_first_line(path).count)
    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(autogenerate_column_names=not header),
        parse_options=csv.ParseOptions(delimiter=separator),
        convert_options=csv.ConvertOptions(strings_can_be_null=False),
    )


def _arrow_parquet(path: Path) -> Any:
    return _arrow("pyarrow.parquet").read_table(path)


def _arrow(module: str) -> Any:
    from fastsbl.imaging._checks import optional_import

    return optional_import(module, "Reading a table")


def _looks_like_numbers(names: list[str]) -> bool:
    """Whether all names are numbers, other than those a table without names gets: 0, 1, 2, ... or 1, 2, 3, ..."""
    try:
        values = [float(name) for name in names]
    except ValueError:
        return False
    return values not in ([float(k) for k in range(len(names))], [float(k + 1) for k in range(len(names))])


def _from_npz(path: Path, target: str | None, how: Reading) -> Rows:
    with _reading(path, "NPZ"), path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if {"format", "shape", "data", "indices", "indptr"} <= arrays.keys():  # what scipy.sparse.save_npz writes
        from scipy.sparse import load_npz

        with _reading(path, "NPZ"):
            X = load_npz(path)
        return _from_matrix(path, X, target, how)
    name = target if target is not None else "y"
    two = [key for key, value in arrays.items() if value.ndim == 2 and key != name]
    key = "X" if "X" in two else (two[0] if len(two) == 1 else None)
    if key is None:
        raise ValueError(
            f"{path.name} must hold a two-dimensional array called X; it holds "
            + (", ".join(f"{key} {value.shape}" for key, value in arrays.items()) or "nothing")
        )
    X = arrays[key]
    if target is not None and target not in arrays:
        return _from_matrix(path, X, target, how)
    y = arrays.get(name)
    if y is not None:
        y = _as_target(y, X.shape[0], f"{name} in {path.name}", how)
    X = _checked(path, X)
    names = [str(value) for value in arrays["names"]] if "names" in arrays else None
    if names is not None and len(names) != X.shape[1]:
        raise ValueError(f"names in {path.name} must be {X.shape[1]}, one per column of {key}, got {len(names)}")
    return Rows(X, y, names, name if y is not None else None)


def _from_libsvm(path: Path, target: str | None, how: Reading) -> Rows:
    from sklearn.datasets import load_svmlight_file

    with _reading(path, "libsvm"):
        X, y = load_svmlight_file(str(path), zero_based="auto")
    if target is not None:
        raise ValueError(f"--target {target}: a libsvm file holds its target itself, leave the option out")
    if not np.isfinite(y).all():
        raise ValueError(f"the target in {path.name} must be finite, got {y[~np.isfinite(y)][0]} for one row")
    y = _as_target(y, X.shape[0], f"the target in {path.name}", how)
    return Rows(_checked(path, X), y, None, "the first number of each line")


def _matrix_market(path: Path) -> Any:
    from scipy.io import mmread

    return mmread(path)


def _from_matrix(path: Path, X: Any, target: str | None, how: Reading) -> Rows:
    """Take the target from a column of the matrix or from another file."""
    X = _checked(path, X)
    if target is None:
        return Rows(X, None, None, None)
    number = _whole_number(target)
    if number is not None and not Path(target).is_file():
        width = X.shape[1]
        if not -width <= number < width:
            raise ValueError(f"--target {target}: {path.name} has {width} columns, 0 to {width - 1}")
        column = X[:, [number]]
        y = np.asarray(column.toarray() if hasattr(column, "toarray") else column, dtype=np.float64).ravel()
        if how.classes:
            y = as_classes(y, f"column {number % width} of {path.name}")
        others = np.delete(np.arange(width), number)
        if others.size == 0:
            raise ValueError(f"{path.name} has one column only, which leaves no features")
        return Rows(X[:, others], y, None, f"column {number % width}")
    if not Path(target).is_file():
        raise ValueError(f"--target {target}: there is no such file, and {path.name} has numbered columns only")
    return Rows(X, _one_column(Path(target), X.shape[0], how), None, Path(target).name)


def _one_column(path: Path, n_rows: int, how: Reading) -> Array:
    """Read a target from a file of its own."""
    kind = _kind_of(path)
    with _reading(path, kind):
        if kind == "NPY":
            values: Any = np.load(path, allow_pickle=False)
        elif kind == "Matrix Market":
            values = _matrix_market(path)
            values = values.toarray() if hasattr(values, "toarray") else values
        elif kind in ("CSV", "Parquet"):
            table = _arrow_parquet(path) if kind == "Parquet" else _arrow_csv(path, header=_has_header(path))
            if table.num_columns != 1:
                raise ValueError(f"it must have one column, got {table.num_columns}")
            values = table.column(0).to_numpy(zero_copy_only=False)
            values = values if how.classes else values.astype(np.float64)
        else:
            raise ValueError("a target is read from NPY, CSV, Parquet or Matrix Market")
    return _as_target(values, n_rows, path.name, how)


def _has_header(path: Path) -> bool:
    try:
        float(_first_line(path))
    except ValueError:
        return True
    return False


def _first_line(path: Path) -> str:
    with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as source:
        return source.readline().decode("utf-8-sig")


def _as_target(values: Any, n_rows: int, name: str, how: Reading) -> Array:
    values = np.asarray(values)
    if values.dtype.kind not in ("biufUO" if how.classes else "biuf"):
        raise ValueError(f"{name} must hold real numbers, got dtype {values.dtype}")
    if values.ndim == 2 and 1 in values.shape:
        values = values.ravel()
    if values.shape != (n_rows,):
        what = "class" if how.classes else "number"
        raise ValueError(f"{name} must hold one {what} for each of the {n_rows} rows, got shape {values.shape}")
    if how.classes:
        return as_classes(values, name)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite, got {np.count_nonzero(~np.isfinite(values))} other values")
    return np.asarray(values, dtype=np.float64)


def as_classes(values: Array, name: str) -> Array:
    """Names of classes: whole numbers as integers, anything else as text.

    Examples
    --------
    >>> as_classes(np.array([1.0, 3.0]), "y"), as_classes(np.array(["no", "yes"], dtype=object), "y")
    (array([1, 3]), array(['no', 'yes'], dtype='<U3'))
    """
    if values.dtype.kind == "b" or values.dtype.kind in "UO":
        return values.astype(str)
    if values.dtype.kind == "f":
        whole = np.isfinite(values) & (values == np.round(values))
        if not whole.all():
            raise ValueError(f"{name} must name classes by whole numbers or texts, got {values[~whole][0]}")
    return values.astype(np.int64)


def _checked(path: Path, X: Any) -> Any:
    """A matrix of real numbers with rows and columns; sparse ones by column."""
    if hasattr(X, "tocsc"):
        X = X.tocsc()
    if X.ndim != 2:
        raise ValueError(f"{path.name} must hold a matrix of rows and columns, got shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{path.name} must hold real numbers, got dtype {X.dtype}")
    return X


def check_finite(path: Path, rows: Rows) -> None:
    """Refuse rows with NaN or infinite values, saying where the first one is."""
    if rows.y is not None and not np.isfinite(rows.y).all():
        row = int(np.argmin(np.isfinite(rows.y)))
        raise ValueError(f"the target {rows.target} of {path.name} must be finite, got {rows.y[row]} in row {row + 1}")
    count, first = 0, (0, 0)
    if hasattr(rows.X, "tocoo"):
        values = rows.X.tocoo()
        bad = np.flatnonzero(~np.isfinite(values.data))
        count = bad.size
        if count:
            first = int(values.row[bad[0]]), int(values.col[bad[0]])
    else:
        step = max(1, _LOOKED_AT // rows.X.shape[1])
        for start in range(0, rows.X.shape[0], step):  # a part at a time: the file may be larger than memory
            places = np.argwhere(~np.isfinite(rows.X[start : start + step]))
            if len(places) and not count:
                first = start + int(places[0, 0]), int(places[0, 1])
            count += len(places)
    if count:
        column = first[1] if rows.names is None else repr(rows.names[first[1]])
        values_are = "1 value that is" if count == 1 else f"{count} values that are"
        raise ValueError(
            f"{path.name} has {values_are} NaN or infinite, the first in row {first[0] + 1} of feature {column}; "
            "fill them in or leave such rows out"
        )


def _large_enough(path: Path, rows: Rows, how: Reading) -> Rows:
    n_rows, n_features = rows.X.shape
    if n_rows < how.least_rows or (n_features < 1 and how.only is None):
        raise ValueError(
            f"{path.name} must have at least {how.least_rows} rows and 1 feature, "
            f"got {n_rows} rows and {n_features} features"
        )
    return rows


def _whole_number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
