"""Configurations: wrong values are named in one line, in our words."""

from typing import Any

import pytest

from stepedit import Decoding
from stepedit.config import Limits, RunSettings, TrainingConfig, checked
from stepedit.errors import UserError


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (TrainingConfig, {"hidden_size": 2}, "hidden_size: must be at least 4, not 2"),
        (TrainingConfig, {"hidden_size": 5000}, "hidden_size: must be at most 4096, not 5000"),
        (TrainingConfig, {"dropout": 1}, "dropout: must be less than 1, not 1"),
        (TrainingConfig, {"learning_rate": 0}, "learning_rate: must be greater than 0, not 0"),
        (TrainingConfig, {"hidden_size": "big"}, "hidden_size: must be a whole number, not 'big'"),
        (TrainingConfig, {"hidden_size": 8.5}, "hidden_size: must be a whole number, not 8.5"),
        (TrainingConfig, {"dropout": "some"}, "dropout: must be a number, not 'some'"),
        (TrainingConfig, {"bidirectional": "maybe"}, "bidirectional: must be true or false, not 'maybe'"),
        (TrainingConfig, {"optimizer": "sgd"}, "optimizer: must be 'adam' or 'muon', not 'sgd'"),
        (TrainingConfig, {"hidden_size": 16, "num_heads": 3}, "hidden_size 16 is not divisible by num_heads 3"),
        (RunSettings, {"task": 3}, "task: must be a text, not 3"),
        (RunSettings, {}, "task: is missing"),
        (RunSettings, {"task": "aor", "training": {"sise": 1}}, "training.sise: is unknown"),
        (RunSettings, {"task": "aor", "task_args": [1]}, "task_args: must be names and values, not [1]"),
        (RunSettings, {"task": "aor", "seed": -1}, "seed: must be at least 0, not -1"),
        (RunSettings, {"task": "aor", "seed": 10**19}, "seed: must be at most 4294967295, not 10000000000000000000"),
        (Limits, {"max_minutes": float("inf")}, "max_minutes: must be a finite number, not inf"),
        (Limits, {"max_minutes": float("nan")}, "max_minutes: must be a finite number, not nan"),
        (Decoding, {"beam_size": 0}, "beam_size: must be at least 1, not 0"),
        (Decoding, {"min_confidence": float("nan")}, "min_confidence: must be a finite number, not nan"),
    ],
)
def test_a_wrong_value_is_named_in_our_words(kind: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        checked(kind, values)
    assert str(caught.value) == message


def test_a_long_value_is_cut() -> None:
    with pytest.raises(UserError) as caught:
        checked(RunSettings, {"task": "aor", "seed": "9" * 5000})
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam_size": 0}, "beam_size: must be at least 1, not 0"),
        ({"min_confidence": float("nan")}, "min_confidence: must be a finite number, not nan"),
        ({"min_confidence": 2}, "min_confidence: must be at most 1, not 2"),
        ({"beam_sise": 2}, "unknown option 'beam_sise' (did you mean 'beam_size'?)"),
        ({"lexicon": "no-such-file"}, "no-such-file: no such file"),
    ],
)
def test_a_wrong_decoding_in_python_is_a_value_error_of_one_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        Decoding(**values)
    assert str(caught.value).startswith(message)
