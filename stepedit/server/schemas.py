"""What the API takes and returns. Results and steps are the records of `inference.editor` and `editing.trace`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pydantic import BaseModel, Field, field_validator, model_validator

from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import EditResult

SURROGATE = re.compile("[\ud800-\udfff]")


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

    @field_validator("model", "text", "texts", mode="before")
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
    iterative: bool  # whether it predicts actions, which beam search and the threshold need
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
