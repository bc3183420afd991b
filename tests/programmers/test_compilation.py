"""A compiled network predicts the same as an uncompiled one, and without a compiler nothing changes."""

import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor

from stepedit.editing.interpreter import Prediction
from stepedit.editing.sequences import Sequences
from stepedit.errors import UserError
from stepedit.inference.editor import Editor
from stepedit.programmers.compilation import Compiled, find_compiler
from stepedit.programmers.pointer import Pointer
from stepedit.registry import TASKS
from tests.programmers.test_contract import make

LENGTHS = [2, 3, 4, 9, 12, 13, 30]


def random_text(net: Pointer, length: int) -> Sequences:
    """One text of this length."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(1, net.token_embedding.size, (1, length + 3), generator=generator)[:, :length]
    return Sequences(ids.numpy(), np.array([length]))


def assert_same(one: Prediction, other: Prediction) -> None:
    np.testing.assert_allclose(np.exp(one.log_probs), np.exp(other.log_probs), atol=1e-5, rtol=1e-4)
    assert np.array_equal(one.symbols, other.symbols)


def unreachable(ids_BT: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    raise AssertionError("the graph does not fit this text")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail wherever a compiled network would fall back to eager mode."""
    set_stance = torch.compiler.set_stance
    monkeypatch.setattr(torch.compiler, "set_stance", lambda stance: set_stance("fail_on_recompile"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("strict")
def test_every_pointer_can_be_traced_and_predicts_the_same(task: str) -> None:
    _, net = make("pointer", {}, "recurrence", task)
    assert isinstance(net, Pointer)
    expected = [net.predict(random_text(net, length)) for length in LENGTHS]
    net.compiled = Compiled(net.most_probable, backend="eager")
    net.compiled.warm_up()
    for length, prediction in zip(LENGTHS, expected, strict=True):
        assert_same(net.predict(random_text(net, length)), prediction)


@pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
@pytest.mark.usefixtures("strict")
def test_one_graph_serves_texts_of_all_lengths_in_any_thread() -> None:
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    expected = [net.predict(random_text(net, length)) for length in LENGTHS]
    assert net.train().compile_for_inference()
    with ThreadPoolExecutor(4) as pool:
        for length, prediction in zip(LENGTHS, expected, strict=True):
            text = random_text(net, length)
            assert net.compiled is not None
            assert net.compiled.fits(torch.from_numpy(text.ids))
            for future in [pool.submit(net.predict, text) for _ in range(20)]:
                assert_same(future.result(), prediction)
    assert deepcopy(net).compiled is None
    net.train()
    with pytest.raises(RuntimeError, match="fail_on_recompile"):
        net.predict(random_text(net, 4))  # the graph is that of evaluation mode; a server would run eagerly instead


def test_the_global_compiler_stance_is_restored() -> None:
    """Threads that predict at the same time must not leave their compiler stance behind."""
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    net.compiled = Compiled(net.most_probable, backend="eager")
    net.compiled.warm_up()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: net.predict(random_text(net, 5)), range(100)))
    graphs = list[object]()

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert graphs


@pytest.mark.parametrize("shape", [(1, 0), (1, 1), (2, 5)])
def test_a_batch_that_the_graph_does_not_fit_is_predicted_eagerly(shape: tuple[int, int]) -> None:
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    texts = Sequences(np.ones(shape, np.int64), np.full(shape[0], shape[1]))
    expected = net.predict(texts)
    net.compiled = Compiled(unreachable)
    assert not net.compiled.fits(torch.from_numpy(texts.ids))
    assert_same(net.predict(texts), expected)


def test_without_a_compiler_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    _, net = make("pointer", {}, "recurrence")
    assert isinstance(net, Pointer)
    assert not net.compile_for_inference()
    assert net.compiled is None


def test_networks_that_cannot_be_compiled_return_false() -> None:
    assert not make("seq2seq", {}, "recurrence")[1].compile_for_inference()
    assert not make("pointer", {"architecture": "gru"}, "recurrence")[1].compile_for_inference()


def test_a_failing_compiler_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Compiled) -> None:
        raise RuntimeError("C++ compile error\n\nCommand: ...")

    monkeypatch.setattr(Compiled, "warm_up", fail)
    monkeypatch.setenv("CXX", sys.executable)
    editor = Editor.load("aor")
    with pytest.raises(UserError, match=r"^the network could not be compiled: C\+\+ compile error$"):
        editor.compile()
    assert editor.edit(["6 10 9 5 2"])[0].text == "6 + 10 - 9 - 5 == 2"
