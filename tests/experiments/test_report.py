"""Reports: results of runs beside the paper's; missing results and unusable folders are named."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepedit import Step
from stepedit.config import preset
from stepedit.errors import DataError
from stepedit.evaluation.paper import paper_curve, settings_along
from stepedit.evaluation.scores import Example, RunScores
from stepedit.experiments import figures
from stepedit.experiments.aggregate import collect
from stepedit.experiments.report import as_csv, as_html, as_markdown
from stepedit.inference.model_folder import write_config
from stepedit.registry import TASKS
from stepedit.training.request import resolve

STEP = Step(
    operation="insert",
    position=1,
    before="",
    after="+",
    confidence=0.5,
    deleted=[],
    inserted=["+"],
)


def write_run(
    folder: Path, mean: float, text: str = "2 2 4", authors: dict[str, float] | None = None, **values: Any
) -> None:
    """Write the folder of a finished run with made-up scores, also by the authors' scoring if some are given."""
    request = resolve({"task": "aor", "mode": "online", "max_epochs": 4, **values})
    run = request.config(max_epochs=4, eval_every=1, threads=1)
    folder.mkdir(parents=True)
    write_config(folder, run, [], [])
    example = Example(
        source=text,
        target="2 + 2 == 4",
        prediction="2 + 2 4",
        correct=False,
        stop_reason="done",
        tokens=text.split(),
        steps=[STEP],
    )
    scores = RunScores(
        task=run.task,
        method=run.method,
        mode=run.mode,
        split="test",
        num_examples=run.num_examples,
        pairs=100,
        beam_size=1,
        verify=False,
        min_confidence=0.0,
        headline=TASKS[run.task].objective,
        metrics=dict.fromkeys(("equation", "token", "sequence", "holds"), (mean, mean - 0.02, mean + 0.02)),
        stop_reasons={"done": 1.0},
        paper=None,
        by_edits={},
        by_length={},
        parameters=10,
        training_steps=1234,
        training_seconds=90.0,
        training_finished=True,
        examples=[example],
    )
    (folder / "scores-test.json").write_text(scores.model_dump_json())
    if authors is not None:
        metrics = scores.metrics | {name: (value, value, value) for name, value in authors.items()}
        other = scores.model_copy(update={"scoring": "authors", "metrics": metrics})
        (folder / "scores-test-authors.json").write_text(other.model_dump_json())
    curve = [
        {
            "epoch": epoch,
            "step": epoch,
            "seconds": 60.0 * epoch,
            "metrics": {TASKS[run.task].objective: mean * epoch / 3},
        }
        for epoch in (1, 2, 3)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in curve))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "a", 0.60, numbers=10, length=5)
    write_run(tmp_path / "deep" / "b", 0.70, numbers=10, length=5, seed=1)
    write_run(tmp_path / "c", 0.20, method="end2end", numbers=10, length=5)
    return tmp_path


def test_the_table_shows_our_results_beside_the_papers_and_marks_missing_ones(runs: Path) -> None:
    rows = as_markdown(collect(runs)).splitlines()
    row = next(each for each in rows if "recurrence online" in each and "aor" in each)
    # mean and standard deviation over two seeds, their range, no other scoring, paper, difference, minutes, ...
    assert row == (
        "| aor | recurrence online | equation | 65.00 ± 7.07 | 60.00 to 70.00 |  | 58.53 | +6.47 | 1.5 | 1.3 | 1,234 "
        "| 2 |"
    )
    assert sum("| missing |" in each for each in rows) == 16 + 6  # AEC has two metrics in each of its six cells
    assert "| 0.00 |" not in "".join(rows)


def test_several_seeds_have_their_range_and_one_seed_its_own_interval(runs: Path) -> None:
    rows = {row.setting.method: row for row in collect(runs).rows.values()}
    assert rows["recurrence"].interval("equation") == (0.60, 0.70), "not the mean of the runs' intervals"
    assert rows["end2end"].interval("equation") == pytest.approx((0.18, 0.22))


