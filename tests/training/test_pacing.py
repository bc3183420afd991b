"""The length of a run: a time budget follows the clock, a fixed number of steps stays exact, ranks agree."""

import os
import subprocess
import sys
from collections.abc import Callable
from math import cos, pi
from pathlib import Path

import numpy as np
import pytest

from stepedit.config import RunConfig
from stepedit.data.states import States
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.evaluation.evaluate import Evaluation
from stepedit.inference import model_folder
from stepedit.methods.base import Method, Policy
from stepedit.training import trainer as module
from stepedit.training.checkpoint import Report
from stepedit.training.schedule import learning_rate_at
from stepedit.training.trainer import Trainer
from tests.training.test_trainer import make_config, make_trainer

MINUTES = 2.0
VALIDATION = 0.8  # seconds


class FakeClock:
    """A clock that moves when a step or a validation is made."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class FakeTrainer(Trainer):
    """A trainer whose steps take what the clock is told, and nothing else."""

    def __init__(self, run: RunConfig, folder: Path, pairs: dict[str, Pairs], cost: Callable[[float], float]) -> None:
        self.clock, self.cost, self.validation_cost = FakeClock(), cost, VALIDATION
        self.rates: list[float] = []
        super().__init__(run, folder, pairs, clock=self.clock)

    def step(self, states: States) -> float:
        self.rates.append(learning_rate_at(self.state.step, self.state.progress, self.run.training))
        self.clock.now += self.cost(self.state.seconds)
        self.pacer.advance(self.state)
        return 1.0


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeTrainer]:
    """Return a function that makes a trainer with a fake clock, in one folder."""
    now: list[FakeTrainer] = []

    def evaluate(policy: Policy, method: Method, pairs: Pairs) -> Evaluation:
        now[-1].clock.now += now[-1].validation_cost
        scores = dict.fromkeys(method.task.metrics, np.zeros(1))
        return Evaluation(Sequences.from_rows([]), method.task.metrics, scores, np.zeros((1, 0), np.int64))

    def make_one(cost: Callable[[float], float], **limits: object) -> FakeTrainer:
        run = make_config("aor", "recurrence", batch_size=16, patience=100_000)
        run = RunConfig.model_validate(run.model_dump() | {"max_epochs": None, "eval_every": None} | limits)
        pairs = model_folder.make_task(run).generate(100, np.random.default_rng(0))
        parts = {"train": pairs.take(slice(80)), "val": pairs.take(slice(80, None))}
        now.append(FakeTrainer(run, tmp_path / "run", parts, cost))
        now[-1].begin()
        return now[-1]

    monkeypatch.setattr(module, "evaluate_pairs", evaluate)
    return make_one


SPEEDS: dict[str, Callable[[float], float]] = {
    "steady": lambda seconds: 0.1,
    "three times slower halfway": lambda seconds: 0.1 if seconds < 30 * MINUTES else 0.3,
    "three times faster halfway": lambda seconds: 0.3 if seconds < 30 * MINUTES else 0.1,
    "slow at first": lambda seconds: 2.0 if seconds < 6 else 0.05,
    "ten times slower at the end": lambda seconds: 0.05 if seconds < 50 * MINUTES else 0.5,
    "epochs that are sampled slowly": lambda seconds: 1.0 if int(10 * seconds) % 7 == 0 else 0.05,
}


@pytest.mark.parametrize("estimate", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("speed", SPEEDS)
def test_a_time_budget_is_used_whatever_the_machine_does(
    speed: str, estimate: float, make: Callable[..., FakeTrainer]
) -> None:
    trainer = make(SPEEDS[speed], max_minutes=MINUTES)
    trainer.state.seconds_per_step, trainer.state.validation_seconds = estimate, estimate
    reports = list(trainer.fit())
    assert 0.9 * 60 * MINUTES <= trainer.state.seconds <= 1.1 * 60 * MINUTES
    assert reports[-1].step == trainer.state.step == trainer.state.total_steps, "it ends with a validation"
    assert reports[-1].seconds == pytest.approx(trainer.state.seconds)
    assert any(report.step % trainer.batches for report in reports), "also within epochs"
    assert 8 <= len(reports) <= 41
    assert len(reports) * VALIDATION <= 0.12 * 60 * MINUTES


def test_the_last_validation_is_part_of_the_budget(make: Callable[..., FakeTrainer]) -> None:
    trainer = make(lambda seconds: 0.1, max_minutes=MINUTES)
    trainer.validation_cost = trainer.state.validation_seconds = 20.0
    (report,) = trainer.fit()  # more would take too large a share
    assert report.seconds == pytest.approx(60 * MINUTES, abs=0.5)
    assert report.step == pytest.approx((60 * MINUTES - 20) / 0.1, abs=5)


def test_steps_are_timed_without_validations(make: Callable[..., FakeTrainer]) -> None:
    trainer = make(lambda seconds: 0.1, max_minutes=MINUTES)
    timed = []
    list(trainer.fit(lambda step, loss: timed.append(trainer.state.seconds_per_step)))
    assert timed[10:] == pytest.approx([0.1] * len(timed[10:]))


def test_steps_are_timed_over_a_whole_epoch(make: Callable[..., FakeTrainer]) -> None:
    """The first step of an epoch takes as long as the others together: its states are sampled."""
    trainer = make(lambda seconds: 0.0, max_minutes=MINUTES)
    trainer.pacer.batches = trainer.batches = 100
    trainer.cost = lambda seconds: 5.0 if trainer.state.step % 100 == 0 else 0.05
    trainer._next_batch = lambda: None  # type: ignore[method-assign, return-value, assignment]
    planned = []
    trainer.pacer.eval_steps = 10**9
    list(trainer.fit(lambda step, loss: planned.append(trainer.state.total_steps)))
    assert np.ptp(planned[len(planned) // 4 : len(planned) * 3 // 4]) < 0.35 * np.mean(planned)
    assert trainer.state.seconds <= 1.1 * 60 * MINUTES


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_learning_rate_stays_smooth_when_the_plan_changes(speed: str, make: Callable[..., FakeTrainer]) -> None:
    trainer = make(SPEEDS[speed], max_minutes=MINUTES)
    trainer.state.seconds_per_step = 0.1
    list(trainer.fit())
    peak = trainer.run.training.learning_rate
    after = np.array(trainer.rates[trainer.run.training.warmup_steps :]) / peak
    assert np.all(np.diff(after) <= 0)
    assert -np.diff(after).min() < 0.05, "no jump"
    assert after[-1] < 0.03, "the schedule is completed"


def test_a_fixed_number_of_steps_has_exactly_the_cosine(make: Callable[..., FakeTrainer]) -> None:
    trainer = make(lambda seconds: 0.1, max_epochs=7)
    list(trainer.fit())
    config, total = trainer.run.training, 7 * trainer.batches
    expected = [
        config.learning_rate * min(1.0, (step + 1) / (config.warmup_steps + 1))
        * (0.01 + (1 - 0.01) * ((1 + cos(pi * min(step / total, 1))) / 2))
        for step in range(total)
    ]  # fmt: skip
    assert trainer.rates == expected


def parts_of(make: Callable[..., FakeTrainer], stops: list[int], **limits: object) -> tuple[list[Report], float, int]:
    """Train in parts that end at these steps; return the last part's reports, the sum of the times, the steps."""
    spent = 0.0
    for stop in [*stops, -1]:
        trainer = make(lambda seconds: 0.1 if seconds < 40 else 0.2, **limits)
        trainer.resume()
        began = trainer.clock.now

        def check(step: int, loss: float, trainer: FakeTrainer = trainer, stop: int = stop) -> None:
            trainer.stopping = step == stop

        reports = list(trainer.fit(check))
        spent += trainer.clock.now - began
    return reports, spent, trainer.state.step


