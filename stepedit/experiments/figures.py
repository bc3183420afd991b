"""The figures of a report: readable in print and for color-blind readers, with markers as well as colors."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepedit.evaluation.paper import paper_curve, settings_along
from stepedit.experiments.aggregate import Results, Row, Setting, main_settings
from stepedit.registry import TASKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette
LOOKS = {"end2end": ("#0072B2", "s"), "tagging": ("#E69F00", "^"), "recurrence": ("#009E73", "o")}
TITLES = {
    "numbers": "N, different integers",
    "length": "L, integers in an equation",
    "num_examples": "D, equations in the data",
}
MODES = ("offline", "online")
DASHES = ("-", "-.", ":", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)))  # of our lines, by variant
CURVES_OF = (5, 10_000)  # L and D of the runs whose validations the authors logged


def look(method: str) -> dict[str, Any]:
    """Return the style of a method."""
    color, marker = LOOKS.get(method, ("#555555", "D"))
    return {"color": color, "marker": marker, "markersize": 5}


def panels(count: int, width: float = 3.6, height: float = 3.1) -> tuple[Figure, Sequence[Axes]]:
    """Return panels in a row that share their vertical axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count, height), layout="constrained")
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for each in axes:
        tidy(each)
    return figure, axes


def tidy(axes: Axes) -> None:
    """Remove frames and lighten the grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=8)


def svg(figure: Figure) -> str:
    """Return a figure as SVG for an HTML page."""
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.hashsalt": "stepedit"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def along(results: Results, task: str, axis: str) -> Figure | None:
    """Draw accuracy along N, L or D, the paper's curves behind ours; None if we have fewer than two points."""
    settings = settings_along(task, axis)
    metric = TASKS[task].objective
    modes = [
        mode
        for mode in MODES
        if any(sum(bool(row.runs) for row in _points(results, task, method, mode, settings)) > 1 for method in LOOKS)
    ]
    if not modes:
        return None
    figure, panes = panels(len(modes))
    for axes, mode in zip(panes, modes, strict=True):
        for method in LOOKS:
            _draw_line(axes, results, task, method, mode, settings, axis)
        axes.set_title(f"{task} {mode}")
        axes.set_xlabel(TITLES[axis])
        axes.set_xticks([setting[axis] for setting in settings])
        if axis == "num_examples":
            axes.set_xticklabels([f"{setting[axis] // 1000}k" for setting in settings])
    panes[0].set_ylabel(f"{metric} accuracy on test, %")
    panes[-1].legend(fontsize=7, frameon=False)
    return figure


def _points(results: Results, task: str, method: str, mode: str, settings: Sequence[dict[str, int]]) -> list[Row]:
    """Return a row per setting, if any of them has a run."""
    rows = [
        results.any_variant(Setting(task, method, mode, at["numbers"], at["length"], at["num_examples"]))
        for at in settings
    ]
    return rows if any(row.runs for row in rows) else []


def _draw_line(
    axes: Axes,
    results: Results,
    task: str,
    method: str,
    mode: str,
    settings: Sequence[dict[str, int]],
    axis: str,
) -> None:
    metric = TASKS[task].objective
    theirs = [
        Row(Setting(task, method, mode, at["numbers"], at["length"], at["num_examples"]), ()).paper for at in settings
    ]
    at = [setting[axis] for setting, result in zip(settings, theirs, strict=True) if result]
    heights = [100 * result.metrics[metric] for result in theirs if result]
    axes.plot(at, heights, "--", alpha=0.45, linewidth=1.2, label=f"{method}, paper", **look(method))
    rows = _points(results, task, method, mode, settings)
    if rows:
        xs = [getattr(row.setting, axis) for row in rows]
        gap = float("nan")  # the line has a gap where a run is missing
        means = [gap if (mean := row.ours(metric)) is None else 100 * mean for row in rows]
        ends = [row.interval(metric) or (gap, gap) for row in rows]
        bars = [[y - 100 * low for y, (low, _) in zip(means, ends, strict=True)]]
        bars += [[100 * high - y for y, (_, high) in zip(means, ends, strict=True)]]
        axes.errorbar(xs, means, yerr=bars, linewidth=1.8, capsize=2, label=_label_of(method, rows), **look(method))


def _label_of(method: str, rows: Sequence[Row]) -> str:
    """Return a method's label, with the options that differ from the default."""
    variants = list(dict.fromkeys(row.setting.variant for row in rows if row.runs and row.setting.variant))
    return f"{method}, stepedit" + (f"\n({'; '.join(variants)})" if variants else "")


