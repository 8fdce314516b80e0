"""The bag-of-words reader: against a plain reader, every malformed case, the cache, the real files."""

import gzip
import os
import sys
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import coo_array, issparse

from fastsbl.datasets import _docword, _download, bag_of_words, fetch_bag_of_words
from fastsbl.datasets._docword import read_docword

DATA = os.path.join(os.environ.get("FASTSBL_DATA", ""), "nytimes")
needs_data = pytest.mark.skipif(
    not os.path.isdir(DATA), reason="set FASTSBL_DATA to a folder with nytimes/ to run this"
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    """Keep the user's cache and the network out of the tests."""

    def refuse(url, folder, name):
        raise OSError(f"no network ({url})")

    monkeypatch.setattr(_download, "_retrieve", refuse)
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path / "cache"))


def write_corpus(folder, triples, shape, *, name="toy", pack=False, n_entries=None):
    n_entries = len(triples) if n_entries is None else n_entries
    lines = [*shape, n_entries, *(" ".join(map(str, triple)) for triple in triples)]
    text = "".join(f"{line}\n" for line in lines).encode()
    path = folder / f"docword.{name}.txt{'.gz' if pack else ''}"
    path.write_bytes(gzip.compress(text) if pack else text)
    (folder / f"vocab.{name}.txt").write_text("".join(f"w{j}\n" for j in range(shape[1])))
    return path


