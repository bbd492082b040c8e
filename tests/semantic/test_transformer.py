"""A sentence-transformers model runs from its folder without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="the extra `semantic` is not installed")

from memsyncd.semantic.transformer import (  # noqa: E402
    FolderModel,
    ModelUnfit,
    WordPiece,
    find_model_id,
    stat_model,
)
from tests.semantic.tiny import (  # noqa: E402
    HIDDEN,
    WORDS,
    compute,
    make_tensors,
    write_model,
    write_tensors,
)

TEXTS = ["The vehicle is red.", "a loaf", "unbelievable hounds"]


def pieces(text: str) -> list[int]:
    known = {
        TEXTS[0]: "[CLS] the vehicle is red . [SEP]",
        TEXTS[1]: "[CLS] a loaf [SEP]",
        TEXTS[2]: "[CLS] un ##believ ##able hound ##s [SEP]",
    }
    return [WORDS.index(piece) for piece in known[text].split()]


def write_modules(folder: Path, *modules: tuple[str, dict[str, Any]]) -> None:
    listed = [{"type": "sentence_transformers.models.Transformer", "path": ""}]
    for number, (kind, config) in enumerate(modules, 1):
        place = folder / f"{number}_{kind}"
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(config))
        listed.append({"type": f"sentence_transformers.models.{kind}", "path": place.name})
    (folder / "modules.json").write_text(json.dumps(listed))


def test_vectors_are_those_of_the_architecture(tmp_path: Path) -> None:
    model = FolderModel(str(write_model(tmp_path / "m", seed=3)))
    found = model.embed(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(row, compute(pieces(text), 3).mean(axis=0), atol=1e-4)


def test_the_vector_of_a_text_does_not_depend_on_those_beside_it(tmp_path: Path) -> None:
    model = FolderModel(str(write_model(tmp_path / "m")))
    together = model.embed([*TEXTS, "the " * 100] * 9)
    for number, text in enumerate(TEXTS):
        np.testing.assert_allclose(model.embed([text])[0], together[number], atol=1e-5)


def test_positions_of_roberta_begin_after_its_padding(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", model_type="xlm-roberta", pad_token_id=1)
    expected = compute(pieces(TEXTS[0]), 1, first_position=2).mean(axis=0)
    np.testing.assert_allclose(FolderModel(str(folder)).embed(TEXTS[:1])[0], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("mode", "take"),
    [
        ("pooling_mode_cls_token", lambda states: states[0]),
        ("pooling_mode_max_tokens", lambda states: states.max(axis=0)),
    ],
)
def test_pooling_is_that_of_the_folder(tmp_path: Path, mode: str, take: Any) -> None:
    folder = write_model(tmp_path / "m")
    write_modules(folder, ("Pooling", {mode: True, "pooling_mode_mean_tokens": False}))
    expected = take(compute(pieces(TEXTS[1]), 1))
    np.testing.assert_allclose(FolderModel(str(folder)).embed(TEXTS[1:2])[0], expected, atol=1e-4)


def test_a_dense_module_follows(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    write_modules(folder, ("Pooling", {"pooling_mode_mean_tokens": True}), ("Dense", activation))
    weight = np.random.default_rng(5).normal(0, 0.2, (7, HIDDEN)).astype(np.float32)
    bias = np.arange(7, dtype=np.float32)
    tensors = {"linear.weight": weight, "linear.bias": bias}
    write_tensors(folder / "2_Dense" / "model.safetensors", tensors)
    mean = compute(pieces(TEXTS[0]), 1).mean(axis=0)
    found = FolderModel(str(folder)).embed(TEXTS[:1])[0]
    np.testing.assert_allclose(found, np.tanh(weight @ mean + bias), atol=1e-4)


@pytest.mark.parametrize(("kind", "tolerance"), [("F16", 0.02), ("BF16", 0.15)])
def test_weights_of_half_the_size_give_nearly_the_same(
    tmp_path: Path, kind: str, tolerance: float
) -> None:
    full = FolderModel(str(write_model(tmp_path / "full"))).embed(TEXTS)
    half = FolderModel(str(write_model(tmp_path / "half", kind=kind))).embed(TEXTS)
    assert 0 < np.abs(full - half).max() < tolerance


def test_texts_are_cut_to_what_the_model_was_made_for(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    model = FolderModel(str(folder))
    found = model.embed(["the vehicle is red", "the vehicle"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_what_e5_and_others_want_before_texts_is_known(tmp_path: Path) -> None:
    nothing = {"question": "", "text": ""}
    assert FolderModel(str(write_model(tmp_path / "m"))).prefixes == nothing
    e5 = {"question": "query: ", "text": "passage: "}
    assert FolderModel(str(write_model(tmp_path / "multilingual-e5-small"))).prefixes == e5
    described = write_model(tmp_path / "n")
    prompts = {"prompts": {"query": "Q: ", "document": "D: "}}
    (described / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert FolderModel(str(described)).prefixes == {"question": "Q: ", "text": "D: "}


def test_the_identity_of_a_model_changes_with_its_weights_and_settings(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", seed=1)
    first = find_model_id(str(folder))
    assert find_model_id(str(folder)) == first
    write_model(folder, seed=2)
    assert find_model_id(str(folder)) != first
    (folder / "1_Pooling").mkdir(exist_ok=True)
    found = {find_model_id(str(folder))}
    for name in ("1_Pooling/config.json", "sentence_bert_config.json"):
        before = stat_model(str(folder))
        (folder / name).write_text('{"pooling_mode_max_tokens": true, "max_seq_length": 7}')
        found.add(find_model_id(str(folder)))
        assert stat_model(str(folder)) != before
    assert len(found) == 3
    with pytest.raises(FileNotFoundError):
        find_model_id(str(tmp_path / "absent"))


def damage(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder


def test_what_is_no_model_is_refused_with_the_reason(tmp_path: Path) -> None:
    weights = (write_model(tmp_path / "m") / "model.safetensors").read_bytes()
    cases = {
        "is damaged": ("model.safetensors", b""),
        "is not complete": ("model.safetensors", b"\xff" * 8),
        "is damaged ": ("model.safetensors", weights[:-100]),
        "is no JSON": ("config.json", b"{"),
        "model_type is mpnet": ("config.json", b'{"model_type": "mpnet"}'),
        "does not fit config.json": ("config.json", b'{"model_type": "bert"}'),
        "has no [CLS]": ("vocab.txt", b"a\nb\n"),
        "module WeightedLayerPooling": (
            "modules.json",
            b'[{"type": "x.WeightedLayerPooling", "path": ""}]',
        ),
    }
    for number, (reason, (name, data)) in enumerate(cases.items()):
        folder = damage(write_model(tmp_path / f"m{number}"), name, data)
        with pytest.raises(ModelUnfit, match=reason.strip().replace("[", r"\[")):
            FolderModel(str(folder))


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnfit, match=r"no model\.safetensors"):
        find_model_id(str(folder))
    with pytest.raises(FileNotFoundError):
        FolderModel(str(folder))


def test_tensors_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    tensors = make_tensors(1)
    del tensors["encoder.layer.1.output.dense.bias"]
    write_tensors(folder / "model.safetensors", tensors)
    with pytest.raises(ModelUnfit, match=r"layer\.1\.output\.dense\.bias"):
        FolderModel(str(folder))


# --- WordPiece ----------------------------------------------------------------------------------

PIECES = "[PAD] [UNK] [CLS] [SEP] un ##believ ##able cafe , ! 東 京 Cafe".split()
VOCABULARY = {piece: number for number, piece in enumerate(PIECES)}


def cut(text: str, most: int = 99, *, is_lower: bool = True) -> list[str]:
    return [PIECES[one] for one in WordPiece(VOCABULARY, is_lower=is_lower).encode(text, most)]


def test_a_word_is_cut_into_the_longest_pieces_from_the_left() -> None:
    assert cut("unbelievable") == ["[CLS]", "un", "##believ", "##able", "[SEP]"]
    assert cut("unknown") == ["[CLS]", "[UNK]", "[SEP]"]


def test_case_accents_punctuation_and_ideographs_are_handled_as_by_bert() -> None:
    assert cut("CAFÉ,un!") == ["[CLS]", "cafe", ",", "un", "!", "[SEP]"]
    assert cut("Cafe cafe", is_lower=False) == ["[CLS]", "Cafe", "cafe", "[SEP]"]
    assert cut("東京") == ["[CLS]", "東", "京", "[SEP]"]
    assert cut("un\u200b\u0000believable\tun\u00a0un") == cut("unbelievable un un")


def test_a_long_text_keeps_its_beginning_and_its_last_piece() -> None:
    assert cut("un " * 50, most=4) == ["[CLS]", "un", "un", "[SEP]"]
    assert cut("unbelievable", most=3) == ["[CLS]", "un", "[SEP]"]


@given(st.text(max_size=60), st.integers(2, 20))
def test_any_text_gives_known_pieces_within_the_limit(text: str, most: int) -> None:
    pieces = WordPiece(VOCABULARY, is_lower=True).encode(text, most)
    assert 2 <= len(pieces) <= most
    assert pieces[0] == VOCABULARY["[CLS]"]
    assert pieces[-1] == VOCABULARY["[SEP]"]
    assert set(pieces) <= set(VOCABULARY.values())
