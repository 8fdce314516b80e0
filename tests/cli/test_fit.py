"""``fastsbl fit`` and ``fastsbl predict`` on real files, right ones and wrong ones."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from fastsbl import SBLRegressor, SBLRegressorCV
from fastsbl.cli import _models

pa = pytest.importorskip("pyarrow", reason="reading tables needs the extra apps")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = [f"f{k}" for k in range(12)]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 12))
    X[np.abs(X) < 0.3] = 0.0  # so that sparse formats have something to leave out
    y = 2.0 + 3.0 * X[:, 2] - 1.5 * X[:, 7] + 0.2 * rng.standard_normal(60)
    return X, y


@pytest.fixture
def table(problem, tmp_path):
    X, y = problem
    columns = {name: X[:, k] for k, name in enumerate(NAMES)}
    table = pa.table({**columns, "price": y})
    csv.write_csv(table, tmp_path / "data.csv")
    parquet.write_table(table, tmp_path / "data.parquet")
    return table


def write_all(folder, X, y):
    """The same problem in every format, with the arguments that read it."""
    rows = np.column_stack([X, y])
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    np.save(folder / "rows.npy", rows)
    np.savez(folder / "both.npz", X=X, y=y)
    np.savez(folder / "other.npz", design=X, answer=y)
    sp.save_npz(folder / "sparse.npz", sp.csr_matrix(X))
    mmwrite(folder / "X.mtx", sp.coo_matrix(X), precision=17)
    mmwrite(folder / "y.mtx", y[:, None], precision=17)
    np.savetxt(folder / "y.txt", y, fmt="%.17g")
    np.savetxt(folder / "plain.csv", rows, fmt="%.17g", delimiter=",")
    with open(folder / "data.svm", "w") as file:
        for x, t in zip(X, y, strict=True):
            file.write(f"{t:.17g} " + " ".join(f"{k + 1}:{v:.17g}" for k, v in enumerate(x) if v) + "\n")
    with gzip.open(folder / "data.csv.gz", "wt") as file:
        file.write((folder / "data.csv").read_text())
    text = (folder / "data.csv").read_text().replace(",", ";")
    (folder / "semicolons.csv").write_text(text, encoding="utf-8-sig")


FORMATS = [
    ("data.csv", "--target", "price"),
    ("data.csv", "--target", "-1"),
    ("data.csv.gz", "--target", "price"),
    ("semicolons.csv", "--target", "price"),
    ("plain.csv", "--no-header", "--target", "12"),
    ("data.parquet", "--target", "price"),
    ("both.npz",),
    ("other.npz", "--target", "answer"),
    ("sparse.npz", "--target", "y.npy"),
    ("X.npy", "--target", "y.npy"),
    ("X.npy", "--target", "y.txt"),
    ("rows.npy", "--target", "-1"),
    ("X.mtx", "--target", "y.mtx"),
    ("data.svm",),
]


@pytest.mark.usefixtures("table")
def test_every_format_gives_the_same_model(fastsbl, tmp_path, problem):
    write_all(tmp_path, *problem)
    expected = SBLRegressor().fit(*problem)
    for k, arguments in enumerate(FORMATS):
        outcome = fastsbl("fit", *arguments, "--out", f"{k}.json", "--json")
        assert outcome.code == 0, (arguments, outcome.err)
        found = outcome.data
        assert sorted(one["column"] for one in found["selected"]) == expected.support_.tolist(), arguments
        model = json.loads((tmp_path / f"{k}.json").read_text())
        np.testing.assert_allclose(model["coef"], expected.coef_[expected.support_], rtol=1e-6, err_msg=str(arguments))
        assert found["noise_variance"] == pytest.approx(expected.noise_variance_, rel=1e-6)


@pytest.mark.usefixtures("table")
def test_table_for_people(fastsbl):
    outcome = fastsbl("fit", "data.csv", "--target", "price")
    assert outcome.code == 0
    assert "data.csv: 60 rows, 12 features, target price" in outcome.out
    assert "wrote model.json" in outcome.out
    rows = [line.split() for line in outcome.out.splitlines() if line.strip().startswith("f")]
    assert rows[0] == ["feature", "mean", "std", "evidence"]
    assert [row[0] for row in rows[1:3]] == ["f2", "f7"]
    assert 2.8 < float(rows[1][1]) < 3.2
    assert outcome.err == ""


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        (("--noise", "0.04"), SBLRegressor(0.04)),
        (("--noise-ratio", "0.1"), SBLRegressor(noise_ratio=0.1)),
        (("--noise", "cv", "--cv", "3"), SBLRegressorCV(cv=3)),
        (("--positive", "--no-intercept"), SBLRegressor(positive=True, fit_intercept=False)),
    ],
)
def test_options_reach_the_estimator(fastsbl, tmp_path, problem, options, estimator):
    outcome = fastsbl("fit", "data.csv", "--target", "price", *options)
    assert outcome.code == 0, outcome.err
    estimator.fit(*problem)
    model = _models.read_model(tmp_path / "model.json")
    assert model.support == estimator.support_.tolist()
    assert model.noise_variance == pytest.approx(estimator.noise_variance_, rel=1e-9)
    assert model.intercept == pytest.approx(estimator.intercept_, abs=1e-12)


@pytest.mark.filterwarnings("ignore:.*(fit_sbl stopped|did not converge)")
def test_deviations_of_nearly_equal_columns_are_kept_to_the_last_digit(fastsbl, tmp_path):
    """Their covariances nearly cancel: nine digits of them are not enough."""
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal((2, 50))
    X = np.column_stack([x, x + 1e-5 * z])
    y = 30.0 * z + 0.01 * rng.standard_normal(50)
    np.savez(tmp_path / "near.npz", X=X, y=y)
    outcome = fastsbl("fit", "near.npz", "--noise", "0.0001", "--no-intercept")
    assert outcome.code == 0, outcome.err
    outcome = fastsbl("predict", "model.json", "near.npz", "--out", "near.csv")
    assert outcome.code == 0, outcome.err
    std = SBLRegressor(1e-4, fit_intercept=False).fit(X, y).predict(X, return_std=True)[1]
    np.testing.assert_allclose(csv.read_csv(tmp_path / "near.csv")["std"].to_numpy(), std, rtol=1e-5)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("estimator", "options"), [(SBLRegressor(), ()), (SBLRegressorCV(), ("--noise", "cv"))])
def test_predictions_are_those_of_the_estimator(fastsbl, tmp_path, problem, estimator, options):
    X, y = problem
    estimator.fit(X, y)
    fastsbl("fit", "data.csv", "--target", "price", *options)
    first = {"f7": X[:5, 7], "f2": X[:5, 2], "text": list("abcde")}  # another order, a column that holds no numbers
    others = {f"f{i}": X[:5, i] for i in range(X.shape[1])}
    for used, std_of in ((range(X.shape[1]), X), (estimator.support_, estimator._means * np.ones_like(X))):
        columns = first | {f"f{i}": others[f"f{i}"] for i in used}
        csv.write_csv(pa.table(columns), tmp_path / "new.csv")
        outcome = fastsbl("predict", "model.json", "new.csv", "--force")
        assert outcome.code == 0, outcome.err
        rows = std_of.copy()
        rows[:, estimator.support_] = X[:, estimator.support_]  # features that are not there are at their means
        mean, std = estimator.predict(rows[:5], return_std=True)
        written = np.genfromtxt(tmp_path / "predictions.csv", delimiter=",", names=True)
        np.testing.assert_allclose(written["mean"], mean, rtol=1e-9)
        np.testing.assert_allclose(written["std"], std, rtol=1e-7)


@pytest.mark.usefixtures("table")
def test_predictions_are_scored_against_the_truth(fastsbl, tmp_path, problem):
    fastsbl("fit", "data.csv", "--target", "price")
    outcome = fastsbl("predict", "model.json", "data.csv", "--target", "price", "--out", "p.parquet", "--json")
    assert outcome.code == 0, outcome.err
    data = outcome.data
    y, mean, std = problem[1], np.array(data["mean"]), np.array(data["std"])
    assert data["scores"]["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert data["scores"]["r2"] == pytest.approx(1 - np.mean((y - mean) ** 2) / np.var(y))
    assert data["scores"]["coverage_95"] == pytest.approx(np.mean(np.abs(y - mean) < 1.96 * std), abs=0.02)
    stored = parquet.read_table(tmp_path / "p.parquet")
    assert stored.column_names == ["mean", "std", "target"]
    np.testing.assert_array_equal(stored.column("mean").to_numpy(), mean)
    one = csv.read_csv(tmp_path / "data.csv").slice(0, 1)
    csv.write_csv(one, tmp_path / "one.csv")
    assert fastsbl("predict", "model.json", "one.csv", "--json", "--out", "one.out.csv").data["rows"] == 1


def test_numbered_features_must_be_as_many(fastsbl, tmp_path, problem):
    X, y = problem
    np.savez(tmp_path / "both.npz", X=X, y=y)
    np.save(tmp_path / "few.npy", X[:, :5])
    assert fastsbl("fit", "both.npz").code == 0
    outcome = fastsbl("predict", "model.json", "few.npy")
    assert outcome.code == 1
    assert "fitted to 12 features, the data have 5" in outcome.sentence()
    np.save(tmp_path / "X.npy", X)
    assert fastsbl("predict", "model.json", "X.npy").code == 0


def test_evidence_is_that_of_the_model_without_the_feature(problem):
    """Against the evidence computed with dense linear algebra, feature by feature."""
    from fastsbl.sbl import fit_sbl, loss

    X, y = problem
    y = y - y.mean()
    result = fit_sbl(X, y, 0.04)
    posterior = result.posterior()
    found = _models.evidence_without(posterior.mean, result.gamma[result.support], posterior.std**2)
    for place, feature in enumerate(result.support):
        gamma = result.gamma.copy()
        gamma[feature] = 0.0
        drop = 0.5 * (loss(X, y, gamma, 0.04) - result.loss)
        assert found[place] == pytest.approx(drop, rel=1e-5, abs=1e-5)


def test_model_without_features(fastsbl, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "noise.npz", X=rng.standard_normal((20, 3)), y=np.ones(20))
    outcome = fastsbl("fit", "noise.npz")
    assert outcome.code == 0, outcome.err
    assert "0 of 3 features" in outcome.out
    assert fastsbl("predict", "model.json", "noise.npz").code == 0
    written = np.genfromtxt(tmp_path / "predictions.csv", delimiter=",", names=True)
    np.testing.assert_allclose(written["mean"], 1.0)


def test_hostile_names_do_no_harm(fastsbl, tmp_path, problem):
    X, y = problem
    evil = '<script>alert(1)</script>\x1b[31m[red]"$x$'
    csv.write_csv(pa.table({evil: X[:, 2], "b": X[:, 1], "y": y}), tmp_path / "evil.csv")
    outcome = fastsbl("fit", "evil.csv", "--target", "y")
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out
    assert r"\x1b[31m[red]" in outcome.out.replace("\n", "")
    assert fastsbl("predict", "model.json", "evil.csv").code == 0
    assert json.loads((tmp_path / "model.json").read_text())["names"][0] == evil


class TestWrongFiles:
    """Each error is one sentence that says what to do, and nothing is written."""

    @pytest.fixture(autouse=True)
    def _files(self, table, tmp_path, problem):
        X, y = problem
        write_all(tmp_path, X, y)

    @pytest.fixture
    def refused(self, fastsbl, tmp_path):
        def run(*arguments, code=1):
            outcome = fastsbl(*arguments)
            assert outcome.code == code, outcome.out + outcome.err
            assert "wrote" not in outcome.out
            assert not (tmp_path / "model.json").exists()
            assert not [path for path in tmp_path.iterdir() if path.name.startswith(".writing")]
            return outcome.err.splitlines()[-1]

        return run

    @pytest.mark.parametrize("name", ["data.parquet", "both.npz", "X.npy", "data.csv.gz", "X.mtx"])
    def test_truncated(self, refused, tmp_path, name):
        path = tmp_path / name
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert f"{name} cannot be read as" in refused("fit", name, "--target", "0")
        path.write_bytes(b"")
        assert f"{name} is empty" in refused("fit", name, "--target", "0")

    @pytest.mark.parametrize("name", ["data.parquet", "both.npz", "X.npy", "data.csv.gz", "X.mtx", "data.svm"])
    def test_something_else_under_this_name(self, refused, tmp_path, name):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00not what the name says\n")
        target = () if name == "data.svm" else ("--target", "0")
        assert f"{name} cannot be read as" in refused("fit", name, *target)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("data.csv",), "--target must say what to explain"),
            (("data.csv", "--target", "prize"), "did you mean price"),
            (("data.csv", "--target", "99"), "has 13 columns, 0 to 12"),
            (("missing.csv", "--target", "y"), "there is no file missing.csv"),
            ((".", "--target", "y"), "is a folder"),
            (("plain.csv", "--target", "0"), "say --no-header"),
            (("X.npy",), "--target must say"),
            (("X.npy", "--target", "nothing.npy"), "there is no such file"),
            (("X.npy", "--target", "40"), "has 12 columns"),
            (("X.npy", "--target", "X.npy"), "one number for each of the 60 rows"),
            (("X.npy", "--target", "data.svm"), "a target is read from"),
            (("data.svm", "--target", "0"), "holds its target itself"),
            (("X.npy", "--target", "y.npy", "--ignore", "a"), "are for CSV and Parquet"),
            (("data.csv", "--target", "price", "--ignore", "nobody"), "no column of this name"),
            (("data.csv", "--target", "price", "--noise", "0"), "--noise must be learn, cv or a number above 0"),
            (("data.csv", "--target", "price", "--noise", "many"), "--noise must be"),
            (("data.csv", "--target", "price", "--noise-ratio", "-1"), "--noise-ratio must be"),
            (("data.csv", "--target", "price", "--noise", "1", "--noise-ratio", "1"), "cannot both be given"),
            (("data.csv", "--target", "price", "--noise", "cv", "--cv", "61"), "only 60 rows"),
            (("data.csv", "--target", "price", "--out", "no/model.json"), "the folder no for model.json does not"),
        ],
    )
    def test_wrong_arguments(self, refused, arguments, text):
        usage = text.startswith(("--noise", "--target must", "cannot both"))
        assert text in refused("fit", *arguments, code=2 if usage else 1)

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ("a,b,y\n1,x,2\n3,y,4\n", "column 'b' of bad.csv does not hold numbers; leave it out with --ignore b"),
            ("a,b,y\n1,,2\n3,4,4\n", "column 'b' of bad.csv lacks 1 value, the first in row 1"),
            ("a,b,y\n1,,2\n3,,4\n", "column 'b' of bad.csv is empty"),
            ("a,a,y\n1,2,2\n3,4,4\n", "several columns called 'a'"),
            ("a,b,y\n1,2,3\n4,5\n", "bad.csv cannot be read as CSV"),
            ("a,b,y\n", "bad.csv has names of columns, but no rows"),
            ("a,b,y\n1,inf,3\n4,5,6\n", "1 value that is NaN or infinite, the first in row 1 of feature 'b'"),
            ("a,b,y\n1,2,3\n4,5,-inf\n", "the target y of bad.csv must be finite, got -inf in row 2"),
            ("y\n1\n2\n", "at least 2 rows and 1 feature"),
            ("a,y\n1,2\n", "at least 2 rows and 1 feature"),
        ],
    )
    def test_bad_tables(self, refused, tmp_path, content, text):
        (tmp_path / "bad.csv").write_text(content)
        assert text in refused("fit", "bad.csv", "--target", "y")

    def test_values_that_are_no_numbers(self, refused, tmp_path, problem):
        X, y = problem
        X = X.copy()
        X[[4, 9], [3, 1]] = np.nan, np.inf
        np.save(tmp_path / "bad.npy", X)
        np.savez(tmp_path / "bad.npz", X=sp.csc_matrix(X).toarray(), y=y)
        sp.save_npz(tmp_path / "bad-sparse.npz", sp.csc_matrix(X[:, 3:4]))
        text = "has 2 values that are NaN or infinite, the first in row 5 of feature 3; fill them in"
        assert text in refused("fit", "bad.npy", "--target", "y.npy")
        assert text in refused("fit", "bad.npz")
        text = "has 1 value that is NaN or infinite, the first in row 5 of feature 0"
        assert text in refused("fit", "bad-sparse.npz", "--target", "y.npy")

    def test_another_encoding(self, refused, tmp_path):
        (tmp_path / "bad.csv").write_bytes("größe,y\n1,2\n3,4\n".encode("latin-1"))
        assert "bad.csv cannot be read as CSV: it is not text in UTF-8" in refused("fit", "bad.csv", "--target", "y")

    def test_missing_values_can_be_dropped(self, fastsbl, tmp_path):
        lines = (tmp_path / "data.csv").read_text().splitlines()
        lines[3] = "," + lines[3].partition(",")[2]
        (tmp_path / "gap.csv").write_text("\n".join(lines) + "\n")
        outcome = fastsbl("fit", "gap.csv", "--target", "price", "--drop-missing", "--json")
        assert outcome.code == 0, outcome.err
        assert outcome.data["rows"] == 59

    def test_gaps_in_columns_that_the_model_does_not_use(self, fastsbl, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, 4))
        y = 3.0 * X[:, 0] + 0.1 * rng.standard_normal(60)
        head, rows = "a,b,c,d", [",".join(f"{v:.6f}" for v in row) for row in X]
        lines = [f"{head},y", *(f"{row},{value:.6f}" for row, value in zip(rows, y, strict=True))]
        (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
        assert fastsbl("fit", "train.csv", "--target", "y", "--out", "few.json").code == 0
        (tmp_path / "new.csv").write_text(f"{head}\n1.0,,n/a,2.0\n0.5,1.0,0.0,0.0\n")
        outcome = fastsbl("predict", "few.json", "new.csv", "--out", "few.csv")
        assert outcome.code == 0, outcome.err
        assert "taken to be at their means" in outcome.err
        found = csv.read_csv(tmp_path / "few.csv")
        np.testing.assert_allclose(found["mean"].to_numpy(), [3.0, 1.5], atol=0.1)

    def test_existing_output_is_kept(self, fastsbl, tmp_path):
        (tmp_path / "model.json").write_text("mine")
        outcome = fastsbl("fit", "data.csv", "--target", "price")
        assert outcome.code == 1
        assert outcome.sentence() == (
            "fastsbl: error: model.json exists; --force replaces it, --out names another place"
        )
        assert (tmp_path / "model.json").read_text() == "mine"
        assert fastsbl("fit", "data.csv", "--target", "price", "--force").code == 0
        assert json.loads((tmp_path / "model.json").read_text())["format"] == "fastsbl-model"

    def test_ctrl_c_leaves_nothing(self, refused, monkeypatch):
        def half(path, model):
            path.write_text("half")
            raise KeyboardInterrupt

        monkeypatch.setattr("fastsbl.cli.fit.write_model", half)
        assert "stopped before the end" in refused("fit", "data.csv", "--target", "price", code=130)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            (lambda model: "not json", "is not a model written by"),
            (lambda model: "[1]", "lacks the entry format"),
            (lambda model: json.dumps({**model, "format_version": 9}), "has format version 9"),
            (lambda model: json.dumps({k: v for k, v in model.items() if k != "coef"}), "the entry 'coef' is missing"),
            (lambda model: json.dumps({**model, "coef": model["coef"][:-1]}), "damaged model: coef must hold"),
            (lambda model: json.dumps({**model, "sigma": [[1]]}), "damaged model: sigma"),
            (lambda model: json.dumps({**model, "support": [99] * len(model["coef"])}), "damaged model: support"),
            (lambda model: json.dumps({**model, "noise_variance": "x"}), "damaged model"),
        ],
    )
    def test_damaged_models(self, fastsbl, tmp_path, change, text):
        assert fastsbl("fit", "data.csv", "--target", "price").code == 0
        path = tmp_path / "model.json"
        path.write_text(change(json.loads(path.read_text())))
        outcome = fastsbl("predict", "model.json", "data.csv")
        assert outcome.code == 1
        assert text in outcome.sentence()
        assert not (tmp_path / "predictions.csv").exists()

    def test_predictions_need_their_columns(self, fastsbl, tmp_path):
        assert fastsbl("fit", "data.csv", "--target", "price").code == 0
        (tmp_path / "few.csv").write_text("f2,f3\n1,2\n")
        assert "the model needs the column" in fastsbl("predict", "model.json", "few.csv").sentence()
        assert "--out must end in" in fastsbl("predict", "model.json", "data.csv", "--out", "p.xlsx").err
        assert "there is no model file" in fastsbl("predict", "nobody.json", "data.csv").sentence()