def plain_reader(path):
    """Read the layout the slow way: the twin of the compiled parser."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        n_documents, n_words, n_entries = (int(file.readline()) for _ in range(3))
        triples = np.loadtxt(file, dtype=np.int64, ndmin=2)
    assert len(triples) == n_entries
    documents, words, counts = triples.T
    return coo_array((counts, (documents - 1, words - 1)), shape=(n_documents, n_words)).tocsr()


def random_triples(n_documents, n_words, n_entries, seed):
    rng = np.random.default_rng(seed)
    cells = np.sort(rng.choice(n_documents * n_words, n_entries, replace=False))
    return np.column_stack([cells // n_words + 1, cells % n_words + 1, rng.integers(1, 100, n_entries)])


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_agrees_with_a_plain_reader(tmp_path, monkeypatch, pack, order, block):
    """Whatever the order of the entries and wherever the blocks of text are cut."""
    monkeypatch.setattr(_docword, "BLOCK", block)
    triples = random_triples(40, 300, 2000, seed=block)
    if order == "shuffled":
        np.random.default_rng(1).shuffle(triples)
    path = write_corpus(tmp_path, triples, (43, 300), pack=pack)  # the last documents are empty
    corpus = fetch_bag_of_words(path)
    expected = plain_reader(path)
    assert issparse(corpus.counts)
    assert corpus.counts.format == "csr"
    assert corpus.counts.shape == (43, 300)
    assert corpus.counts.dtype == np.int32
    assert corpus.counts.indices.dtype == np.int32
    assert corpus.counts.has_sorted_indices
    assert abs(corpus.counts - expected).max() == 0
    assert corpus.counts.nnz == 2000
    assert corpus.vocabulary[[0, 299]].tolist() == ["w0", "w299"]


def test_repeated_entries_are_added(tmp_path):
    path = write_corpus(tmp_path, [(1, 2, 3), (2, 1, 4), (1, 2, 5), (2, 1, 1)], (2, 2))
    counts = read_docword(path)
    assert counts.toarray().tolist() == [[0, 8], [5, 0]]
    assert counts.nnz == 2
    assert counts.dtype == np.int32


def test_large_counts_keep_their_value(tmp_path):
    """Neither the 16-bit pieces nor a sum beyond 32 bits may wrap around."""
    big = 2**31 - 1
    counts = read_docword(write_corpus(tmp_path, [(1, 1, 65_535), (1, 2, 65_536), (2, 1, big)], (2, 2)))
    assert counts.toarray().tolist() == [[65_535, 65_536], [big, 0]]
    counts = read_docword(write_corpus(tmp_path, [(1, 1, big), (1, 1, big)], (2, 2)))
    assert counts.toarray().tolist() == [[2 * big, 0], [0, 0]]


@pytest.mark.parametrize(
    "body",
    [
        "2\n2\n2\n1 1 3\n2 2 4",  # no line feed at the end
        "2\r\n2\r\n2\r\n1 1 3\r\n2 2 4\r\n",
        "2\n2\n2\n 1\t1  3 \n\n2 2 004\n\n",
    ],
)
def test_harmless_variations_are_read(tmp_path, body):
    path = tmp_path / "docword.toy.txt"
    path.write_bytes(body.encode())
    assert read_docword(path).toarray().tolist() == [[3, 0], [0, 4]]


def test_an_empty_corpus_is_read(tmp_path):
    counts = read_docword(write_corpus(tmp_path, [], (3, 2)))
    assert counts.shape == (3, 2)
    assert counts.nnz == 0


GOOD = "1 1 3\n2 3 4\n"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected the number of documents .*got nothing"),
        ("<html>gone</html>\n", "line 1: expected the number of documents .*got '<html>gone</html>'"),
        ("2\n", "line 2: expected the number of words .*got nothing"),
        ("2\n3\n", "line 3: expected the number of entries .*got nothing"),
        ("2 3 2\n" + GOOD, "line 1: expected the number of documents .*got '2 3 2'"),
        ("2.5\n3\n2\n" + GOOD, "line 1: expected the number of documents .*got '2.5'"),
        ("-2\n3\n2\n" + GOOD, "line 1: expected a number of documents >= 1, got -2"),
        ("0\n3\n2\n" + GOOD, "line 1: expected a number of documents >= 1, got 0"),
        ("2\n3\n-1\n" + GOOD, "line 3: expected a number of entries >= 0, got -1"),
        ("2\n3000000000\n2\n" + GOOD, "line 2: expected at most 2,147,483,647 words, got 3,000,000,000"),
        ("2\n3\n2" + "0" * 50 + "\n" + GOOD, "line 3: expected the number of entries"),
        ("2\n3\n3\n" + GOOD, "announces 3 entries .*holds only 2: it is truncated"),
        ("2\n3\n1000000000000\n" + GOOD, "announces 1,000,000,000,000 entries .*holds only 2"),
        ("2\n3\n1\n" + GOOD, r"announces 1 entries, but the file goes on after them \(line 5"),
        ("2\n3\n0\n" + GOOD, "announces 0 entries, but the file goes on"),
        ("2000000000\n3\n2\n" + GOOD, "announces 2,000,000,000 documents, but the file holds only 2 entries"),
        ("1\n3\n2\n" + GOOD, "line 5: expected a document <= 1, got 2"),
        ("2\n2\n2\n" + GOOD, "line 5: expected a word <= 2, got 3"),
        ("2\n3\n2\n1 1 3\n0 3 4\n", "line 5: expected a document >= 1, got 0"),
        ("2\n3\n2\n1 1 3\n2 0 4\n", "line 5: expected a word >= 1, got 0"),
        ("2\n3\n2\n1 1 3\n2 3 0\n", "line 5: expected a count >= 1, got 0"),
        ("2\n3\n2\n1 1 3\n-2 3 4\n", "line 5: expected a document >= 1, got a negative number"),
        ("2\n3\n2\n1 1 3\n2 3 -4\n", "line 5: expected a count >= 1, got a negative number"),
        (
            "2\n3\n2\n1 1 3\n2 3 4294967297\n",
            "line 5: expected a count <= 2,147,483,647, got a larger number",
        ),
        ("2\n3\n2\n1 1 3\n2 3 " + "9" * 99 + "\n", "line 5: expected a count <= .* got a larger number"),
        ("2\n3\n2\n1 1 3\n2 three 4\n", "line 5: expected a whole number as the word, got other characters"),
        ("2\n3\n2\n1 1 3\n2 3 4.5\n", "line 5: expected a whole number as the count"),
        ("2\n3\n2\n1 1 3\n2 3 4e1\n", "line 5: expected a whole number as the count"),
        ("2\n3\n2\n1 1 3\n2 3 nan\n", "line 5: expected a whole number as the count"),
        ("2\n3\n2\n1 1 3\n2 3 \0\n", "line 5: expected a whole number as the count"),
        ("2\n3\n2\n1 1 3\n2 3\n", "line 5: expected 'document word count', got only 2 of the three numbers"),
        ("2\n3\n2\n1 1 3\n2", "line 5: expected 'document word count', got only 1 of the three numbers"),
        ("2\n3\n2\n1 1 3 7\n2 3 4\n", "line 4: expected 'document word count', got more than three fields"),
        ("2\n3\n2\n1 1 3\n2 3" + " " * 9000 + "4\n", None),
        ("2\n3\n2\n1 1 3\n2 3" + " " * 3_000_000 + "4\n", "line 5: .*got a line longer than 4096 characters"),
    ],
)
def test_malformed_files_are_refused(tmp_path, content, message, pack):
    path = tmp_path / "docword.bad.txt"
    path.write_bytes(pack(content.encode()))
    (tmp_path / "vocab.bad.txt").write_text("a\nb\nc\n")
    if message is None:  # clumsy, but nothing in it is wrong
        assert read_docword(path).nnz == 2
        return
    with pytest.raises(ValueError, match=message) as caught:
        fetch_bag_of_words(path)
    assert str(path) in str(caught.value)


def test_lying_headers_cost_no_memory(tmp_path):
    write_corpus(tmp_path, [(1, 1, 1)], (1, 1))  # compile first
    read_docword(tmp_path / "docword.toy.txt")
    path = tmp_path / "docword.lies.txt"
    for header in ("2000000000\n2000000000\n1000000000000\n", "2000000000\n2000000000\n2\n"):
        path.write_text(header + "1 1 3\n1999999999 1999999999 4\n")
        tracemalloc.start()
        with pytest.raises(ValueError, match="the file holds only 2"):
            read_docword(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6


def test_reading_stops_where_the_announced_entries_end(tmp_path):
    """A small gzip file that inflates to 60 million lines is refused early, in bounded memory."""
    path = tmp_path / "docword.bomb.txt.gz"
    packed = gzip.compress(b"1 1 1\n" * 1_000_000)
    path.write_bytes(gzip.compress(b"1\n1\n5\n") + packed * 60)
    tracemalloc.start()
    with pytest.raises(ValueError, match="announces 5 entries, but the file goes on"):
        read_docword(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_truncated_gzip_file_is_refused(tmp_path, keep):
    path = write_corpus(tmp_path, random_triples(40, 300, 2000, seed=0), (40, 300), pack=True)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(ValueError, match="expected a whole gzip file"):
        fetch_bag_of_words(path)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (b"a\nb\n", "expected 3 words, as the docword file says, got 2"),
        (b"a\nb\nc\nd\n", "expected 3 words, as the docword file says; there are more"),
        (b"a\n\nc\n", "line 2: expected a word of 1 to 256 characters, got ''"),
        (b"a\n" + b"b" * 5000 + b"\nc\n", "line 2: expected a word of 1 to 256 characters, got 'bbbb"),
        (b"a\n\xff\xfe\nc\n", "line 2: expected text in UTF-8"),
    ],
)
def test_malformed_vocabularies_are_refused(tmp_path, vocabulary, message):
    path = write_corpus(tmp_path, [(1, 1, 1)], (1, 3))
    (tmp_path / "vocab.toy.txt").write_bytes(vocabulary)
    with pytest.raises(ValueError, match=message) as caught:
        fetch_bag_of_words(path)
    assert "vocab.toy.txt" in str(caught.value)


@pytest.mark.parametrize("vocabulary", [b"a\nb\nc", b"a\r\nb\r\nc\r\n", b"a\nb\nc\n\n"])
def test_vocabulary_line_ends(tmp_path, vocabulary):
    path = write_corpus(tmp_path, [(1, 1, 1)], (1, 3))
    (tmp_path / "vocab.toy.txt").unlink()
    (tmp_path / "vocab.toy.txt.gz").write_bytes(gzip.compress(vocabulary))
    assert fetch_bag_of_words(path).vocabulary.tolist() == ["a", "b", "c"]


def test_an_absent_vocabulary_is_named(tmp_path):
    path = write_corpus(tmp_path, [(1, 1, 1)], (1, 3))
    (tmp_path / "vocab.toy.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"expected .*vocab\.toy\.txt \(or with \.gz\), .*3 in all"):
        fetch_bag_of_words(path)


@pytest.mark.parametrize("subfolder", ["", "bag_of_words", "nytimes", "kos"])
@pytest.mark.parametrize("via", ["data_home", "FASTSBL_DATA", "cache"])
def test_names_are_found(tmp_path, monkeypatch, via, subfolder):
    monkeypatch.setenv("FASTSBL_DATA", str(tmp_path / "FASTSBL_DATA"))
    folder = tmp_path / via / subfolder
    folder.mkdir(parents=True)
    write_corpus(folder, [(1, 1, 7)], (1, 2), name="kos", pack=True)
    corpus = fetch_bag_of_words("kos", tmp_path / "data_home" if via == "data_home" else None)
    assert corpus.counts.toarray().tolist() == [[7, 0]]


def test_data_home_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTSBL_DATA", str(tmp_path / "data"))
    for name, count in (("home", 1), ("data", 2), ("cache", 3)):
        (tmp_path / name).mkdir()
        write_corpus(tmp_path / name, [(1, 1, count)], (1, 1), name="nips")
    assert fetch_bag_of_words("nips", tmp_path / "home").counts.sum() == 1
    assert fetch_bag_of_words("nips").counts.sum() == 2
    monkeypatch.delenv("FASTSBL_DATA")
    assert fetch_bag_of_words("nips").counts.sum() == 3


def test_absent_corpora_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTSBL_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError) as caught:
        fetch_bag_of_words("enron")
    for part in (
        "docword.enron.txt.gz",
        "vocab.enron.txt",
        "FASTSBL_DATA",
        "no network",
        str(tmp_path / "data"),
    ):
        assert part in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"nyt8447: .*this corpus is not offered for download"):
        fetch_bag_of_words("nyt8447")
    with pytest.raises(ValueError, match=r"expected 'nytimes', .* or the path of a docword file, got 'wikipedia'"):
        fetch_bag_of_words("wikipedia")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fetch_bag_of_words(tmp_path / "docword.none.txt")
    with pytest.raises(ValueError, match="expected a docword file, got the folder"):
        fetch_bag_of_words(tmp_path)


def test_without_pooch_the_message_says_so(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FASTSBL_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match="downloads need pooch: pip install"):
        fetch_bag_of_words("nytimes")


def test_downloads_are_checked_and_kept(tmp_path, monkeypatch):
    monkeypatch.delenv("FASTSBL_DATA", raising=False)
    server = tmp_path / "server"
    server.mkdir()
    write_corpus(server, [(1, 1, 7)], (1, 2), name="kos", pack=True)
    asked = []

    def retrieve(url, folder, name):
        asked.append(url.rsplit("/", 1)[1])
        (folder / name).write_bytes((server / name).read_bytes())
        return folder / name

    monkeypatch.setattr(_download, "_retrieve", retrieve)
    for _ in range(2):
        assert fetch_bag_of_words("kos", tmp_path / "home").counts.sum() == 7
    assert asked == ["vocab.kos.txt", "docword.kos.txt.gz"]
    (server / "docword.kos.txt.gz").write_bytes(b"<html>")
    with pytest.raises(FileNotFoundError, match="expected the number of documents"):
        fetch_bag_of_words("kos")
    assert not (tmp_path / "cache" / "bag_of_words" / "docword.kos.txt.gz").exists()


@pytest.fixture
def cached_corpus(tmp_path, monkeypatch):
    """Return a corpus file, and a list that grows with every parse."""
    monkeypatch.setattr(bag_of_words, "SMALLEST_CACHED", 0)
    parses = []

    def counted(path):
        parses.append(path)
        return read_docword(path)

    monkeypatch.setattr(bag_of_words, "read_docword", counted)
    return write_corpus(tmp_path, random_triples(20, 50, 200, seed=3), (20, 50)), parses


def test_the_cache_is_used_and_follows_the_source(tmp_path, cached_corpus):
    path, parses = cached_corpus
    first = fetch_bag_of_words(path).counts
    second = fetch_bag_of_words(path).counts
    assert len(parses) == 1
    assert second.dtype == first.dtype
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part))
    (stored,) = (tmp_path / "cache" / "parsed").iterdir()

    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    fetch_bag_of_words(path)
    assert len(parses) == 2  # another time
    path.write_text(path.read_text() + "\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    fetch_bag_of_words(path)
    assert len(parses) == 3  # another size
    assert list((tmp_path / "cache" / "parsed").iterdir()) == [stored]  # replaced, no pile of old copies


@pytest.mark.parametrize("damage", [b"", b"PK rubbish", None])
def test_a_damaged_cache_is_made_anew(tmp_path, cached_corpus, damage, caplog):
    path, parses = cached_corpus
    expected = fetch_bag_of_words(path).counts.toarray()
    (stored,) = (tmp_path / "cache" / "parsed").iterdir()
    if damage is None:
        whole = stored.read_bytes()
        damage = whole[: len(whole) // 2]
    stored.write_bytes(damage)
    np.testing.assert_array_equal(fetch_bag_of_words(path).counts.toarray(), expected)
    assert len(parses) == 2
    assert "cannot be read and is made anew" in caplog.text
    fetch_bag_of_words(path)
    assert len(parses) == 2


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, cached_corpus, monkeypatch, caplog):
    path, _ = cached_corpus
    (tmp_path / "occupied").write_text("a file, not a folder")
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path / "occupied"))
    assert fetch_bag_of_words(path).counts.nnz == 200
    assert "could not be kept" in caplog.text


@needs_data
def test_the_real_new_york_times_counts():
    corpus = fetch_bag_of_words("nyt8447")
    assert corpus.counts.shape == (8447, 3012)
    assert corpus.counts.nnz == 963_063
    assert corpus.counts.sum() == 1_221_626
    assert corpus.vocabulary.shape == (3012,)
    assert corpus.vocabulary[:3].tolist() == ["company", "percent", "state"]
    assert corpus.counts[:1].indices[:2].tolist() == [1, 11]  # the file starts 1 2 2 / 1 12 1
    assert corpus.counts[:1].data[:2].tolist() == [2, 1]


@needs_data
def test_the_ten_documents_with_the_header_of_the_whole_corpus_are_refused():
    path = os.path.join(DATA, "docword.nytimes.first10.txt.gz")
    message = r"announces 69,679,427 entries \(300,000 documents, 102,660 words\), but the file holds only 2,264"
    with pytest.raises(ValueError, match=message):
        fetch_bag_of_words(path)


@needs_data
def test_the_ten_documents_under_an_honest_header(tmp_path):
    """The real vocabulary, found under the shorter name, goes with a file of a part of the corpus."""
    with gzip.open(os.path.join(DATA, "docword.nytimes.first10.txt.gz"), "rt") as file:
        body = file.read().split("\n", 3)[3]
    (tmp_path / "docword.nytimes.ten.txt").write_text("10\n102660\n2264\n" + body)
    with open(os.path.join(DATA, "vocab.nytimes.txt.gz"), "rb") as packed:
        (tmp_path / "vocab.nytimes.txt.gz").write_bytes(packed.read())
    corpus = fetch_bag_of_words(tmp_path / "docword.nytimes.ten.txt")
    assert corpus.counts.shape == (10, 102_660)
    assert corpus.counts.nnz == 2264
    assert len(set(corpus.vocabulary)) == 102_660
