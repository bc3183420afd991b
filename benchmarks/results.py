"""Render the tables of the documents from the files in results/, so that no figure is typed by hand.

    make results                            # writes the tables into README.md, docs/ and results/
    python -m benchmarks.results --check    # only names the pages whose tables are not current

A table stands between two comments, and is replaced as a whole:

    <!-- results:NAME -->
    <!-- /results -->

NAME is one of TABLES. Figures in the files are fractions; each row has the command, seed and version that made it.
`stepedit report RUNS --format csv --out results/table.csv` writes such a file. The paper's figures are the package's.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from benchmarks.paper_curve import METRICS, NUMBERS
from stepedit.evaluation.paper import PaperResult, paper_curve, paper_result
from stepedit.experiments.aggregate import TABLE_METRICS
from stepedit.experiments.grid import PAPER_METHODS, PAPER_TASKS
from stepedit.registry import TASKS

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/*.md", "results/*.md")
MARKED = re.compile(r"(<!-- results:([\w-]+) -->\n).*?(<!-- /results -->)", re.DOTALL)

Row = dict[str, str]


def rows_of(results: Path, name: str) -> list[Row]:
    """Return the rows of a file that have figures."""
    with (results / name).open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row.get("ours") != ""]


def percent(value: str | float | None, digits: int = 1) -> str:
    """Return a fraction in percent, rounded half up as people do it; nothing for nothing."""
    if value in (None, ""):
        return ""
    return str((100 * Decimal(str(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def interval(row: Row, low: str = "low", high: str = "high", digits: int = 1) -> str:
    """Return ` (73.6 to 78.2)`, or nothing if a row has no interval."""
    if not row[low]:
        return ""
    ends = ["100" if float(row[end]) == 1 else percent(row[end], digits) for end in (low, high)]
    return f" ({' to '.join(ends)})"


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]], numbers_from: int | None = None) -> str:
    """Return a table; columns of numbers are aligned to the right."""
    left = len(heads) if numbers_from is None else numbers_from
    rule = "|" + "---|" * left + "---:|" * (len(heads) - left)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def authors(task: str, method: str, mode: str) -> PaperResult:
    """Return the authors' result in the main table."""
    found = paper_result(task, method, mode, {"numbers": NUMBERS[task], "length": 5}, 10_000)
    if found is None:
        raise SystemExit(f"the paper's table has no {task} {method} {mode}")
    return found


def minutes_of(row: Row) -> str:
    """Return `70, about 33 of computing`, where other work took the rest."""
    return row["minutes"] + (f", about {row['computing_minutes']} of computing" if row["computing_minutes"] else "")


def gpu_minutes(result: PaperResult) -> str:
    """Return the minutes that the authors report."""
    return f"{result.gpu_hours * 60:,.0f}"


def _leading(row: Row) -> bool:
    """Whether a row has the metric that a task's table leads with."""
    return row["metric"] == TABLE_METRICS[row["task"]][0]


def headline(results: Path) -> str:
    """Return one row per task and mode, of the run with the best validation: README's first table."""
    published = {row["task"]: row["value"] for row in rows_of(results, "published.csv")}
    best: dict[tuple[str, str], Row] = {}
    for row in sorted(rows_of(results, "best.csv"), key=lambda row: float(row["validation"])):
        if _leading(row):
            best[row["task"], row["mode"]] = row
    lines = []
    for task in PAPER_TASKS:
        for mode in ("augmented", "self-training"):
            if found := best.get((task, mode)):
                lines.append(_headline(found, published[task], plain=mode == "augmented"))
    heads = ["task", "metric", "paper", "best published", "stepedit, greedy", "stepedit, beam 10 verified"]
    return markdown([*heads, "minutes, one thread", "paper's, GPU"], lines)


def _headline(row: Row, published: str, plain: bool) -> list[str]:
    """Return a line of the first table; others have no figures for a mode that is ours."""
    theirs, name = authors(row["task"], "recurrence", "online"), row["task"].upper()
    others = [percent(theirs.metrics[row["metric"]]), percent(published)] if plain else ["", ""]
    note = f" ({row['note']})" if row["note"] else ""
    ours = [f"**{percent(row['ours'])}**", percent(row["verified"]) + note, minutes_of(row)]
    name = name if plain else f"{name}, {row['mode']}"
    return [name, row["metric"], *others, *ours, gpu_minutes(theirs) if plain else ""]


