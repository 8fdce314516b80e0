"""``fastsbl fit``: a sparse Bayesian regression of the rows in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from fastsbl.cli._console import Session, subcommand
from fastsbl.cli._models import Model, write_model
from fastsbl.cli._output import check_place, output_options, writing_file
from fastsbl.cli._tables import Rows, check_finite, read_rows, reading_options

__all__ = ["command"]

_SHOWN = 40


@subcommand(
    "fit",
    examples=(
        "fastsbl fit houses.csv --target price",
        "fastsbl fit houses.csv --target price --noise cv --out houses.json",
        "fastsbl fit X.npy --target y.npy --noise-ratio 0.1",
        "fastsbl fit counts.mtx --target 0 --noise 2.5 --positive",
    ),
)
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--target",
    metavar="COL",
    help="The target: name or number of a column (0 is the first), an array of an NPZ file, or a file.",
)
@click.option(
    "--noise",
    metavar="learn|cv|NUMBER",
    default="learn",
    show_default=True,
    help="Variance of the noise: learned, chosen by cross-validation, or given in units of the target squared.",
)
@click.option(
    "--noise-ratio", type=float, help="Give the variance as a share of the one at which nothing is left to explain."
)
@click.option("--positive", is_flag=True, help="Coefficients are at least 0.")
@click.option("--no-intercept", is_flag=True, help="Leave out the intercept.")
@click.option("--cv", "folds", type=click.IntRange(2), default=5, show_default=True, help="Folds, for --noise cv.")
@click.option("--shuffle", type=int, metavar="SEED", help="Shuffle the rows before cutting folds, for --noise cv.")
@click.option("--all", "show_all", is_flag=True, help=f"Print all features of the model, not only {_SHOWN}.")
@reading_options
@output_options("model.json", "Model")
def command(
    session: Session,
    data: Path,
    target: str | None,
    noise: str,
    noise_ratio: float | None,
    positive: bool,
    no_intercept: bool,
    folds: int,
    shuffle: int | None,
    show_all: bool,
    no_header: bool,
    ignore: tuple[str, ...],
    drop_missing: bool,
    out: Path,
    force: bool,
) -> None:
    """Find the few features in DATA that explain the target, and say how sure that is.

    DATA is CSV, Parquet, NPZ, NPY, Matrix Market (.mtx) or libsvm (.svm); text may be gzipped. The model is written
    as JSON, for `fastsbl predict`.

    For each feature in the model the table has the mean and the standard deviation of its coefficient, and by how
    much the log evidence drops when it is taken out: 0 is nothing, above 5 is strong.
    """
    check_place(out, force=force)
    options = _noise_options(noise, noise_ratio) | {"fit_intercept": not no_intercept, "positive": positive}
    rows = read_rows(data, target, header=not no_header, ignore=ignore, drop_missing=drop_missing)
    if rows.y is None:
        known = (
            ""
            if rows.names is None
            else f"; {data.name} has {', '.join(rows.names[:8])}" + ", ..." * (len(rows.names) > 8)
        )
        raise click.UsageError(f"--target must say what to explain: a column, or a file with one number per row{known}")
    check_finite(data, rows)
    session.say(f"{data}: {rows.X.shape[0]} rows, {rows.X.shape[1]} features, target {rows.target}")
    estimator = _fit(rows, options, folds, shuffle)
    model = Model.of(estimator, rows, noise if options.get("noise_variance") in ("learn", "cv") else "given")
    explained = 1.0 - float(np.mean((rows.y - model.predict(rows)[0]) ** 2)) / float(np.var(rows.y) or 1.0)
    with writing_file(out, force=force) as temporary:
        write_model(temporary, model)
    _show(session, model, explained, show_all=show_all)
    session.say(f"wrote {out}")
    session.finish(_summary(model, explained, int(estimator.n_iter_), out))


def _noise_options(noise: str, ratio: float | None) -> dict[str, Any]:
    """What --noise and --noise-ratio ask for, as options of an estimator ("cv" stays a word)."""
    if ratio is not None:
        if noise != "learn":
            raise click.UsageError("--noise and --noise-ratio cannot both be given, since each sets the noise")
        if not 0 < ratio < np.inf:
            raise click.UsageError(f"--noise-ratio must be a number above 0, got {ratio}")
        return {"noise_ratio": ratio}
    if noise in ("learn", "cv"):
        return {"noise_variance": noise}
    try:
        value = float(noise)
    except ValueError:
        value = -1.0
    if not 0 < value < np.inf:
        raise click.UsageError(f"--noise must be learn, cv or a number above 0, got {noise}")
    return {"noise_variance": value}


def _fit(rows: Rows, options: dict[str, Any], folds: int, shuffle: int | None) -> Any:
    from fastsbl.estimators import SBLRegressor, SBLRegressorCV

    verbose = int(sys.stderr.isatty())
    if options.get("noise_variance") != "cv":
        return SBLRegressor(**options, verbose=verbose).fit(rows.X, rows.y)
    options = {name: value for name, value in options.items() if name != "noise_variance"}
    cv: Any = folds
    if shuffle is not None:
        from sklearn.model_selection import KFold

        cv = KFold(folds, shuffle=True, random_state=shuffle)
    if folds > rows.X.shape[0]:
        raise ValueError(f"--cv {folds}: there are only {rows.X.shape[0]} rows to cut into folds")
    return SBLRegressorCV(**options, cv=cv, verbose=verbose).fit(rows.X, rows.y)


def _order(model: Model) -> list[int]:
    """Features of the model, those with the most evidence first."""
    return sorted(range(len(model.support)), key=lambda k: -model.evidence[k])


def _show(session: Session, model: Model, explained: float, *, show_all: bool) -> None:
    how = {"learn": "learned", "cv": "chosen by cross-validation", "given": "as given"}[model.noise]
    order = _order(model)
    shown = order if show_all else order[:_SHOWN]
    if shown:
        std = model.std
        session.table(
            ("feature", "mean", "std", "evidence"),
            [(model.label(k), model.coef[k], float(std[k]), f"{model.evidence[k]:.1f}") for k in shown],
        )
    if len(shown) < len(order):
        session.say(f"and {len(order) - len(shown)} more features (--all prints them)")
    session.say(f"{len(order)} of {model.n_features} features, intercept {model.intercept:.6g}")
    session.say(f"noise variance {model.noise_variance:.4g} ({how}), log evidence {model.log_evidence:.2f}")
    if model.noise == "cv":
        session.say(f"(chosen to predict well; predicted variances are multiplied by {model.calibration:.3g})")
    session.say(f"explains {100 * explained:.1f} % of the variance of these rows")


def _summary(model: Model, explained: float, n_iter: int, out: Path) -> dict[str, Any]:
    std = model.std
    return {
        "rows": model.n_rows,
        "features": model.n_features,
        "target": model.target,
        "selected": [
            {
                "feature": model.label(k),
                "column": model.support[k],
                "mean": model.coef[k],
                "std": std[k],
                "evidence": model.evidence[k],
            }
            for k in _order(model)
        ],
        "intercept": model.intercept,
        "noise": model.noise,
        "noise_variance": model.noise_variance,
        "log_evidence": model.log_evidence,
        "explained_variance": explained,
        "iterations": n_iter,
        "model": str(out),
    }
