"""The contract of a programmer: a network that predicts what its method asks for.

States come in and predictions go out as numpy arrays; the network may be on another device. A row's prediction does not
depend on the rest of its batch. `predict`, `top_k` and `log_prob` make it a `methods.base.Policy`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from stepedit.config import TrainingConfig
from stepedit.data.states import States
from stepedit.editing.interpreter import FloatArray, Prediction
from stepedit.editing.sequences import IntArray, Sequences
from stepedit.errors import DataError, UserError
from stepedit.inference.model_folder import CONFIG, TOKENIZER, WEIGHTS, Tensors, read_shapes, read_tensors
from stepedit.methods.base import Method, Policy
from stepedit.programmers.nn.dropout import DropoutRng
from stepedit.text.vocabulary import Vocabulary

FOREIGN = f"these weights do not belong to the network that {CONFIG} describes"


class Programmer(nn.Module, ABC):
    """A network that reads states and predicts symbols of its method."""

    can_plan: ClassVar[bool] = False  # whether it can be trained on the edits after the next one

    @classmethod
    @abstractmethod
    def from_config(cls, method: Method, config: TrainingConfig) -> Self:
        """Return a network with new weights; UserError if it does not support the method."""

    @abstractmethod
    def forward(self, states: States, rng: DropoutRng | None = None) -> Tensor:
        """Return the mean loss on these states or, with an rng, the part of it that comes from its rows."""

    @abstractmethod
    def predict(self, texts: Sequences) -> Prediction:
        """Return the most probable prediction for each text."""

    @abstractmethod
    def top_k(self, texts: Sequences, k: int) -> tuple[IntArray, FloatArray]:
        """Return the k most probable actions (B, K, F) and their log-probabilities (B, K); for iterative methods."""

    @abstractmethod
    def log_prob(self, states: States) -> FloatArray:
        """Return the log-probability (B,) of what should be predicted for each state."""

    def reading(self, vocabulary: Vocabulary) -> Policy:
        """Return the policy for texts whose ids this vocabulary names; most need no names."""
        return self

    def read_tokenizer(self, path: Path) -> None:
        """Use the subword tokenizer of a file; for networks with a pretrained encoder."""

    def load_encoder(self, folder: Path) -> None:
        """Start from the weights of a pretrained encoder; for networks that have one."""

    @property
    def plans(self) -> bool:
        """Whether it was trained to predict, from one look at a text, the edits after the next one."""
        return False

    def plan(self, texts: Sequences, size: int) -> tuple[IntArray, FloatArray]:
        """Return up to `size` actions (B, N, F) of each text and their log-probabilities (B, N)."""
        raise UserError("this programmer has no plans: it predicts one action at a time")

    @classmethod
    def load(cls, folder: Path, method: Method, config: TrainingConfig) -> Programmer:
        """Return a network with the weights of a folder, ready to predict."""
        cls.require_weights(folder / WEIGHTS, method, config)
        net = cls.from_seed(0, method, config)
        load_weights(net, read_tensors(folder / WEIGHTS)[0], folder / WEIGHTS)
        if config.encoder_shape:
            net.read_tokenizer(folder / TOKENIZER)
        return net.eval()

    @classmethod
    def require_weights(cls, path: Path, method: Method, config: TrainingConfig) -> None:
        """Raise DataError if a file has not the weights of this network; its header is read and nothing allocated."""
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            expected = _shapes(cls.from_config(method, config))
        if expected != read_shapes(path):
            raise DataError(f"{path}: {FOREIGN}")

    @classmethod
    def from_seed(cls, seed: int, method: Method, config: TrainingConfig) -> Self:
        """Return a network with the initial weights of a seed; the global generator is not changed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls.from_config(method, config)

    @classmethod
    def graph(cls, method: Method, config: TrainingConfig, weights: Tensors, dtype: str) -> bytes:
        """Return the network with these weights, stored in `dtype`, as an ONNX graph; UserError if it has none."""
        raise UserError(f"the programmer {config.programmer!r} has no graph; it edits with PyTorch only")

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def num_parameters(self) -> int:
        """The number of trained weights."""
        return sum(parameter.numel() for parameter in self.parameters())

    def tensors(self, texts: Sequences) -> tuple[Tensor, Tensor]:
        """Return ids (B, T) and lengths (B,) on the network's device."""
        return torch.from_numpy(texts.ids).to(self.device), torch.from_numpy(texts.lengths).to(self.device)


def _shapes(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}


def load_weights(net: nn.Module, tensors: Tensors, path: Path) -> None:
    """Load weights into a network; DataError if they belong to another one."""
    if _shapes(net) != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise DataError(f"{path}: {FOREIGN}")
    net.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})


def weights_of(net: nn.Module) -> Tensors:
    """Return the weights of a network as arrays."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in net.state_dict().items()}
