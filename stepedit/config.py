"""The configuration of a run: resolved once, frozen, and written, read and compared as it is.

`training.request.resolve` makes it from what a person says; nothing fills in a default later. The command line derives
its options from the fields here.
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stepedit.errors import UserError
from stepedit.registry import did_you_mean

Mode = Literal["offline", "online", "augmented", "self-training"]
EditOrder = Literal["left-to-right", "right-to-left", "random"]
Architecture = Literal["rnn", "gru", "lstm", "transformer"]
Attention = Literal["dot", "general", "concat", "none"]
Config = TypeVar("Config", bound=BaseModel)
MAX_EPOCHS = 1_000_000


class TrainingConfig(BaseModel):
    """The network and how it is trained. A preset is a set of values; see `PRESETS`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    programmer: str = Field(
        "pointer", description="Network: pointer or seq2seq.", json_schema_extra={"shown_default": "by method"}
    )
    architecture: Architecture = Field("transformer", description="Architecture of encoder and decoder.")
    hidden_size: int = Field(128, ge=4, le=4096, description="Hidden and embedding size.")
    num_layers: int = Field(
        4,
        ge=1,
        le=24,
        description="Encoder layers.",
        json_schema_extra={"shown_default": "2 where edits are independent, else 4"},
    )
    bidirectional: bool = Field(True, description="Recurrent encoders read in both directions.")
    attention: Attention = Field("general", description="Luong attention score of recurrent decoders.")
    num_heads: int = Field(4, ge=1, le=64, description="Attention heads of a Transformer.")
    dropout: float = Field(0.05, ge=0, lt=1, description="Dropout probability.")
    numeric_features: bool = Field(True, description="Add features of an integer's value to its embedding.")
    batch_size: int = Field(256, ge=1, le=1_000_000, description="Examples per batch; a last partial batch is dropped.")
    optimizer: Literal["adam", "muon"] = Field("muon", description="Optimizer of the hidden weight matrices.")
    learning_rate: float = Field(
        0.003,
        gt=0,
        le=1,
        description="Peak learning rate.",
        json_schema_extra={"shown_default": "0.002 where sources are resampled, else 0.003"},
    )
    warmup_steps: int = Field(200, ge=0, le=10_000_000, description="Steps of linear warm-up.")
    lr_schedule: Literal["cosine", "constant"] = Field("cosine", description="Learning rate after the warm-up.")
    weight_decay: float = Field(
        1.0,
        ge=0,
        le=100,
        description="Decoupled weight decay, as in AdamW.",
        json_schema_extra={"shown_default": "0.3 where sources are resampled, else 1.0"},
    )
    ema_decay: float = Field(0.998, ge=0, lt=1, description="Decay of the moving average of the weights; 0: none.")
    max_grad_norm: float = Field(5.0, gt=0, le=1e6, description="Gradient clipping: largest L2 norm.")
    edit_order: EditOrder = Field("left-to-right", description="Which of the remaining edits comes next.")
    plan_loss_weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Loss weight of the edits after the next one; pointer only.",
        json_schema_extra={"shown_default": "1 where sources repeat or edits are independent, else 0"},
    )
    oracle: Literal["static", "dynamic"] = Field(
        "static", description="Training target: the expert's next edit, or any optimal edit; pointer only."
    )
    teacher_forcing: float = Field(1.0, ge=0, le=1, description="Probability that a decoder sees the true symbol.")
    patience: int = Field(
        512, ge=1, le=MAX_EPOCHS, description="Epochs without improvement on validation before stopping."
    )

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        if self.architecture == "transformer" and self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not divisible by num_heads {self.num_heads}")
        return self


PRESETS: dict[str, dict[str, Any]] = {
    "base": {},
    "small": {"hidden_size": 80, "num_layers": 3},
    "paper": {
        "programmer": "seq2seq",
        "architecture": "lstm",
        "hidden_size": 512,
        "num_layers": 1,
        "dropout": 0.5,
        "numeric_features": False,
        "optimizer": "adam",
        "learning_rate": 1e-5,
        "warmup_steps": 0,
        "lr_schedule": "constant",
        "weight_decay": 0.0,
        "ema_decay": 0.0,
        "plan_loss_weight": 0.0,
        "teacher_forcing": 0.5,
    },
}