def curves(rows: Sequence[Row]) -> Figure | None:
    """Draw validation scores against time, a panel per task, a line per run."""
    tasks = list(dict.fromkeys(row.setting.task for row in rows if any(each.curve for each in row.runs)))
    if not tasks:
        return None
    figure, panes = panels(len(tasks))
    for axes, task in zip(panes, tasks, strict=True):
        for row in (row for row in rows if row.setting.task == task and row.runs):
            curve = row.runs[0].curve
            style = {**look(row.setting.method), "markevery": max(1, len(curve) // 6)}
            axes.plot(
                [point["seconds"] / 60 for point in curve],
                [100 * point["metrics"][row.objective] for point in curve],
                "-" if row.setting.mode != "offline" else ":",
                label=f"{row.setting.method} {row.setting.mode}",
                linewidth=1.6,
                **style,
            )
        axes.set_title(f"{task}: {TASKS[task].objective} accuracy")
        axes.set_xlabel("minutes of training")
    panes[0].set_ylabel("on validation, %")
    _legend(figure, panes)
    return figure


def beside_the_papers(results: Results, task: str) -> Figure | None:
    """Draw validation against steps, the authors' curves behind ours, a panel per N and mode; None without such runs.

    The paper's appendix has this figure.
    """
    found: dict[tuple[int, str], list[Row]] = {}
    for row in results.beside_the_paper():
        at = row.setting
        same = at.task == task and (at.length, at.num_examples) == CURVES_OF
        if same and row.runs[0].curve and paper_curve(task, at.method, at.mode, at.numbers):
            found.setdefault((at.numbers, at.mode), []).append(row)
    if not found:
        return None
    variants = list(dict.fromkeys(row.setting.variant for rows in found.values() for row in rows))
    figure, panes = panels(len(found), width=4.6, height=4.2)
    for axes, ((numbers, mode), rows) in zip(panes, sorted(found.items()), strict=True):
        for method in LOOKS:
            _draw_authors(axes, task, method, mode, numbers)
        for row in rows:
            _draw_ours(axes, row, DASHES[variants.index(row.setting.variant) % len(DASHES)])
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_title(f"{task.upper()}, N={numbers}, {mode}", fontsize=10)
        axes.set_xlabel("optimizer steps", fontsize=9)
    panes[0].set_ylabel(f"{TASKS[task].objective} accuracy on validation, %", fontsize=9)
    _legend(figure, panes)
    return figure


def _draw_authors(axes: Axes, task: str, method: str, mode: str, numbers: int) -> None:
    points = paper_curve(task, method, mode, numbers)
    if points:
        heights = [100 * point.metrics[TASKS[task].objective] for point in points]
        style = {**look(method), "markersize": 3.5, "markevery": max(1, len(points) // 8)}
        steps = [point.step for point in points]
        axes.plot(steps, heights, "--", alpha=0.45, linewidth=1.2, label=f"{method}, the authors", **style)


def _draw_ours(axes: Axes, row: Row, dash: Any) -> None:
    """Draw a line per seed."""
    label = _label_of(row.setting.method, [row])
    for number, each in enumerate(row.runs):
        points = [point for point in each.curve if point["step"]]
        style = {**look(row.setting.method), "markevery": max(1, len(points) // 6)}
        heights = [100 * point["metrics"][row.objective] for point in points]
        steps = [point["step"] for point in points]
        axes.plot(steps, heights, linestyle=dash, linewidth=1.8, label=label if number == 0 else None, **style)


def _legend(figure: Figure, panes: Sequence[Axes]) -> None:
    """Write one legend below all panels."""
    names = {text: line for axes in panes for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    columns = min(3, len(panes) + 1)
    figure.legend(names.values(), names.keys(), loc="outside lower center", ncols=columns, fontsize=7, frameon=False)


def times(rows: Sequence[Row]) -> Figure | None:
    """Draw our training minutes beside the authors' GPU time."""
    from matplotlib.figure import Figure

    shown = [row for row in rows if row.runs and row.paper]
    if not shown:
        return None
    lines = sum(1 + _label(row).count("\n") / 2 for row in shown)
    figure = Figure(figsize=(7.2, 0.9 + 0.24 * lines), layout="constrained")
    axes = figure.subplots()
    tidy(axes)
    for height, row in enumerate(reversed(shown)):
        style = look(row.setting.method)
        ours, theirs = row.minutes or 0.0, row.paper.gpu_hours * 60 if row.paper else 0.0
        axes.plot([ours, theirs], [height, height], color="#bbbbbb", linewidth=1, zorder=1)
        axes.plot([ours], [height], linestyle="", **style)
        axes.plot([theirs], [height], linestyle="", **{**style, "markerfacecolor": "white"})
    axes.set_yticks(range(len(shown)), [_label(row) for row in reversed(shown)], fontsize=7)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set_title("Time of training, beside the authors'", fontsize=10)
    axes.set_xlabel("minutes of training; filled: here, on a CPU; hollow: the authors, on a GPU")
    return figure


def _label(row: Row) -> str:
    at = row.setting
    where = (
        f"\nN={at.numbers} L={at.length} D={at.num_examples:,}"
        if at._replace(variant="") not in main_settings()
        else ""
    )
    return f"{at.task} {at.method} {at.mode}{where}" + (f"\n{at.variant}" if at.variant else "")
