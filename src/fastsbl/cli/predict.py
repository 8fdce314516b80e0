"""``fastsbl predict``: predictions of a model, with their standard deviations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.cli._console import Session, subcommand
from fastsbl.cli._models import read_model
from fastsbl.cli._output import check_place, output_options, writing_file
from fastsbl.cli._tables import read_rows, reading_options

__all__ = ["command"]

_TWO_SIDED_95 = 1.959963984540054


@subcommand(
    "predict",
    examples=(
        "fastsbl predict model.json new.csv",
        "fastsbl predict model.json new.csv --target price   # compare with what came true",
        "fastsbl predict model.json X.npy --out predictions.parquet",
    ),
)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--target", metavar="COL", help="Where the true values are, to compare with (as in `fastsbl fit`).")
@reading_options
@output_options("predictions.csv", "Predictions (.csv or .parquet)")
def command(
    session: Session,
    model: Path,
    data: Path,
    target: str | None,
    no_header: bool,
    ignore: tuple[str, ...],
    drop_missing: bool,
    out: Path,
    force: bool,
) -> None:
    """Predict the target of each row of DATA with MODEL, written by `fastsbl fit`.

    Columns are found by name where the data have names, so their order does not matter. The standard deviation is
    that of a new observation: noise, coefficients and intercept.
    """
    check_place(out, force=force)
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise click.UsageError(f"--out must end in .csv or .parquet, got {out.name}")
    fitted = read_model(model)
    read = partial(read_rows, data, target, header=not no_header, ignore=ignore, least_rows=1)
    try:
        rows = read(drop_missing=drop_missing and fitted.names == fitted.used_names, only=fitted.used_names)
    except ValueError:  # columns of features in doubt may have gaps where those of the model are whole
        rows = read(drop_missing=drop_missing, only=fitted.names)
        if fitted.names != fitted.used_names:
            session.note("columns of features in doubt are not complete: they are taken to be at their means")
    mean, std = fitted.predict(rows)
    columns = {"mean": mean, "std": std}
    if rows.y is not None:
        columns["target"] = rows.y
    with writing_file(out, force=force) as temporary:
        _write(temporary, columns)
    session.say(f"{data}: {mean.size} rows predicted by {len(fitted.support)} features")
    scores = {} if rows.y is None else _scores(rows.y, mean, std)
    if scores:
        session.say(
            f"against {rows.target}: R² {scores['r2']:.4f}, root mean squared error {scores['rmse']:.4g}, "
            f"{100 * scores['coverage_95']:.1f} % inside the 95 % intervals"
        )
    session.say(f"wrote {out}")
    session.finish({"rows": mean.size, "mean": mean, "std": std, "scores": scores or None, "predictions": str(out)})


def _scores(y: FloatArray, mean: FloatArray, std: FloatArray) -> dict[str, float]:
    error = y - mean
    spread = float(np.mean((y - y.mean()) ** 2))
    return {
        "r2": 1.0 - float(np.mean(error**2)) / spread if spread > 0 else float("nan"),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "coverage_95": float(np.mean(np.abs(error) <= _TWO_SIDED_95 * std)),
    }


def _write(path: Path, columns: dict[str, Any]) -> None:
    if path.suffix.lower() == ".parquet":
        from fastsbl.imaging._checks import optional_import

        table = optional_import("pyarrow", "Writing Parquet").table(columns)
        optional_import("pyarrow.parquet", "Writing Parquet").write_table(table, path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(columns) + "\n")
        np.savetxt(file, np.column_stack(list(columns.values())), fmt="%.12g", delimiter=",")