def preset(name: str) -> dict[str, Any]:
    """Return the values of a preset; UserError if there is none of that name."""
    if name not in PRESETS:
        raise UserError(did_you_mean("preset", name, PRESETS))
    return PRESETS[name]


class RunSettings(BaseModel):
    """All that determines a run except its limits: what is trained, on which data, how."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    task: str
    task_args: dict[str, Any] = {}
    method: str = Field("recurrence", description="recurrence, tagging or end2end.")
    mode: Mode = Field(
        "online",
        description="Training states. offline: sources; online: any state of the trajectory; augmented: any subset of "
        "the edits applied; self-training: augmented, and the model's own verified outputs for new sources.",
    )
    preset: str = Field(
        "base",
        description="base; small: a smaller, faster network; paper: the paper's network and training. Sets the "
        "defaults of the options below.",
    )
    training: TrainingConfig = TrainingConfig()
    data: str | None = Field(
        None,
        description="Folder of splits, or a .tsv, .csv or .jsonl file of pairs, or - for TSV on standard input.",
        json_schema_extra={"shown_default": "generated"},
    )
    target_file: str | None = Field(
        None, description="File of targets, line by line, if --data is a file of sources only."
    )
    source_column: str | None = Field(
        None, description="Name of the source column in --data.", json_schema_extra={"shown_default": "source"}
    )
    target_column: str | None = Field(
        None, description="Name of the target column in --data.", json_schema_extra={"shown_default": "target"}
    )
    num_examples: int = Field(
        10_000, ge=4, le=100_000_000, description="D, number of distinct targets to generate for all splits."
    )
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Random seed; the same seed gives the same run.")
    device: str = Field("cpu", description="Device of the network: cpu, cuda, cuda:1, mps.")


class Limits(BaseModel):
    """How long a run may take, as a person asks for it. None: no limit, or chosen by the budget."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    max_epochs: int | None = Field(
        None, ge=1, le=MAX_EPOCHS, description="Number of epochs.", json_schema_extra={"shown_default": "no limit"}
    )
    max_steps: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description="Number of optimizer steps; training may stop within an epoch.",
        json_schema_extra={"shown_default": "no limit"},
    )
    max_minutes: float | None = Field(
        None,
        ge=0.01,
        le=525_600,
        description="Time of training, validations included; the learning-rate schedule follows the clock.",
        json_schema_extra={"shown_default": "30, if there is neither --max-epochs nor --max-steps"},
    )
    eval_every: int | None = Field(
        None,
        ge=1,
        le=MAX_EPOCHS,
        description="Epochs between validations.",
        json_schema_extra={"shown_default": "40 validations in a run, fewer in short ones"},
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="CPU threads.",
        json_schema_extra={"shown_default": "all cores; with a time budget one thread, if that is faster"},
    )


class RunConfig(RunSettings):
    """The complete configuration of a run: the first limit that is reached ends it."""

    max_epochs: int | None = Field(ge=1, le=MAX_EPOCHS)
    max_steps: int | None = Field(None, ge=1)
    max_minutes: float | None = Field(None, gt=0)
    eval_every: int | None = Field(ge=1)  # epochs; None: about 40 validations, by the clock if there is a time budget
    threads: int = Field(ge=1)

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if self.max_epochs is None and self.max_steps is None and self.max_minutes is None:
            raise ValueError("one of max_epochs, max_steps and max_minutes is needed")
        return self


def checked(kind: type[Config], values: dict[str, Any]) -> Config:
    """Return the object with these values; UserError names the first one that is unknown or out of range."""
    for name in values:
        if name not in kind.model_fields:
            raise UserError(did_you_mean("option", name, kind.model_fields))
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{location}: {message}, not {first['input']!r}" if location else message) from None
