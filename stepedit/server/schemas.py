"""What the API takes and returns. Results and steps are the records of `inference.editor` and `editing.trace`."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema, field_validator, model_validator

from stepedit.inference.decoding import Decoding, as_keep_list
from stepedit.inference.editor import EditResult
from stepedit.text.keep_list import KeepList, is_pattern

MAX_KEEP, MAX_KEEP_LENGTH = 100, 100  # words of a request, and characters of each
KEEP_FORM = f"a list of at most {MAX_KEEP} words or phrases of at most {MAX_KEEP_LENGTH} characters"
KEEP_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "array", "items": {"type": "string", "maxLength": MAX_KEEP_LENGTH}, "maxItems": MAX_KEEP},
            {"type": "null"},
        ]
    }
)
SURROGATE = re.compile("[\ud800-\udfff]")


def _words_to_keep(value: Any) -> Any:
    """Return the words that a request names; ValueError for a pattern, which could take for ever."""
    if not isinstance(value, list):
        if value is None:
            return None
        raise ValueError(KEEP_FORM)
    if len(value) > MAX_KEEP or any(not isinstance(word, str) or len(word) > MAX_KEEP_LENGTH for word in value):
        raise ValueError(KEEP_FORM)
    if any(map(is_pattern, value)):
        raise ValueError("a pattern is only taken from the server's own list (stepedit serve --keep FILE)")
    return value


class EditRequest(Decoding):
    """What to edit, and how."""

    reads_files: ClassVar[bool] = False

    model: str | None = Field(None, description="Name of a model; default: the first one.", max_length=200)
    text: str | None = Field(None, description="One text.")
    texts: list[str] | None = Field(None, description="Several texts, instead of one.", min_length=1)
    trace: bool = Field(False, description="Return steps, candidates and changes.")
    states: bool = Field(False, description="Also return the whole text after each step.")
    beam_size: int = Field(1, ge=1, le=20, description=Decoding.model_fields["beam_size"].description)
    lexicon: None = Field(None, description="Not available over HTTP.")
    keep: Annotated[KeepList | None, BeforeValidator(as_keep_list), BeforeValidator(_words_to_keep), KEEP_SCHEMA] = (
        Field(None, description="Words and phrases that no edit touches, whatever their case. For text.")
    )

    @field_validator("model", "text", "texts", "keep", mode="before")
    @classmethod
    def _no_lone_surrogates(cls, value: Any) -> Any:
        for number, text in enumerate(value if isinstance(value, list) else [value], start=1):
            if isinstance(text, str) and (found := SURROGATE.search(text)):
                where = f"line {number}: " if isinstance(value, list) else ""
                raise ValueError(f"{where}a lone surrogate, U+{ord(found[0]):04X}, is not a character")
        return value

    @model_validator(mode="after")
    def _one_or_several(self) -> EditRequest:
        if (self.text is None) == (self.texts is None):
            raise ValueError("exactly one of `text` and `texts` is needed")
        return self

    def all_texts(self) -> list[str]:
        """Return the texts."""
        return self.texts if self.texts is not None else [self.text or ""]

    def decoding(self) -> Decoding:
        """Return the decoding options alone."""
        return Decoding(**{name: getattr(self, name) for name in Decoding.model_fields})


class EditResponse(BaseModel):
    """The results of a request, in order."""

    model: str
    results: list[EditResult]


class ModelInfo(BaseModel):
    """A served model."""

    name: str
    task: str
    method: str
    mode: str
    task_args: dict[str, Any]
    parameters: int
    separator: str  # between tokens
    verifiable: bool  # whether results can be verified
    keeps: bool  # whether words can be kept
    iterative: bool  # whether it predicts actions, which the threshold needs
    can_search: bool  # whether it can be decoded with a beam
    has_examples: bool  # whether random examples can be generated


class TaskInfo(BaseModel):
    """A task with an example."""

    name: str
    title: str
    source: str
    target: str


class Example(BaseModel):
    """A source and its target."""

    source: str
    target: str


class RunStatus(BaseModel):
    """A watched run and its validations so far."""

    name: str
    title: str
    metric: str
    max_epochs: int
    reports: list[dict[str, Any]]


class ErrorResponse(BaseModel):
    """Why a request failed."""

    error: str
