"""Write tiny models of fastembed and model2vec to the places of downloaded models.

A model for onnxruntime is written as a protocol buffer: the library that makes such files takes
more room than all others together.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS = {"[PAD]": 0, "[UNK]": 1, "car": 2, "vehicle": 3, "hound": 4, "loaf": 5}
ROWS = np.array(
    [[0, 0, 0, 0], [1, 1, 1, 1], [9, 0, 0, 1], [9, 1, 0, 0], [0, 9, 1, 0], [0, 0, 9, 1]],
    dtype=np.float32,
)
FASTEMBED_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_FASTEMBED_SOURCE = "Qdrant/all-MiniLM-L6-v2-onnx"
_REVISION = "0" * 40


def write_fastembed_cache(cache: Path) -> None:
    """Write FASTEMBED_MODEL as if it were downloaded."""
    write_fastembed_model(make_snapshot(cache, _FASTEMBED_SOURCE))


def write_fastembed_model(folder: Path, rows: NDArray[np.float32] = ROWS) -> None:
    """Write the files of FASTEMBED_MODEL; a text's vector is the mean of its words' rows."""
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(encode_onnx(rows))
    write_tokenizer(folder)
    settings = {"model_max_length": 64, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))


def write_model2vec_cache(cache: Path, name: str) -> None:
    """Write a static model as if it were downloaded by its name."""
    import model2vec
    from tokenizers import Tokenizer

    folder = make_snapshot(cache, name)
    write_tokenizer(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model2vec.StaticModel(ROWS, tokenizer, config={"normalize": True}).save_pretrained(folder)


def make_snapshot(cache: Path, name: str) -> Path:
    """Make the folder of a model in a cache of huggingface_hub."""
    model = cache / f"models--{name.replace('/', '--')}"
    folder = model / "snapshots" / _REVISION
    folder.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(_REVISION)
    return folder


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


# --- ONNX (https://onnx.ai/onnx/intro/concepts.html, onnx.proto) ----------------------------------

_FLOAT, _INT64 = 1, 7


def encode_onnx(rows: NDArray[np.float32]) -> bytes:
    """Encode a model that looks up the row of each of `input_ids`."""
    node = (
        _encode_text(1, "rows")
        + _encode_text(1, "input_ids")
        + _encode_text(2, "last_hidden_state")
        + _encode_text(4, "Gather")
    )
    table = (
        b"".join(_encode_number(1, size) for size in rows.shape)
        + _encode_number(2, _FLOAT)
        + _encode_text(8, "rows")
        + _encode_bytes(9, rows.astype("<f4").tobytes())
    )
    texts = [_encode_text(2, "batch"), _encode_text(2, "length")]
    width = _encode_number(1, rows.shape[1])
    graph = (
        _encode_bytes(1, node)
        + _encode_text(2, "rows of words")
        + _encode_bytes(5, table)
        + _encode_bytes(11, _encode_value("input_ids", _INT64, texts))
        + _encode_bytes(12, _encode_value("last_hidden_state", _FLOAT, [*texts, width]))
    )
    operators = _encode_text(1, "") + _encode_number(2, 13)
    return _encode_number(1, 8) + _encode_bytes(7, graph) + _encode_bytes(8, operators)


def _encode_value(name: str, kind: int, sizes: list[bytes]) -> bytes:
    shape = b"".join(_encode_bytes(1, size) for size in sizes)
    tensor = _encode_number(1, kind) + _encode_bytes(2, shape)
    return _encode_text(1, name) + _encode_bytes(2, _encode_bytes(1, tensor))


def _encode_text(field: int, text: str) -> bytes:
    return _encode_bytes(field, text.encode())


def _encode_bytes(field: int, data: bytes) -> bytes:
    return _encode_varint(field << 3 | 2) + _encode_varint(len(data)) + data


def _encode_number(field: int, number: int) -> bytes:
    return _encode_varint(field << 3) + _encode_varint(number)


def _encode_varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])
