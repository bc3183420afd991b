"""The metrics of edited text beside those of the baselines, from all scorers that are asked for."""

from __future__ import annotations

from typing import Any

from stepedit.data.readers import Lines
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.evaluation import edit_metrics
from stepedit.evaluation.baselines import COPY, MOST_FREQUENT, MostFrequentReplacement
from stepedit.evaluation.errant_scorer import Annotate, errant_scores
from stepedit.evaluation.evaluate import References
from stepedit.text.vocabulary import Vocabulary

EDITED = "edited"


def text_summary(
    vocabulary: Vocabulary,
    pairs: Pairs,
    predictions: Sequences,
    references: References | None = None,
    train: Lines | None = None,
    chrf: bool = False,
    annotate: Annotate | None = None,
) -> dict[str, Any]:
    """Return the fields of `RunScores` about text; without training pairs there is one baseline less."""
    sources, targets, texts = map(vocabulary.decode, (pairs.sources, pairs.targets, predictions))
    references = references or [[target] for target in targets]
    systems = {EDITED: texts, COPY: sources}
    if train is not None:
        dictionary = MostFrequentReplacement.fit(train.sources, train.targets)
        systems[MOST_FREQUENT] = [dictionary.apply(source) for source in sources]
    summary, types = edit_metrics.compare(sources, references, systems, chrf), {}
    if annotate is not None:
        found, by_type = errant_scores(annotate, sources, references, systems)
        summary = {name: figures | found[name] for name, figures in summary.items()}
        types = {kind: (each.predicted, each.reference, each.correct) for kind, each in by_type[EDITED].items()}
    return {
        "summary": summary,
        "edit_unit": "word",
        "references": max(map(len, references)),
        "unchanged": sum(map(edit_metrics.needs_no_change, sources, references)),
        "errant_types": types,
    }
