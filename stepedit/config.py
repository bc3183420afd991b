"""The configuration of a run: resolved once, frozen, and written, read and compared as it is.

`training.request.resolve` makes it from what a person says; nothing fills in a default later. The command line derives
its options from the fields here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stepedit.errors import UserError, in_our_words, shown
from stepedit.registry import did_you_mean

Mode = Literal["offline", "online", "augmented", "self-training"]
EditOrder = Literal["left-to-right", "right-to-left", "random", "any"]
Architecture = Literal["rnn", "gru", "lstm", "transformer"]
Attention = Literal["dot", "general", "concat", "additive", "none"]
Initialization = Literal["uniform", "normal"]
Config = TypeVar("Config", bound=BaseModel)
FINE_TUNING_EPOCHS = 30  # at most, with a pretrained encoder and no other limit: few pairs are memorized by then
MAX_SEED = 2**32 - 1  # what is computed from it fits into 64 bits

# a configuration may come from a downloaded folder: every size has a limit
MAX_BATCH, MAX_EPOCHS, MAX_COUNT, MAX_THREADS = 1 << 20, 1_000_000, 10**9, 4096


class EncoderShape(BaseModel):
    """The sizes of a pretrained encoder of the BERT or RoBERTa family."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    vocab_size: int = Field(ge=1, le=1 << 20)
    hidden_size: int = Field(ge=4, le=4096)
    num_layers: int = Field(ge=1, le=48)
    num_heads: int = Field(ge=1, le=64)
    intermediate_size: int = Field(ge=1, le=16_384)
    num_positions: int = Field(ge=4, le=16_384)
    first_position: int = Field(0, ge=0, le=16)
    type_vocab_size: int = Field(1, ge=1, le=16)
    layer_norm_eps: float = Field(1e-12, gt=0, le=1e-3)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not divisible by num_heads {self.num_heads}")
        if self.first_position + 4 > self.num_positions:
            raise ValueError(f"num_positions {self.num_positions} is too small")
        return self

    @property
    def max_length(self) -> int:
        """The largest number of subwords."""
        return self.num_positions - self.first_position


