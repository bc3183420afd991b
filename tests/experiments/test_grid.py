"""Grids: what they expand to, and the errors of those that cannot be expanded."""

from pathlib import Path

import pytest

from stepedit.errors import UserError
from stepedit.evaluation.paper import PaperResult, paper_result, settings_along
from stepedit.experiments.estimate import parse_minutes
from stepedit.experiments.grid import Cell, expand, grids


def result_in_paper(cell: Cell) -> PaperResult | None:
    run = cell.request().settings
    return paper_result(run.task, run.method, run.mode, run.task_args, run.num_examples)


def test_the_table_is_the_papers_eighteen_cells() -> None:
    cells = expand(grids("table", []), {})
    assert len(cells) == 18
    assert all(result_in_paper(cell) is not None for cell in cells)


@pytest.mark.parametrize("axis", ["numbers", "length", "num_examples"])
@pytest.mark.parametrize("task", ["aor", "aes", "aec"])
def test_one_axis_varies_and_the_paper_has_a_result_for_every_run(task: str, axis: str) -> None:
    cells = expand(grids(axis.replace("_", "-"), [task]), {})
    assert len({cell.values[axis] for cell in cells}) >= 5
    for other in {"numbers", "length", "num_examples"} - {axis}:
        assert len({cell.values[other] for cell in cells}) == 1
    assert all(result_in_paper(cell) for cell in cells)
    assert len(settings_along(task, axis)) * 6 == len(cells)


def test_the_papers_analysis_is_two_hundred_and_forty_runs() -> None:
    sweeps = ("table", "numbers", "length", "num-examples")
    names = {cell.name for sweep in sweeps for cell in expand(grids(sweep, []), {})}
    assert len(names) == 240


@pytest.mark.parametrize("sweep", ["table", "table-one-network", "paper-curves", "numbers", "length", "num-examples"])
def test_data_beside_the_papers_figures_are_generated_as_the_authors_do(sweep: str, tmp_path: Path) -> None:
    def generation(**fixed: object) -> set[object]:
        return {cell.request().settings.task_args["generation"] for cell in expand(grids(sweep, ["aec"]), fixed)}

    assert generation() == {"authors"}
    assert generation(generation="exact") == {"exact"}
    assert generation(generation=["authors", "exact"]) == {"authors", "exact"}
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}_x.txt").write_text(2 * "7 * 8 / 4 8 2 - == 6\n")
        (tmp_path / f"{split}_y.txt").write_text(2 * "7 * 8 / 4 - 8 == 6\n")
    assert generation(data=str(tmp_path)) == {"exact"}, "existing data are as they are"


def test_one_network_trains_the_table_and_the_pointer_is_added() -> None:
    cells = expand(grids("table-one-network", []), {"max_minutes": 40})
    settings = [cell.request().settings for cell in cells]
    table = [each for each in settings if each.training.programmer == "seq2seq"]
    assert len({(each.task, each.method, each.mode) for each in table}) == len(table) == 18
    for task in ("aor", "aes", "aec"):
        (one,) = {each.training.model_copy(update={"offline_states": "fixed"}) for each in table if each.task == task}
        assert (one.architecture, one.programmer) == ("transformer", "seq2seq"), "one network and one training"
    pointer = [each for each in settings if each.training.programmer == "pointer"]
    assert {(each.method, each.mode) for each in pointer} == {("recurrence", "online"), ("recurrence", "augmented")}
    assert len(pointer) == 6
    assert all(cell.request().limits.max_minutes == 40 for cell in cells)


def test_the_papers_curves_are_those_of_its_own_network() -> None:
    cells = expand(grids("paper-curves", ["aec"]), {"max_epochs": 60, "preset": ["paper", "paper-fast"]})
    assert len(cells) == 12
    assert {cell.request().settings.training.hidden_size for cell in cells} == {512}
    assert all(result_in_paper(cell) for cell in cells)


def test_every_run_has_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(
        "task: [aor, sort]\nlearning-rate: [0.001, 0.01]\nseed: [0, 1, 2]\nmax-epochs: 3\nedit_order: left-to-right\n"
    )
    cells = expand(grids(str(file), []), {"hidden_size": 16})
    assert len({cell.name for cell in cells}) == len(cells) == 12
    requests = [cell.request() for cell in cells]
    assert all(request.limits.max_epochs == 3 for request in requests)
    assert all(request.settings.training.hidden_size == 16 for request in requests)
    assert not any(set(cell.name) & set("/ :") for cell in cells)


