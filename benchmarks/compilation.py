"""What compiling brings, and where it brings nothing: `python -m benchmarks.compiling`; needs a C++ compiler.

Milliseconds, as they are and compiled, in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.programmers import PROGRAMMERS, interleaved, trainer
from stepedit.programmers.compiling import Compiled
from stepedit.programmers.layers import Memory, TransformerEncoder
from stepedit.programmers.pointer import Pointer

TOKENS = 10
BATCH = 256


def reading() -> None:
    """An action for each of some texts, by a small pointer."""
    net = trainer(PROGRAMMERS["small"], numbers=10, length=5).net.eval()
    assert isinstance(net, Pointer)
    compiled = torch.inference_mode()(Compiled(net.likeliest).reading)
    for texts in (1, 4, 16, 64, 256):
        given = torch.ones(texts, TOKENS, dtype=torch.long), torch.full((texts,), TOKENS)
        show(
            f"reading {texts} text{'s' * (texts > 1)}", partial(net.write, *given), partial(compiled, *given), rounds=31
        )


def teaching() -> None:
    """Forth and back through an encoder of four layers of 128."""
    encoder = TransformerEncoder(128, 4, 4, 0.0, TOKENS)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.1)
    compiled = torch.compile(encoder)
    given = torch.randn(BATCH, TOKENS, 128), torch.ones(BATCH, TOKENS, dtype=torch.bool)

    def back(net: Callable[..., Memory]) -> None:
        net(*given).states.square().sum().backward()  # type: ignore[no-untyped-call]

    show("teaching a Transformer, hidden 128", partial(back, encoder), partial(back, compiled), rounds=9)


def recurrent(hidden: int) -> None:
    """Forth and back through an LSTM in both directions: the library's, and step by step with both in one product."""
    library = nn.ModuleList(nn.LSTM(hidden, hidden, batch_first=True) for _ in range(2))
    weights = [torch.randn(2, hidden, 4 * hidden) * hidden**-0.5 for _ in range(2)]
    for weight in weights:
        weight.requires_grad_()
    given = torch.randn(2, BATCH, TOKENS, hidden, requires_grad=True)
    unrolled = torch.compile(steps)

    def usual() -> None:
        torch.stack([layer(given[index])[0] for index, layer in enumerate(library)]).sum().backward()  # type: ignore[no-untyped-call]

    def step_by_step() -> None:
        unrolled(given, *weights).sum().backward()  # type: ignore[no-untyped-call]

    show(f"teaching an LSTM, hidden {hidden}", usual, step_by_step, rounds=7)


def steps(given_DBTH: Tensor, inner_DHG: Tensor, again_DHG: Tensor) -> Tensor:
    """(D, T, B, H) the states of an LSTM in D directions."""
    hidden_DBH = given_DBTH.new_zeros(given_DBTH[:, :, 0].shape)
    cell_DBH, said = hidden_DBH, []
    gates_DBTG = (given_DBTH.flatten(1, 2) @ inner_DHG).view(*given_DBTH.shape[:3], -1)
    for place in range(given_DBTH.shape[2]):
        into, keep, new, out = torch.baddbmm(gates_DBTG[:, :, place], hidden_DBH, again_DHG).chunk(4, 2)
        cell_DBH = keep.sigmoid() * cell_DBH + into.sigmoid() * new.tanh()
        hidden_DBH = out.sigmoid() * cell_DBH.tanh()
        said.append(hidden_DBH)
    return torch.stack(said, 1)


def show(what: str, usual: Callable[[], object], compiled: Callable[[], object], rounds: int) -> None:
    """One line; the first round, in which it is compiled, does not count."""
    taken = interleaved({"usual": usual, "compiled": compiled}, rounds)
    ratio = taken["usual"] / taken["compiled"]
    print(
        f"{what:<36} {1e3 * taken['usual']:7.1f} ms   compiled {1e3 * taken['compiled']:7.1f} ms   {ratio:.2f} x",
        flush=True,
    )


if __name__ == "__main__":
    torch.set_flush_denormal(True)
    reading()
    teaching()
    for size in (128, 512):
        recurrent(size)
