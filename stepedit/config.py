"""Everything that decides how a run goes: checked, frozen, written beside the run and read back."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stepedit.errors import UserError
from stepedit.registry import did_you_mean

Mode = Literal["offline", "online", "augmented", "self-taught"]
Order = Literal["left", "right", "random"]
Cell = Literal["rnn", "gru", "lstm", "transformer"]
Attention = Literal["dot", "general", "concat", "none"]
DEEP = 4  # layers, where edits must agree with each other
Config = TypeVar("Config", bound=BaseModel)


class Options(BaseModel):
    """How a programmer is made and taught; every option has a default, and presets are sets of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    programmer: str = Field("auto", description="pointer, seq2seq, or auto: whichever is best for the method.")
    cell: Cell = Field("transformer", description="Kind of net.")
    hidden: int = Field(128, ge=4, le=4096, description="Hidden and embedding size.")
    layers: int | None = Field(
        None,
        ge=1,
        le=24,
        description="Of the encoder; if not said, 2 where edits are independent of each other, else 4.",
    )
    bidirectional: bool = Field(True, description="Recurrent cells read the text backward, too.")
    attention: Attention = Field("general", description="Luong's form, for recurrent cells.")
    heads: int = Field(4, ge=1, le=64, description="Heads of a Transformer's attention.")
    dropout: float = Field(0.05, ge=0, lt=1, description="Share of features dropped in training.")
    value_features: bool = Field(True, description="Integers carry features of their value.")
    batch: int = Field(256, ge=1, description="Pairs in a batch; a last partial batch is dropped.")
    optimiser: Literal["adam", "muon"] = Field("muon", description="What changes the matrices inside the net.")
    rate: float | None = Field(
        None, gt=0, le=1, description="Highest; if not said, 0.002 where sources are drawn anew, 0.003 where not."
    )
    warm_up: int = Field(200, ge=0, description="Steps until the rate is at its highest.")
    decay: bool = Field(True, description="Let the rate fall along a cosine to almost nothing at the end.")
    weight_decay: float | None = Field(
        None, ge=0, description="Decoupled, as AdamW's; if not said, 0.3 where sources are drawn anew, 1 where not."
    )
    average: float = Field(0.998, ge=0, lt=1, description="Weights kept are a running average; 0: as they are.")
    clip: float = Field(5.0, gt=0, description="Largest L2 norm of the gradient.")
    order: Order = Field("left", description="Which of the edits that are left comes next.")
    others: float | None = Field(
        None,
        ge=0,
        le=1,
        description="How much edits of a plan count whose turn has not come; if not said, 1 where sources come again "
        "and again or edits are independent, else 0; pointer only.",
    )
    oracle: Literal["script", "dynamic"] = Field(
        "script", description="What is right: the expert's next edit, or any that brings the text nearer; pointer only."
    )
    forcing: float = Field(1.0, ge=0, le=1, description="How often the decoder sees the true symbol before.")
    patience: int = Field(512, ge=1, description="Epochs without a better validation before stopping.")

    @model_validator(mode="after")
    def _heads_share_the_hidden_size(self) -> Self:
        if self.cell == "transformer" and self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} can't be shared by {self.heads} heads")
        return self

    @property
    def depth(self) -> int:
        """Layers, also where no run has settled them."""
        return self.layers if self.layers is not None else DEEP

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """A preset with some options changed; UserError names what is wrong."""
        if name not in PRESETS:
            raise UserError(did_you_mean("preset", name, PRESETS))
        return checked(cls, {**PRESETS[name], **changes})


PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    "small": {"hidden": 80, "layers": 3},
    "paper": {
        "programmer": "seq2seq",
        "cell": "lstm",
        "hidden": 512,
        "layers": 1,
        "dropout": 0.5,
        "value_features": False,
        "optimiser": "adam",
        "rate": 1e-5,
        "warm_up": 0,
        "decay": False,
        "weight_decay": 0.0,
        "average": 0.0,
        "forcing": 0.5,
    },
}


class Run(BaseModel):
    """All that repeats a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    task_options: dict[str, Any] = {}
    method: str = "recurrence"
    mode: Mode = "online"
    preset: str = "fast"
    options: Options = Options()  # type: ignore[call-arg]
    data: str | None = None  # a folder of splits or a file of pairs; None: made from the task, size and seed
    targets: str | None = None  # the file of targets, where they are not beside their sources
    source: str | None = None  # columns of a file of pairs, if not `source` and `target`
    target: str | None = None
    size: int = Field(10_000, ge=4)
    seed: int = Field(0, ge=0)
    epochs: int = Field(ge=1)
    validate_every: int = Field(1, ge=1)  # epochs
    threads: int | None = None
    device: str = "cpu"


def checked(kind: type[Config], values: dict[str, Any]) -> Config:
    """The object with these values; UserError says in one line which is unknown or out of range."""
    for name in values:
        if name not in kind.model_fields:
            raise UserError(did_you_mean("option", name, kind.model_fields))
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{place}: {said}, not {first['input']!r}" if place else said) from None