def test_placeholders_of_a_data_folder_are_filled_in(tmp_path: Path) -> None:
    data = f"{tmp_path}/{{task}}/{{numbers}}N/{{length}}L/{{num_examples}}D"
    folder = tmp_path / "aes" / "100N" / "5L" / "10000D"
    folder.mkdir(parents=True)
    cells = expand(grids("table", ["aes"]), {"data": data})
    assert {cell.values["data"] for cell in cells} == {str(folder)}
    with pytest.raises(UserError, match="aor/10N/5L/10000D: no such file or folder"):
        expand(grids("table", ["aor"]), {"data": data})


def test_the_setting_is_read_from_existing_data(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}_x.txt").write_text("2 3 6\n" * 3)
        (tmp_path / f"{split}_y.txt").write_text("2 * 3 == 6\n" * 3)
    (cell,) = expand([{"task": "aor", "data": str(tmp_path)}], {})
    assert (cell.values["length"], cell.values["num_examples"]) == (3, 9)


def test_varied_limits_are_part_of_the_name_and_names_stay_short() -> None:
    few = dict.fromkeys(("dropout", "learning_rate", "max_grad_norm"), 0.5)
    cells = expand([{"task": "aor", "max_epochs": [1, 3], **few}], {})
    assert len({cell.name for cell in cells}) == 2
    names = ("dropout", "learning_rate", "max_grad_norm", "weight_decay", "plan_loss_weight", "ema_decay")
    many = dict.fromkeys((*names, "teacher_forcing"), 0.123456789012)
    (long,) = expand([{"task": "aor", **many}], {})
    assert len(long.name) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: aor\nlearn_rate: 0.1\n", "unknown option 'learn_rate' (did you mean 'learning_rate'?)"),
        ("task: aor\nseed: []\n", "there is no run in this grid: seed is an empty list"),
        ("learning_rate: 0.1\n", "a grid needs `task`"),
        ("task: aor\nseed: [0, 1, 2, 3]\nnum_layers: [1, 2, 3]\n", "that is 12 runs or more, and 10 is the limit"),
        ("task: aor\nseed: {low: 1}\n", "seed: expected a value or a list of values"),
        ("task: aor\nmethod: tag\n", "unknown method 'tag' (did you mean 'tagging'?)"),
        ("task: aor\nhidden_size: [128, 130]\n", "hidden_size 130 is not divisible by num_heads 4"),
        ("task: aro\n", "unknown task 'aro' (did you mean 'aor'?)"),
        (
            "task: aor\nmax_minutes: soon\n",
            "max_minutes: must be a number, not",
        ),
        ("task: aor\ndata: 'd/{nubmers}'\n", "has a placeholder that is not an option"),
        ("task: 3\n", "task: expected a name, not 3"),
        ("task: aor\nmethod: 3\n", "method: expected a name, not 3"),
        ("task: [[aor]]\n", "task: expected a name"),
        ("task: aor\nmax_epochs: .inf\n", "max_epochs: must be a finite number"),
        ("task: aor\ndata: nowhere\n", "nowhere"),
        ("- task\n", "expected names and values of options"),
        ("task: [aor\n", "neither valid YAML nor JSON"),
    ],
)
def test_an_invalid_grid_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        expand(grids(str(file), []), {}, max_runs=10)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "minutes"), [("4h", 240), ("90m", 90), ("1h30m", 90), ("45s", 0.75), ("0.5h", 30)])
def test_a_budget_is_a_duration(text: str, minutes: float) -> None:
    assert parse_minutes(text) == pytest.approx(minutes)


@pytest.mark.parametrize("text", ["", "4", "h", ".h", "-3m", "4x", "1.2.3h", "0m", "soon"])
def test_an_invalid_budget_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--budget takes a time"):
        parse_minutes(text)


def test_a_run_without_a_mode_has_the_recommended_one() -> None:
    cells = expand([{"task": "aor", "method": ["recurrence", "tagging"]}], {})
    assert [cell.request().settings.mode for cell in cells] == ["augmented", "online"]
    assert ["augmented" in cell.name for cell in cells] == [True, False]
