"""Mutation tests: break the code in many small ways and count how often a test notices (docs/testing.md).

    python -m tests.mutation map                               # which tests run which lines, and how long they take
    python -m tests.mutation run editing --sample 200 --seed 0 # mutants of a room; survivors are printed
    python -m tests.mutation again editing --seed 0            # the survivors of that run once more

cosmic-ray makes the mutants. This file chooses the tests of each: those that run its line, the module's own first,
as many as take `MAX_SECONDS` together. All is done in a copy of the project, in a forked process per mutant.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
OUT = Path(os.environ.get("STEPEDIT_MUTATION", ROOT / ".mutation"))
ROOMS = ("editing", "evaluation", "inference", "server")
# graphs are tested beside the networks that they are made of
TESTED = [*(f"tests/{room}" for room in (*ROOMS, "methods", "tasks")), "tests/programmers/test_graphs.py"]
LEFT_OUT_TESTS = ["tests/server/test_page.py"]  # needs a browser
KEPT_FIXTURES = ("runs",)  # trained once, not for every mutant
MAX_TEST_SECONDS, MAX_SECONDS, MAX_TESTS = 2.5, 8.0, 80
PRELOADED = (
    *("numpy.testing", "torch", "onnx", "onnxruntime", "rapidfuzz.distance", "fastapi.testclient", "typer.testing"),
    *("hypothesis", "_hypothesis_pytestplugin", "schemathesis.pytest.plugin", "xdist.plugin", "anyio.pytest_plugin"),
)
QUIET = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # about plugins that are loaded before

# Of cosmic-ray's replacements those that are hardest to notice; `+` by `<<` or `==` by `is` fail everywhere.
ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Div", "Mod_Mul", "Pow_Mul", "RShift_LShift")
BITS = ("LShift_RShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd")
COMPARISONS = ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "GtE_Lt", "Gt_LtE", "LtE_Gt")
UNARY = ("Delete_Not", "USub_UAdd", "Delete_Invert")
OTHERS = (
    *(
        "AddNot",
        "ReplaceTrueWithFalse",
        "ReplaceFalseWithTrue",
        "ReplaceAndWithOr",
        "ReplaceOrWithAnd",
        "NumberReplacer",
    ),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "ZeroIterationForLoop"),
)
OPERATORS = (
    *(f"ReplaceBinaryOperator_{name}" for name in (*ARITHMETIC, *BITS)),
    *(f"ReplaceComparisonOperator_{name}" for name in (*COMPARISONS, "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceUnaryOperator_{name}" for name in UNARY),
    *OTHERS,
)
GUARDS = ("frozen", "strict", "slots")  # they keep developers from mistakes; nothing else depends on them
SPEED = ("MAX_CELLS", "BATCH_SIZE", "BATCH_LINES", "BATCH_CHARACTERS", "MAX_PART", "MIN_PART", "MAX_SCORES")


@dataclass(frozen=True)
class Mutant:
    """One change of one line."""

    module: str  # path from the root of the project
    operator: str
    occurrence: int
    line: int
    column: int
    before: str  # the line
    after: str = ""
    seconds: float = 0.0
    outcome: str = ""  # killed, timeout, survived, or the reason why it is left out


class Map:
    """Which tests run which lines; a pytest plugin records it."""

    def __init__(self) -> None:
        from coverage import Coverage

        self.seconds, self.fixtures, self.needs = dict[str, float](), dict[str, float](), dict[str, list[str]]()
        self.failed = set[str]()
        self.coverage = Coverage(data_file=None, source=[f"stepedit/{room}" for room in ROOMS])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        self.needs[item.nodeid] = list(getattr(item, "fixturenames", []))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef.argname] = time.perf_counter() - begin

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def write(self, path: Path) -> None:
        """Write seconds of each test, fixtures included, and the tests of each line."""
        tests = {
            test: seconds + sum(self.fixtures.get(name, 0.0) for name in self.needs[test] if name not in KEPT_FIXTURES)
            for test, seconds in self.seconds.items()
            if test not in self.failed
        }
        data, lines = self.coverage.get_data(), dict[str, dict[int, list[str]]]()
        for file in data.measured_files():
            by_line = data.contexts_by_lineno(file).items()
            lines[str(Path(file).relative_to(Path.cwd()))] = {
                line: [test for test in found if test in tests] for line, found in by_line
            }
        path.write_text(json.dumps({"seconds": tests, "lines": lines}))


def copy_project() -> Path:
    """Copy the project's files to a folder where they can be broken; mutated rooms have no compiled files there."""
    folder = OUT / "copy"
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in names:
        old, new = ROOT / name, folder / name
        if old.exists() and (not new.exists() or new.read_bytes() != old.read_bytes()):
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(old.read_bytes())
    compileall.compile_dir(str(folder), quiet=2)
    for room in ROOMS:
        for file in (folder / "stepedit" / room).glob("__pycache__/*"):
            file.unlink()
    return folder


