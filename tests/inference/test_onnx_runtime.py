"""Graph files: what is refused, and how they are found."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from stepedit.errors import DataError, UserError
from stepedit.inference import model_folder, onnx_runtime
from stepedit.inference.editor import Editor
from stepedit.inference.onnx_runtime import GRAPH_FORMAT, available_threads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of an included model."""
    return Path(shutil.copytree(model_folder.find("aor"), tmp_path / "aor"))


def changed(folder: Path, **facts: str) -> None:
    """Change the metadata of a graph."""
    model = onnx.load(str(folder / model_folder.GRAPH))
    known = {each.key: each.value for each in model.metadata_props}
    helper.set_model_props(model, known | facts)
    (folder / model_folder.GRAPH).write_bytes(model.SerializeToString())


def foreign(folder: Path) -> None:
    """Put a graph of something else there."""
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [info], [info])
    graph.output[0].name = "y"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (folder / model_folder.GRAPH).write_bytes(model.SerializeToString())


def external(folder: Path) -> None:
    """Let a weight refer to a file outside the folder."""
    model = onnx.load(str(folder / model_folder.GRAPH))
    weight = model.graph.initializer[0]
    (folder.parent / "outside.bin").write_bytes(b"\0" * 1_000_000)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../outside.bin")
    (folder / model_folder.GRAPH).write_bytes(model.SerializeToString())


def custom(folder: Path) -> None:
    """Use an operator that is not a standard one."""
    model = onnx.load(str(folder / model_folder.GRAPH))
    model.graph.node[0].domain = "somewhere.else"
    model.opset_import.append(helper.make_opsetid("somewhere.else", 1))
    (folder / model_folder.GRAPH).write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.onnx").write_bytes(b"garbage"), "model.onnx: damaged"),
        (lambda folder: (folder / "model.onnx").write_bytes(b""), "model.onnx: "),
        (lambda folder: (folder / "model.onnx").unlink(), "no model here"),
        (lambda folder: changed(folder, stepedit_format="99"), "not a graph of this version"),
        (lambda folder: changed(folder, kind="oracle"), "a graph of kind 'oracle'"),
        (lambda folder: changed(folder, order_free="1"), "not a graph of this version"),  # it has no confidences
        (foreign, "not a graph of this version"),
        (external, "model.onnx: damaged"),
        (custom, "model.onnx: damaged"),
    ],
)
def test_a_graph_that_cannot_be_used_is_one_line(damage: object, message: str, folder: Path) -> None:
    damage(folder)  # type: ignore[operator]
    with pytest.raises(DataError, match=message) as caught:
        Editor.load(folder)
    assert "\n" not in str(caught.value)


def test_an_exported_model_cannot_be_resumed_and_can_be_exported_again(folder: Path, tmp_path: Path) -> None:
    assert model_folder.is_exported(folder)
    assert model_folder.is_finished(folder)
    with pytest.raises(UserError, match="a graph in float16 and no weights"):
        model_folder.export(folder, tmp_path / "again", "float32")
    assert not (tmp_path / "again").exists()
    model_folder.export(folder, tmp_path / "again")
    assert (tmp_path / "again" / "model.onnx").read_bytes() == (folder / "model.onnx").read_bytes()


def test_weights_without_torch_name_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / model_folder.GRAPH).unlink()
    (folder / model_folder.WEIGHTS).write_bytes(b"anything")
    monkeypatch.setattr("stepedit.inference.editor.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'stepedit\[train\]'"):
        Editor.load(folder)


def test_the_number_of_threads_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert available_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert available_threads() >= 1
    monkeypatch.setattr(onnx_runtime.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert available_threads() == 1
    one = Editor.load("aor", num_threads=1).edit(["6 10 9 5 2"])[0].text
    assert one == Editor.load("aor", num_threads=4).edit(["6 10 9 5 2"])[0].text


def test_the_format_is_in_every_included_graph() -> None:
    for name in model_folder.shipped_models():
        facts = onnx_runtime.Graph(model_folder.find(name) / model_folder.GRAPH).facts
        assert facts["stepedit_format"] == str(GRAPH_FORMAT)
        assert int(facts["parameters"]) > np.prod([100, 100])