def test_a_time_budget_holds_for_the_sum_of_the_parts(make: Callable[..., FakeTrainer]) -> None:
    reports, spent, steps = parts_of(make, [2, 3, 100, 101, 300, 555], max_minutes=MINUTES)
    assert 0.9 * 60 * MINUTES <= spent <= 1.1 * 60 * MINUTES
    assert reports[-1].step == steps


def test_a_resumed_run_continues_with_the_plan_of_its_checkpoint(make: Callable[..., FakeTrainer]) -> None:
    first = make(lambda seconds: 0.1, max_minutes=MINUTES)

    def stop(step: int, loss: float) -> None:
        first.stopping = step == 500

    list(first.fit(stop))
    second = make(lambda seconds: 0.1, max_minutes=MINUTES)
    second.resume()
    assert second.state.progress == first.state.progress > 0.3
    assert second.state.total_steps == pytest.approx(first.state.total_steps, rel=0.02)
    list(second.fit())
    assert abs(second.rates[0] - first.rates[-1]) < 0.01 * second.run.training.learning_rate


@pytest.mark.parametrize(
    "limits", [{"max_steps": 13}, {"max_steps": 13, "max_epochs": 9}, {"max_steps": 99, "max_minutes": 0.01}]
)
def test_the_first_limit_ends_a_run_within_an_epoch(
    limits: dict[str, object], make: Callable[..., FakeTrainer]
) -> None:
    trainer = make(lambda seconds: 0.01, **limits)
    reports = list(trainer.fit())
    assert trainer.batches == 5
    if "max_minutes" in limits:
        assert trainer.state.seconds < 2
    else:
        assert [report.step for report in reports] == [5, 10, 13]
        assert [report.epoch for report in reports] == [1, 2, 2.6]
        assert trainer.state.progress == 1


