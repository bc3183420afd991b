"""Models to and from the hub, with a folder in the hub's place."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from stepedit.editor import Editor
from stepedit.errors import DataError, UserError
from stepedit.runs import make_trainer, wanted

hub = pytest.importorskip("huggingface_hub")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "sort"
    small = {"numbers": 9, "length": 3, "size": 80, "hidden": 16, "heads": 2, "layers": 1, "batch": 16}
    trainer = make_trainer(wanted({"task": "sort", "max_epochs": 1, **small}), folder)
    trainer.begin()
    for _ in trainer.fit():
        pass
    return folder


def test_what_is_pushed_can_be_fetched_and_edits_alike(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def upload(self: object, repo_id: str, folder_path: Path, allow_patterns: list[str]) -> str:
        shutil.copytree(folder_path, tmp_path / repo_id, ignore=lambda _, names: set(names) - set(allow_patterns))
        return f"https://example.org/{repo_id}"

    monkeypatch.setattr(hub.HfApi, "create_repo", lambda self, name, **options: asked.append((name, options)))
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **options: str(tmp_path / name))
    editor = Editor.load(run)
    assert editor.push_to_hub("me/sort").endswith("me/sort")
    assert asked == [("me/sort", {"private": True, "exist_ok": True})]
    names = {path.name for path in (tmp_path / "me" / "sort").iterdir()}
    assert names == {"config.json", "vocabulary.json", "model.safetensors", "README.md"}
    texts = ["3 2 1", "1 2 3"]
    fetched = Editor.from_pretrained("me/sort")
    assert [one.text for one in fetched.edit(texts)] == [one.text for one in editor.edit(texts)]


def test_a_folder_needs_no_hub_and_an_unknown_name_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Editor.from_pretrained(str(run)).run.task == "sort"

    def missing(name: str, **options: object) -> str:
        raise hub.errors.LocalEntryNotFoundError("no such model\nand more")

    monkeypatch.setattr(hub, "snapshot_download", missing)
    with pytest.raises(DataError, match=r"me/none: neither a folder here nor a model on the hub \(no such model\)"):
        Editor.from_pretrained("me/none")
    with pytest.raises(UserError, match="loaded from a folder"):
        Editor(Editor.load(run).run, Editor.load(run).method, Editor.load(run).programmer).push_to_hub("me/x")
