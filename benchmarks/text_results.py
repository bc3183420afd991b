"""Score trained models of text on the test split of their pairs, beside the two baselines, into results/text.csv.

    python -m benchmarks.text_results "Disfl-QA=runs/disfluencies" "Disfl-QA=runs/disfluencies-from-scratch"

White space at the ends of texts does not count. Run `stepedit tune` first where a threshold is wanted: it is chosen on
validation. Rows of the same data, network and variant are replaced, and `make results` renders the tables.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from stepedit import __version__
from stepedit.config import FINE_TUNING, RunConfig
from stepedit.data.dataset import read_run_splits
from stepedit.data.location import of_run
from stepedit.evaluation.baselines import COPY, MOST_FREQUENT
from stepedit.evaluation.scores import RunScores, evaluate
from stepedit.evaluation.text_summary import EDITED
from stepedit.inference import model_folder

FILE = Path(__file__).resolve().parent.parent / "results" / "text.csv"
METRICS = ("exact", "f0.5", "precision", "recall", "gleu", "false_alarms")
COLUMNS = (
    *("data", "network", "variant", "split", "texts", "min_confidence"),
    *(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")),
    *("minutes", "parameters", "seed", "version", "command"),
)

Row = dict[str, str]
KEY = ("data", "network", "variant")


def rows_for(data: str, folder: Path) -> list[Row]:
    """Return the rows of a run on its test split: the model's and those of the baselines."""
    run = model_folder.read_config(folder)
    place = of_run(run, folder)
    stripped = {name: lines.stripped() for name, lines in read_run_splits(run, place).splits.items()}
    scores = evaluate(folder) if run.strip else evaluate(folder, data=stripped, location=place)
    network = "from scratch" if run.training.encoder is None else f"encoder {Path(run.training.encoder).name}"
    common = {"data": data, "split": scores.split, "texts": str(scores.pairs), "version": __version__}
    own = {
        "network": network,
        "variant": _variant(run),
        "min_confidence": f"{scores.min_confidence:.4g}",
        "minutes": f"{scores.training_seconds / 60:.1f}",
        "parameters": str(scores.parameters),
        "seed": str(run.seed),
        "command": f"{model_folder.training_command(run)}; stepedit tune RUN; stepedit evaluate RUN",
    }
    command = {"command": "python -m benchmarks.text_baselines FILE --split test", "minutes": "0", "seed": "0"}
    rows = [common | own | _figures(scores, EDITED)]
    for name in (COPY, MOST_FREQUENT):
        rows.append(common | command | {"network": name} | _figures(scores, name))
    return rows


def _variant(run: RunConfig) -> str:
    """Return in what a network differs from one with the defaults."""
    share, order = run.training.synthetic_share, run.training.edit_order
    usual = FINE_TUNING["edit_order"] if run.training.encoder else "left-to-right"
    parts = [f"synthetic share {share:g}"] * (share > 0) + [f"edit order {order}"] * (order != usual)
    return ", ".join(parts + ["words as one token each"] * (not run.task_args.get("spelled")))


def _figures(scores: RunScores, system: str) -> Row:
    found = scores.summary[system]
    ends = ("", "_low", "_high")
    return {
        f"{metric}{end}": "" if value is None else f"{value:.5f}"
        for metric in METRICS
        if metric in found
        for end, value in zip(ends, found[metric], strict=True)
    }


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row.get(name, "") for name in KEY)


def main(arguments: list[str]) -> None:
    """Score all runs that are named, and write the rows."""
    if not arguments or not all("=" in each for each in arguments):
        sys.exit(str(__doc__))
    rows: dict[tuple[str, ...], Row] = {}
    if FILE.exists():
        with FILE.open(encoding="utf-8", newline="") as file:
            rows = {_key(row): row for row in csv.DictReader(file)}
    for data, folder in (each.split("=", 1) for each in arguments):
        rows |= {_key(row): row for row in rows_for(data, Path(folder))}
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    print(f"{FILE.name}: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
