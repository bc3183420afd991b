"""The shape of the project: imports go one way, names teach, the documents name what exists."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stepedit
from stepedit.errors import UnknownNameError
from stepedit.registry import TASKS

PACKAGE = Path(stepedit.__file__).parent

# from the ground up: a part imports only parts that stand before it
LAYERS = [
    "errors",
    "registry",
    "config",
    "reference",
    "sequences",
    "tokens",
    "vocabulary",
    "edits",
    "equations",
    "equation_counting",
    "equation_sampling",
    "metrics",
    "text_metrics",
    "actions",
    "interpreter",
    "changes",
    "tasks",
    "datasets",
    "batches",
    "methods",
    "programmers",
    "optimisers",
    "checkpoints",
    "hub",
    "search",
    "suggestions",
    "lexicon",
    "evaluation",
    "selfteaching",
    "training",
    "runs",
    "editor",
    "results",
    "tuning",
    "corruption",
    "experiments",
    "serving",
    "display",
    "commands",
    "cli",
]
SHARED = {
    "tasks": {"task", "arithmetic"},
    "methods": {"method"},
    "programmers": {"compiling", "programmer", "layers", "pointer"},
    "experiments": {"grid", "worker", "places", "costs", "collection", "figures"},
    "serving": {"shelf", "batching", "guard", "shapes"},
    "commands": {"common", "watch"},
}  # what files of one folder may share


def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports when it runs; imports for type checkers do not count."""
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
        assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{path.name}: say where from, in full"
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("stepedit.") for name in found if name.startswith("stepedit.")}


FILES = sorted(path for path in PACKAGE.rglob("*.py") if not path.name.startswith("__"))


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])
def test_imports_go_one_way_only(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert layer in LAYERS, f"{layer} has no place in the order: add it to LAYERS and to docs/architecture.md"
    for name in imports(path):
        part, _, rest = name.partition(".")
        if part == layer:
            assert rest.split(".")[0] in SHARED.get(layer, set()), f"{path.name} imports its neighbour {name}"
        elif part != "__version__":
            assert LAYERS.index(part) < LAYERS.index(layer), f"{path.name} imports {name}, which stands above it"


def test_the_architecture_page_names_every_part() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    places = [page.index(f"\n    {name}") for name in LAYERS]
    assert places == sorted(places), "docs/architecture.md lists the parts in another order"


@pytest.mark.parametrize(("wrong", "guess"), [("aro", "aor"), ("AES", None), ("sorting", "sort")])
def test_a_wrong_name_teaches_the_right_ones(wrong: str, guess: str | None) -> None:
    with pytest.raises(UnknownNameError) as caught:
        TASKS[wrong]
    assert str(caught.value).endswith("; available: aec, aes, aor, sort, text")
    assert guess is None or f"(did you mean {guess!r}?)" in str(caught.value)


def test_a_registry_is_a_mapping_to_its_users() -> None:
    assert TASKS.get("aro") is None
    assert "aor" in TASKS
    assert len(TASKS) == len(list(TASKS))


def test_help_does_not_wait_for_torch() -> None:
    program = "import sys, stepedit.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_nothing_evaluates_or_unpickles() -> None:
    for path in FILES:
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"eval", "exec"}, path
        assert "import pickle" not in path.read_text(), path