def methods(results: Path) -> str:
    """Return a row per task and a column per method, the paper's figures in brackets: README's second table."""
    found = {(row["task"], row["method"]): row for row in rows_of(results, "methods.csv") if _leading(row)}
    lines = []
    for task in PAPER_TASKS:
        metric = TABLE_METRICS[task][0]
        best = max(PAPER_METHODS, key=lambda method: float(found[task, method]["ours"]))
        cells = []
        for method in PAPER_METHODS:
            ours = percent(found[task, method]["ours"])
            theirs = percent(authors(task, method, "online").metrics[metric])
            cells.append(f"{f'**{ours}**' if method == best else ours} ({theirs})")
        lines.append([f"{task.upper()}, {metric}", *cells])
    return markdown(["task, metric", *map(title, PAPER_METHODS)], lines)


def title(method: str) -> str:
    """Return a method's name in the text."""
    return method.capitalize()


def methods_in_full(results: Path) -> str:
    """Return a row per run of the three methods."""
    rows = rows_of(results, "methods.csv")
    tops = {
        task: max(float(row["ours"]) for row in rows if row["task"] == task and _leading(row)) for task in PAPER_TASKS
    }
    lines = []
    for row in filter(_leading, rows):
        key = row["task"], row["method"]
        others = [each for each in rows if (each["task"], each["method"]) == key and not _leading(each)]
        ours = percent(row["ours"])
        figure = f"**{ours}**" if float(row["ours"]) == tops[row["task"]] else ours
        test = f"{figure}{interval(row)} {row['metric']}"
        test += "".join(f", {percent(each['ours'])} {each['metric']}" for each in others)
        test += f"; {row['note']}" if row["note"] else ""
        cost = [row["minutes"], f"{int(row['steps']):,}"]
        lines.append([row["task"].upper(), title(row["method"]), *cost, percent(row["validation"]), test])
    return markdown(["task", "method", "minutes", "steps", "validation", "test"], lines)


def best_runs(results: Path) -> str:
    """Return a row per length of a run, and metric."""
    lines = []
    rows = rows_of(results, "best.csv")
    for row in rows:
        setting = row["task"], row["mode"], row["metric"]
        longest = max(int(each["epochs"]) for each in rows if (each["task"], each["mode"], each["metric"]) == setting)
        ours = percent(row["ours"])
        verified = percent(row["verified"]) + interval(row, "verified_low", "verified_high")
        named = f", {row['metric']}" if len(TABLE_METRICS[row["task"]]) > 1 else ""
        lines.append([
            f"{row['task'].upper()}, {row['mode']}, {row['epochs']}{named}",
            percent(row["validation"]),
            (f"**{ours}**" if int(row["epochs"]) == longest else ours) + interval(row),
            verified + (" hold" if row["verified_metric"] == "holds" else ""),
            minutes_of(row) if _leading(row) else "",
        ])  # fmt: skip
    return markdown(
        ["task, mode, epochs", "validation", "test, greedy", "test, `--beam-size 10 --verify`", "minutes"], lines
    )


def time_to_accuracy(results: Path) -> str:
    """Return when the paper's accuracy was reached, beside the authors' cost."""
    lines = []
    for row in rows_of(results, "time_to_accuracy.csv"):
        theirs = authors(row["task"], row["method"], "online")
        here = f"{row['minutes']} minutes, {int(row['steps']):,} steps"
        lines.append([row["task"].upper(), here, f"{gpu_minutes(theirs)} minutes, {theirs.steps:,} steps"])
    return markdown(["task", "here", "the authors, on a GPU"], lines)


def curves(results: Path) -> str:
    """Return our validations with the paper's network beside the authors' at the nearest epoch."""
    lines = []
    for row in rows_of(results, "paper_curves.csv"):
        theirs = paper_curve(row["task"], row["method"], row["mode"], int(row["numbers"]))
        near = min(theirs, key=lambda point: abs(point.epoch - int(row["epoch"])))
        objective = TASKS[row["task"]].objective
        shown = [name for name in METRICS if name in near.metrics or name == objective]
        ours = [percent(row[name], 2) if name in shown else "" for name in METRICS]
        other = [percent(near.metrics.get(name), 2) for name in METRICS]
        lines.append([f"{row['task'].upper()} {title(row['method'])}", row["epoch"], *ours, str(near.epoch), *other])
    return markdown(["", "epoch", *METRICS, "authors' epoch", *METRICS], lines)


def cells(results: Path) -> str:
    """Return the 18 cells in brief, a column per method, the paper's figures in brackets; bold if not below those."""
    found = {
        (row["task"], row["method"], row["mode"]): row
        for row in reversed(rows_of(results, "table.csv"))  # the main table's come first, so they stay
        if _of_main_setting(row) and _leading(row)
    }
    lines = []
    for task in PAPER_TASKS:
        for mode in ("offline", "online"):
            rows = [found.get((task, method, mode)) for method in PAPER_METHODS]
            lines.append([f"{task.upper()} {mode}, {TABLE_METRICS[task][0]}", *map(_beside_the_papers, rows)])
    return markdown(["task, mode, metric", *map(title, PAPER_METHODS)], lines)


