"""`stepedit edit`: edit texts with a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepedit.cli.arguments import TEXT_MARK, RunFolder, hint_at_beam, make_decoding, with_options
from stepedit.data.m2 import format_m2
from stepedit.errors import DataError, LineError, UserError
from stepedit.files import BYTE_ORDER_MARK
from stepedit.inference import corpus
from stepedit.inference.decoding import Decoding

if TYPE_CHECKING:
    from stepedit.inference.editor import Editor, EditResult

MAX_WARNINGS = 20  # about rejected results
STOPPED = {  # why a text ended without DONE
    "confidence": "stopped: the next edit is below the minimum confidence",
    "limit": "stopped: step limit",
    "cycle": "stopped: cycle",
}

Rejected = tuple[int, str]  # the number of a line and its result


@dataclass(frozen=True)
class Output:
    """What to print of a batch, what to say about it, and the line that ends it all, if any."""

    printed: list[str]
    warnings: list[str]
    rejected: list[Rejected]  # by the verifier
    failure: str | None = None


@dataclass(frozen=True)
class Job:
    """How texts are edited and printed: all that a worker process has to know."""

    run: str
    decoding: tuple[tuple[str, Any], ...]
    trace: bool
    as_json: bool
    states: bool
    as_m2: bool
    strict: bool  # stop at the first line that cannot be edited
    arguments: bool  # the texts are arguments: nothing is edited if one of them cannot be


@with_options("decoding", Decoding)
def edit(
    run: RunFolder,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts.", show_default="lines of standard input")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step and its confidence.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per text, with its steps and, for text, its changes.")
    ] = False,
    states: Annotated[bool, typer.Option("--states", help="With --json: also the whole text after each step.")] = False,
    as_m2: Annotated[
        bool, typer.Option("--m2", help="Print the edits in M2, with tokens between spaces, instead of texts.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line of standard input that cannot be edited.")
    ] = False,
    num_workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that share standard input.")] = 1,
    *,
    decoding: dict[str, Any],
) -> None:
    """Edit texts and print one result a line, in order. Standard input is streamed, so it may be of any size.

    A line of standard input that cannot be edited is printed unchanged, with a warning on standard error (--json: with
    "error" and the reason). Blank lines and line ends are kept. Results that the task's verifier rejects are printed,
    too, and named on standard error (--trace: marked, --json: \"valid\": false).
    With --m2 each text is a sentence (S) with its edits (A, type M:OTHER, U:OTHER or R:OTHER, annotator 0; noop if
    there are none).

    Example: stepedit edit aor "6 10 9 5 2" --trace
    """
    if states and not as_json:
        raise UserError("--states is for --json; --trace shows the text at each step")
    if as_m2 and (as_json or trace):
        raise UserError(f"--m2 and {'--json' if as_json else '--trace'} are two forms of output; choose one")
    job = Job(run, tuple(sorted(decoding.items())), trace, as_json, states, as_m2, strict, bool(texts))
    hint_at_beam(_load(job.run, job.decoding)[1])  # a wrong name or option is reported before anything is read
    lines = ((text.removeprefix(TEXT_MARK), "\n") for text in texts) if texts else _standard_input()
    if num_workers == 1 or texts:
        outputs: Generator[Output] = (_edit(job, batch, first) for batch, first in corpus.batches(lines))
    else:
        if trace:
            raise UserError("--trace works in one process; use --json, or --num-workers 1")
        outputs = corpus.in_processes(partial(_edit, job), lines, num_workers)
    with closing(outputs):  # also if nobody reads on: the processes end
        _print_all(outputs)


def _print_all(outputs: Iterator[Output]) -> None:
    """Print what comes, and warn about it; LineError at the first line that ends it all."""
    count = 0
    for output in outputs:
        _write("".join(output.printed))
        for warning in output.warnings:
            typer.echo(f"stepedit: {warning}", err=True)
        for number, text in output.rejected[: max(0, MAX_WARNINGS - count)]:
            typer.echo(f"stepedit: line {number}: rejected by the verifier: {text!r}", err=True)
        count += len(output.rejected)
        if output.failure:
            raise LineError(output.failure)
    if count > MAX_WARNINGS:
        typer.echo(f"stepedit: {count:,} results were rejected by the verifier; {MAX_WARNINGS} are named", err=True)


def _write(text: str) -> None:
    """Write to a terminal in its encoding, to anything else as UTF-8, byte for byte."""
    if sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.flush()


def _standard_input() -> Iterator[corpus.Line]:
    """Yield lines and their line ends, which are not part of a text; bytes that are not UTF-8 as surrogates."""
    for number, raw in enumerate(sys.stdin.buffer):
        line = raw if number else raw.removeprefix(BYTE_ORDER_MARK)
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        yield body.decode(errors="surrogateescape"), line[len(body) :].decode()


@lru_cache(maxsize=1)
def _load(run: str, decoding: tuple[tuple[str, Any], ...]) -> tuple[Editor, Decoding]:
    from stepedit.inference.editor import Editor

    editor = Editor.load(run)
    return editor, editor.resolve(make_decoding(dict(decoding)))


def _edit(job: Job, batch: Sequence[corpus.Line], first: int) -> Output:
    """Return what to print for a batch, and the results that the task's verifier rejects, if nothing else says so."""
    editor, decoding = _load(job.run, job.decoding)
    edit = partial(editor.edit, decoding=decoding, trace=job.trace or job.as_json, states=job.states)
    texts, reasons, failure = [text for text, _ in batch], dict[int, str](), None
    try:
        results = edit(texts, first_line=first + 1)
    except DataError:
        if job.arguments:
            raise
        reasons = _refused(editor, texts)
        bad = [index for index, reason in reasons.items() if reason]
        if job.strict and bad:
            batch, failure = batch[: bad[0]], f"line {first + bad[0] + 1}: {reasons[bad[0]]}"
        results = edit([text for index, (text, _) in enumerate(batch) if index not in reasons])
    numbers = [first + index + 1 for index in range(len(batch)) if index not in reasons]
    unwritten = _unwritten(results) if job.as_m2 else set()
    results = [replace(one, text=one.source) if row in unwritten else one for row, one in enumerate(results)]
    separator, found = editor.method.task.vocabulary.separator, iter(results)
    printed = [
        _print_refused(text, end, reasons[index], job) if index in reasons else _print(next(found), end, job, separator)
        for index, (text, end) in enumerate(batch)
    ]
    bad_lines = [(first + index + 1, reason) for index, reason in reasons.items() if reason and not failure]
    warnings = [f"line {number}: {reason}; it is printed unchanged" for number, reason in bad_lines]
    warnings += [f"line {numbers[row]}: M2 cannot have its correction; it is left unchanged" for row in unwritten]
    marked = job.trace or job.as_json or decoding.lexicon is not None
    rejected = [(number, one.text) for number, one in zip(numbers, results, strict=True) if one.valid is False]
    return Output(printed, warnings, [] if marked else rejected, failure)


def _unwritten(results: Sequence[EditResult]) -> set[int]:
    """Return which results have an edit that M2 cannot express."""
    found = set[int]()
    for row, one in enumerate(results):
        try:
            format_m2(one.source, [one.text])
        except DataError:
            found.add(row)
    return found


def _refused(editor: Editor, texts: Sequence[str]) -> dict[int, str]:
    """Return why texts cannot be edited, by their index; an empty reason for one that is merely blank."""
    reasons = editor.refusals(texts)
    for index in reasons:
        odd = next((letter for letter in texts[index] if "\udc80" <= letter <= "\udcff"), None)
        if odd:
            reasons[index] = f"not UTF-8 (byte 0x{ord(odd) - 0xDC00:02x})"
        elif not texts[index].strip():
            reasons[index] = ""
    return reasons


def _print_refused(text: str, end: str, reason: str, job: Job) -> str:
    """Return what to print for a line that is not edited."""
    if job.as_m2:
        return format_m2(text, [text])
    if not job.as_json:
        return text + (end or "\n" if job.trace else end)
    readable = text.encode(errors="surrogateescape").decode(errors="replace")
    return json.dumps({"source": readable, "text": readable, "error": reason or "the text is empty"}) + "\n"


def _print(result: EditResult, end: str, job: Job, separator: str) -> str:
    if job.as_json:
        return json.dumps(result.as_dict()) + "\n"
    if job.trace:
        return _draw(result, separator)
    if job.as_m2:
        return format_m2(result.source, [result.text])
    if not sys.stdout.isatty():
        return result.text + end
    from stepedit.cli.display import visible

    return visible(result.text) + end


def _draw(result: EditResult, separator: str) -> str:
    """Return the steps, each with its change marked."""
    from stepedit.cli.display import aligned, console, plain, step_diffs

    rows: list[list[Any]] = [["step", "confidence", "text"], ["", "", plain(result.source)]]
    drawn = step_diffs(result.tokens, result.steps, separator)
    for number, (step, text) in enumerate(zip(result.steps, drawn, strict=True), start=1):
        rows.append([str(number), f"{step.confidence:.1%}", text])
    notes = [STOPPED[result.stop_reason]] if result.stop_reason in STOPPED else []
    notes += ["rejected by the verifier"] * (result.valid is False)
    out = console()
    with out.capture() as captured:
        out.print(aligned(rows))
        out.print(plain(result.text + "".join(f"   ({note})" for note in notes)))
    return captured.get()
