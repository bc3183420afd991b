"""From the outcomes of segments to the outcome of their text.

Two neighboring windows overlap: each has the end of the other's core as context, and edits it, too. They are joined at
one seam: up to it the left window's edits count, from it on the right one's. The seam is the place nearest to the
border of the cores at which neither window has changed anything, so no edit is made twice and none is torn apart. A
mark that both insert at the border is inserted once. If both windows have changed all that they share, the border is
the seam, and what is inserted there is the right window's; of a run across it each window removes its part, and what
replaces the run is the left window's.

A word that was edited in lower case gets its case back, and so do its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from stepedit.editing.interpreter import AppliedAction, Outcome, StopReason
from stepedit.editing.trace import origins
from stepedit.tasks.base import Restore, Segment

Tokens = tuple[int, ...]


def joined(segments: Sequence[Segment], outcomes: Sequence[Outcome], trace: bool) -> Outcome:
    """Return the outcomes of a text's segments as one; each segment is edited when those before it are finished."""
    parts = [restored(*each) for each in zip(segments, outcomes, strict=True)]
    if any(part.core is not None for part in segments):
        parts = _without_context(segments, parts)
    if len(parts) == 1:
        return parts[0]
    done, steps = list[int](), list[AppliedAction]()
    for outcome in parts:
        for step in outcome.trace if trace else ():
            steps.append(step if step.start is None else replace(step, start=step.start + len(done)))
        done += outcome.tokens
    return Outcome(tuple(done), sum(one.steps for one in parts), _stop_reason(parts), steps)


def _stop_reason(outcomes: Sequence[Outcome]) -> StopReason:
    """Return why a text ended: the first segment that was truncated says it, or else the first that is not done."""
    reasons = [one.stop_reason for one in sorted(outcomes, key=lambda one: not one.truncated) if not one.finished]
    return reasons[0] if reasons else "done"


# windows


def _without_context(segments: Sequence[Segment], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return what became of the tokens between the seams."""
    begins, border = list[int](), 0  # where each window begins in the text
    for segment in segments:
        assert segment.core is not None
        begins.append(border - segment.core.start)
        border += segment.core.stop - segment.core.start
    scripts = [_script(*each) for each in zip(segments, outcomes, strict=True)]
    kept = [_kept(len(segment.tokens), script) for segment, script in zip(segments, scripts, strict=True)]
    seams = [0]
    for index in range(1, len(segments)):
        shared = begins[index], begins[index - 1] + len(segments[index - 1].tokens)
        core = segments[index].core
        assert core is not None
        clean = {begins[index - 1] + gap for gap in kept[index - 1]} & {begins[index] + gap for gap in kept[index]}
        clean = {gap for gap in clean if max(shared[0], seams[-1]) < gap < shared[1]}
        border = begins[index] + core.start
        seams.append(min(clean, key=lambda gap: (abs(gap - border), gap), default=border))
    seams.append(begins[-1] + len(segments[-1].tokens))
    parts = list[Outcome]()
    for index, (segment, outcome) in enumerate(zip(segments, outcomes, strict=True)):
        first, last = seams[index] - begins[index], seams[index + 1] - begins[index]
        parts.append(_between(segment.tokens, scripts[index], first, last, outcome, index == len(segments) - 1))
    return parts


def _script(segment: Segment, outcome: Outcome) -> list[AppliedAction]:
    """Return the steps of a window; a rewritten text as the edits that it amounts to."""
    steps = list[AppliedAction]()
    for step in outcome.trace:
        steps += _as_edits(step) if step.operation == "rewrite" else [step]
    return steps


def _as_edits(step: AppliedAction) -> list[AppliedAction]:
    """Return a rewrite of the whole text as single replacements, from left to right."""
    from rapidfuzz.distance import Levenshtein

    steps, grown = list[AppliedAction](), 0
    for block in Levenshtein.opcodes(step.before, step.after):
        if block.tag != "equal":
            before, after = step.before[block.src_start : block.src_end], step.after[block.dest_start : block.dest_end]
            steps.append(replace(step, start=block.src_start + grown, before=before, after=after))
            grown += len(after) - len(before)
    return steps


def _kept(length: int, script: Sequence[AppliedAction]) -> list[int]:
    """Return the gaps of a window whose tokens on both sides stayed, with nothing between them."""
    pairs = pairwise(origins(length, script))
    return [after for before, after in pairs if before is not None and after == before + 1]


def _between(
    tokens: Sequence[int], script: Iterable[AppliedAction], first: int, last: int, outcome: Outcome, is_last: bool
) -> Outcome:
    """Return what the steps between two gaps of a window do to the tokens between them."""
    state, steps, low, high = tuple(tokens[first:last]), list[AppliedAction](), first, last
    for step in script:
        if step.start is None:
            continue
        stop, growth = step.start + len(step.before), len(step.after) - len(step.before)
        if stop <= low and step.start < low:
            low, high = low + growth, high + growth
        elif step.start < high or (step.start == high and is_last):
            if (step.start < low or stop > high) and not growth:
                continue  # a swap across a seam, which one window cannot make
            steps.append(_clipped(step, step.start, low, high))
            state = _after(state, steps[-1])
            low = step.start + len(step.after) if step.start < low else low
            high = low + len(state)
    return Outcome(state, len(steps), outcome.stop_reason, steps)


def _clipped(step: AppliedAction, start: int, low: int, high: int) -> AppliedAction:
    """Return what a step does between two gaps: what a run across the first inserts is there in the window before."""
    begin, end = max(start, low), min(start + len(step.before), high)
    before, after = step.before[begin - start : end - start], step.after if start >= low else ()
    operation = step.operation if before == step.before else "replace" if after else "delete"
    return replace(step, operation=operation, start=begin - low, before=before, after=after)


# case


def restored(segment: Segment, outcome: Outcome) -> Outcome:
    """Return the outcome of a segment as its text is written."""
    if segment.restore is None:
        return outcome
    written = tuple(segment.restore(outcome.tokens))
    state, steps = tuple(segment.tokens), list[AppliedAction]()
    for step in outcome.trace:
        before, state = state, _after(state, step)
        steps.append(_restored_step(step, segment.restore, before, state))
    return replace(outcome, tokens=written, trace=steps)


def _after(state: Tokens, step: AppliedAction) -> Tokens:
    if step.start is None:
        return state
    return (*state[: step.start], *step.after, *state[step.start + len(step.before) :])


def _restored_step(step: AppliedAction, restore: Restore, before: Tokens, after: Tokens) -> AppliedAction:
    """Return a step as it is written: it may change one more letter, if a word gets another first letter."""
    old, new = tuple(restore(before)), tuple(restore(after))
    if step.start is None:
        return step
    start = min(step.start, _common(old, new))
    end = min(len(before) - step.start - len(step.before), _common(old[start:][::-1], new[start:][::-1]))
    removed, inserted = old[start : len(old) - end], new[start : len(new) - end]
    shape = len(step.before), len(step.after)
    operation = step.operation if (len(removed), len(inserted)) == shape else "replace"
    return replace(step, operation=operation, start=start, before=removed, after=inserted)


def _common(one: Tokens, other: Tokens) -> int:
    """Return the number of leading tokens that two texts share."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
