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
from stepedit.evaluation.paper import settings_along
from stepedit.evaluation.scores import Example, RunScores
from stepedit.experiments import figures
from stepedit.experiments.aggregate import collect
from stepedit.experiments.report import as_csv, as_html, as_markdown
from stepedit.inference.model_folder import write_config
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


def write_run(folder: Path, mean: float, text: str = "2 2 4", **values: Any) -> None:
    """Write the folder of a finished run with made-up scores."""
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
        headline="equation",
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
    curve = [
        {"epoch": epoch, "step": epoch, "seconds": 60.0 * epoch, "metrics": {"equation": mean * epoch / 3}}
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
    # mean and standard deviation over two seeds, their range, paper, difference, minutes, GPU hours, steps, seeds
    assert row == (
        "| aor | recurrence online | equation | 65.00 ± 7.07 | 60.00 to 70.00 | 58.53 | +6.47 | 1.5 | 1.3 | 1,234 | 2 |"
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
    assert page.count("<svg") == 2  # curves and times; one point is not drawn along an axis
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
    assert len(results.problems) == 8
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
    assert {"curves.svg", "times.svg"} <= set(written)
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
