"""Compiled or not, a programmer says the same; and without a compiler it says it, too."""

import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from stepedit.editor import Editor
from stepedit.errors import UserError
from stepedit.methods.method import Said
from stepedit.programmers.compiling import Compiled, compiler
from stepedit.programmers.pointer import Pointer
from stepedit.registry import TASKS
from tests.programmers.test_contract import make

SIZES = [2, 3, 4, 9, 12, 13, 30]


def text(net: Pointer, size: int) -> tuple[Tensor, Tensor]:
    """Of so many tokens."""
    draw = torch.Generator().manual_seed(size)
    return torch.randint(1, net.read.size, (1, size + 3), generator=draw)[:, :size], torch.tensor([size])


def agree(one: Said, other: Said) -> None:
    torch.testing.assert_close(one.confidence, other.confidence, atol=1e-5, rtol=1e-4)
    assert torch.equal(one.symbols, other.symbols)


def never(ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    raise AssertionError("there is no graph for this")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would be left to the eager way fails."""
    real = torch.compiler.set_stance
    monkeypatch.setattr(torch.compiler, "set_stance", lambda stance: real("fail_on_recompile"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("strict")
def test_every_pointer_can_be_traced_and_says_the_same(task: str) -> None:
    _, net = make("pointer", {}, "recurrence", task)
    assert isinstance(net, Pointer)
    expected = [net.write(*text(net, size)) for size in SIZES]
    net.compiled = Compiled(net.likeliest, backend="eager")
    net.compiled.warm_up()
    for size, said in zip(SIZES, expected, strict=True):
        agree(net.write(*text(net, size)), said)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
@pytest.mark.usefixtures("strict")
def test_one_graph_does_for_texts_of_all_lengths_in_any_thread() -> None:
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    expected = [net.write(*text(net, size)) for size in SIZES]
    assert net.train().speed_up()
    with ThreadPoolExecutor(4) as pool:
        for size, said in zip(SIZES, expected, strict=True):
            given = text(net, size)
            assert net.compiled is not None
            assert net.compiled.fits(given[0])
            for other in [pool.submit(net.write, *given) for _ in range(20)]:
                agree(other.result(), said)
    assert deepcopy(net).compiled is None
    net.train()
    with pytest.raises(RuntimeError, match="fail_on_recompile"):
        net.write(*text(net, 4))  # the graph is that of editing; a server would go on without it


def test_what_torch_does_elsewhere_is_left_alone() -> None:
    """Threads that read at the same time must not leave behind what they told torch to do meanwhile."""
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    net.compiled = Compiled(net.likeliest, backend="eager")
    net.compiled.warm_up()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: net.write(*text(net, 5)), range(100)))
    made = list[object]()

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        made.append(graph)
        return graph

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert made


@pytest.mark.parametrize("shape", [(1, 0), (1, 1), (2, 5)])
def test_what_there_is_no_graph_for_is_read_as_before(shape: tuple[int, int]) -> None:
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    ids = torch.ones(shape, dtype=torch.long)
    said = net.write(ids, torch.full(shape[:1], shape[1]))
    net.compiled = Compiled(never)
    assert not net.compiled.fits(ids)
    agree(net.write(ids, torch.full(shape[:1], shape[1])), said)


def test_without_a_compiler_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    assert not net.speed_up()
    assert net.compiled is None


def test_what_has_nothing_to_compile_says_so() -> None:
    assert not make("seq2seq", {}, "recurrence")[1].speed_up()
    assert not make("pointer", {"cell": "gru"}, "recurrence")[1].speed_up()


def test_a_compiler_that_fails_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Compiled) -> None:
        raise RuntimeError("C++ compile error\n\nCommand: ...")

    monkeypatch.setattr(Compiled, "warm_up", fail)
    monkeypatch.setenv("CXX", sys.executable)
    editor = Editor.load("aor")
    with pytest.raises(UserError, match=r"^the programmer could not be compiled: C\+\+ compile error$"):
        editor.speed_up()
    assert editor.edit(["6 10 9 5 2"])[0].text == "6 + 10 - 9 - 5 == 2"