class TrainingConfig(BaseModel):
    """The network and how it is trained. A preset is a set of values; see `PRESETS`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    programmer: str = Field(
        "pointer", description="Network: pointer or seq2seq.", json_schema_extra={"shown_default": "by method"}
    )
    architecture: Architecture = Field("transformer", description="Architecture of encoder and decoder.")
    encoder: str | None = Field(
        None,
        description="Pretrained encoder of the BERT or RoBERTa family: a Hugging Face folder or a name on the Hub; for "
        "text. Sets the defaults of other options.",
        json_schema_extra={"shown_default": "none: from scratch"},
    )
    encoder_shape: EncoderShape | None = None  # read from its folder
    encoder_learning_rate: float = Field(
        1e-4,
        gt=0,
        le=1,
        description="Peak learning rate of a pretrained encoder; --learning-rate is that of the heads.",
    )
    frozen_layers: int = Field(
        0,
        ge=0,
        le=48,
        description="Lowest layers of a pretrained encoder that are not trained; its embeddings never are.",
    )
    pooling: Literal["mean", "first"] = Field(
        "mean", description="A token's vector: the mean of its subwords' vectors, or the first."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Number format in which a pretrained encoder is trained.",
        json_schema_extra={"shown_default": "bfloat16 on a CPU that multiplies it, else float32"},
    )
    hidden_size: int = Field(
        128,
        ge=4,
        le=4096,
        description="Hidden and embedding size.",
        json_schema_extra={"shown_default": "128, with --encoder the encoder's"},
    )
    num_layers: int = Field(
        4,
        ge=1,
        le=24,
        description="Layers of encoder and decoder (a pointer's decoder has half); a pretrained encoder keeps its own.",
        json_schema_extra={"shown_default": "2 where edits are independent, else 4"},
    )
    bidirectional: bool = Field(True, description="Recurrent encoders read in both directions.")
    attention: Attention = Field(
        "general",
        description="Attention of recurrent decoders: Luong's dot, general or concat, after the cell; additive: "
        "Bahdanau's, before the cell.",
    )
    num_heads: int = Field(
        4,
        ge=1,
        le=64,
        description="Attention heads of a Transformer.",
        json_schema_extra={"shown_default": "4, with --encoder the encoder's"},
    )
    dropout: float = Field(0.05, ge=0, lt=1, description="Dropout probability.")
    dropout_per_token: bool = Field(
        False, description="Draw a dropout mask for every token, not one per text; recurrent networks only."
    )
    initialization: Initialization = Field(
        "uniform", description="Initial weights. uniform: within 1/sqrt(H); normal: deviation 0.01, biases 0."
    )
    numeric_features: bool = Field(True, description="Add features of an integer's value to its embedding.")
    batch_size: int = Field(256, ge=1, le=MAX_BATCH, description="Examples per batch; a last partial batch is dropped.")
    optimizer: Literal["adam", "muon"] = Field("muon", description="Optimizer of the hidden weight matrices.")
    learning_rate: float = Field(
        0.003,
        gt=0,
        le=1,
        description="Peak learning rate.",
        json_schema_extra={"shown_default": "0.002 where sources are resampled, else 0.003"},
    )
    warmup_steps: int = Field(200, ge=0, le=MAX_COUNT, description="Steps of linear warm-up.")
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
    edit_order: EditOrder = Field(
        "left-to-right",
        description="Which of the remaining edits comes next. any: each of them is right, and the most probable one is "
        "made first; pointer only.",
    )
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
    teacher_forcing: float = Field(
        1.0, ge=0, le=1, description="Probability that a decoder sees the true symbol; one coin a step for the batch."
    )
    max_actions: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="Largest number of actions for one text.",
        json_schema_extra={"shown_default": "twice as many as the longest script has"},
    )
    offline_states: Literal["fixed", "sources"] = Field(
        "sources",
        description="What offline training of Recurrence sees. fixed: one state of each trajectory, drawn once; "
        "sources: the source and the first action alone.",
        json_schema_extra={"shown_default": "fixed, sources where they are resampled"},
    )
    synthetic_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the training pairs that get a new source in every epoch: the target with errors like "
        "those of the pairs; for text.",
    )
    patience: int = Field(
        512, ge=1, le=MAX_EPOCHS, description="Epochs without improvement on validation before stopping."
    )

    def chosen(self) -> dict[str, Any]:
        """Return the options that people set, without those of an encoder if there is none."""
        unused = (
            set() if self.encoder else {"encoder", "encoder_learning_rate", "frozen_layers", "pooling", "precision"}
        )
        return self.model_dump(exclude={"encoder_shape"} | unused)

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        shape = self.encoder_shape
        if shape and (self.architecture, self.hidden_size) != ("transformer", shape.hidden_size):
            size = f"hidden_size the encoder's, {shape.hidden_size}"
            raise ValueError(f"with a pretrained encoder, architecture is transformer and {size}")
        if self.architecture == "transformer" and self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not divisible by num_heads {self.num_heads}")
        if self.architecture != "transformer" and self.bidirectional and self.hidden_size % 2:
            raise ValueError(f"hidden_size {self.hidden_size} is odd: the two directions share it")
        if self.encoder_shape and self.frozen_layers > self.encoder_shape.num_layers:
            raise ValueError(f"frozen_layers: the encoder has {self.encoder_shape.num_layers} layers")
        if self.edit_order == "any" and (self.programmer != "pointer" or self.oracle == "dynamic"):
            raise ValueError("edit_order any needs the pointer programmer and the static oracle")
        if (self.encoder is None) != (self.encoder_shape is None):
            raise ValueError("encoder and encoder_shape belong together")
        if self.architecture == "transformer" and self.dropout_per_token:
            raise ValueError("dropout_per_token is for recurrent networks; a transformer has one mask per text")
        return self


PAPER: dict[str, Any] = {  # what the authors ran; docs/reproduction.md says where that differs from what is printed
    "programmer": "seq2seq",
    "architecture": "lstm",
    "hidden_size": 512,
    "num_layers": 1,
    "attention": "additive",
    "dropout": 0.5,
    "dropout_per_token": True,
    "initialization": "normal",
    "numeric_features": False,
    "optimizer": "adam",
    "learning_rate": 1e-4,
    "warmup_steps": 0,
    "lr_schedule": "constant",
    "weight_decay": 0.0,
    "ema_decay": 0.0,
    "plan_loss_weight": 0.0,
    "teacher_forcing": 0.5,
}
FAST_SCHEDULE = {"learning_rate": 2e-3, "warmup_steps": 200, "lr_schedule": "cosine", "ema_decay": 0.998}

PRESETS: dict[str, dict[str, Any]] = {
    "base": {},
    "small": {"hidden_size": 80, "num_layers": 3},
    "paper": PAPER,
    "paper-fast": PAPER | FAST_SCHEDULE,
}

FINE_TUNING: dict[str, Any] = {  # defaults with a pretrained encoder: a small rate, few epochs, small batches
    "num_layers": 2,
    "batch_size": 32,
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "warmup_steps": 100,
    "ema_decay": 0.995,
    "dropout": 0.2,
    "plan_loss_weight": 0.0,
    "edit_order": "any",
}

PAPER_PRESETS = ("paper", "paper-fast")  # also stop editing where the paper does


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
        json_schema_extra={
            "shown_default": "augmented for recurrence, online for other methods and the paper's presets"
        },
        description="Training states. offline: sources; online: any state of the trajectory; augmented: any subset of "
        "the edits applied; self-training: augmented, and the model's own verified outputs for new sources.",
    )
    preset: str = Field(
        "base",
        description="base; small: a smaller, faster network; paper: the paper's network and training; paper-fast: its "
        "network with a shorter schedule. Sets the defaults of the options below.",
    )
    training: TrainingConfig = TrainingConfig()
    data: str | None = Field(
        None,
        description="Folder of splits, or a .tsv, .csv, .jsonl or .m2 file of pairs, or - for TSV on standard input.",
        json_schema_extra={"shown_default": "generated"},
    )
    data_hash: str | None = None  # of their content; see `data.location`
    target_file: tuple[str, ...] | None = Field(
        None,
        description="File of targets, line by line, if --data is a file of sources only; repeated: several references.",
    )
    source_column: str | None = Field(
        None, description="Name of the source column in --data.", json_schema_extra={"shown_default": "source"}
    )
    target_column: str | None = Field(
        None, description="Name of the target column in --data.", json_schema_extra={"shown_default": "target"}
    )
    strip: bool = Field(
        False, description="Remove white space at both ends of the texts in --data; pairs often have some by mistake."
    )
    num_examples: int = Field(
        10_000, ge=4, le=MAX_COUNT, description="D, number of distinct targets to generate for all splits."
    )
    disjoint_sources: bool = Field(
        False, description="Generated splits share no source; otherwise a source may be in train with another target."
    )
    seed: int = Field(0, ge=0, le=MAX_SEED, description="Random seed; the same seed gives the same run.")
    device: str = Field("cpu", description="Device of the network: cpu, cuda, cuda:1, mps.")

    @field_validator("target_file", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value or None


class Limits(BaseModel):
    """How long a run may take, as a person asks for it. None: no limit, or chosen by the budget."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

    max_epochs: int | None = Field(
        None,
        ge=1,
        le=MAX_EPOCHS,
        description="Number of epochs.",
        json_schema_extra={"shown_default": f"{FINE_TUNING_EPOCHS} with --encoder and no other limit, else no limit"},
    )
    max_steps: int | None = Field(
        None,
        ge=1,
        le=MAX_COUNT,
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
        le=MAX_THREADS,
        description="CPU threads.",
        json_schema_extra={"shown_default": "all cores; with a time budget one thread, if that is faster"},
    )


