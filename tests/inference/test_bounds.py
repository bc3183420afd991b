"""A downloaded folder that asks for too much is refused in one line, at once, before memory is taken."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from stepedit import train
from stepedit.errors import DataError
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.inference.onnx_runtime import GRAPH_FORMAT
from stepedit.training import checkpoint

LOAD = """
import resource, sys, time
import onnxruntime
from stepedit.inference.editor import Editor
_, folder, uses = sys.argv
if uses == "torch":
    from stepedit.programmers import pointer
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
try:
    editor = Editor.load(folder)
    if uses == "edit":
        editor.edit(["3 2"])
    print("loaded")
except ValueError as error:
    print(error)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown // 1024, time.monotonic() - began)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of own text."""
    folder = tmp_path_factory.mktemp("bounds")
    (folder / "pairs.tsv").write_text("".join(f"teh {word}\tthe {word}\n" for word in map(str, range(40))))
    small = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "batch_size": 8, "max_epochs": 1}
    train("text", out=folder / "run", data=str(folder / "pairs.tsv"), **small)
    return folder / "run"


def copied(trained: Path, folder: Path, change: Callable[[dict[str, Any]], Any], graph: bool) -> Path:
    """Return a copy of a run, with or without its graph, whose configuration is changed."""
    folder.mkdir()
    for name in ("config.json", "vocabulary.json", "model.safetensors", *(["model.onnx"] * graph)):
        (folder / name).write_bytes((trained / name).read_bytes())
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def load(folder: Path, uses: str = "") -> tuple[str, int]:
    """Load a folder in another process; return what it says, and by how many MB the memory grew."""
    made = subprocess.run([sys.executable, "-c", LOAD, folder, uses], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    *message, figures = made.stdout.splitlines()
    assert len(message) == 1, message
    grown, seconds = figures.split()
    assert float(seconds) < 20
    return message[0], int(grown)


def args(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda config: config["task_args"].update(values)


def training(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda config: config["training"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (args(max_target_length=10**9), "task text: max_target_length: must be at most 4096"),
        (args(max_window_edits=10**9), "task text: max_window_edits: must be at most 4096"),
        (
            args(known_tokens=[f"token{i}" for i in range(200_000)]),
            "task text: known_tokens: Tuple should have at most",
        ),
        (args(known_tokens=[f"token{i}" for i in range(3_300_000)]), "bytes are too many; 16,777,216 is the limit"),
        (lambda config: config.update(max_epochs=10**12), "max_epochs: must be at most"),
        (training(batch_size=10**12), "training.batch_size: must be at most"),
    ],
    ids=["target", "edits", "tokens", "50 MB of tokens", "epochs", "batch"],
)
def test_a_configuration_that_asks_for_too_much_is_refused(
    change: Callable[[dict[str, Any]], Any], message: str, trained: Path, tmp_path: Path
) -> None:
    said, grown = load(copied(trained, tmp_path / "run", change, graph=True))
    assert message in said
    assert len(said) < 500
    assert grown < 200


@pytest.mark.parametrize("size", [{"hidden_size": 4096, "num_layers": 24}, {"hidden_size": 32}])
def test_a_network_that_is_larger_than_its_weights_is_not_built(
    size: dict[str, int], trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path / "run", training(**size), graph=False)
    said, grown = load(folder, "torch")
    assert "these weights do not belong to the network" in said
    assert grown < 200
    with pytest.raises(DataError, match="these weights do not belong to the network"):
        model_folder.make_graph(folder, "float16")


def bomb(nodes: list[Any], constants: dict[str, Any], inputs: list[Any] | None = None) -> bytes:
    """Return a small graph whose nodes make a large `big`, as the graph of a pointer programmer."""
    kinds = {"ids": ["B", "T"], "lengths": ["B"], "k": [1]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, kinds[name]) for name in kinds] + (inputs or [])
    outputs = [
        helper.make_tensor_value_info("actions", TensorProto.INT64, None),
        helper.make_tensor_value_info("log_probs", TensorProto.FLOAT, None),
    ]
    last = [helper.make_node("Identity", ["big"], ["actions"]), helper.make_node("Cast", ["big"], ["log_probs"], to=1)]
    stored = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph([*nodes, *last], "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, {"stepedit_format": str(GRAPH_FORMAT), "kind": "pointer", "parameters": "3"})
    return bytes(model.SerializeToString())


def doubled(times: int) -> bytes:
    """Return a graph that doubles a constant of 8 KB so many times."""
    nodes = [helper.make_node("Concat", [f"x{i}", f"x{i}"], [f"x{i + 1}"], axis=0) for i in range(times)]
    return bomb([*nodes, helper.make_node("Identity", [f"x{times}"], ["big"])], {"x0": np.arange(1024)})


HUGE = helper.make_tensor_value_info("unused", TensorProto.FLOAT, [10**10])


ONE = numpy_helper.from_array(np.array([1]), "one")
ZEROS = helper.make_node("ConstantOfShape", ["n"], ["big"], value=ONE)
EXPANDED, SAME = helper.make_node("Expand", ["x", "n"], ["big"]), helper.make_node("Identity", ["ids"], ["big"])


@pytest.mark.parametrize(
    ("graph", "uses", "message"),
    [
        (bomb([ZEROS], {"n": [10**10]}), "edit", "the graph cannot be run"),
        (bomb([EXPANDED], {"n": [10**10], "x": [1]}), "edit", "the graph cannot be run"),
        (bomb([SAME], {}, [HUGE]), "edit", "the input 'unused' is too large"),
        (bomb([SAME], {}), "edit", "an output of another shape than the task's"),
        (doubled(18), "", "loaded"),  # computed while it is loaded: 4 GB
    ],
    ids=["ConstantOfShape", "Expand", "input", "output", "Concat"],
)
def test_a_small_graph_cannot_take_all_memory(
    graph: bytes, uses: str, message: str, trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path / "run", lambda config: None, graph=True)
    (folder / "model.onnx").write_bytes(graph)
    said, grown = load(folder, uses)
    assert message in said
    assert grown < 200


@pytest.mark.parametrize("facts", [{"parameters": "many"}, {"parameters": "9" * 5_000}, {"parameters": ""}])
def test_a_graph_with_damaged_facts_is_one_line(facts: dict[str, str], trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path / "run", lambda config: None, graph=True)
    model = onnx.load(str(folder / "model.onnx"))
    helper.set_model_props(model, {each.key: each.value for each in model.metadata_props} | facts)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(DataError, match="no number 'parameters' among its facts"):
        Editor.load(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' + "9" * 10_000 + "}"])
def test_hostile_json_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DataError, match="damaged"):
        Editor.load(tmp_path)


@pytest.mark.parametrize("line", ["[" * 100_000, "9" * 6_000, "3", "{}", '{"step": null, "epoch": 1, "seconds": 1}'])
def test_damaged_validations_are_one_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"metrics\.jsonl: damaged"):
        model_folder.read_metrics(tmp_path)


@pytest.mark.parametrize("facts", ["[" * 100_000, "9" * 6_000, "[]", '"x"'])
def test_damaged_facts_of_tensors_are_one_line(facts: str, tmp_path: Path) -> None:
    save_file({"w": np.zeros(2, np.float32)}, tmp_path / "checkpoint.safetensors", {"facts": facts})
    with pytest.raises(DataError, match=r"checkpoint\.safetensors: damaged"):
        model_folder.read_tensors(tmp_path / "checkpoint.safetensors")
    with pytest.raises(DataError, match=r"checkpoint\.safetensors: damaged"):
        model_folder.is_finished(tmp_path)


@pytest.mark.parametrize("state", ["x", [], {"step": "1"}, {"steps": 1}, {"step": None}, None])
def test_a_checkpoint_that_does_not_say_where_the_run_stood_is_refused(state: object, tmp_path: Path) -> None:
    facts = {"state": state, "buffer_epoch": -1}
    save_file({"w": np.zeros(2, np.float32)}, tmp_path / "checkpoint.safetensors", {"facts": json.dumps(facts)})
    assert not model_folder.is_finished(tmp_path)
    with pytest.raises(DataError, match="it does not say where the run stood"):
        checkpoint.unpack_facts(tmp_path / "checkpoint.safetensors", facts)


def test_a_card_that_is_not_utf8_is_no_reason_to_fail(trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path / "run", lambda config: None, graph=True)
    (folder / "README.md").write_bytes(b"\xff\xfe## x")
    assert model_folder.export(folder, tmp_path / "out") > 0
