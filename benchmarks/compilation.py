"""What compiling with PyTorch gains, and where it gains nothing: `python -m benchmarks.compilation`.

Needs a C++ compiler. Prints milliseconds, eager and compiled, interleaved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.programmers import SMALL, make_trainer
from benchmarks.timing import Job, interleaved
from stepedit.editing.sequences import Sequences
from stepedit.programmers import runtime
from stepedit.programmers.compilation import Compiled
from stepedit.programmers.nn.attention import EncoderOutput
from stepedit.programmers.nn.transformer import TransformerEncoder
from stepedit.programmers.pointer import Pointer

TOKENS = 10
BATCH = 256


def prediction() -> None:
    """Compare predictions for several numbers of texts, with preset small."""
    net = make_trainer(SMALL).net.eval()
    assert isinstance(net, Pointer)
    compiled = torch.inference_mode()(Compiled(net.most_probable).predict)
    for count in (1, 4, 16, 64, 256):
        texts = Sequences(np.ones((count, TOKENS), np.int64), np.full(count, TOKENS))
        title = f"prediction, {count} text{'s' * (count > 1)}"
        compare(title, partial(net.predict, texts), partial(compiled, *net.tensors(texts)), rounds=31)


def transformer_training() -> None:
    """Compare forward and backward passes of a Transformer encoder with four layers of 128."""
    encoder = TransformerEncoder(128, 4, 4, 0.0, TOKENS)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.1)
    compiled = torch.compile(encoder)
    inputs = torch.randn(BATCH, TOKENS, 128), torch.ones(BATCH, TOKENS, dtype=torch.bool)

    def forward_backward(net: Callable[..., EncoderOutput]) -> None:
        net(*inputs).states.square().sum().backward()  # type: ignore[no-untyped-call]

    eager_job, compiled_job = partial(forward_backward, encoder), partial(forward_backward, compiled)
    compare("training, Transformer, hidden size 128", eager_job, compiled_job, rounds=9)


def lstm_training(hidden_size: int) -> None:
    """Compare a bidirectional LSTM: `nn.LSTM`, and a compiled loop with one matrix product for both directions."""
    library = nn.ModuleList(nn.LSTM(hidden_size, hidden_size, batch_first=True) for _ in range(2))
    weights = [torch.randn(2, hidden_size, 4 * hidden_size) * hidden_size**-0.5 for _ in range(2)]
    for weight in weights:
        weight.requires_grad_()
    inputs = torch.randn(2, BATCH, TOKENS, hidden_size, requires_grad=True)
    compiled = torch.compile(unrolled_lstm)

    def run_library() -> None:
        torch.stack([layer(inputs[index])[0] for index, layer in enumerate(library)]).sum().backward()  # type: ignore[no-untyped-call]

    def run_compiled() -> None:
        compiled(inputs, *weights).sum().backward()  # type: ignore[no-untyped-call]

    compare(f"training, LSTM, hidden size {hidden_size}", run_library, run_compiled, rounds=7)


def unrolled_lstm(inputs_DBTH: Tensor, input_weight_DHG: Tensor, hidden_weight_DHG: Tensor) -> Tensor:
    """Return the states (D, T, B, H) of an LSTM in D directions; G = 4H gates."""
    hidden_DBH = inputs_DBTH.new_zeros(inputs_DBTH[:, :, 0].shape)
    cell_DBH, states = hidden_DBH, []
    gates_DBTG = (inputs_DBTH.flatten(1, 2) @ input_weight_DHG).view(*inputs_DBTH.shape[:3], -1)
    for position in range(inputs_DBTH.shape[2]):
        gates_DBG = torch.baddbmm(gates_DBTG[:, :, position], hidden_DBH, hidden_weight_DHG)
        input_gate, forget_gate, candidate, output_gate = gates_DBG.chunk(4, 2)
        cell_DBH = forget_gate.sigmoid() * cell_DBH + input_gate.sigmoid() * candidate.tanh()
        hidden_DBH = output_gate.sigmoid() * cell_DBH.tanh()
        states.append(hidden_DBH)
    return torch.stack(states, 1)


def compare(title: str, eager: Job, compiled: Job, rounds: int) -> None:
    """Print one line; the warm-up round, which compiles, does not count."""
    times = interleaved({"eager": eager, "compiled": compiled}, rounds)
    ratio = times["eager"] / times["compiled"]
    both = f"{1e3 * times['eager']:7.1f} ms   compiled {1e3 * times['compiled']:7.1f} ms"
    print(f"{title:<40} {both}   {ratio:.2f} x", flush=True)


if __name__ == "__main__":
    runtime.flush_denormals()
    prediction()
    transformer_training()
    for size in (128, 512):
        lstm_training(size)