class RunConfig(RunSettings):
    """The complete configuration of a run: the first limit that is reached ends it."""

    max_epochs: int | None = Field(ge=1, le=MAX_EPOCHS)
    max_steps: int | None = Field(None, ge=1, le=MAX_COUNT)
    max_minutes: float | None = Field(None, gt=0)
    eval_every: int | None = Field(ge=1, le=MAX_EPOCHS)  # epochs; None: about 40 validations, by the clock if given
    threads: int = Field(ge=1, le=MAX_THREADS)

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if self.max_epochs is None and self.max_steps is None and self.max_minutes is None:
            raise ValueError("one of max_epochs, max_steps and max_minutes is needed")
        return self


def checked(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Return the object with these values; UserError names the first one that is unknown or out of range."""
    refuse_unknown(kind, values)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error)) from None


def refuse_unknown(kind: type[BaseModel], names: Iterable[str]) -> None:
    """Raise UserError for the first name that is not a field."""
    for name in names:
        if name not in kind.model_fields:
            raise UserError(did_you_mean("option", name, kind.model_fields))


def explain(error: ValidationError) -> str:
    """Return the first thing that is wrong, as one line: `hidden_size: must be at least 4, not 2`."""
    first = error.errors(include_url=False)[0]
    location, message = ".".join(map(str, first["loc"])), in_our_words(first["msg"])
    if not location:
        return message
    absent = first["type"] in ("missing", "extra_forbidden")  # there is no value to show
    return f"{location}: {message}" if absent else f"{location}: {message}, not {shown(first['input'])}"