def record_map() -> None:
    """Run the tests once, recording which lines each of them runs."""
    recorder = Map()
    recorder.coverage.start()
    ignored = [f"--ignore={path}" for path in LEFT_OUT_TESTS]
    pytest.main(["-q", "-p", "no:cacheprovider", *ignored, *TESTED], plugins=[recorder])
    recorder.coverage.stop()
    recorder.write(OUT / "map.json")


def mutants(module: Path) -> list[Mutant]:
    """Return all mutants of a module with the operators above, not yet made."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    source, found = module.read_text(encoding="utf-8"), list[Mutant]()
    nodes, lines = list(ast_nodes(get_ast(source))), source.splitlines()
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        positions = (place for node in nodes for place in operator.mutation_positions(node))
        for occurrence, ((line, column), _) in enumerate(positions):
            found.append(Mutant(str(module), name, occurrence, line, column, lines[line - 1].strip()))
    return found


def made(mutant: Mutant) -> Mutant:
    """Return a mutant with its line after the change."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = Path(mutant.module).read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    return replace(mutant, after=changed.splitlines()[mutant.line - 1].strip())


def left_out(mutant: Mutant, tree: ast.Module, source: Sequence[str]) -> str:
    """Return the rule that leaves a mutant out; empty if it matters. docs/testing.md explains the rules."""
    inside = [node for node in ast.walk(tree) if getattr(node, "lineno", 1 << 30) <= mutant.line <= node.end_lineno]
    raised = [node for node in inside if isinstance(node, ast.Raise | ast.Assert)]
    if any(node.lineno < mutant.line or mutant.before.startswith(("raise", "assert")) for node in raised):
        return "message"
    if "BitOr" in mutant.operator and not any(isinstance(node, ast.BinOp) for node in _evaluated(inside)):
        return "type"
    if source[mutant.line - 1][: mutant.column].endswith(tuple(f"{word}=" for word in GUARDS)):
        return "guard"
    constants = [node for node in tree.body if isinstance(node, ast.Assign) and node in inside]
    if any(ast.unparse(node.targets[0]) in SPEED for node in constants) or mutant.before.startswith("@lru_cache"):
        return "speed"
    return ""


