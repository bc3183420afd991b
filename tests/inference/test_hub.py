"""Models to and from the hub, with a folder in place of the hub."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from stepedit.errors import DataError, UserError
from stepedit.inference.editor import Editor
from stepedit.training.run import train

hub = pytest.importorskip("huggingface_hub")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "sort"
    small = {"hidden_size": 16, "num_heads": 2, "num_layers": 1, "batch_size": 16}
    train("sort", out=folder, max_epochs=1, numbers=9, length=3, num_examples=80, **small)
    return folder


def test_a_pushed_model_can_be_pulled_and_edits_the_same(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[Any] = []

    def upload(self: object, repo_id: str, folder_path: Path, allow_patterns: list[str]) -> str:
        shutil.copytree(folder_path, tmp_path / repo_id, ignore=lambda _, names: set(names) - set(allow_patterns))
        return f"https://example.org/{repo_id}"

    monkeypatch.setattr(hub.HfApi, "create_repo", lambda self, name, **options: created.append((name, options)))
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **options: str(tmp_path / name))
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "keep.txt").write_text("word\n")  # words that stay belong to a model
    editor = Editor.load(copy)
    assert editor.push_to_hub("me/sort").endswith("me/sort")
    assert created == [("me/sort", {"private": True, "exist_ok": True})]
    names = {path.name for path in (tmp_path / "me" / "sort").iterdir()}
    assert names == {"config.json", "vocabulary.json", "model.onnx", "README.md", "trained-on.safetensors", "keep.txt"}
    texts = ["3 2 1", "1 2 3"]
    pulled = Editor.from_pretrained("me/sort")
    assert [one.text for one in pulled.edit(texts)] == [one.text for one in editor.edit(texts)]


def test_a_local_folder_needs_no_hub_and_an_unknown_name_is_reported(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Editor.from_pretrained(str(run)).run.task == "sort"

    def missing(name: str, **options: object) -> str:
        raise hub.errors.LocalEntryNotFoundError("no such model\nand more")

    monkeypatch.setattr(hub, "snapshot_download", missing)
    with pytest.raises(DataError, match=r"me/none: neither a local folder nor a model on the hub \(no such model\)"):
        Editor.from_pretrained("me/none")
    editor = Editor.load(run)
    with pytest.raises(UserError, match="loaded from a folder"):
        Editor(editor.run, editor.method, editor.policy).push_to_hub("me/x")
