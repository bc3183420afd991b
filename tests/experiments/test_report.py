"""Reports: what is there is shown, what is missing is called missing, what is broken is named."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepedit import checkpoints
from stepedit.config import Options
from stepedit.errors import DataError
from stepedit.experiments import figures
from stepedit.experiments.collection import collect
from stepedit.experiments.report import as_csv, as_html, as_markdown
from stepedit.reference import line
from stepedit.results import Example, Result, Taken
from stepedit.runs import wanted

METHODS = ("end2end", "tagging", "recurrence")


def write_run(folder: Path, mean: float, text: str = "2 2 4", **values: Any) -> None:
    """A finished run's folder with made-up figures."""
    run = wanted({"task": "aor", "mode": "online", "max_epochs": 4, **values}).run
    folder.mkdir(parents=True)
    checkpoints.write_run(folder, run, [], [])
    said = {"operation": "insert", "position": 1, "before": "", "after": "+", "text": "2 + 2 4"}
    words = {"tokens": ["2", "+", "2", "4"], "gone": [], "came": ["+"]}
    steps = [Taken(**said, **words, skipped=False, confidence=0.5)]  # type: ignore[arg-type]
    example = Example(source=text, target="2 + 2 == 4", prediction="2 + 2 4", right=False, finished=True, steps=steps)
    metrics = dict.fromkeys(("equation", "token", "sequence", "holds"), (mean, mean - 0.02, mean + 0.02))
    result = Result(
        **{name: getattr(run, name) for name in ("task", "method", "mode", "size")},
        **{
            "split": "test",
            "pairs": 100,
            "beam": 1,
            "verify": False,
            "least": 0.0,
            "headline": "equation",
            "metrics": metrics,
        },
        **{"finished": 1.0, "paper": None, "by_edits": {}, "by_length": {}, "parameters": 10, "steps": 1234},
        **{"seconds": 90.0, "ended": True, "examples": [example]},
    )
    (folder / "scores-test.json").write_text(result.model_dump_json())
    curve = [
        {"epoch": at, "step": at, "seconds": 60.0 * at, "metrics": {"equation": mean * at / 3}} for at in (1, 2, 3)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in curve))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "a", 0.60, numbers=10, length=5)
    write_run(tmp_path / "deep" / "b", 0.70, numbers=10, length=5, seed=1)
    write_run(tmp_path / "c", 0.20, method="end2end", numbers=10, length=5)
    return tmp_path


def test_the_table_has_ours_beside_the_papers_and_says_what_is_missing(runs: Path) -> None:
    rows = as_markdown(collect(runs)).splitlines()
    row = next(each for each in rows if "recurrence online" in each and "aor" in each)
    # the mean of two seeds with its spread, the paper's figure, the difference, minutes, GPU hours, steps, seeds
    assert row == (
        "| aor | recurrence online | equation | 65.00 ± 7.07 | 63.00 to 67.00 | 58.53 | +6.47 | 1.5 | 1.3 | 1,234 | 2 |"
    )
    assert sum("| missing |" in each for each in rows) == 16 + 6  # AEC has two figures in each of its six cells
    assert "| 0.00 |" not in "".join(rows)


def test_the_page_needs_nothing_else_and_shows_text_as_text(runs: Path) -> None:
    write_run(runs / "hostile", 0.1, "<script>alert(1)</script> \u202eabc", seed=5, order="right")
    page = as_html(collect(runs))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    drawn = re.sub(r'http://(www\.w3\.org|purl\.org|creativecommons\.org)/[^"]*', "", page)  # names inside drawings
    assert not any(word in drawn for word in ("http:", "https:", "src=", "@import", "<link"))
    assert page.count("<svg") == 2  # curves and times; one point makes no line
    assert "order=right" in page
    assert page.count("missing</td>") == 22


