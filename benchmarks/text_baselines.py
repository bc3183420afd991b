"""The two baselines of text, without a model: doing nothing, and the most frequent replacement of each word.

python -m benchmarks.text_baselines pairs.tsv other.jsonl more.m2 --split val
"""

from __future__ import annotations

import argparse
import sys

from stepedit.data.dataset import read_splits
from stepedit.evaluation.baselines import COPY, MOST_FREQUENT, MostFrequentReplacement
from stepedit.evaluation.edit_metrics import compare


def main(arguments: list[str]) -> None:
    """Print all metrics of both baselines on a split of each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="files of pairs")
    parser.add_argument("--split", default="val", help="val or test")
    given = parser.parse_args(arguments)
    for file in given.files:
        splits = read_splits(file).splits
        train, held_out = splits["train"], splits[given.split]
        dictionary = MostFrequentReplacement.fit(train.sources, train.targets)
        sources = held_out.texts().sources
        systems = {COPY: sources, MOST_FREQUENT: [dictionary.apply(source) for source in sources]}
        print(f"{file}, {given.split}: {len(sources):,} texts, {len(dictionary.replacements):,} words that change")
        for name, figures in compare(sources, held_out.references(), systems).items():
            print(f"  {name:<26}", "  ".join(f"{metric} {value[0]:.2%}" for metric, value in figures.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
