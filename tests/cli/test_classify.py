"""``fastsbl classify`` on real files, right ones and wrong ones."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from fastsbl import SparseRepresentationClassifier

pa = pytest.importorskip("pyarrow", reason="reading tables needs the extra apps")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = [f"f{k}" for k in range(6)]
KINDS = np.array(["oak", "elm, wych", "ash"])


@pytest.fixture(scope="module")
def plants():
    """Three directions with scatter: 40 known rows, 12 new ones."""
    rng = np.random.default_rng(3)
    kind = rng.integers(3, size=52)
    X = rng.uniform(0.5, 2.0, (52, 1)) * (np.eye(6)[kind] + 0.5 * np.abs(rng.standard_normal((52, 6))))
    return X, kind


@pytest.fixture
def files(plants, tmp_path):
    X, kind = plants
    columns = {name: X[:, k] for k, name in enumerate(NAMES)}
    known = {name: values[:40] for name, values in columns.items()} | {"kind": KINDS[kind[:40]]}
    new = {name: values[40:] for name, values in reversed(columns.items())} | {"note": ["?"] * 12}
    csv.write_csv(pa.table(known), tmp_path / "known.csv")
    csv.write_csv(pa.table(new | {"kind": KINDS[kind[40:]]}), tmp_path / "new.csv")
    parquet.write_table(pa.table(known), tmp_path / "known.parquet")
    np.savez(tmp_path / "known.npz", X=X[:40], y=kind[:40])
    np.savez(tmp_path / "new.npz", X=X[40:], y=kind[40:])
    np.save(tmp_path / "known.npy", X[:40])
    np.save(tmp_path / "new.npy", X[40:])
    (tmp_path / "kinds.csv").write_text("kind\n" + "\n".join(f'"{name}"' for name in KINDS[kind[:40]]) + "\n")
    sp.save_npz(tmp_path / "new-sparse.npz", sp.csr_matrix(X[40:]))
    dump_svmlight_file(X[:40], kind[:40], str(tmp_path / "known.svm"))
    dump_svmlight_file(X[40:] * [1, 1, 1, 1, 1, 0], kind[40:], str(tmp_path / "new.svm"))
    return tmp_path


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("known.csv", "new.csv", "--target", "kind"), True),
        (("known.parquet", "new.csv", "--target", "kind"), True),
        (("known.npy", "new.npy", "--target", "kinds.csv"), True),
        (("known.npz", "new.npz"), False),
        (("known.npz", "new.npy"), False),
        (("known.npz", "new-sparse.npz"), False),
    ],
)
def test_every_format_gives_the_answers_of_the_estimator(fastsbl, plants, arguments, texts):
    X, kind = plants
    labels = KINDS[kind] if texts else kind
    expected = SparseRepresentationClassifier().fit(X[:40], labels[:40])
    outcome = fastsbl("classify", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.data["predicted"] == expected.predict(X[40:]).tolist()
    assert outcome.data["classes"] == expected.classes_.tolist()
    np.testing.assert_allclose(outcome.data["probability"], expected.predict_proba(X[40:]), rtol=1e-6)
    assert outcome.data["undecided"] == [False] * 12


@pytest.mark.usefixtures("files")
def test_libsvm_files_may_lack_their_last_zeros(fastsbl, plants):
    X, kind = plants
    expected = SparseRepresentationClassifier(positive=True).fit(X[:40], kind[:40])
    outcome = fastsbl("classify", "known.svm", "new.svm", "--positive", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.data["predicted"] == expected.predict(X[40:] * [1, 1, 1, 1, 1, 0]).tolist()


@pytest.mark.usefixtures("files")
def test_the_table_holds_classes_probabilities_and_reasons(fastsbl, files, plants):
    X, kind = plants
    outcome = fastsbl(
        "classify",
        "known.csv",
        "new.csv",
        "--target",
        "kind",
        "--truth",
        "kind",
        "--explain",
        "2",
        "--score",
        "abs-sum",
    )
    assert outcome.code == 0, outcome.err
    written = csv.read_csv(files / "classes.csv")
    places = ["row_1", "weight_1", "row_2", "weight_2"]
    assert written.column_names == ["class", "undecided", "p_ash", "p_elm, wych", "p_oak", *places]
    model = SparseRepresentationClassifier(score="abs-sum").fit(X[:40], KINDS[kind[:40]])
    predicted = np.array(written.column("class").to_pylist())
    assert predicted.tolist() == model.predict(X[40:]).tolist()
    total = sum(written.column(name).to_numpy() for name in ("p_ash", "p_elm, wych", "p_oak"))
    np.testing.assert_allclose(total, 1.0)
    weights = model.represent(X[40:]).toarray()
    np.testing.assert_allclose(
        written.column("weight_1").to_numpy(), weights[range(12), np.abs(weights).argmax(axis=1)]
    )
    assert written.column("row_1").to_pylist() == np.abs(weights).argmax(axis=1).tolist()
    right = np.count_nonzero(predicted == KINDS[kind[40:]])
    assert f"against kind: {right} of 12 right" in outcome.out
    assert "12 rows, 3 classes" in outcome.out
    again = fastsbl("classify", "known.csv", "new.csv", "--target", "kind")
    assert again.code == 1
    assert "--force replaces it" in again.sentence()


@pytest.mark.usefixtures("files")
def test_a_query_of_zeros_is_undecided(fastsbl, files, plants):
    queries = plants[0][40:].copy()
    queries[3] = 0.0
    np.save(files / "zero.npy", queries)
    outcome = fastsbl("classify", "known.npz", "zero.npy", "--json", "--explain", "1", "--out", "c.parquet")
    assert outcome.code == 0, outcome.err
    assert np.flatnonzero(outcome.data["undecided"]).tolist() == [3]
    assert outcome.data["explained_by"][3] == []
    assert parquet.read_table(files / "c.parquet").column("row_1").to_pylist()[3] == -1


@pytest.mark.usefixtures("files")
def test_a_class_without_training_rows_cannot_be_right(fastsbl, files, plants):
    X, kind = plants
    truth = kind[40:].copy()
    truth[0] = 7
    np.savez(files / "unseen.npz", X=X[40:], y=truth)
    outcome = fastsbl("classify", "known.npz", "unseen.npz", "--truth", "y", "--json")
    assert outcome.code == 0
    assert "the class '7' of y is in no training row" in outcome.sentence()
    right = np.array(outcome.data["predicted"]) == truth
    assert outcome.data["accuracy"] == pytest.approx(right.mean())
    assert not right[0]


class TestWrongFiles:
    """Each error is one sentence, and nothing is written."""

    @pytest.fixture(autouse=True)
    def _more(self, files, plants):
        X, _ = plants
        np.save(files / "few.npy", X[40:, :4])
        bad = X[40:].copy()
        bad[2, 1] = np.nan
        np.save(files / "nan.npy", bad)
        np.savez(files / "one.npz", X=X[:9], y=np.ones(9))
        np.savez(files / "shares.npz", X=X[:9], y=np.linspace(0, 1, 9))
        np.savez(files / "short.npz", X=X[:9], y=np.arange(8))
        text = (files / "known.csv").read_text().splitlines()
        (files / "gap.csv").write_text(
            "\n".join([text[0], text[1].rpartition(",")[0].rstrip() + ",", *text[2:]]) + "\n"
        )
        (files / "lacks.csv").write_text("f0,f1\n1,2\n3,4\n")
        (files / "garbage.npz").write_bytes(b"not an archive")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("known.csv", "new.csv"), "--target must say where the classes in TRAINING are"),
            (("known.npy", "new.npy"), "--target must say where the classes in TRAINING are"),
            (("known.csv", "new.csv", "--target", "kinds"), "did you mean kind"),
            (("known.csv", "lacks.csv", "--target", "kind"), "lacks.csv lacks the column 'f2' and 3 more"),
            (("gap.csv", "new.csv", "--target", "kind"), "lacks the class of row 1"),
            (("known.npz", "few.npy"), "few.npy has 4 features, known.npz has 6"),
            (("known.npz", "nan.npy"), "nan.npy must hold finite numbers, got 1"),
            (("one.npz", "new.npy"), "at least two classes to tell apart, got only one class: 1"),
            (("shares.npz", "new.npy"), "must name classes by whole numbers or texts, got 0.125"),
            (("short.npz", "new.npy"), "one class for each of the 9 rows, got shape (8,)"),
            (("garbage.npz", "new.npy"), "garbage.npz cannot be read as NPZ"),
            (("known.npz", "missing.npy"), "there is no file missing.npy"),
            (("known.npz", "new.npy", "--noise-ratio", "-1"), "noise_ratio must be a finite number above 0"),
            (("known.npz", "new.npy", "--score", "votes"), "is not one of 'evidence', 'abs-sum', 'residual'"),
            (("known.npz", "new.npy", "--out", "classes.txt"), "--out must end in .csv or .parquet"),
            (("known.npz", "new.npy", "--out", "nowhere/classes.csv"), "the folder nowhere"),
        ],
    )
    def test_refused(self, fastsbl, files, arguments, text):
        outcome = fastsbl("classify", *arguments)
        assert outcome.code in (1, 2)
        assert text in outcome.err.splitlines()[-1]
        assert "wrote" not in outcome.out
        assert not list(files.glob("classes*")) + list(files.glob(".*"))

    def test_rows_with_gaps_are_left_out_on_request(self, fastsbl):
        outcome = fastsbl("classify", "gap.csv", "new.csv", "--target", "kind", "--drop-missing", "--json")
        assert outcome.code == 0, outcome.err
        assert len(json.loads(outcome.out)["predicted"]) == 12
