"""Run a sentence-transformers model from its folder with numpy alone.

Models with the architecture of BERT or XLM-RoBERTa: `model.safetensors`, `config.json`, a
tokenizer, and the modules of `modules.json` (pooling, dense). Nothing in the folder is executed: a
model that is only there as a pickle is refused. The text's pieces are concatenated, so no time is
spent on padding; attention is computed for each text by itself.

Word pieces are cut as BERT's tokenizer does: words are cut at spaces and punctuation, each Chinese
character is a word, and a word is cut from the left into the longest pieces that the vocabulary
has.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memsyncd.core.digest import digest_bytes

WEIGHTS: Final = "model.safetensors"
CONFIG: Final = "config.json"
# What a header of a model of a hundred layers takes, a hundred times.
MAX_HEADER_BYTES = 16 * 1024 * 1024
# Pieces that are computed at one time: what is between the layers stays in the processor's cache.
BATCH_PIECES = 512
# What the vectors of a folder depend on, with the modules that follow the encoder: `1_Pooling`.
_READ_WITH_VECTORS = (
    CONFIG,
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "vocab.txt",
    WEIGHTS,
    f"[0-9]_*/{CONFIG}",
    f"[0-9]_*/{WEIGHTS}",
)
_ROBERTA = ("roberta", "xlm-roberta")
_MODEL_TYPES = ("bert", *_ROBERTA)
_WORDS = "embeddings.word_embeddings.weight"
_E5 = re.compile(r"\be5\b", re.IGNORECASE)

Array = NDArray[np.float32]
Activation = Callable[[Array], Array]


class ModelUnfit(Exception):
    """The folder has no model that can be run; the message says why."""


def find_model_id(folder: str) -> str:
    """Return the name of a folder with the digest of all that its vectors depend on."""
    digests = [digest_bytes(path.read_bytes()) for path in _list_files(folder)]
    if not (Path(folder) / WEIGHTS).exists():
        os.stat(folder)
        raise ModelUnfit(f"it has no {WEIGHTS}")
    name = folder.rstrip("/").rpartition("/")[2]
    return f"{name} {digest_bytes(' '.join(digests).encode())}"


def stat_model(folder: str) -> list[tuple[int, int]]:
    """Return what changes when a file of the model is replaced; raises OSError without a folder."""
    os.stat(folder)
    stats = [path.stat() for path in _list_files(folder)]
    return [(stat.st_size, stat.st_mtime_ns) for stat in stats]


def _list_files(folder: str) -> list[Path]:
    return [path for name in _READ_WITH_VECTORS for path in sorted(Path(folder).glob(name))]


class FolderModel:
    """A model in memory. Raises OSError and ModelUnfit."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._config = _read_json(self._folder / CONFIG)
        tensors = _read_safetensors(self._folder / WEIGHTS)
        self.prefixes = _find_prefixes(self._folder, self._config)
        self._encoder = _Encoder(self._config, tensors)
        self._pool, self._dense = _read_modules(self._folder)
        self._max_pieces = self._find_max_pieces()
        self._tokenize = _make_tokenizer(self._folder, self._max_pieces)

    def embed(self, texts: Sequence[str]) -> Array:
        """Return one row a text."""
        pieces = [self._tokenize(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda index: len(pieces[index]))
        rows: dict[int, Array] = {}
        batch: list[int] = []
        for index in order:
            if batch and sum(len(pieces[one]) for one in (*batch, index)) > BATCH_PIECES:
                rows |= self._embed_batch(batch, pieces)
                batch = []
            batch.append(index)
        rows |= self._embed_batch(batch, pieces)
        return np.stack([rows[index] for index in range(len(texts))])

    def _embed_batch(
        self, batch: Sequence[int], pieces: Sequence[Sequence[int]]
    ) -> dict[int, Array]:
        states = self._encoder.run([pieces[index] for index in batch])
        pooled = [self._pool(one) for one in states]
        for dense in self._dense:
            pooled = [dense(one) for one in pooled]
        return dict(zip(batch, pooled, strict=True))

    def _find_max_pieces(self) -> int:
        path = self._folder / "sentence_bert_config.json"
        given = _read_json(path).get("max_seq_length") if path.exists() else None
        most = self._encoder.max_pieces
        return min(given, most) if isinstance(given, int) and given > 2 else most


# --- files --------------------------------------------------------------------------------------


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise ModelUnfit(f"{path.name} is no JSON") from error
    if not isinstance(value, dict):
        raise ModelUnfit(f"{path.name} is no JSON object")
    return value


def _read_safetensors(path: Path) -> dict[str, Array]:
    """Read all tensors of a file as 32-bit floats.

    The format: eight bytes with the length of a JSON header, the header, and the tensors, whose
    places the header gives (https://huggingface.co/docs/safetensors).
    """
    data = np.fromfile(path, dtype=np.uint8)
    try:
        n_header = int(data[:8].view("<u8")[0])
        if n_header > min(MAX_HEADER_BYTES, len(data)):
            raise ModelUnfit(f"{path.name} is not complete")
        header = json.loads(data[8 : 8 + n_header].tobytes())
        return {
            name: _read_tensor(data[8 + n_header :], one)
            for name, one in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ModelUnfit(f"{path.name} is damaged") from error


def _read_tensor(data: NDArray[np.uint8], entry: Mapping[str, Any]) -> Array:
    start, end = entry["data_offsets"]
    raw, shape = data[start:end], entry["shape"]
    if entry["dtype"] == "BF16":  # the upper half of a 32-bit float
        wide = np.frombuffer(raw.tobytes(), "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    kind = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8"}[entry["dtype"]]
    found: Array = np.frombuffer(raw.tobytes(), kind).astype(np.float32).reshape(shape)
    return found


def _find_prefixes(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Return what the model wants before questions and texts."""
    path = folder / "config_sentence_transformers.json"
    prompts = _read_json(path).get("prompts") if path.exists() else None
    if isinstance(prompts, dict) and prompts:
        text = prompts.get("passage", prompts.get("document", ""))
        return {"question": str(prompts.get("query", "")), "text": str(text)}
    # The models of this name were trained so, and their folders do not say it.
    if _E5.search(folder.name) or _E5.search(str(config.get("_name_or_path", ""))):
        return {"question": "query: ", "text": "passage: "}
    return {"question": "", "text": ""}


def _make_tokenizer(folder: Path, most: int) -> Callable[[str], Sequence[int]]:
    path = folder / "tokenizer.json"
    described = _read_json(path) if path.exists() else {}
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return _make_wordpiece(folder, described, most)
    if not described:
        return _make_wordpiece(folder, described, most)
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)
    return lambda text: tokenizer.encode(text).ids


def _make_wordpiece(
    folder: Path, described: Mapping[str, Any], most: int
) -> Callable[[str], Sequence[int]]:
    model = described.get("model") or {}
    kind = model.get("type", "WordPiece")
    if kind != "WordPiece":
        raise ModelUnfit(f"its tokenizer is of the type {kind}; run: pip install tokenizers")
    vocabulary = model.get("vocab")
    if vocabulary is None:
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        vocabulary = {piece: number for number, piece in enumerate(lines) if piece}
    path = folder / "tokenizer_config.json"
    config = _read_json(path) if path.exists() else {}
    is_lower = (described.get("normalizer") or {}).get("lowercase", config.get("do_lower_case"))
    try:
        pieces = WordPiece(vocabulary, is_lower=is_lower is not False)
    except KeyError as error:
        raise ModelUnfit(f"its vocabulary has no {error.args[0]}") from error
    return lambda text: pieces.encode(text, most)


# --- modules ------------------------------------------------------------------------------------


def _read_modules(folder: Path) -> tuple[Callable[[Array], Array], list[Activation]]:
    """Return what makes one vector of the states of a text, and what follows."""
    path = folder / "modules.json"
    modules = json.loads(path.read_bytes()) if path.exists() else []
    pool: Callable[[Array], Array] = _pool_mean
    dense: list[Activation] = []
    for module in modules:
        kind, place = str(module["type"]).rpartition(".")[2], folder / str(module["path"])
        if kind == "Pooling":
            pool = _find_pooling(_read_json(place / CONFIG))
        elif kind == "Dense":
            dense.append(_read_dense(place))
        elif kind not in ("Transformer", "Normalize"):
            raise ModelUnfit(f"its module {kind} is not supported")
    return pool, dense


def _pool_mean(states: Array) -> Array:
    mean: Array = states.mean(axis=0)
    return mean


def _find_pooling(config: Mapping[str, Any]) -> Callable[[Array], Array]:
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    poolings: dict[str, Callable[[Array], Array]] = {
        "pooling_mode_cls_token": lambda states: states[0],
        "pooling_mode_mean_tokens": _pool_mean,
        "pooling_mode_max_tokens": lambda states: states.max(axis=0),
    }
    if len(chosen) != 1 or chosen[0] not in poolings:
        raise ModelUnfit(f"its pooling {', '.join(chosen) or 'none'} is not supported")
    return poolings[chosen[0]]


def _read_dense(folder: Path) -> Activation:
    tensors = _read_safetensors(folder / WEIGHTS)
    weight, bias = tensors["linear.weight"].T, tensors.get("linear.bias", np.float32(0))
    name = str(_read_json(folder / CONFIG).get("activation_function", "")).rpartition(".")[2]
    if name not in ("Identity", "Tanh"):
        raise ModelUnfit(f"its activation {name} is not supported")
    if name == "Tanh":
        return lambda row: np.tanh(row @ weight + bias)
    return lambda row: row @ weight + bias


# --- the encoder --------------------------------------------------------------------------------


class _Encoder:
    """The layers of BERT (https://arxiv.org/abs/1810.04805), in the names of transformers."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
        kind = config.get("model_type")
        if kind not in _MODEL_TYPES:
            raise ModelUnfit(f"its model_type is {kind}, not one of {', '.join(_MODEL_TYPES)}")
        if config.get("position_embedding_type", "absolute") != "absolute":
            raise ModelUnfit("its positions are relative, which is not supported")
        prefix = next((name[: -len(_WORDS)] for name in tensors if name.endswith(_WORDS)), None)
        if prefix is None:
            raise ModelUnfit(f"{WEIGHTS} has no {_WORDS}")
        try:
            self._read(config, tensors, prefix)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelUnfit(f"{WEIGHTS} does not fit {CONFIG}: {error}") from error

    def _read(self, config: Mapping[str, Any], tensors: Mapping[str, Array], prefix: str) -> None:
        self._epsilon = float(config.get("layer_norm_eps", 1e-12))
        self._n_heads = int(config["num_attention_heads"])
        self._activate = _ACTIVATIONS[config.get("hidden_act", "gelu")]
        # RoBERTa counts positions from the number after that of its padding.
        padding = int(config.get("pad_token_id") or 0)
        self._first_position = padding + 1 if config["model_type"] in _ROBERTA else 0
        self._words = tensors[prefix + _WORDS]
        self._positions = tensors[f"{prefix}embeddings.position_embeddings.weight"]
        self._type = tensors[f"{prefix}embeddings.token_type_embeddings.weight"][0]
        self._norm = _read_norm(tensors, f"{prefix}embeddings.LayerNorm")
        n_layers = int(config["num_hidden_layers"])
        self._layers = [
            _Layer(tensors, f"{prefix}encoder.layer.{number}.") for number in range(n_layers)
        ]
        self.max_pieces = len(self._positions) - self._first_position

    def run(self, texts: Sequence[Sequence[int]]) -> list[Array]:
        """Return the last states of each text, a row a piece."""
        lengths = [len(text) for text in texts]
        ends = np.cumsum(lengths)
        places = [slice(end - n, end) for end, n in zip(ends, lengths, strict=True)]
        positions = np.concatenate([np.arange(n) for n in lengths]) + self._first_position
        states: Array = self._words[np.concatenate([np.asarray(text) for text in texts])]
        states = states + self._positions[positions] + self._type
        states = self._normalise(states, self._norm)
        for layer in self._layers:
            states = self._run_layer(layer, states, places)
        return [states[place] for place in places]

    def _run_layer(self, layer: _Layer, states: Array, places: Sequence[slice]) -> Array:
        mixed = states @ layer.qkv[0] + layer.qkv[1]
        attended: Array = np.empty_like(states)
        for place in places:
            attended[place] = self._attend(mixed[place])
        attended = attended @ layer.attended[0] + layer.attended[1]
        states = self._normalise(states + attended, layer.attended_norm)
        inner = self._activate(states @ layer.inner[0] + layer.inner[1])
        inner = inner @ layer.outer[0] + layer.outer[1]
        return self._normalise(states + inner, layer.outer_norm)

    def _attend(self, mixed: Array) -> Array:
        n = len(mixed)
        # Three times: heads, pieces, the width of a head.
        query, key, value = mixed.reshape(n, 3, self._n_heads, -1).transpose(1, 2, 0, 3)
        weights = query @ key.transpose(0, 2, 1)
        weights *= np.float32(query.shape[-1] ** -0.5)
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        attended = (weights @ value).transpose(1, 0, 2).reshape(n, -1)
        return attended.astype(np.float32, copy=False)

    def _normalise(self, states: Array, norm: tuple[Array, Array]) -> Array:
        states = states - states.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", states, states) / np.float32(states.shape[-1])
        states *= np.reciprocal(np.sqrt(variance + np.float32(self._epsilon)))[:, None]
        states *= norm[0]
        states += norm[1]
        return states


class _Layer:
    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        attention = [
            _read_linear(tensors, f"{prefix}attention.self.{name}")
            for name in ("query", "key", "value")
        ]
        self.qkv = (
            np.concatenate([weight for weight, _ in attention], axis=1),
            np.concatenate([bias for _, bias in attention]),
        )
        self.attended = _read_linear(tensors, f"{prefix}attention.output.dense")
        self.attended_norm = _read_norm(tensors, f"{prefix}attention.output.LayerNorm")
        self.inner = _read_linear(tensors, f"{prefix}intermediate.dense")
        self.outer = _read_linear(tensors, f"{prefix}output.dense")
        self.outer_norm = _read_norm(tensors, f"{prefix}output.LayerNorm")


def _read_linear(tensors: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"]


def _read_norm(tensors: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    if f"{name}.gamma" in tensors:  # the names of older models
        return tensors[f"{name}.gamma"], tensors[f"{name}.beta"]
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    """0.5 x (1 + erf(x / √2)), with erf by formula 7.1.26 of Abramowitz and Stegun, whose error is
    below 1.5e-7.
    """
    size = np.abs(x) * np.float32(0.5**0.5)
    t: Array = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911) * size)
    series = np.float32(1.061405429) * t
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series += np.float32(factor)
        series *= t
    erf = np.copysign(1.0 - series * np.exp(-size * size), x)
    found: Array = np.float32(0.5) * x * (1.0 + erf)
    return found


def _gelu_tanh(x: Array) -> Array:
    factor = np.float32((2.0 / np.pi) ** 0.5)
    cubic: Array = x * x * x
    inner: Array = np.tanh(factor * (x + np.float32(0.044715) * cubic))
    found: Array = np.float32(0.5) * x * (np.float32(1.0) + inner)
    return found


def _relu(x: Array) -> Array:
    found: Array = np.maximum(x, np.float32(0))
    return found


_ACTIVATIONS: dict[str, Activation] = {"gelu": _gelu, "gelu_new": _gelu_tanh, "relu": _relu}


# --- WordPiece ------------------------------------------------------------------------------------


# Longer words are unknown.
MAX_WORD_CHARS = 100
_CONTINUED = "##"
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """A vocabulary with the pieces `[CLS]`, `[SEP]` and `[UNK]`; raises KeyError without them."""

    def __init__(self, vocabulary: Mapping[str, int], *, is_lower: bool) -> None:
        self._vocabulary = vocabulary
        self._is_lower = is_lower
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._unknown = vocabulary["[UNK]"]
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, most: int) -> list[int]:
        """Return at most `most` pieces, with the first and the last one that BERT wants."""
        found = [self._first]
        for word in _split(text, is_lower=self._is_lower):
            pieces = self._known.get(word)
            if pieces is None:
                pieces = self._known[word] = tuple(self._cut(word))
            found += pieces
            if len(found) >= most:
                break
        return [*found[: most - 1], self._last]

    def _cut(self, word: str) -> list[int]:
        if len(word) > MAX_WORD_CHARS:
            return [self._unknown]
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else _CONTINUED + word[start:end]
                if piece in self._vocabulary:
                    found.append(self._vocabulary[piece])
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _split(text: str, *, is_lower: bool) -> Iterator[str]:
    """Yield the words of a text."""
    spaced = "".join(map(_space, text))
    for given in spaced.split():
        word = _strip_accents(given.lower()) if is_lower else given
        start = 0
        for at, char in enumerate(word):
            if _is_punctuation(char):
                if start < at:
                    yield word[start:at]
                yield char
                start = at + 1
        if start < len(word):
            yield word[start:]


def _space(char: str) -> str:
    """Return a character with spaces around an ideograph, and nothing for a control character."""
    code = ord(char)
    if code < 0x80:
        return char if code >= 0x20 and code != 0x7F else " " if char in "\t\n\r" else ""
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {char} "
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    return "" if category in ("Cc", "Cf") or code == 0xFFFD else char


def _strip_accents(word: str) -> str:
    if word.isascii():
        return word
    return "".join(
        char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn"
    )


def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return not char.isalnum() and char.isprintable() and char != " "
    return unicodedata.category(char).startswith("P")
