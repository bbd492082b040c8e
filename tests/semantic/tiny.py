"""Write a tiny sentence-transformers model with weights by chance, and compute what it gives."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

WORDS = """
    [PAD] [UNK] [CLS] [SEP] the a vehicle is red hound sleeps loaf for tomorrow garage kennel oven
    un ##believ ##able ##s , . ! 东 京
    """.split()
HIDDEN, HEADS, LAYERS, INNER, POSITIONS = 32, 4, 2, 64, 40


def write_tensors(path: Path, tensors: dict[str, Any], kind: str = "F32") -> None:
    header, data = {}, b""
    for name, tensor in tensors.items():
        if kind == "BF16":
            raw = (tensor.astype("<f4").view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            raw = tensor.astype({"F32": "<f4", "F16": "<f2"}[kind]).tobytes()
        places = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": places}
        data += raw
    described = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(described).to_bytes(8, "little") + described + data)


def make_tensors(seed: int) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name, (n_out, n_in) in {
            "attention.self.query": (HIDDEN, HIDDEN),
            "attention.self.key": (HIDDEN, HIDDEN),
            "attention.self.value": (HIDDEN, HIDDEN),
            "attention.output.dense": (HIDDEN, HIDDEN),
            "intermediate.dense": (INNER, HIDDEN),
            "output.dense": (HIDDEN, INNER),
        }.items():
            shapes |= {f"{at}{name}.weight": (n_out, n_in), f"{at}{name}.bias": (n_out,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}{name}.weight": (HIDDEN,), f"{at}{name}.bias": (HIDDEN,)}
    return {name: chance.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def write_model(folder: Path, seed: int = 1, kind: str = "F32", **config: object) -> Path:
    folder.mkdir(exist_ok=True)
    described = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(described | config))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    write_tensors(folder / "model.safetensors", make_tensors(seed), kind)
    return folder


def compute(ids: list[int], seed: int, first_position: int = 0) -> Any:
    """The last states for these pieces, written down from the paper, one number after another."""
    t = {name: tensor.astype(np.float64) for name, tensor in make_tensors(seed).items()}

    def linear(x: Any, name: str) -> Any:
        return np.array([t[f"{name}.weight"] @ row + t[f"{name}.bias"] for row in x])

    def normalise(x: Any, name: str) -> Any:
        rows = [(row - row.mean()) / math.sqrt(row.var() + 1e-12) for row in x]
        return np.array([row * t[f"{name}.weight"] + t[f"{name}.bias"] for row in rows])

    x = np.array(
        [
            t["embeddings.word_embeddings.weight"][piece]
            + t["embeddings.position_embeddings.weight"][place + first_position]
            + t["embeddings.token_type_embeddings.weight"][0]
            for place, piece in enumerate(ids)
        ]
    )
    x = normalise(x, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        query, key, value = (
            linear(x, f"{at}attention.self.{name}") for name in ("query", "key", "value")
        )
        mixed = np.zeros_like(x)
        width = HIDDEN // HEADS
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            for place in range(len(ids)):
                scores = [query[place, part] @ other[part] / math.sqrt(width) for other in key]
                weights = np.exp(scores) / np.exp(scores).sum()
                mixed[place, part] = sum(
                    weight * one[part] for weight, one in zip(weights, value, strict=True)
                )
        x = normalise(
            x + linear(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm"
        )
        inner = linear(x, f"{at}intermediate.dense")
        inner = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(inner)
        x = normalise(x + linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
    return x