def test_the_page_is_self_contained_and_escapes_text(runs: Path) -> None:
    write_run(runs / "hostile", 0.1, "<script>alert(1)</script> \u202eabc", seed=5, edit_order="right-to-left")
    page = as_html(collect(runs))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    own = re.sub(r'http://(www\.w3\.org|purl\.org|creativecommons\.org)/[^"]*', "", page)  # XML namespaces of figures
    assert not any(word in own for word in ("http:", "https:", "src=", "@import", "<link"))
    assert page.count("<svg") == 3  # curves, the authors' curves, times; one point is not drawn along an axis
    assert "edit_order=right-to-left" in page
    assert page.count("missing</td>") == 22


def test_a_figure_along_an_axis_needs_two_points(tmp_path: Path) -> None:
    for number, setting in enumerate(settings_along("aor", "length")[:3]):
        write_run(tmp_path / str(number), 0.5 - number / 10, **setting)
    results = collect(tmp_path)
    figure = figures.along(results, "aor", "length")
    assert figure is not None
    assert figures.along(results, "aor", "numbers") is None
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["end2end, paper", "tagging, paper", "recurrence, paper", "recurrence, stepedit"]
    ours = next(line for line in axes.containers if line.get_label() == "recurrence, stepedit")
    heights = list(ours[0].get_ydata())
    assert heights[:3] == pytest.approx([50, 40, 30])
    assert all(height != height for height in heights[3:]), "the line has a gap where a run is missing"
    assert "<svg" in figures.svg(figure)


def test_csv_has_every_cell_and_metric(runs: Path) -> None:
    rows = list(csv.DictReader(as_csv(collect(runs)).splitlines()))
    assert len(rows) == 18 * 4  # cells and metrics
    cell = {"method": "end2end", "mode": "online", "task": "aor", "metric": "equation"}
    (one,) = [row for row in rows if cell.items() <= row.items()]
    assert (float(one["ours"]), float(one["paper"]), one["seeds"]) == (0.2, 0.2933, "1")
    assert [row["ours"] for row in rows if row["task"] == "aes"] == [""] * 24