def _evaluated(inside: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the expressions among these nodes, and those in them, that are not annotations."""
    for node in inside:
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            parts = [node.value] if isinstance(node, ast.AnnAssign) else [node]
            yield from (below for part in parts if part for below in ast.walk(part))


def equivalent() -> dict[str, str]:
    """Return the mutants that were read and found to change nothing, each with the reason."""
    lines = (ROOT / "tests" / "equivalent_mutants.tsv").read_text(encoding="utf-8").splitlines()
    return {"\t".join(fields[:3]): fields[3] for line in lines if len(fields := line.split("\t")) == 4}


def tests_of(mutant: Mutant, recorded: dict[str, dict[str, Any]], tree: ast.Module) -> list[str]:
    """Return the tests that run a mutant's line, or the smallest statement or function around it that a test runs.

    The other tests of its module follow: of a result that is cached, only the first test that needs it runs the lines.
    """
    lines: dict[str, list[str]] = recorded["lines"].get(mutant.module, {})
    spans = [
        (node.end_lineno - node.lineno, node.lineno, node.end_lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= node.end_lineno
    ]
    for _, first, last in [(0, mutant.line, mutant.line), *sorted(spans), (0, 1, 1 << 30)]:
        tests = {test for line, found in lines.items() if first <= int(line) <= last for test in found}
        if tests:
            return affordable(tests, mutant.module, recorded["seconds"])
    return []


def affordable(tests: set[str], module: str, seconds: dict[str, float]) -> list[str]:
    """Return the tests to run, in order: the module's own, those of its room, others; fast ones first."""
    _, room, name = module.split("/")

    def rank(test: str) -> tuple[bool, bool, bool, float]:
        return test not in tests, f"test_{name}" not in test, f"tests/{room}/" not in test, seconds[test]

    fast = [test for test in tests if seconds[test] <= MAX_TEST_SECONDS] or [min(tests, key=lambda test: seconds[test])]
    own = [test for test in seconds if f"/test_{name}" in test and test not in tests]
    fast += [test for test in own if seconds[test] <= MAX_TEST_SECONDS]
    chosen, spent = list[str](), 0.0
    for test in sorted(fast, key=rank):
        spent += seconds[test]
        if chosen and (spent > MAX_SECONDS or len(chosen) == MAX_TESTS):
            break
        chosen.append(test)
    return chosen


def run_tests(tests: Sequence[str], limit: float) -> str:
    """Run tests in a forked process; return survived, killed (a test, or an import, failed), timeout or broken."""
    child = os.fork()
    if child == 0:
        os.setsid()
        log = os.open(OUT / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *QUIET, *tests])))
        finally:
            os._exit(100)  # pytest itself failed
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return {0: "survived", 1: "killed", 2: "killed", 4: "killed"}.get(
                os.waitstatus_to_exitcode(status), "broken"
            )
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def try_mutant(mutant: Mutant, tests: Sequence[str], seconds: dict[str, float]) -> Mutant:
    """Write a mutant into the copy, run its tests, restore the file, and return the mutant with its outcome."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    begin = time.perf_counter()
    operator = get_operator(f"core/{mutant.operator}")()
    with use_mutation(Path(mutant.module), operator, mutant.occurrence):
        limit = 20 + 5 * sum(seconds.get(test, 60.0) for test in tests)
        outcome = run_tests(tests, limit) if tests else "survived"
    return replace(mutant, outcome=outcome, seconds=round(time.perf_counter() - begin, 2))


def check_baseline(tests: set[str], seconds: dict[str, float]) -> None:
    """Exit if a test fails without any mutant: its failures would say nothing."""
    files = sorted({test.partition("::")[0] for test in tests})
    for file in files:
        own = [test for test in tests if test.startswith(file)]
        if run_tests(own, 60 + 5 * sum(seconds[test] for test in own)) != "survived":
            sys.exit(f"{file}: fails without a mutant; see {OUT / 'log.txt'}")


def run_room(room: str, sample: int, seed: int) -> None:
    """Try a sample of the mutants of a room that matter, and write all outcomes."""
    recorded = json.loads((OUT / "map.json").read_text())
    trees = {str(path): ast.parse(path.read_text()) for path in sorted(Path(f"stepedit/{room}").glob("*.py"))}
    found = [mutant for module in trees for mutant in mutants(Path(module))]
    lines = {module: Path(module).read_text(encoding="utf-8").splitlines() for module in trees}
    reasons = [left_out(mutant, trees[mutant.module], lines[mutant.module]) for mutant in found]
    matter = [mutant for mutant, reason in zip(found, reasons, strict=True) if not reason]
    print(f"{room}: {len(found)} mutants, {len(matter)} without those left out {dict(Counter(filter(None, reasons)))}")
    chosen = [made(mutant) for mutant in random.Random(seed).sample(matter, min(sample, len(matter)))]
    selected = {mutant: tests_of(mutant, recorded, trees[mutant.module]) for mutant in chosen}
    check_baseline({test for tests in selected.values() for test in tests}, recorded["seconds"])
    results = list[Mutant]()
    for mutant in chosen:
        results.append(try_mutant(mutant, selected[mutant], recorded["seconds"]))
        print(results[-1].outcome, results[-1].seconds, mutant.module, mutant.line, flush=True)
        write(room, seed, results, len(found), len(matter))
    report(room, seed)


def run_again(room: str, seed: int, tests: Sequence[str]) -> None:
    """Try the survivors of a run again: against all tests of their room, or against those given."""
    recorded, stored = json.loads((OUT / "map.json").read_text()), json.loads(outcomes(room, seed).read_text())
    results = [Mutant(**each) for each in stored["mutants"]]
    for index, mutant in enumerate(results):
        if mutant.outcome == "survived" and (moved := located(mutant)):
            own = [f"tests/{room}"] if not tests else list(tests)
            results[index] = try_mutant(moved, own, recorded["seconds"])
            print(results[index].outcome, results[index].seconds, mutant.module, mutant.line, flush=True)
            write(room, seed, results, stored["all"], stored["matter"])
    report(room, seed)


def located(mutant: Mutant) -> Mutant | None:
    """Return a mutant of an earlier version of its module in today's; None if its line is gone."""
    near = [
        each
        for each in mutants(Path(mutant.module))
        if (each.operator, each.before) == (mutant.operator, mutant.before)
    ]
    same = [each for each in map(made, near) if each.after == mutant.after]
    return min(same, key=lambda each: abs(each.line - mutant.line), default=None)


