"""The shape of the project: rooms import in one direction, torch stays in two of them, docs name what exists."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import stepedit
from stepedit.errors import UnknownNameError
from stepedit.registry import TASKS

PACKAGE = Path(stepedit.__file__).parent

# a room imports only rooms above it
ROOMS = [
    "errors",
    "registry",
    "files",
    "config",
    "editing",
    "text",
    "arithmetic",
    "tasks",
    "data",
    "methods",
    "inference",
    "evaluation",
    "testing",
    "programmers",
    "training",
    "experiments",
    "server",
    "cli",
]
WITH_TORCH = {"programmers", "training"}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if not path.name.startswith("__"))
every_file = pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])


def imported_names(path: Path) -> set[str]:
    """All modules that a file imports when it runs; imports for type checkers do not count."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{path.name}: use absolute imports"
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def package_imports(path: Path) -> set[str]:
    return {name.removeprefix("stepedit.") for name in imported_names(path) if name.startswith("stepedit.")}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@every_file
def test_rooms_import_in_one_direction(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{room} has no place in the order: add it to ROOMS and to docs/architecture.md"
    for name in package_imports(path):
        other = name.partition(".")[0]
        if other not in (room, "__version__"):
            assert ROOMS.index(other) < ROOMS.index(room), f"{path.name} imports {name}, a room below it"


def test_modules_of_a_room_do_not_import_each_other_in_a_cycle() -> None:
    at_import = {path: ast.parse(path.read_text()).body for path in FILES}
    graph = {}
    for path, body in at_import.items():
        lines = {node.lineno for node in body if isinstance(node, ast.Import | ast.ImportFrom)}
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        froms = [node for node in body if isinstance(node, ast.ImportFrom) and node.lineno in lines and node.module]
        names = {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
        names |= {str(node.module) for node in froms}
        graph[module] = {name.removeprefix("stepedit.") for name in names if name.startswith("stepedit.")} - {module}
    modules = set(graph)
    TopologicalSorter({module: names & modules for module, names in graph.items()}).prepare()


@every_file
def test_torch_is_imported_in_two_rooms_only(path: Path) -> None:
    if room_of(path) not in WITH_TORCH:
        assert not any(name.split(".")[0] == "torch" for name in imported_names(path)), f"{path} imports torch"


WITHOUT_TORCH = """
import importlib, sys
sys.modules["torch"] = None  # import torch fails from now on
sys.path.insert(0, "examples")
for name in {modules!r}:
    importlib.import_module(name)

import numpy as np
from stepedit.data.states import ExpertPolicy, sample_states, states_after
from stepedit.editing.interpreter import Prediction
from stepedit.inference import greedy
from stepedit.inference.beam_search import search
from stepedit.registry import METHODS, TASKS
from stepedit.evaluation.metrics import METRICS
from stepedit.editing.sequences import Sequences
from stepedit.testing import check_task

rng = np.random.default_rng(0)
for name in TASKS:
    task = TASKS[name].from_args({{}})
    check_task(task)
    pairs = task.generate(50, rng)
    scripts = task.edits(pairs.sources, pairs.targets)
    for kind in METHODS:
        method = METHODS[kind](task)
        if method.iterative:
            predict = ExpertPolicy(scripts, task.template).predict
        else:
            outputs, _ = method.targets(states_after(pairs, scripts, np.zeros(50, np.int64)))
            predict = lambda texts: Prediction(outputs, np.zeros(50))
        outcomes = greedy.run(pairs.sources, predict, method, max_steps=500)
        results = Sequences.from_rows([outcome.tokens for outcome in outcomes])
        assert results.equals(pairs.targets).all(), (name, kind)
        assert METRICS["sequence"](results, pairs).all()
    def top_k(texts, k, done=task.template.done()):
        return np.tile(np.array(done), (len(texts), k, 1)), np.tile(np.log([0.5] + [0.1] * (k - 1)), (len(texts), 1))
    assert all(outcome.finished for outcome in search(pairs.sources, top_k, task.template, 5, 3, task.check))
    sample_states(pairs, scripts, np.arange(50), "online", rng)
assert sys.modules["torch"] is None
print("fine")
"""


def test_everything_but_two_rooms_works_where_torch_cannot_be_imported() -> None:
    modules = [
        ".".join(["stepedit", *path.relative_to(PACKAGE).with_suffix("").parts])
        for path in FILES
        if room_of(path) not in WITH_TORCH
    ]
    program = WITHOUT_TORCH.format(modules=modules)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stdout == "fine\n", run.stderr


@every_file
def test_no_room_asks_for_the_class_of_a_task_method_or_programmer(path: Path) -> None:
    classes = {"Task", "Method", "Programmer", "Recurrence", "Tagging", "End2end", "SinglePassMethod", "Pointer"}
    classes |= {"SeqToSeq", "ParallelText", "ArithmeticTask", "EquationTask", "OpenVocabulary", "OnnxPointer"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked = {inner.id for inner in ast.walk(node.args[1]) if isinstance(inner, ast.Name)}
            assert not asked & classes, f"{path}:{node.lineno}: declare a capability instead"


def test_the_architecture_page_names_every_room_in_order() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    positions = [page.index(f"\n    {name}") for name in ROOMS]
    assert positions == sorted(positions), "docs/architecture.md lists the rooms in another order"


def test_the_tests_mirror_the_rooms() -> None:
    folders = {path.name for path in (PACKAGE.parent / "tests").iterdir() if (path / "__init__.py").exists()}
    assert folders == {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}


@pytest.mark.parametrize(("wrong", "guess"), [("aro", "aor"), ("AES", None), ("sorting", "sort")])
def test_an_unknown_name_lists_the_known_ones(wrong: str, guess: str | None) -> None:
    with pytest.raises(UnknownNameError) as caught:
        TASKS[wrong]
    assert str(caught.value).endswith("; available: aec, aes, aor, sort, text")
    assert guess is None or f"(did you mean {guess!r}?)" in str(caught.value)


def test_a_registry_is_a_mapping() -> None:
    assert TASKS.get("aro") is None
    assert "aor" in TASKS
    assert len(TASKS) == len(list(TASKS))


def test_help_does_not_load_torch() -> None:
    program = "import sys, stepedit.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_public_api_is_complete_and_lazy() -> None:
    program = (
        "import sys, stepedit\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert all(getattr(stepedit, name) is not None for name in stepedit.__all__)\n"
        "assert set(stepedit.__all__) <= set(dir(stepedit))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    with pytest.raises(AttributeError):
        stepedit.nothing_of_this_name  # noqa: B018


def test_equivalent_mutants_are_of_lines_that_are_there() -> None:
    for row in Path(__file__).with_name("equivalent_mutants.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        module, line, _, reason = row.split("\t")
        assert line in (PACKAGE / module).read_text(encoding="utf-8"), row
        assert reason


def test_nothing_evaluates_or_unpickles() -> None:
    for path in FILES:
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec"}, path
        assert "import pickle" not in path.read_text(), path
