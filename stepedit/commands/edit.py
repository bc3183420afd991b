"""`stepedit edit`: edit texts with a trained run."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stepedit.commands.common import Beam, Least, Verify, WordList, console
from stepedit.display import aligned, plain, step_diff, visible
from stepedit.errors import DataError, UserError, located

if TYPE_CHECKING:
    from stepedit.editor import Edited, Editor
    from stepedit.lexicon import Lexicon

BATCH = 1024  # lines read at a time
LETTERS = 1 << 20  # of them, at the most, so that long lines do not pile up


@dataclass(frozen=True)
class Wish:
    """How texts are to be edited and shown: all that a worker has to know."""

    run: str
    trace: bool
    as_json: bool
    beam: int
    verify: bool
    least: float | None
    lexicon: str | None


def edit(
    run: Annotated[str, typer.Argument(help="A run's folder, or the name of a model that comes with stepedit.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts.", show_default="lines of standard input")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show each step, and how sure the programmer was.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object for each text, with its steps and, of a text, its changes.")
    ] = False,
    beam: Beam = 1,
    verify: Verify = False,
    min_confidence: Least = None,
    lexicon: WordList = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that share standard input.")] = 1,
) -> None:
    """Edit texts, one result a line, in order. Standard input is read as it comes, so it may be of any size.

    Example: stepedit edit runs/aor "6 10 9 5 2 3" --trace
    """
    wish = Wish(run, trace, as_json, beam, verify, min_confidence, str(lexicon) if lexicon else None)
    lines = ((text, "\n") for text in texts) if texts else _standard_input()
    if workers == 1 or texts:
        results: Iterator[tuple[list[str], list[str]]] = (
            _edited(wish, batch, first) for first, batch in _batches(lines)
        )
    else:
        if trace:
            raise UserError("--trace is for one process; take --json, or --workers 1")
        results = _shared(wish, _batches(lines), workers)
    for shown, warnings in results:
        _write("".join(shown))
        for warning in warnings:
            typer.echo(f"stepedit: {warning}", err=True)


def _write(text: str) -> None:
    """To a terminal as it likes it, to all else as UTF-8, byte for byte."""
    if sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def _standard_input() -> Iterator[tuple[str, str]]:
    """Lines and their ends, which are no part of a text."""
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        body = raw.removesuffix(b"\n").removesuffix(b"\r")
        try:
            yield body.decode(), raw[len(body) :].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"line {number}: not UTF-8 (byte 0x{raw[error.start]:02x})") from None


def _batches(lines: Iterator[tuple[str, str]]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Lines in batches, each with the number of those before it."""
    first, batch, letters, wrong = 0, list[tuple[str, str]](), 0, None
    while True:
        try:
            line = next(lines, None)
        except DataError as error:  # what came before it is done first
            line, wrong = None, error
        if line is not None:
            batch.append(line)
            letters += len(line[0])
        if batch and (line is None or len(batch) == BATCH or letters >= LETTERS):
            yield first, batch
            first, batch, letters = first + len(batch), [], 0
        if wrong:
            raise wrong
        if line is None:
            return


def _shared(
    wish: Wish, batches: Iterator[tuple[int, list[tuple[str, str]]]], workers: int
) -> Iterator[tuple[list[str], list[str]]]:
    """The work of several processes, in order; never more than a few batches are under way."""
    from multiprocessing import get_context

    waiting: deque[Future[tuple[list[str], list[str]]]] = deque()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_alone) as pool:
        try:
            for first, batch in batches:
                waiting.append(pool.submit(_edited, wish, batch, first))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
        finally:
            while waiting:
                yield waiting.popleft().result()


def _alone() -> None:
    """One thread for each process: they would only wait for each other."""
    import torch

    torch.set_num_threads(1)


@lru_cache(maxsize=1)
def _loaded(run: str, lexicon: str | None) -> tuple[Editor, Lexicon | None]:
    from stepedit.editor import Editor
    from stepedit.lexicon import Lexicon

    return Editor.load(run), Lexicon.read(Path(lexicon)) if lexicon else None


def _edited(wish: Wish, batch: Sequence[tuple[str, str]], first: int) -> tuple[list[str], list[str]]:
    """What to show of a batch, and what to warn of."""
    editor, lexicon = _loaded(wish.run, wish.lexicon)
    texts = [text for text, _ in batch]
    with located(f"lines from {first + 1} on" if first else "input"):
        results = editor.edit(texts, wish.trace or wish.as_json, wish.beam, wish.verify, wish.least, lexicon)
    shown = [_shown(one, end, wish) for one, (_, end) in zip(results, batch, strict=True)]
    refused = [one.source for one in results if one.verified is False] if wish.verify else []
    return shown, [f"the check does not accept any result found for {source!r}" for source in refused]


def _shown(result: Edited, end: str, wish: Wish) -> str:
    if wish.as_json:
        return json.dumps(_as_data(result)) + "\n"
    if wish.trace:
        return _drawn(result)
    return (visible(result.text) if sys.stdout.isatty() else result.text) + end


def _as_data(result: Edited) -> dict[str, object]:
    from stepedit.results import step_as_data

    steps = [step_as_data(step, result.words) for step in result.outcome.trace]
    whole: dict[str, object] = {"source": result.source, "text": result.text, "finished": result.finished}
    whole |= {"steps": steps}
    if result.words.buckets:
        whole |= {"changes": [asdict(change) for change in result.changes()]}
    return whole | ({} if result.verified is None else {"verified": result.verified})


def _drawn(result: Edited) -> str:
    """The steps, each with its change drawn in."""
    rows: list[list[str | Text]] = [["step", "sure", "text"], ["", "", plain(result.source)]]
    for number, step in enumerate(result.outcome.trace, start=1):
        rows.append([str(number), f"{step.confidence:.1%}", step_diff(step, result.words)])
    out = console()
    with out.capture() as captured:
        out.print(aligned(rows))
        out.print(plain(f"{result.text}{'' if result.finished else '   (stopped without DONE)'}"))
    return captured.get()