def _beside_the_papers(row: Row | None) -> str:
    """Return `**52.4** (26.5)`, or nothing for a run that is missing."""
    if row is None:
        return ""
    ours, theirs = percent(row["ours"]), percent(row["paper"])
    return f"{ours if float(row['ours']) < float(row['paper']) else f'**{ours}**'} ({theirs})"


def table(results: Path, name: str = "table.csv") -> str:
    """Return the paper's main table in full, or the cells of it that a file has."""
    lines = []
    for row in rows_of(results, name):
        if row["metric"] not in TABLE_METRICS.get(row["task"], ()) or not _of_main_setting(row):
            continue
        ours, theirs = (percent(row[name], 2) for name in ("ours", "paper"))
        difference = f"{Decimal(ours) - Decimal(theirs):+}"
        cost = [f"{float(row['minutes']):.1f}", f"{float(row['paper_gpu_hours']):.1f}", f"{float(row['steps']):,.0f}"]
        scoring = percent(row.get("authors_scoring"), 2)
        named = [row["task"], f"{row['method']} {row['mode']}" + (f", {row['variant']}" if row["variant"] else "")]
        ends = interval(row, digits=2).strip(" ()")
        cells = [*named, row["metric"], ours, ends, scoring if scoring != ours else "", theirs + "*" * _is_cut(row)]
        lines.append(
            [*cells, difference, *(cost if _leading(row) else [""] * 3), row["seeds"] if _leading(row) else ""]
        )
    heads = ["task", "method and mode", "metric", "ours", "95 % interval", "ours, authors' scoring", "paper"]
    return markdown([*heads, "difference", "minutes here", "GPU hours, paper", "steps", "seeds"], lines, 3)


def _of_main_setting(row: Row) -> bool:
    """Whether the authors have a figure for a row in their main table; augmented stands beside their online one."""
    at = row["numbers"], row["length"], row["num_examples"]
    return at == (str(NUMBERS[row["task"]]), "5", "10000") and row["paper"] != ""


def _is_cut(row: Row) -> bool:
    """Whether the authors' figure is one of outputs that are cut off."""
    return (row["task"], row["method"]) == ("aec", "tagging")


def length_steps(results: Path) -> str:
    """Return the optimizer steps of the runs along L."""
    steps = {(row["length"], row["method"]): f"{float(row['steps']):.0f}" for row in rows_of(results, "length.csv")}
    lengths = sorted({length for length, _ in steps}, key=int)
    return markdown(
        ["L", *map(title, PAPER_METHODS)],
        [[at, *(steps.get((at, each), "") for each in PAPER_METHODS)] for at in lengths],
    )


def text(results: Path) -> str:
    """Return the models of text beside the baselines, a row per data set and network."""
    lines = []
    for row in rows_of(results, "text.csv"):
        exact, f05 = (percent(row[name]) + interval(row, f"{name}_low", f"{name}_high") for name in ("exact", "f0.5"))
        network = ", ".join(part for part in (row["network"], row["variant"]) if part)
        others = [percent(row[name]) for name in ("precision", "recall", "gleu", "false_alarms")]
        minutes = row["minutes"] if float(row["minutes"]) else ""
        lines.append([row["data"], network, exact, f05, *others, row["min_confidence"], minutes])
    heads = ["data", "", "exact match", "edit F0.5", "precision", "recall", "GLEU", "false alarms"]
    return markdown([*heads, "min. confidence", "minutes"], lines)


TABLES: dict[str, Callable[[Path], str]] = {
    "headline": headline,
    "methods": methods,
    "methods-in-full": methods_in_full,
    "best": best_runs,
    "time-to-accuracy": time_to_accuracy,
    "paper-curves": curves,
    "cells": cells,
    "table": table,
    "one-network": lambda results: table(results, "one_network.csv"),
    "length-steps": length_steps,
    "text": text,
}


def render(text: str, results: Path) -> str:
    """Return a page with its tables as the files say."""

    def replaced(match: re.Match[str]) -> str:
        if match[2] not in TABLES:
            raise SystemExit(f"no table is called {match[2]!r}; there are {', '.join(TABLES)}")
        return f"{match[1]}{TABLES[match[2]](results)}{match[3]}"

    return MARKED.sub(replaced, text)


def pages(root: Path = ROOT) -> list[Path]:
    """Return all documents that may have tables."""
    return sorted(path for pattern in PAGES for path in root.glob(pattern))


def main() -> None:
    """Write the tables, or check that they are current."""
    outdated = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = render(text, ROOT / "results")
        if new != text:
            outdated.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    if "--check" in sys.argv and outdated:
        sys.exit(f"not current: {', '.join(outdated)}; run `make results`")
    print(f"written: {', '.join(outdated)}" if outdated else "all tables are current")


if __name__ == "__main__":
    main()
