"""What a pretrained encoder costs: training beside a network from scratch, editing in each number format.

    python -m benchmarks.encoders RUN

RUN was trained with `--encoder` on a file of pairs. Its validation texts are edited, and steps on training pairs are
timed; variants take turns within one process.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.__main__ import environment
from benchmarks.timing import interleaved, seconds, verdict
from stepedit.config import RunConfig
from stepedit.data.dataset import load
from stepedit.data.readers import Lines
from stepedit.editing.sequences import Sequences
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.inference.onnx_runtime import available_threads
from stepedit.training.request import resolve
from stepedit.training.run import new_trainer
from stepedit.training.trainer import Trainer

STEPS, ROUNDS, BATCH, SINGLE = 3, 5, 128, 16
GOAL = 50  # sentences a second on two cores, float32, batched
DTYPES = ("float32", "float16", "int8")


def run(folder: Path) -> None:
    """Print all figures of a run."""
    config = model_folder.read_config(folder)
    print(environment(), f"\n{available_threads()} threads for editing; {Path(str(config.data)).name}\n")
    _training(config)
    _editing(folder, config)


def _training(config: RunConfig) -> None:
    """Compare sentences a second of training."""
    frozen = (config.training.encoder_shape.num_layers if config.training.encoder_shape else 2) // 2
    given: dict[str, Any] = {"data": config.data, "level": "word", "max_steps": 10**6}
    encoder = given | {"encoder": config.training.encoder}
    variants = {
        "encoder, float32": encoder | {"precision": "float32"},
        "encoder, bfloat16": encoder | {"precision": "bfloat16"},
        f"encoder, bfloat16, {frozen} layers frozen": encoder | {"precision": "bfloat16", "frozen_layers": frozen},
        "from scratch": given,
    }
    with TemporaryDirectory() as temporary:
        trainers = {name: new_trainer(resolve(values), Path(temporary) / "run") for name, values in variants.items()}
    sizes = {name: STEPS * trainer.run.training.batch_size for name, trainer in trainers.items()}
    times = interleaved({name: partial(_steps, trainer) for name, trainer in trainers.items()}, ROUNDS)
    slowest = sizes["encoder, float32"] / times["encoder, float32"]
    print("training, sentences a second")
    for name, taken in times.items():
        rate, trainer = sizes[name] / taken, trainers[name]
        batch = f"batches of {trainer.run.training.batch_size}, {trainer.net.num_parameters / 1e6:.1f} M parameters"
        print(f"  {name:<36} {rate:8,.0f}/s {rate / slowest:6.1f} x   {batch}")


def _steps(trainer: Trainer) -> None:
    for _ in range(STEPS):
        trainer.step(trainer._next_batch())


def _editing(folder: Path, config: RunConfig) -> None:
    """Compare size, exact match, sentences a second and milliseconds for one, by number format."""
    lines = load(config, model_folder.make_method(config).task, folder=folder).lines("val")
    with TemporaryDirectory() as temporary:
        editors, megabytes = dict[str, Editor](), dict[str, float]()
        for dtype in DTYPES:
            megabytes[dtype] = model_folder.export(folder, Path(temporary) / dtype, dtype) / 1e6
            editors[dtype] = Editor.load(Path(temporary) / dtype)
        texts = lines.sources[:BATCH]
        batch = interleaved({name: partial(each.edit, texts) for name, each in editors.items()}, ROUNDS)
        single = interleaved({name: partial(_one_by_one, each, texts) for name, each in editors.items()}, ROUNDS)
        print("\nediting")
        for dtype, editor in editors.items():
            rate, exact = len(texts) / batch[dtype], _exact(editor, lines)
            speeds = f"{rate:6,.0f} sentences/s in a batch, one {1e3 * single[dtype] / SINGLE:5.1f} ms"
            goal = f"   {verdict(rate >= GOAL)} ({GOAL} a second)" if dtype == "float32" else ""
            print(f"  {dtype:<8} {megabytes[dtype]:6.1f} MB   exact match {exact:.1%}   {speeds}{goal}")
        _reading(editors["float32"], texts)


def _one_by_one(editor: Editor, texts: list[str]) -> None:
    for text in texts[:SINGLE]:
        editor.edit([text])


def _exact(editor: Editor, lines: Lines) -> float:
    """Return the share of all validation texts that become their target."""
    results = editor.edit(list(lines.sources))
    return float(np.mean([result.text == target for result, target in zip(results, lines.targets, strict=True)]))


def _reading(editor: Editor, texts: list[str]) -> None:
    """Print how much of an action the subword tokenizer takes: what a cache of it could save."""
    vocabulary = editor.method.task.vocabulary
    states = Sequences.from_rows([vocabulary.ids(vocabulary.split(text)) for text in texts])
    reader: Any = editor.policy.reader  # type: ignore[attr-defined]
    whole = min(seconds(partial(editor.policy.predict, states)) for _ in range(ROUNDS))
    read = min(seconds(partial(reader, states.ids, states.lengths)) for _ in range(ROUNDS))
    print(f"  the subword tokenizer takes {read / whole:.1%} of an action, so its results are not cached")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(str(__doc__))
    run(Path(sys.argv[1]))
