"""The tables of the documents are what `make results` renders from the files in results/."""

import csv
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.paper_curve import table as curve_table
from benchmarks.results import MARKED, ROOT, TABLES, pages, percent, render, rows_of
from stepedit.evaluation.paper import paper_curve
from stepedit.experiments.aggregate import collect
from stepedit.experiments.report import as_csv
from tests.experiments.test_report import write_run

RESULTS = ROOT / "results"
TOLD = ("command", "version", "seed", "minutes")  # by every row
MEASURED = (
    "best.csv",
    "methods.csv",
    "time_to_accuracy.csv",
    "paper_curves.csv",
    "table.csv",
    "one_network.csv",
    "length.csv",
    "text.csv",
)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tables_of_a_page_are_those_of_the_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert render(text, RESULTS) == text, "run `make results`"


def test_every_table_is_in_a_document_and_the_readmes_figures_are_rendered() -> None:
    used = {match[2] for page in pages() for match in MARKED.finditer(page.read_text(encoding="utf-8"))}
    assert used == set(TABLES)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    typed = MARKED.sub("", readme)
    assert not re.search(r"^\|.*\d\d\.\d", typed, re.MULTILINE), "a figure in a table that is typed by hand"


@pytest.mark.parametrize("name", MEASURED)
def test_every_row_has_its_command_seed_and_version(name: str) -> None:
    rows = rows_of(RESULTS, name)
    assert rows
    assert all(row[told] != "" for row in rows for told in TOLD)


@pytest.mark.parametrize("name", MEASURED)
def test_every_interval_has_a_width_and_its_figure_inside(name: str) -> None:
    for row in rows_of(RESULTS, name):
        if row.get("ours") and row.get("low"):
            low, ours, high = (float(row[column]) for column in ("low", "ours", "high"))
            assert low <= ours <= high, row
            assert low < high, row


def test_a_changed_figure_changes_the_page(tmp_path: Path) -> None:
    shutil.copytree(RESULTS, tmp_path / "results")
    path = tmp_path / "results" / "best.csv"
    path.write_text(path.read_text().replace("0.759", "0.812"))
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    new = render(page, tmp_path / "results")
    assert "| AOR | equation | 58.5 | 67.1 | **81.2** | 97.5 | 45 | 77 |" in new
    assert new.replace("81.2", "75.9") == page, "nothing else changes"


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(SystemExit, match="no table is called 'tabel'"):
        render("<!-- results:tabel -->\n<!-- /results -->\n", RESULTS)


def test_a_report_of_new_runs_becomes_the_table(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", 0.5, programmer="seq2seq")
    write_run(tmp_path / "runs" / "b", 0.75, mode="augmented")
    write_run(tmp_path / "runs" / "e", 0.7)  # the pointer's
    write_run(tmp_path / "runs" / "c", 0.5, task="aec", method="tagging", authors={"sequence": 0.45})
    write_run(tmp_path / "runs" / "d", 0.9, length=6, num_examples=50_000)  # not of the main table
    (tmp_path / "table.csv").write_text(as_csv(collect(tmp_path / "runs")))
    lines = TABLES["table"](tmp_path).splitlines()
    assert len(lines) == 2 + 5
    assert (
        "| aor | recurrence online, programmer=seq2seq | equation | 50.00 | 48.00 to 52.00 |  | 58.53 | -8.53 |"
        in lines[2]
    )
    assert any(line.startswith("| aor | recurrence augmented | equation | 75.00 |") for line in lines)
    assert any(
        "| aec | tagging online | sequence | 50.00 | 48.00 to 52.00 | 45.00 | 46.93* | +3.07 |" in line
        for line in lines
    )
    assert "| AOR online, equation |  |  | 50.0 (58.5) |" in TABLES["cells"](tmp_path), "the one network's, not ours"
    assert "| AEC online, sequence |  | **50.0** (46.9) |  |" in TABLES["cells"](tmp_path)
    written = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert all(row[name] != "" for row in rows_of(tmp_path, "table.csv") for name in TOLD)
    (command,) = {row["command"] for row in written if row["mode"] == "augmented"}
    assert command.startswith("stepedit train aor ")
    assert "--seed 0" in command


@pytest.mark.parametrize(
    ("value", "shown"), [("0.9655", "96.6"), ("0.5853", "58.5"), (1, "100.0"), ("", ""), (None, "")]
)
def test_figures_are_rounded_as_people_do_it(value: str | float | None, shown: str) -> None:
    assert percent(value) == shown


def test_our_validations_stand_beside_the_authors_at_the_nearest_epoch() -> None:
    ours = [{"epoch": epoch, "metrics": {"token": 0.5, "sequence": 0.05, "equation": 0.1}} for epoch in (1, 18, 60)]
    rows = list(curve_table(ours, paper_curve("aor", "recurrence", "online", 10)))[2:]
    assert rows[1] == "| 18 | 50.00% | 5.00% | 10.00% | 17 | 49.76% | 4.87% | 11.40% |"
    assert [row.split(" | ")[4] for row in rows] == ["1", "17", "65"]
