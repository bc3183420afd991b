"""How many steps a run makes and when it validates: fixed by epochs and steps, or following the clock.

With a time budget the number of steps is an estimate, planned again every few seconds from the time that recent steps
and validations took. Plans are made at steps that the plan before has named, by rank 0 for all ranks, and are part of
the trainer state. Progress, from 0 to 1, drives the learning rate: each step takes an equal part of what remains, so a
new plan bends the rest of the schedule, and the learning rate never jumps.
"""

from __future__ import annotations

from collections import deque
from math import ceil

from stepedit.config import RunConfig
from stepedit.training.checkpoint import TrainerState
from stepedit.training.distributed import broadcast_from_rank0
from stepedit.training.request import MAX_VALIDATIONS, VALIDATION_SHARE

PLAN_SHARE = 0.01  # of the steps between plans, at most
PLAN_SECONDS = 5.0  # between plans, at most
WINDOW = 4  # plans whose steps are timed, and more, up to an epoch or a share of the time budget
WINDOW_SHARE = 0.1
MIN_TIMED = 3  # steps that are enough for a first plan
MIN_TRAINING = 0.5  # of a time budget, however long a validation takes


class Pacer:
    """The length of a run; writes its plans into the trainer state."""

    def __init__(self, run: RunConfig, batches: int) -> None:
        limits = [run.max_epochs * batches] if run.max_epochs is not None else []
        limits += [run.max_steps] if run.max_steps is not None else []
        self.fixed = min(limits, default=None)  # steps
        self.budget = 60 * run.max_minutes if run.max_minutes is not None else None
        self.batches = batches
        self.eval_steps = run.eval_every * batches if run.eval_every is not None else None  # None: by the clock
        if self.eval_steps is None and self.budget is None and self.fixed is not None:
            self.eval_steps = batches * ceil(self.fixed / batches / MAX_VALIDATIONS)
        self._timed: deque[tuple[int, float]] = deque()  # step, seconds without validations
        self._validating = 0.0  # seconds, in this process

    def plan(self, state: TrainerState) -> None:
        """Plan the rest of a run from where it stands."""
        if self.budget is None:
            assert self.fixed is not None
            state.total_steps = state.next_plan = self.fixed
            state.next_validation = min(self._next_by_steps(state), self.fixed)
            state.progress = state.step / self.fixed
        else:
            self._plan_by_clock(state, self.budget)
        if state.finished and state.total_steps > state.step:  # its limits were raised
            state.finished, state.progress = False, state.step / state.total_steps

    def advance(self, state: TrainerState) -> None:
        """Count one step."""
        remaining = state.total_steps - state.step
        state.step += 1
        if self.budget is None:
            state.progress = state.step / state.total_steps
        elif remaining > 0:
            state.progress += (1 - state.progress) / remaining

    def validated(self, state: TrainerState, seconds: float) -> None:
        """Record a validation and what it took; the next plan is due at once."""
        self._validating += seconds
        state.validation_seconds, state.validated_at = seconds, state.seconds
        state.next_plan = state.step

    def start_timing(self) -> None:
        """Forget timed steps: the clock starts again."""
        self._timed.clear()

    def _plan_by_clock(self, state: TrainerState, budget: float) -> None:
        """Fit total steps, the next plan and the next validation to the remaining time; rank 0 decides."""
        self._time_steps(state, budget)
        total, next_plan, next_validation = self.fixed or 0, state.step + 1, state.step + 1 + self.batches * 10**6
        if state.seconds_per_step:
            total = state.step + max(0, round(self._seconds_for_steps(state, budget) / state.seconds_per_step))
            total = min(max(1, total), self.fixed or total)
            often = min(PLAN_SHARE * total, PLAN_SECONDS / state.seconds_per_step, (total - state.step) / 2)
            next_plan = state.step + max(1, int(often))
            next_validation = self._next_validation(state, budget, total)
        plan = broadcast_from_rank0([total, next_plan, next_validation, state.seconds_per_step])
        state.total_steps, state.next_plan, state.next_validation = map(int, plan[:3])
        state.seconds_per_step = plan[3]

    def _time_steps(self, state: TrainerState, budget: float) -> None:
        """Update the seconds of a step from those since the last few plans, over an epoch if that is not too long."""
        if not self._timed or self._timed[-1][0] < state.step:
            self._timed.append((state.step, state.seconds - self._validating))
        while len(self._timed) > WINDOW and (
            self._timed[-1][0] - self._timed[1][0] >= self.batches
            or self._timed[-1][1] - self._timed[1][1] > WINDOW_SHARE * budget
        ):
            self._timed.popleft()
        (first, began), (last, ended) = self._timed[0], self._timed[-1]
        if last - first >= MIN_TIMED:
            state.seconds_per_step = (ended - began) / (last - first)

    def _seconds_for_steps(self, state: TrainerState, budget: float) -> float:
        """Return the remaining seconds without those of the validations to come; there is always a last one."""
        remaining = budget - state.seconds
        count = max(1.0, remaining / self._interval(state, budget))
        return remaining - min(count * state.validation_seconds, (1 - MIN_TRAINING) * budget)

    def _interval(self, state: TrainerState, budget: float) -> float:
        """Return the seconds from one validation to the next."""
        if self.eval_steps is not None:
            return self.eval_steps * state.seconds_per_step + state.validation_seconds
        return max(budget / MAX_VALIDATIONS, state.validation_seconds / VALIDATION_SHARE)

    def _next_validation(self, state: TrainerState, budget: float, total: int) -> int:
        """Return the step of the next validation; one that is close to the last is left out."""
        if self.eval_steps is not None:
            return min(self._next_by_steps(state), total)
        interval = self._interval(state, budget)
        wait = ceil((state.validated_at + interval - state.seconds) / state.seconds_per_step)
        step = state.step + max(0, wait)
        return step if step < total - interval / 2 / state.seconds_per_step else total

    def _next_by_steps(self, state: TrainerState) -> int:
        """Return the first multiple of the interval after the last validation."""
        assert self.eval_steps is not None
        return (round(state.validated * self.batches) // self.eval_steps + 1) * self.eval_steps
