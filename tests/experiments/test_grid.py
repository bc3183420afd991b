"""Grids: what they expand to, and what they say when they cannot."""

from pathlib import Path

import pytest

from stepedit.errors import UserError
from stepedit.experiments.costs import minutes_of
from stepedit.experiments.grid import SWEEPS, expand, grids
from stepedit.reference import line, paper


def test_the_table_is_the_papers_eighteen_cells() -> None:
    cells = expand(grids("table", []), {})
    assert len(cells) == 18
    for cell in cells:
        run = cell.wanted().run
        assert paper(run.task, run.method, run.mode, run.task_options, run.size) is not None


@pytest.mark.parametrize("axis", ["numbers", "length", "size"])
@pytest.mark.parametrize("task", ["aor", "aes", "aec"])
def test_an_axis_varies_alone_and_every_run_has_a_figure_of_the_paper(task: str, axis: str) -> None:
    cells = expand(grids(axis, [task]), {})
    assert len({cell.values[axis] for cell in cells}) >= 5
    for other in {"numbers", "length", "size"} - {axis}:
        assert len({cell.values[other] for cell in cells}) == 1
    runs = [cell.wanted().run for cell in cells]
    assert all(paper(run.task, run.method, run.mode, run.task_options, run.size) for run in runs)
    assert len(line(task, axis)) * 6 == len(cells)


def test_the_papers_analysis_is_two_hundred_and_forty_runs() -> None:
    named = {cell.name for sweep in SWEEPS if sweep != "order" for cell in expand(grids(sweep, []), {})}
    assert len(named) == 240


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text("task: [aor, sort]\nrate: [0.001, 0.01]\nseed: [0, 1, 2]\nmax-epochs: 3\norder: left\n")
    cells = expand(grids(str(file), []), {"hidden": 16})
    assert len({cell.name for cell in cells}) == len(cells) == 12
    assert all(cell.wanted().run.epochs == 3 and cell.wanted().run.options.hidden == 16 for cell in cells)
    assert not any(set(cell.name) & set("/ :") for cell in cells)


def test_places_in_a_data_folder_are_filled_in(tmp_path: Path) -> None:
    place = tmp_path / "aes" / "100N" / "5L" / "10000D"
    place.mkdir(parents=True)
    cells = expand(grids("table", ["aes"]), {"data": f"{tmp_path}/{{task}}/{{numbers}}N/{{length}}L/{{size}}D"})
    assert {cell.values["data"] for cell in cells} == {str(place)}
    with pytest.raises(UserError, match="aor/10N/5L/10000D: no such file or folder"):
        expand(grids("table", ["aor"]), {"data": f"{tmp_path}/{{task}}/{{numbers}}N/{{length}}L/{{size}}D"})


def test_the_setting_of_existing_data_is_theirs(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}_x.txt").write_text("2 3 6\n" * 3)
        (tmp_path / f"{split}_y.txt").write_text("2 * 3 == 6\n" * 3)
    (cell,) = expand([{"task": "aor", "data": str(tmp_path)}], {})
    assert (cell.values["length"], cell.values["size"]) == (3, 9)


def test_lists_of_limits_are_runs_of_their_own_and_names_stay_short() -> None:
    cells = expand([{"task": "aor", "max_epochs": [1, 3], **dict.fromkeys(("dropout", "rate", "clip"), 0.5)}], {})
    assert len({cell.name for cell in cells}) == 2
    many = dict.fromkeys(("dropout", "rate", "clip", "weight_decay", "others", "average", "forcing"), 0.123456789012)
    (long,) = expand([{"task": "aor", **many}], {})
    assert len(long.name) < 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: aor\nrat: 0.1\n", "unknown option 'rat' (did you mean 'rate'?)"),
        ("task: aor\nrate: []\n", "no run is in this grid: rate is an empty list"),
        ("rate: 0.1\n", "a grid must say `task`"),
        ("task: aor\nseed: [0, 1, 2, 3]\nlayers: [1, 2, 3]\n", "that is 12 runs or more, and 10 is the limit"),
        ("task: aor\nrate: {low: 1}\n", "rate: a value or a list of values was expected"),
        ("task: aor\nmethod: tag\n", "unknown method 'tag' (did you mean 'tagging'?)"),
        ("task: aor\nhidden: [128, 130]\n", "hidden 130 can't be shared by 4 heads"),
        ("task: aro\n", "unknown task 'aro' (did you mean 'aor'?)"),
        ("task: aor\nmax_minutes: soon\n", "max_minutes: a number of at least 0.01 was expected, not 'soon'"),
        ("task: aor\ndata: 'd/{nubmers}'\n", "has a place to fill in that no option is called"),
        ("task: 3\n", "task: a name was expected, not 3"),
        ("task: aor\nmethod: 3\n", "method: a name was expected, not 3"),
        ("task: [[aor]]\n", "task: a name was expected"),
        ("task: aor\nmax_epochs: .inf\n", "max_epochs: a number of at least 1 was expected"),
        ("task: aor\ndata: nowhere\n", "nowhere"),
        ("- task\n", "names and values of options were expected"),
        ("task: [aor\n", "neither valid YAML nor JSON"),
    ],
)
def test_a_wrong_grid_is_told_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        expand(grids(str(file), []), {}, limit=10)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "minutes"), [("4h", 240), ("90m", 90), ("1h30m", 90), ("45s", 0.75), ("0.5h", 30)])
def test_a_budget_is_a_time(text: str, minutes: float) -> None:
    assert minutes_of(text) == pytest.approx(minutes)


@pytest.mark.parametrize("text", ["", "4", "h", ".h", "-3m", "4x", "1.2.3h", "0m", "soon"])
def test_what_is_no_time_is_no_budget(text: str) -> None:
    with pytest.raises(UserError, match="--budget takes a time"):
        minutes_of(text)
