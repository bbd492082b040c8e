from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from memsyncd.errors import StoreCorrupt
from memsyncd.store.index import Index, PutNote
from memsyncd.store.vectors import (
    VectorFile,
    VectorRow,
    delete_vectors,
    read_chunk_digests,
    read_embedded_texts,
    set_vectors_aside,
)

Put = Callable[..., PutNote]
ROWS: list[VectorRow] = [(bytes([n]) * 16, 0.5 + n, bytes([n, 7, 255])) for n in range(3)]


def test_vectors_are_kept_by_digest_until_they_are_dropped(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors.db")
    assert (file.embedder, file.dimensions) == ("", 0)
    file.reset("model 1", 3)
    file.add(ROWS)
    file.add([(ROWS[0][0], 9.0, b"abc")])
    file.close()
    file = VectorFile(tmp_path / "vectors.db")
    assert (file.embedder, file.dimensions) == ("model 1", 3)
    assert sorted(file.read_all()) == [(ROWS[0][0], 9.0, b"abc"), *ROWS[1:]]
    file.drop([ROWS[0][0], b"x" * 16])
    assert file.read_digests() == {ROWS[1][0], ROWS[2][0]}
    file.reset("model 2", 4)
    assert not file.read_digests()
    file.close()


def test_a_dropped_vector_is_in_no_file_any_more(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors.db")
    file.reset("model", 600)
    vector = b"not to be found " * 37 + b"........"
    file.add([(b"a" * 16, 1.0, vector), (b"b" * 16, 1.0, bytes(600))])
    file.drop([b"a" * 16])
    for path in tmp_path.iterdir():
        assert b"not to be found" not in path.read_bytes(), path.name
    file.close()


def test_a_vector_of_another_length_is_damage(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors.db")
    file.reset("model", 4)
    file.add(ROWS)
    with pytest.raises(StoreCorrupt):
        list(file.read_all())
    file.close()


def test_a_file_that_holds_no_vectors_counts_as_damaged_and_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    with contextlib.closing(apsw.Connection(str(tmp_path / "other.db"))) as other:
        other.execute("CREATE TABLE vectors(id)")
    for data in (b"no database " * 99, (tmp_path / "other.db").read_bytes()):
        path.write_bytes(data)
        with pytest.raises(StoreCorrupt):
            VectorFile(path)
        set_vectors_aside(path)
        assert path.with_name("vectors.db.damaged").stat().st_size == len(data)
        VectorFile(path).close()
        delete_vectors(path)
    delete_vectors(path)


def test_titles_and_text_are_embedded_without_the_folder_of_memories(
    index: Index, put: Put
) -> None:
    index.apply([put(".memories/api/auth-notes.md", "# Auth\n\n## Tokens\n\nThey expire.\n")])
    with index.pool.acquire(5) as reader:
        chunks = read_chunk_digests(reader)
        texts = read_embedded_texts(reader, [chunk for chunk, _ in chunks])
    assert {chunk: digest for chunk, (digest, _) in texts.items()} == dict(chunks)
    assert "api auth notes Auth Tokens\n## Tokens\n\nThey expire." in [
        text for _, text in texts.values()
    ]


def test_secrets_are_not_embedded(index: Index, put: Put) -> None:
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *["q2F0" * 16] * 9, "-----END RSA PRIVATE KEY-----"]
    text = "\n".join(["# Access", "", "password: hunter2hunter2", "", *lines, "", "the end"])
    index.apply([put("MEMORY.md", text)])
    with index.pool.acquire(5) as reader:
        chunks = [chunk for chunk, _ in read_chunk_digests(reader)]
        embedded = " ".join(text for _, text in read_embedded_texts(reader, chunks).values())
    assert len(chunks) > 1
    assert "the end" in embedded
    assert "hunter2" not in embedded
    assert "q2F0" not in embedded
