"""The learning rate of a step: linear warm-up, then constant or along half a cosine."""

from __future__ import annotations

from math import cos, pi

from stepedit.config import TrainingConfig

MIN_FACTOR = 0.01  # of the peak rate, at the end of a cosine


def learning_rate_at(step: int, progress: float, config: TrainingConfig) -> float:
    """Return the learning rate of a step; progress is the share of the run that is done, from 0 to 1."""
    warmup = min(1.0, (step + 1) / (config.warmup_steps + 1))
    cosine = (1 + cos(pi * min(progress, 1))) / 2 if config.lr_schedule == "cosine" else 1.0
    return config.learning_rate * warmup * (MIN_FACTOR + (1 - MIN_FACTOR) * cosine)
