"""What the API takes and gives."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stepedit.changes import Change
from stepedit.results import Taken


class Asked(BaseModel):
    """What to edit, and how."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, description="A model's name; the first one if not said.", max_length=200)
    text: str | None = Field(None, description="One text.")
    texts: list[str] | None = Field(None, description="Several texts, instead of one.", min_length=1)
    beam: int = Field(1, ge=1, le=20, description="Texts followed at a time.")
    verify: bool = Field(False, description="Let the task's own check decide which result is taken.")
    min_confidence: float | None = Field(
        None, ge=0, le=1, description="Stop where the programmer is less sure than this; if not said, as it was tuned."
    )
    trace: bool = Field(True, description="Say each step, and what else was considered.")

    @model_validator(mode="after")
    def _one_or_several(self) -> Asked:
        if (self.text is None) == (self.texts is None):
            raise ValueError("either `text` or `texts` is needed, not both")
        return self

    def all_texts(self) -> list[str]:
        """The texts."""
        return self.texts if self.texts is not None else [self.text or ""]


class Considered(BaseModel):
    """An action that the programmer considered; the one it took is chosen."""

    chosen: bool
    operation: str
    position: int | None
    before: str
    after: str
    probability: float


class Step(Taken):
    """One action, what it did, and what else was considered."""

    alternatives: list[Considered]


class One(BaseModel):
    """What came of one text."""

    source: str
    tokens: list[str]  # of the source
    text: str
    finished: bool
    right: bool | None  # what the task's check says; nobody can tell of a text of one's own
    verified: bool | None
    steps: list[Step]
    last: list[Considered]  # what was considered at the end
    changes: list[Change]  # of a text of one's own, if steps were asked for: which letters became which


class Edits(BaseModel):
    """What came of a request."""

    model: str
    results: list[One]


class ModelInfo(BaseModel):
    """A model that can be asked."""

    name: str
    task: str
    method: str
    mode: str
    setting: dict[str, Any]
    parameters: int
    glue: str  # what stands between tokens
    examples: bool  # whether there are any to be drawn, and a check of what comes of them


class TaskInfo(BaseModel):
    """A task."""

    name: str
    title: str
    source: str
    target: str


class Pair(BaseModel):
    """A source and a target that it could come from."""

    source: str
    target: str


class Watched(BaseModel):
    """A run and its validations so far."""

    name: str
    title: str
    metric: str
    epochs: int
    reports: list[dict[str, Any]]


class Wrong(BaseModel):
    """Why a request was not answered."""

    error: str
