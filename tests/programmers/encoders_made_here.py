"""Tiny encoders as Hugging Face folders, made on the spot: random weights, a tokenizer trained on a few lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from stepedit.config import EncoderShape
from stepedit.inference.model_folder import write_tensors
from stepedit.programmers.base import weights_of
from stepedit.programmers.nn.bert import Bert

LINES = ["the cat sat on the mat", "a dog walks and a dog walked", "The END of it, no wait", "don't you see"]


def make_encoder(folder: Path, kind: str, num_positions: int = 64) -> Path:
    """Write the folder of a tiny encoder: `bert` (uncased, drops spaces) or `roberta` (bytes, lossless)."""
    folder.mkdir(parents=True)
    tokenizer = _bert_tokenizer() if kind == "bert" else _roberta_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {"model_type": kind, "vocab_size": tokenizer.get_vocab_size(), "hidden_size": 16}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "pad_token_id": 1}
    config |= {"max_position_embeddings": num_positions, "type_vocab_size": 2, "layer_norm_eps": 1e-5}
    (folder / "config.json").write_text(json.dumps(config))
    shape = EncoderShape(
        vocab_size=config["vocab_size"],
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=24,
        num_positions=num_positions,
        type_vocab_size=2,
    )
    rng = np.random.default_rng(0)
    weights = {
        f"{kind}.{name}": rng.normal(0, 0.2, tensor.shape).astype(np.float16)
        for name, tensor in weights_of(Bert(shape, 0.0)).items()
    }
    write_tensors(folder / "model.safetensors", weights, {})
    return folder


def _bert_tokenizer() -> Any:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def _roberta_tokenizer() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(LINES, trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return tokenizer
