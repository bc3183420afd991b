"""Training: the loop, its budget and schedule, checkpoints, self-training."""