def test_a_finished_run_with_twice_the_time_continues_in_the_middle_of_the_schedule(
    make: Callable[..., FakeTrainer],
) -> None:
    first = make(lambda seconds: 0.1, max_minutes=MINUTES)
    list(first.fit())
    assert (first.state.finished, first.state.progress) == (True, pytest.approx(1))
    second = make(lambda seconds: 0.1, max_minutes=2 * MINUTES)
    second.resume()
    assert not second.state.finished
    assert second.state.progress == pytest.approx(0.5, abs=0.05)
    list(second.fit())
    assert second.state.seconds == pytest.approx(2 * 60 * MINUTES, rel=0.02)


def test_a_validation_longer_than_the_budget_leaves_time_to_train(make: Callable[..., FakeTrainer]) -> None:
    trainer = make(lambda seconds: 0.01, max_minutes=0.02)  # 1.2 s, and one validation takes 0.8 s
    trainer.state.seconds_per_step, trainer.state.validation_seconds = 0.01, 5.0
    reports = list(trainer.fit())
    assert len(reports) == 1
    assert trainer.state.step >= 50


def test_max_steps_with_real_steps_gives_the_same_weights_as_as_many_epochs(tmp_path: Path) -> None:
    run = make_config("aor", "recurrence", max_epochs=2)
    whole = make_trainer(run, tmp_path / "epochs")
    steps = run.model_copy(update={"max_epochs": None, "max_steps": 2 * whole.batches})
    same = make_trainer(steps, tmp_path / "steps")
    for trainer in (whole, same):
        list(trainer.fit())
    first, second = (model_folder.read_tensors(each.folder / model_folder.CHECKPOINT)[0] for each in (whole, same))
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_rank_0_decides_for_all_ranks_although_their_clocks_differ(tmp_path: Path) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(
        """
import sys, time
from pathlib import Path
from tests.training.test_trainer import make_config, make_trainer
from stepedit.training import budget, distributed
distributed.init_from_environment()
rank = distributed.rank()
clock = lambda: time.monotonic() * (1 + 9 * rank)  # that of rank 1 runs ten times as fast
budget.time.perf_counter = clock
budget.TIMED_SECONDS = 0.2
run = make_config("sort", "recurrence").model_copy(
    update={"max_epochs": None, "eval_every": None, "max_minutes": 0.05}
)
trial = make_trainer(run, Path(sys.argv[1]))
budget.seconds_per_step(trial, steps=60)
trainer = make_trainer(run, Path(sys.argv[1]))
trainer._clock = clock
reports = list(trainer.fit())
print("steps", trainer.state.step, "validations", len(reports), flush=True)
"""
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [*torchrun, str(program), str(tmp_path / "run")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert made.returncode == 0, made.stderr
    lines = made.stdout.split("\n")[:-1]
    assert len(lines) == 2
    assert lines[0] == lines[1]
