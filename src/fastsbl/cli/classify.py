"""``fastsbl classify``: rows of unknown class, explained by rows whose class is known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.cli._console import Session, subcommand
from fastsbl.cli._output import check_place, output_options, writing_file
from fastsbl.cli._tables import Rows, read_rows, reading_options

__all__ = ["command"]

_SHOWN = 20
_NO_CLASSES = "--target must say where the classes in TRAINING are: a column, or a file with one per row"


@subcommand(
    "classify",
    examples=(
        "fastsbl classify known.csv new.csv --target species",
        "fastsbl classify known.csv new.csv --target species --truth species   # compare with what is true",
        "fastsbl classify train.npz test.npz --noise-ratio 0.01 --positive --jobs 2",
        "fastsbl classify X.npy new.npy --target labels.csv --explain 5 --out classes.parquet",
    ),
)
@click.argument("training", type=click.Path(path_type=Path))
@click.argument("queries", type=click.Path(path_type=Path))
@click.option(
    "--target",
    metavar="COL",
    help="The classes in TRAINING: name or number of a column (0 is the first), an array of an NPZ file, or a file.",
)
@click.option("--truth", metavar="COL", help="Where the true classes of QUERIES are, to compare with.")
@click.option(
    "--score",
    type=click.Choice(["evidence", "abs-sum", "residual"]),
    default="evidence",
    show_default=True,
    help="The rule: evidence of each class alone; or one fit with all classes, by sums of weights or by residuals.",
)
@click.option("--method", type=click.Choice(["sbl", "lasso"]), default="sbl", show_default=True, help="Kind of fit.")
@click.option(
    "--noise-ratio",
    type=float,
    multiple=True,
    default=(0.02, 0.01, 0.005),
    show_default=True,
    help="Noise variance of a query relative to its largest correlation; smaller uses more rows. May be given several "
    "times: evidence averages over them, the other scores and --explain use the largest.",
)
@click.option("--positive", is_flag=True, help="Weights of rows are at least 0, as for images.")
@click.option("--explain", type=click.IntRange(0), default=0, metavar="K", help="Add the K rows that explain most.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Queries at a time.")
@reading_options
@output_options("classes.csv", "Classes (.csv or .parquet)")
def command(
    session: Session,
    training: Path,
    queries: Path,
    target: str | None,
    truth: str | None,
    score: str,
    method: str,
    noise_ratio: tuple[float, ...],
    positive: bool,
    explain: int,
    jobs: int,
    no_header: bool,
    ignore: tuple[str, ...],
    drop_missing: bool,
    out: Path,
    force: bool,
) -> None:
    """Give each row of QUERIES the class of the rows in TRAINING that explain it.

    Files are CSV, Parquet, NPZ, NPY, Matrix Market (.mtx) or libsvm (.svm); text may be gzipped. Rows are scaled to
    norm 1, so that only their directions count. The table has the class of each query, the probability of every
    class, and whether the query is undecided: no row explains it at this noise, and it got the class of the
    nearest.
    """
    from fastsbl.imaging._files import suffix_of

    check_place(out, force=force)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise click.UsageError(f"--out must end in .csv or .parquet, got {out.name}")
    if target is None and suffix_of(training) not in (".npz", ".svm", ".libsvm", ".svmlight"):
        raise click.UsageError(_NO_CLASSES)
    how: dict[str, Any] = {"header": not no_header, "drop_missing": drop_missing, "classes": True}
    known = read_rows(training, target, ignore=ignore, **how)
    if known.y is None:
        raise click.UsageError(_NO_CLASSES)
    names = known.names
    there = ignore if names is None else ()  # columns with names are picked by name
    new = read_rows(queries, truth, ignore=there, only=names, least_rows=1, **how)
    X = _matching(known, new, training, queries)
    from fastsbl.estimators import SparseRepresentationClassifier

    model = SparseRepresentationClassifier(
        score=score, method=method, noise_ratio=noise_ratio, positive=positive, n_jobs=jobs,
        verbose=int(sys.stderr.isatty()),
    ).fit(known.X, known.y)  # fmt: skip
    found = model.classify(X)
    predicted, probability, undecided = found.predicted, found.probability, found.undecided
    reasons = _reasons(model, X, explain) if explain else None
    columns = _columns(model.classes_, predicted, probability, undecided, reasons)
    with writing_file(out, force=force) as temporary:
        _write(temporary, columns, csv=out.suffix.lower() == ".csv")
    _show(session, columns, predicted.size)
    session.say(
        f"{queries}: {predicted.size} rows, {model.classes_.size} classes, {training}: {known.X.shape[0]} rows; "
        f"{np.count_nonzero(undecided)} undecided"
    )
    right = None if new.y is None else _right(new, known, predicted, session)
    session.say(f"wrote {out}")
    session.finish(
        {
            "classes": model.classes_,
            "predicted": predicted,
            "probability": probability,
            "undecided": undecided,
            "explained_by": None if reasons is None else _as_lists(*reasons),
            "accuracy": None if right is None else float(np.mean(right)),
            "out": str(out),
        }
    )


def _matching(known: Rows, new: Rows, training: Path, queries: Path) -> Any:
    """The features of the queries in the order of those of the training rows."""
    X = new.X
    if known.names is not None and new.names is not None:
        place = {name: k for k, name in enumerate(new.names)}
        missing = [name for name in known.names if name not in place]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ValueError(f"{queries.name} lacks the column {missing[0]!r}{more}, which {training.name} has")
        X = X[:, [place[name] for name in known.names]]
    wanted = known.X.shape[1]
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        if X.shape[1] < wanted and queries.suffix.lower() in (".svm", ".libsvm", ".svmlight", ".gz"):
            X.resize((X.shape[0], wanted))  # libsvm leaves out zeros, also at the end of all rows
    if X.shape[1] != wanted:
        raise ValueError(
            f"{queries.name} has {X.shape[1]} features, {training.name} has {wanted} "
            "(--target takes the classes out of TRAINING, --truth those out of QUERIES)"
        )
    for path, values in ((training, known.X), (queries, X)):
        numbers = np.asarray(values.data if hasattr(values, "tocsr") else values)
        bad = np.count_nonzero(~np.isfinite(numbers))
        if bad:
            raise ValueError(f"{path.name} must hold finite numbers, got {bad} NaN or infinite")
    return X


def _reasons(model: Any, X: Any, count: int) -> tuple[IndexArray, FloatArray]:
    """Training rows of largest weight for each query, -1 where there are no more, and their weights."""
    weights = model.represent(X)
    rows = np.full((weights.shape[0], count), -1)
    values = np.zeros((weights.shape[0], count))
    for k in range(weights.shape[0]):
        part = slice(weights.indptr[k], weights.indptr[k + 1])
        largest = np.argsort(-np.abs(weights.data[part]), kind="stable")[:count]
        rows[k, : largest.size] = weights.indices[part][largest]
        values[k, : largest.size] = weights.data[part][largest]
    return rows, values


def _as_lists(rows: IndexArray, values: FloatArray) -> list[list[dict[str, Any]]]:
    return [
        [{"row": int(i), "weight": float(w)} for i, w in zip(row, value, strict=True) if i >= 0]
        for row, value in zip(rows, values, strict=True)
    ]


def _columns(
    classes: Array, predicted: Array, probability: Array, undecided: BoolArray, reasons: Any
) -> dict[str, Array]:
    columns: dict[str, Array] = {"class": predicted, "undecided": undecided}
    columns |= {f"p_{name}": probability[:, k] for k, name in enumerate(classes)}
    if reasons is not None:
        for k in range(reasons[0].shape[1]):
            columns |= {f"row_{k + 1}": reasons[0][:, k], f"weight_{k + 1}": reasons[1][:, k]}
    return columns


def _write(path: Path, columns: dict[str, Array], *, csv: bool) -> None:
    from fastsbl.imaging._checks import optional_import

    table = optional_import("pyarrow", "Writing a table").table(columns)
    if csv:
        optional_import("pyarrow.csv", "Writing a table").write_csv(table, path)
    else:
        optional_import("pyarrow.parquet", "Writing a table").write_table(table, path)


def _show(session: Session, columns: dict[str, Array], n_rows: int) -> None:
    best = np.max([values for name, values in columns.items() if name.startswith("p_")], axis=0)
    shown = min(n_rows, _SHOWN)
    session.table(
        ("row", "class", "probability", ""),
        [
            (k, columns["class"][k], float(best[k]), "undecided" if columns["undecided"][k] else "")
            for k in range(shown)
        ],
    )
    if shown < n_rows:
        session.say(f"and {n_rows - shown} more rows, all in the file")


def _right(new: Rows, known: Rows, predicted: Array, session: Session) -> BoolArray:
    """Which queries got their true class; classes that no training row has cannot be right."""
    assert new.y is not None
    assert known.y is not None
    truth = new.y.astype(known.y.dtype) if new.y.dtype.kind == known.y.dtype.kind else new.y.astype(str)
    answer = predicted if truth.dtype.kind == predicted.dtype.kind else predicted.astype(str)
    unseen = sorted({str(name) for name in truth} - {str(name) for name in known.y})
    if unseen:
        more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
        session.note(f"the class {unseen[0]!r}{more} of {new.target} is in no training row, and cannot be right")
    right = np.asarray(truth == answer)
    session.say(f"against {new.target}: {np.count_nonzero(right)} of {right.size} right, {100 * np.mean(right):.2f} %")
    return right