def test_lines_along_an_axis_are_drawn_once_two_points_are_there(tmp_path: Path) -> None:
    for number, setting in enumerate(line("aor", "length")[:3]):
        write_run(tmp_path / str(number), 0.5 - number / 10, **setting)
    collection = collect(tmp_path)
    figure = figures.along(collection, "aor", "length")
    assert figure is not None
    assert figures.along(collection, "aor", "numbers") is None
    (place,) = figure.axes
    labels = [text.get_text() for text in place.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["end2end, paper", "tagging, paper", "recurrence, paper", "recurrence, stepedit"]
    ours = next(drawn for drawn in place.containers if drawn.get_label() == "recurrence, stepedit")
    heights = list(ours[0].get_ydata())
    assert heights[:3] == pytest.approx([50, 40, 30])
    assert all(height != height for height in heights[3:]), "a gap where a run is missing"
    assert "<svg" in figures.svg(figure)


def test_csv_holds_every_figure(runs: Path) -> None:
    rows = list(csv.DictReader(as_csv(collect(runs)).splitlines()))
    assert len(rows) == 18 * 4  # cells and metrics
    mine = {"method": "end2end", "mode": "online", "task": "aor", "metric": "equation"}
    (one,) = [row for row in rows if mine.items() <= row.items()]
    assert (float(one["ours"]), float(one["paper"]), one["seeds"]) == (0.2, 0.2933, "1")
    assert [row["ours"] for row in rows if row["task"] == "aes"] == [""] * 24


def test_folders_that_cannot_be_used_are_named_and_the_rest_goes_on(runs: Path) -> None:
    for name, change in (("old", {"format": 1}), ("odd", {"colour": "red"})):
        write_run(runs / name, 0.5, seed=7)
        config = json.loads((runs / name / "config.json").read_text())
        (runs / name / "config.json").write_text(json.dumps({**config, **change}))
    write_run(runs / "half", 0.5, seed=8)
    (runs / "half" / "scores-test.json").write_text('{"task": "aor"')
    write_run(runs / "unscored", 0.5, seed=9)
    (runs / "unscored" / "scores-test.json").unlink()
    write_run(runs / "early", 0.5, seed=10)
    early = json.loads((runs / "early" / "scores-test.json").read_text())
    (runs / "early" / "scores-test.json").write_text(json.dumps({**early, "ended": False}))
    write_run(runs / "binary", 0.5, seed=11)
    (runs / "binary" / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    write_run(runs / "strange", 0.5, seed=12)
    strange = (runs / "strange" / "config.json").read_text().replace('"numbers": 10', '"numbers": "many"')
    (runs / "strange" / "config.json").write_text(strange)
    (runs / "nothing").mkdir()
    (runs / "nothing" / "log.txt").write_text("no room\n")
    collection = collect(runs)
    said = "\n".join(collection.problems)
    assert len(collection.problems) == 8
    assert "was scored before its training had ended" in said
    assert "nothing: failed; see log.txt" in said
    assert "not a run of format 2" in said
    assert "unknown option 'colour'" in said
    assert "half/scores-test.json: damaged" in said
    assert "not scored on test yet" in said
    assert sum(len(row.runs) for row in collection.rows.values()) == 3


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no runs here"):
        collect(tmp_path)
    with pytest.raises(DataError, match="no runs here"):
        collect(tmp_path / "nowhere")


def test_the_command_writes_a_page_and_prints_tables(runs: Path) -> None:
    def report(*more: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", "from stepedit.cli import main; main()", "report", *more]
        return subprocess.run(program, capture_output=True, text=True, check=False, cwd=runs)

    assert report(".", "--out", "r.html").stdout == "3 finished runs, 0 folders not used; r.html\n"
    assert (runs / "r.html").read_text().startswith("<!doctype html>")
    assert "| 58.53 |" in report(".", "--markdown").stdout
    assert report(".", "--drawings", "drawn").returncode == 0
    drawn = {path.name: path.read_text() for path in (runs / "drawn").iterdir()}
    assert {"curves.svg", "times.svg"} <= set(drawn)
    assert all(text.startswith("<svg") for text in drawn.values())
    assert report(".").stderr == "stepedit: where to? --out report.html\n"
    assert report(".", "--csv", "--markdown").returncode == 2


def test_runs_that_are_not_the_same_are_not_called_seeds(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.6)
    write_run(tmp_path / "b", 0.5, order="left")  # the default: the same run again
    write_run(tmp_path / "c", 0.4, seed=1, data=str(tmp_path), numbers=10, length=5)
    collection = collect(tmp_path)
    (row,) = collection.rows.values()
    assert [kept.folder.name for kept in row.runs] == ["a"]
    assert sum("is shown" in problem for problem in collection.problems) == 2


def test_options_that_differ_make_a_row_of_their_own(tmp_path: Path) -> None:
    write_run(tmp_path / "a", 0.6)
    write_run(tmp_path / "b", 0.5, preset="paper")
    write_run(tmp_path / "c", 0.4, preset="paper", hidden=64)
    variants = [setting.variant for setting in collect(tmp_path).rows]
    assert sorted(variants) == ["", "preset=paper", "preset=paper, hidden=64"]
    assert Options.preset("paper").hidden == 512