def outcomes(room: str, seed: int) -> Path:
    """Return the file of the outcomes of a sample."""
    return OUT / f"{room}-{seed}.json"


def write(room: str, seed: int, results: list[Mutant], number: int, matter: int) -> None:
    """Keep what is known so far."""
    value = {"all": number, "matter": matter, "mutants": [asdict(mutant) for mutant in results]}
    outcomes(room, seed).write_text(json.dumps(value, indent=1))


def report(room: str, seed: int) -> None:
    """Print the survivors of a run and its score."""
    from stepedit.evaluation.intervals import wilson

    results = [Mutant(**each) for each in json.loads(outcomes(room, seed).read_text())["mutants"]]
    known = equivalent()
    counted = [mutant for mutant in results if key(mutant) not in known]
    for mutant in counted:
        if mutant.outcome == "survived":
            print(f"\n{mutant.module}:{mutant.line} {mutant.operator}\n  - {mutant.before}\n  + {mutant.after}")
    killed = sum(mutant.outcome != "survived" for mutant in counted)
    low, high = wilson(killed / len(counted), len(counted))
    print(
        f"\n{room}: {killed} of {len(counted)} killed, {killed / len(counted):.1%} ({low:.1%} to {high:.1%}), ", end=""
    )
    print(f"{len(results) - len(counted)} equivalent left out, {sum(mutant.seconds for mutant in results):.0f} s")


def key(mutant: Mutant) -> str:
    """Return what identifies a mutant in the list of equivalent ones."""
    return "\t".join((mutant.module.removeprefix("stepedit/"), mutant.before, mutant.after))


def main() -> None:
    """Parse the arguments, go to the copy and do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["map", "run", "again", "report"])
    parser.add_argument("room", nargs="?", choices=ROOMS)
    parser.add_argument("tests", nargs="*", help="for `again`: test files instead of the room's")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # the file that is broken just now is restored
    # a map has line numbers, so a run mutates the code that it was made of
    os.chdir(OUT / "copy" if arguments.command == "run" else copy_project())
    del sys.modules["tests"]  # the copy's are tested
    sys.path[:] = [str(Path.cwd()), *(path for path in sys.path if path not in ("", str(ROOT)))]
    os.environ["PYTHONPATH"] = str(Path.cwd())
    os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_STORAGE_DIRECTORY": str(OUT / "hypothesis")}
    os.environ["STEPEDIT_TEST_RUNS"] = str(OUT / "runs")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = arguments.command != "map"
    if arguments.command == "map":
        return record_map()
    if arguments.command == "report":
        return report(arguments.room, arguments.seed)
    for name in PRELOADED:
        import_module(name)
    if arguments.command == "again":
        return run_again(arguments.room, arguments.seed, arguments.tests)
    return run_room(arguments.room, arguments.sample, arguments.seed)


if __name__ == "__main__":
    main()
