"""The models that come with stepedit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepedit.data.dataset import load_splits
from stepedit.errors import UserError
from stepedit.evaluation.evaluate import evaluate_pairs
from stepedit.evaluation.threshold import tune
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.server.model_store import ModelStore

MIN_SCORES = {"aor": 0.75, "aes": 0.97, "aec": 0.55}  # of the objective on 300 test pairs
TEXTS = {
    "spelling": {
        "A catagory, definately!": "A category, definitely!",
        "WICH GOVERMENT": "WHICH GOVERNMENT",
        "aquatic Comments in Berlin": "aquatic Comments in Berlin",
        "日本 42": "日本 42",
    },
    "punctuation": {
        "the python interpreter calls it when an instance is created": (
            "The python interpreter calls it when an instance is created."
        ),
        "what is the name of the largest river in europe": "What is the name of the largest river in Europe?",
        "Where is it? It is on the table.": "Where is it? It is on the table.",
    },
}
# results for each model and decoding, with steps as [operation, position]: the arithmetic ones of stepedit 0.1
GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
DECODINGS = {
    "greedy": Decoding(),
    "any": Decoding(min_confidence=0.0),
    "beam5": Decoding(beam_size=5),
    "beam10verify": Decoding(beam_size=10, verify=True),
}
COMMAND = [sys.executable, "-m", "stepedit"]


def test_all_models_are_in_the_package() -> None:
    assert set(model_folder.shipped_models()) == {*MIN_SCORES, *TEXTS}


@pytest.mark.parametrize("name", [*MIN_SCORES, *TEXTS])
def test_a_model_is_small_and_has_its_training_command(name: str) -> None:
    folder = model_folder.find(name)
    assert model_folder.is_shipped(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    run = model_folder.read_config(folder)
    assert f"stepedit train {run.task} " in (folder / "README.md").read_text()
    assert run.data is None or not Path(run.data).is_absolute()


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_model_corrects_text(name: str) -> None:
    results = Editor.load(name).edit(list(TEXTS[name]))
    assert [result.text for result in results] == list(TEXTS[name].values())


@pytest.mark.parametrize("key", GOLDEN)
def test_results_are_the_same_as_before(key: str) -> None:
    name, decoding = key.split("/")
    results = Editor.load(name).edit([case["source"] for case in GOLDEN[key]], DECODINGS[decoding], trace=True)
    found = [
        {
            "source": result.source,
            "text": result.text,
            "finished": result.finished,
            "steps": [[step.operation, step.position] for step in result.steps],
        }
        for result in results
    ]
    assert found == GOLDEN[key]


def test_golden_results_cover_every_model_and_decoding() -> None:
    kinds = dict.fromkeys(MIN_SCORES, ("greedy", "beam5", "beam10verify")) | dict.fromkeys(
        TEXTS, ("greedy", "beam5", "any")
    )
    assert set(GOLDEN) == {f"{name}/{kind}" for name in kinds for kind in kinds[name]}
    assert all(len(cases) == 12 for cases in GOLDEN.values())


@pytest.mark.parametrize("name", MIN_SCORES)
def test_a_model_reaches_its_score_on_generated_test_pairs(name: str) -> None:
    editor = Editor.load(name)
    assert editor.run.data is None, "its data can be generated again"
    pairs = load_splits(editor.run, editor.method.task)["test"].take(slice(300))
    scores = evaluate_pairs(editor.policy, editor.method, pairs).means()
    assert scores[editor.method.task.objective] > MIN_SCORES[name]


def test_a_folder_without_a_run_does_not_hide_a_model_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spelling").mkdir()  # pairs, say
    assert model_folder.is_shipped(model_folder.find("spelling"))
    Path("spelling", "config.json").touch()
    assert model_folder.find("spelling") == Path("spelling")


def test_a_model_works_from_any_folder_and_is_never_changed(tmp_path: Path) -> None:
    before = sorted(path.name for path in model_folder.find("aor").iterdir())
    edited = subprocess.run([*COMMAND, "edit", "aor", "6 10 9 5 2"], capture_output=True, text=True, cwd=tmp_path)
    assert edited.stdout.split()[-2:] == ["==", "2"], edited.stderr
    with pytest.raises(UserError, match="a model that comes with stepedit can't be changed"):
        tune(Path("aor"))
    exported = subprocess.run([*COMMAND, "export", "aor", "--out", "own"], capture_output=True, text=True, cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert Editor.load(tmp_path / "own").edit(["6 10 9 5 2"])[0].finished
    assert (tmp_path / "own" / model_folder.TRAINED_ON).exists()
    with pytest.raises(UserError, match=r"F0\.5, which means nothing for task aor"):
        tune(tmp_path / "own")
    assert sorted(path.name for path in model_folder.find("aor").iterdir()) == before


@pytest.mark.parametrize("name", ["spelling", "punctuation"])
def test_where_data_and_words_are_from_travels_with_a_copy(name: str, tmp_path: Path) -> None:
    model_folder.export(model_folder.find(name), tmp_path / "copy")
    model_folder.export(tmp_path / "copy", tmp_path / "second")
    shipped, copy, second = (
        folder / "README.md" for folder in (model_folder.find(name), tmp_path / "copy", tmp_path / "second")
    )
    written = shipped.read_text().partition("\n## ")[2].partition("| option |")[0]
    assert "Threshold: `stepedit tune" in written
    for number, card in enumerate((copy, second)):
        assert card.read_text().count(f"\n## {written}| option |") == 1, number
    assert "edit copy" in copy.read_text()
    notices = [path.name for path in shipped.parent.glob("*NOTICE*")]
    assert notices == ["KEEP-NOTICE.txt"] * (name == "spelling")
    assert all((tmp_path / "second" / notice).exists() for notice in notices)


def test_a_single_text_instead_of_a_list_is_refused() -> None:
    with pytest.raises(UserError, match="a list of texts"):
        Editor.load("aor").edit("6 10 9 5 2")


def test_a_server_without_named_models_loads_all_of_them() -> None:
    assert {*MIN_SCORES, *TEXTS} <= set(ModelStore.load([]).editors)
