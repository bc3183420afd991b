"""Pretrained encoders: a Hugging Face folder (config.json, model.safetensors, tokenizer.json) or a name on the Hub.

Read here: the shape of the network, its weights, and where its tokenizer is. No code of a folder is run and nothing is
unpickled. Models of the families BERT and RoBERTa have the layers of `nn.bert`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stepedit.config import EncoderShape, checked
from stepedit.errors import DataError, UserError, located, shown
from stepedit.files import read_json
from stepedit.inference import hub
from stepedit.inference.model_folder import TOKENIZER, Tensors, read_shapes, read_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FAMILIES = {"bert": 0, "roberta": 1, "xlm-roberta": 1, "camembert": 1}  # whether positions start behind the padding id
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def locate(name: str) -> Path:
    """Return the folder of an encoder: a local one, or the downloaded copy of one on the Hub."""
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise UserError(f"{name}: no such folder; an encoder is a Hugging Face folder or a name on the Hub")
        folder = hub.download(name, [CONFIG, WEIGHTS, TOKENIZER])
    for file in (CONFIG, WEIGHTS, TOKENIZER):
        if not (folder / file).exists():
            raise DataError(f"{folder}: no {file}; an encoder's folder has {CONFIG}, {WEIGHTS} and {TOKENIZER}")
    return folder


def read_shape(folder: Path) -> EncoderShape:
    """Return the shape of an encoder; UserError if it is of another kind."""
    path = folder / CONFIG
    config: Any = read_json(path)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UserError(f"{path}: an encoder of the family {' or '.join(FAMILIES)} is needed, not {kind!r}")
    if config.get("is_decoder"):
        raise UserError(f"{path}: a decoder; an encoder is needed")
    if config.get("hidden_act", "gelu") != "gelu":
        raise UserError(f"{path}: its activations are {shown(str(config['hidden_act']))}, and only gelu is supported")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise UserError(f"{path}: only absolute positions are supported")
    names = {"vocab_size": "vocab_size", "hidden_size": "hidden_size", "num_hidden_layers": "num_layers"}
    names |= {"num_attention_heads": "num_heads", "intermediate_size": "intermediate_size"}
    names |= {"max_position_embeddings": "num_positions", "type_vocab_size": "type_vocab_size"}
    values = {ours: config[theirs] for theirs, ours in names.items() if theirs in config}
    padding = config.get("pad_token_id", 1) if FAMILIES[kind] else -1
    if not isinstance(padding, int):
        raise UserError(f"{path}: pad_token_id is a number, not {padding!r}")
    first = padding + 1
    values |= {"first_position": first, "layer_norm_eps": config.get("layer_norm_eps", 1e-12)}
    with located(str(path)):
        shape = checked(EncoderShape, values)
    _require_large_weights(folder, shape)
    return shape


def _require_large_weights(folder: Path, shape: EncoderShape) -> None:
    """Raise DataError if the file, by its header, has not the large matrices of a shape; nothing is allocated yet."""
    found = {_own_name(name): size for name, size in read_shapes(folder / WEIGHTS).items()}
    wanted = {"embeddings.word_embeddings.weight": (shape.vocab_size, shape.hidden_size)}
    for layer in range(shape.num_layers):
        wanted[f"encoder.layer.{layer}.intermediate.dense.weight"] = shape.intermediate_size, shape.hidden_size
    for name, size in wanted.items():
        if found.get(name) != size:
            raise _missing(folder / WEIGHTS, name, size)


def _missing(path: Path, name: str, size: tuple[int, ...]) -> DataError:
    return DataError(f"{path}: no weights {name!r} of shape {list(size)}, which {CONFIG} asks for")


def read_weights(folder: Path, expected: dict[str, tuple[int, ...]]) -> Tensors:
    """Return the weights of these names and shapes, in float32; DataError if the folder has not all of them."""
    path = folder / WEIGHTS
    named = {_own_name(name): name for name in read_shapes(path)}
    tensors, _ = read_tensors(path)
    found = {name: tensors[named[name]] for name in expected if name in named}
    for name, shape in expected.items():
        if name not in found or found[name].shape != shape:
            raise _missing(path, name, shape)
    return {name: np.asarray(tensor, np.float32) for name, tensor in found.items()}


def _own_name(name: str) -> str:
    """Return the name of a weight in `nn.bert`."""
    for family in ("bert.", "roberta."):
        name = name.removeprefix(family)
    for old, new in OLD_NAMES.items():
        name = name.replace(old, new)
    return name
