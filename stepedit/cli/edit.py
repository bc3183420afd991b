"""`stepedit edit`: edit texts with a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepedit.cli.arguments import TEXT_MARK, RunFolder, make_decoding, with_options
from stepedit.errors import DataError, UserError
from stepedit.inference import corpus
from stepedit.inference.decoding import Decoding, resolve

if TYPE_CHECKING:
    from stepedit.inference.editor import Editor, EditResult

MAX_WARNINGS = 20  # about rejected results
STOPPED = {  # why a text ended without DONE
    "confidence": "stopped: the next edit is below the minimum confidence",
    "limit": "stopped: step limit",
    "cycle": "stopped: cycle",
}

Rejected = tuple[int, str]  # the number of a line and its result
Output = tuple[list[str], list[Rejected]]  # what to print, and what the verifier rejects


@dataclass(frozen=True)
class Job:
    """How texts are edited and printed: all that a worker process has to know."""

    run: str
    decoding: tuple[tuple[str, Any], ...]
    trace: bool
    as_json: bool
    states: bool


@with_options("decoding", Decoding)
def edit(
    run: RunFolder,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts.", show_default="lines of standard input")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step and its confidence.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per text, with its steps and, for text, its changes.")
    ] = False,
    states: Annotated[bool, typer.Option("--states", help="With --json: also the whole text after each step.")] = False,
    num_workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that share standard input.")] = 1,
    *,
    decoding: dict[str, Any],
) -> None:
    """Edit texts and print one result a line, in order. Standard input is streamed, so it may be of any size.

    Results that the task's verifier rejects are printed, too, and named on standard error (--trace: marked, --json:
    \"valid\": false).

    Example: stepedit edit aor "6 10 9 5 2" --trace
    """
    if states and not as_json:
        raise UserError("--states is for --json; --trace shows the text at each step")
    job = Job(run, tuple(sorted(decoding.items())), trace, as_json, states)
    _load(job.run, job.decoding)  # a wrong name or option is reported before anything is read
    lines = ((text.removeprefix(TEXT_MARK), "\n") for text in texts) if texts else _standard_input()
    if num_workers == 1 or texts:
        outputs: Iterator[Output] = (_edit(job, batch, first) for batch, first in corpus.batches(lines))
    else:
        if trace:
            raise UserError("--trace works in one process; use --json, or --num-workers 1")
        outputs = corpus.in_processes(partial(_edit, job), lines, num_workers)
    count = 0
    for printed, rejected in outputs:
        _write("".join(printed))
        for number, text in rejected[: max(0, MAX_WARNINGS - count)]:
            typer.echo(f"stepedit: line {number}: rejected by the verifier: {text!r}", err=True)
        count += len(rejected)
    if count > MAX_WARNINGS:
        typer.echo(f"stepedit: {count:,} results were rejected by the verifier; {MAX_WARNINGS} are named", err=True)


def _write(text: str) -> None:
    """Write to a terminal in its encoding, to anything else as UTF-8, byte for byte."""
    if sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def _standard_input() -> Iterator[corpus.Line]:
    """Yield lines and their line ends, which are not part of a text."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        body = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield body.decode(), raw[len(body) :].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"line {number}: not UTF-8 (byte 0x{raw[error.start]:02x})") from None


@lru_cache(maxsize=1)
def _load(run: str, decoding: tuple[tuple[str, Any], ...]) -> tuple[Editor, Decoding]:
    from stepedit.inference.editor import Editor

    editor = Editor.load(run)
    return editor, resolve(make_decoding(dict(decoding)), editor.method, editor.min_confidence)


def _edit(job: Job, batch: Sequence[corpus.Line], first: int) -> Output:
    """Return what to print for a batch, and the results that the task's verifier rejects, if nothing else says so."""
    editor, decoding = _load(job.run, job.decoding)
    texts = [text for text, _ in batch]
    results = editor.edit(texts, decoding, job.trace or job.as_json, first_line=first + 1, states=job.states)
    separator = editor.method.task.vocabulary.separator
    printed = [_print(one, end, job, separator) for one, (_, end) in zip(results, batch, strict=True)]
    if job.trace or job.as_json or decoding.lexicon is not None:
        return printed, []
    return printed, [(number, one.text) for number, one in enumerate(results, first + 1) if one.valid is False]


def _print(result: EditResult, end: str, job: Job, separator: str) -> str:
    if job.as_json:
        return json.dumps(result.as_dict()) + "\n"
    if job.trace:
        return _draw(result, separator)
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