def test_folders_that_cannot_be_used_are_named_and_the_others_are_shown(runs: Path) -> None:
    for name, change in (("old", {"format": 1}), ("odd", {"color": "red"})):
        write_run(runs / name, 0.5, seed=7)
        config = json.loads((runs / name / "config.json").read_text())
        (runs / name / "config.json").write_text(json.dumps({**config, **change}))
    write_run(runs / "half", 0.5, seed=8)
    (runs / "half" / "scores-test.json").write_text('{"task": "aor"')
    write_run(runs / "unscored", 0.5, seed=9)
    (runs / "unscored" / "scores-test.json").unlink()
    (runs / "unscored" / "model.onnx").touch()
    write_run(runs / "begun", 0.5, seed=13)
    (runs / "begun" / "scores-test.json").unlink()
    (runs / "begun" / "metrics.jsonl").unlink()
    write_run(runs / "early", 0.5, seed=10)
    early = json.loads((runs / "early" / "scores-test.json").read_text())
    (runs / "early" / "scores-test.json").write_text(json.dumps({**early, "training_finished": False}))
    write_run(runs / "binary", 0.5, seed=11)
    (runs / "binary" / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    write_run(runs / "strange", 0.5, seed=12)
    strange = (runs / "strange" / "config.json").read_text().replace('"numbers": 10', '"numbers": "many"')
    (runs / "strange" / "config.json").write_text(strange)
    (runs / "nothing").mkdir()
    (runs / "nothing" / "log.txt").write_text("no room\n")
    results = collect(runs)
    problems = "\n".join(results.problems)
    assert len(results.problems) == 9
    assert f"{runs / 'begun'}: no validation yet" in problems
    assert "was scored before its training had finished" in problems
    assert "nothing: failed; see log.txt" in problems
    assert "it was written by another version" in problems
    assert "unknown option 'color'" in problems
    assert "half/scores-test.json: damaged" in problems
    assert "not scored on test yet" in problems
    assert sum(len(row.runs) for row in results.rows.values()) == 3


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no runs here"):
        collect(tmp_path)
    with pytest.raises(DataError, match="no runs here"):
        collect(tmp_path / "nowhere")


def test_the_command_writes_a_page_and_prints_tables(runs: Path) -> None:
    def report(*more: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", "from stepedit.cli.main import main; main()", "report", *more]
        return subprocess.run(program, capture_output=True, text=True, check=False, cwd=runs)

    assert report(".", "--out", "r.html").stdout == "3 finished runs, 0 folders not used; r.html\n"
    assert (runs / "r.html").read_text().startswith("<!doctype html>")
    assert "| 58.53 |" in report(".", "--format", "markdown").stdout
    assert report(".", "--format", "csv").stdout == as_csv(collect(runs))
    assert report(".", "--figures", "figures").returncode == 0
    written = {path.name: path.read_text() for path in (runs / "figures").iterdir()}
    assert set(written) == {"curves.svg", "aor-paper-curves.svg", "times.svg"}
    assert all(text.startswith("<svg") for text in written.values())
    assert report(".").stderr == "stepedit: an HTML report needs a file: --out report.html\n"
    unknown = report(".", "--format", "markdwon")
    assert unknown.returncode == 2
    assert "unknown format 'markdwon' (did you mean 'markdown'?)" in unknown.stderr


def test_repeated_runs_and_runs_on_other_data_do_not_count_as_seeds(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.6)
    write_run(tmp_path / "b", 0.5, edit_order="left-to-right")  # the default: the same run again
    write_run(tmp_path / "c", 0.4, seed=1, data=str(tmp_path), numbers=10, length=5)
    results = collect(tmp_path)
    (row,) = results.rows.values()
    assert [each.folder.name for each in row.runs] == ["a"]
    assert sum("is shown" in problem for problem in results.problems) == 2


def test_runs_with_other_options_have_their_own_row(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.6)
    write_run(tmp_path / "b", 0.5, preset="paper")
    write_run(tmp_path / "c", 0.4, preset="paper", hidden_size=64)
    variants = [setting.variant for setting in collect(tmp_path).rows]
    assert sorted(variants) == ["", "preset=paper", "preset=paper, hidden_size=64"]
    assert preset("paper")["hidden_size"] == 512


def test_generated_data_do_not_move_a_run_out_of_the_table_but_are_not_mixed(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.5, generation="authors")
    write_run(tmp_path / "b", 0.7, generation="authors", seed=1)
    write_run(tmp_path / "c", 0.9, seed=2)
    results = collect(tmp_path)
    (row,) = (row for row in results.table() if row.runs)
    assert row.ours("equation") == pytest.approx(0.6)
    assert results.problems == [f"{tmp_path / 'c'}: trained on other data than {tmp_path / 'a'}, which is shown"]
    written = [each for each in csv.DictReader(as_csv(results).splitlines()) if each["ours"]]
    assert {each["seed"] for each in written} == {"0 1"}
    assert all("--task-arg generation=authors" in each["command"] for each in written)


def test_the_authors_scoring_is_shown_where_it_differs_and_their_cut_tags_are_noted(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.5, task="aec", method="tagging", authors={"sequence": 0.45, "equation": 0.5})
    write_run(tmp_path / "b", 0.4, task="aec", method="recurrence", authors={"sequence": 0.4})
    write_run(tmp_path / "c", 0.3, task="aec", method="end2end")
    page = as_markdown(collect(tmp_path))
    rows = {
        tuple(cells[2:4]): cells[4:] for cells in (re.split(r" *\| *", line) for line in page.splitlines()) if cells[3:]
    }
    assert rows["tagging online", "sequence"][:4] == ["50.00", "48.00 to 52.00", "45.00", "46.93*"]
    assert rows["tagging online", "equation"][2] == "", "the same by both scorings"
    assert rows["recurrence online", "sequence"][2:4] == ["", "57.47"]
    assert rows["end2end online", "sequence"][2] == "", "not scored as the authors do"
    assert "\\* On AEC the authors' Tagging is cut off" in page
    table = list(csv.DictReader(as_csv(collect(tmp_path)).splitlines()))
    found = {(row["method"], row["metric"]): row["authors_scoring"] for row in table if row["ours"]}
    assert found["tagging", "sequence"] == "0.45"
    assert found["recurrence", "sequence"] == "0.4"
    assert found["end2end", "sequence"] == ""


def test_scores_of_other_weights_by_the_authors_scoring_are_not_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.5, authors={"sequence": 0.6})
    path = tmp_path / "a" / "scores-test-authors.json"
    path.write_text(path.read_text().replace('"training_steps":1234', '"training_steps":1000'))
    (row,) = collect(tmp_path).rows.values()
    assert row.authors_scoring("sequence") is None


def test_the_table_is_that_of_one_network_if_recurrence_was_trained_with_it(tmp_path: Path) -> None:
    write_run(tmp_path / "pointer", 0.7)
    write_run(tmp_path / "tagging", 0.6, method="tagging")
    assert "one network" not in as_markdown(collect(tmp_path))
    write_run(tmp_path / "seq2seq", 0.5, programmer="seq2seq")
    results = collect(tmp_path)
    shown = {(row.setting.method, row.ours("equation")) for row in results.table() if row.runs}
    assert shown == {("tagging", 0.6), ("recurrence", 0.5)}
    assert [row.ours("equation") for row in results.others()] == [0.7]
    page = as_markdown(results)
    assert "## The paper's main table, one network for the three methods" in page
    assert "| aor | recurrence online, programmer=seq2seq | equation | 50.00 |" in page


def test_the_authors_curves_are_drawn_behind_every_run_that_has_one(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.7)
    write_run(tmp_path / "b", 0.6, preset="paper")
    write_run(tmp_path / "c", 0.6, preset="paper", seed=1)
    write_run(tmp_path / "d", 0.5, method="tagging", mode="offline")
    write_run(tmp_path / "e", 0.5, mode="augmented")  # not theirs
    write_run(tmp_path / "f", 0.5, length=6, num_examples=50_000)  # theirs, but without a curve
    results = collect(tmp_path)
    figure = figures.beside_the_papers(results, "aor")
    assert figure is not None
    assert [axes.get_title() for axes in figure.axes] == ["AOR, N=10, offline", "AOR, N=10, online"]
    offline, online = figure.axes
    assert len(offline.lines) == 3 + 1
    assert len(online.lines) == 3 + 1 + 2, "the authors' three, ours, and the two seeds of another"
    theirs = next(line for line in online.lines if line.get_label() == "recurrence, the authors")
    points = paper_curve("aor", "recurrence", "online", 10)
    assert list(theirs.get_xdata()) == [point.step for point in points]
    assert list(theirs.get_ydata()) == pytest.approx([100 * point.metrics["equation"] for point in points])
    ours = next(line for line in online.lines if line.get_label() == "recurrence, stepedit")
    assert list(ours.get_xdata()) == [1, 2, 3]
    assert (
        ours.get_linestyle() != next(line for line in online.lines if "preset" in str(line.get_label())).get_linestyle()
    )
    assert figures.beside_the_papers(results, "aes") is None


def test_times_are_shown_for_every_run_that_the_authors_have(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.7)
    write_run(tmp_path / "b", 0.6, preset="paper")
    write_run(tmp_path / "c", 0.5, length=6, num_examples=50_000)
    write_run(tmp_path / "d", 0.5, num_examples=123)
    figure = figures.times(collect(tmp_path).beside_the_paper())
    assert figure is not None
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sorted(labels) == [
        "aor recurrence online",
        "aor recurrence online\nN=10 L=6 D=50,000",
        "aor recurrence online\npreset=paper",
    ]
