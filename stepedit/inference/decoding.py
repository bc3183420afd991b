"""How texts are decoded: one `Decoding` for the command line, Python, HTTP requests and score files.

    greedy       the most probable action each time, until DONE
    beam search  several states per source; the most probable finished text
    verify       beam search in which the first finished text that the task's verifier accepts is taken
    lexicon      for text: unknown words compete with near known ones (`reranking`)
    keep         for text: words, phrases and patterns that no edit touches (`protection`); keep_code: code, too

The confidence threshold holds for every decoding but that with a lexicon, which scores whole texts.

`resolve` checks a decoding against task and method, in this one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from stepedit.config import explain, refuse_unknown
from stepedit.errors import UserError
from stepedit.methods.base import Method
from stepedit.text.keep_list import KeepList
from stepedit.text.lexicon import Lexicon


def as_keep_list(value: Any) -> Any:
    """Return a list of words as a KeepList; an empty one keeps nothing."""
    if isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        value = KeepList.of(value)
    if value is not None and not isinstance(value, KeepList):
        raise ValueError("must be a list of words and phrases, or the path of a file of them")
    return None if isinstance(value, KeepList) and not value.entries else value


class Decoding(BaseModel):
    """Decoding options. `lexicon` is a `Lexicon` or the path of a file, `keep` a list of words or the path of one."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    reads_files: ClassVar[bool] = True  # a request from elsewhere must not name files

    def __init__(self, **values: Any) -> None:
        if not self.reads_files:
            super().__init__(**values)  # the server reports errors of its own
            return
        refuse_unknown(type(self), values)
        if isinstance(values.get("lexicon"), str | Path):
            values["lexicon"] = Lexicon.read(Path(values["lexicon"]))
        if isinstance(values.get("keep"), str | Path):
            values["keep"] = KeepList.read(Path(values["keep"]))
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UserError(explain(error)) from None

    beam_size: int = Field(1, ge=1, le=100, description="Beam size; 1 is greedy decoding.")
    verify: bool = Field(False, description="Take the first result that the task's verifier accepts.")
    min_confidence: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Stop editing a text at the first edit whose confidence is below this; with a list of words, leave "
        "a word alone if all its edits together are less probable.",
        json_schema_extra={"shown_default": "the model's tuned threshold, or 0"},
    )
    lexicon: Lexicon | None = Field(
        None,
        description="File of known words, one a line, with counts or without; unknown words compete with near known "
        "ones. For text.",
    )
    keep: Annotated[KeepList | None, BeforeValidator(as_keep_list)] = Field(
        None,
        description="File of words and phrases that no edit touches, one a line, whatever their case (case:Apple: in "
        "this case only) or a pattern (/INV-[0-9]+/). For text.",
    )
    keep_code: bool = Field(
        False, description="Keep addresses, paths, code in backticks, identifiers and numbers as they are. For text."
    )

    edits_per_step: int = Field(
        1,
        ge=0,
        le=64,
        description="Edits to make before the text is read again, where edits are independent and the model was "
        "trained to plan; 0: all that it is confident about.",
    )

    @property
    def searches(self) -> bool:
        """Whether more than the most probable action is followed."""
        return self.beam_size > 1 or self.verify or self.lexicon is not None

    def keeping(self, other: Decoding | None) -> Decoding:
        """Return the decoding that also keeps what another one keeps."""
        if other is None or not other.protects:
            return self
        lists = [each.keep.entries for each in (self, other) if each.keep is not None]
        keep = KeepList.of(entry for entries in lists for entry in entries) if lists else None
        return self.model_copy(update={"keep": keep, "keep_code": self.keep_code or other.keep_code})

    @property
    def protects(self) -> bool:
        """Whether a part of a text may have to stay as it is."""
        return self.keep is not None or self.keep_code

    def suffix(self) -> str:
        """Return the part of a file name that tells this decoding from greedy decoding without a threshold."""
        confidence = f"-confidence-{self.min_confidence:g}" if self.min_confidence else ""
        beam = f"-beam-{self.beam_size}" * (self.beam_size > 1)
        confidence += f"-edits-{self.edits_per_step}" * (self.edits_per_step != 1)
        confidence += f"-keep-{_digest(self.keep.entries)}" if self.keep is not None else ""
        confidence += "-keep-code" * self.keep_code
        lexicon = f"-lexicon-{_digest(self.lexicon.log_frequency.items())}" if self.lexicon is not None else ""
        return beam + lexicon + "-verified" * self.verify + confidence


def _digest(entries: Iterable[object]) -> str:
    """Return what tells a list from others in a file name, whatever the order of its entries."""
    return sha256("\n".join(sorted(map(str, entries))).encode()).hexdigest()[:8]


def can_keep(method: Method) -> bool:
    """Whether words can be kept: edits of text, one at a time."""
    return method.iterative and method.task.open_vocabulary


def resolve(decoding: Decoding, method: Method, tuned: float = 0.0) -> Decoding:
    """Return the decoding with its confidence threshold filled in; UserError if task or method do not support it."""
    task = method.task
    if not method.iterative and (decoding.searches or decoding.min_confidence or decoding.protects):
        options = "beam_size, verify, min_confidence, lexicon, keep and keep_code"
        raise UserError(f"{options} need actions, which {method.name} has none of")
    if decoding.verify and not task.verifiable:
        raise UserError(f"task {task.name} has no verifier, so its results can't be verified")
    if decoding.lexicon is not None and not task.open_vocabulary:
        raise UserError(f"a lexicon is for text, and task {task.name} has a fixed vocabulary")
    if decoding.protects and not task.open_vocabulary:
        raise UserError(f"keep and keep_code are for text, and task {task.name} has a fixed vocabulary")
    if decoding.edits_per_step > 1 and (decoding.searches or not task.independent_edits):
        reason = "beam search follows one edit at a time" if decoding.searches else f"those of {task.name} are not"
        raise UserError(f"edits_per_step needs greedy decoding and independent edits, and {reason}")
    if decoding.lexicon is not None:
        _refuse_threshold(decoding, tuned)
    if decoding.min_confidence is not None:
        return decoding
    return decoding.model_copy(update={"min_confidence": tuned if method.iterative else 0.0})


def _refuse_threshold(decoding: Decoding, tuned: float) -> None:
    """Raise UserError if a confidence threshold meets a lexicon, with which whole texts are scored, not edits."""
    if decoding.min_confidence:
        raise UserError("a lexicon scores whole texts, so there is no min_confidence with it; leave one of them out")
    if decoding.min_confidence is None and tuned:
        raise UserError(
            f"this model has a tuned confidence threshold ({tuned:.4g}), which can't hold with a lexicon; to do "
            "without it, add --min-confidence 0"
        )
