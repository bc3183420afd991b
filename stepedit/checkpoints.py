"""A run's folder: what is in it, and how it is written so that a kill at any moment leaves it whole.

    config.json             all that repeats the run
    vocabulary.json         the tokens it reads, the symbols it says
    model.safetensors       the weights that did best on validation
    checkpoint.safetensors  the latest weights, the optimiser, and where the run stands
    metrics.jsonl           one line per validation
    README.md               a card for people
    scores-SPLIT.json       how right it is (results.py)
    tuned.json              how sure it has to be of an edit (tuning.py)
    pairs.tsv               the data, if they came on standard input

Every file is written beside its place and moved there in one step. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from stepedit import __version__
from stepedit.config import Options, Run, checked
from stepedit.errors import DataError, located
from stepedit.registry import TASKS
from stepedit.sequences import PAD, Pairs, Sequences

CONFIG, VOCABULARY, CARD = "config.json", "vocabulary.json", "README.md"
BEST, LATEST, METRICS = "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"
LOCK, TUNED, PAIRS = ".lock", "tuned.json", "pairs.tsv"
FORMAT = 2
PATIENCE = 5.0  # seconds that a process has for letting go of a folder


@contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Make the folder, and keep other processes out of it; DataError if one is at work there already."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=patience)
    try:
        with lock:
            yield
    except Timeout:
        raise DataError(f"{folder}: another process is at work on this run") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or, if anything goes wrong, as it was before."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file whole."""
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """A JSON file's value; DataError if it is missing or damaged."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path.parent}: no run here ({path.name} is missing)") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise DataError(f"{path}: damaged (not valid JSON)") from None


def write_run(folder: Path, run: Run, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Write down what repeats a run, the words it knows, and a card for people."""
    write_json(folder / VOCABULARY, {"inputs": list(inputs), "outputs": list(outputs)})
    write_whole(folder / CARD, _card(run, folder.name).encode())
    write_json(folder / CONFIG, {"format": FORMAT, "stepedit": __version__, **run.model_dump()})


def _card(run: Run, name: str) -> str:
    """What people should know about a run."""
    data = run.data or f"made from seed {run.seed}, {run.size:,} targets"
    options = "\n".join(f"| {key} | {value} |" for key, value in run.options.model_dump().items())
    return f"""# {name}: {run.task}, {run.method}, {run.mode}

A programmer of stepedit {__version__}: it edits text of the task `{run.task}` \
({", ".join(f"{key}={value}" for key, value in said_options(run).items())}).

- Use it: `stepedit edit {name} "..." --trace`, or `Editor.load("{name}").edit(["..."])`
- Score it: `stepedit evaluate {name}`
- Data: {data}
- Seed {run.seed}, at most {run.epochs:,} epochs; validations are in `metrics.jsonl`
- Made by: `{repeating(run)}`
- The weights are those that did best on validation. It knows no other text than that of its task.

| option | value |
|---|---|
{options}
"""


def said_options(run: Run) -> dict[str, Any]:
    """The task's options, without what its pairs have told."""
    return {key: value for key, value in run.task_options.items() if key not in TASKS[run.task].learned}


def repeating(run: Run) -> str:
    """The command that repeats a run."""
    preset = Options.preset(run.preset).model_dump()
    changed = {key: value for key, value in run.options.model_dump().items() if value != preset[key]}
    parts = {"method": run.method, "mode": run.mode, "preset": run.preset, **changed}
    where = {"data": run.data, "targets": run.targets, "source": run.source, "target": run.target}
    parts |= {name: value for name, value in where.items() if value} if run.data else {"size": run.size}
    parts |= {"seed": run.seed, "max-epochs": run.epochs, "validate-every": run.validate_every}
    parts |= {"threads": run.threads} if run.threads else {}
    parts |= {"device": run.device} if run.device != "cpu" else {}
    words = [f"--option {shlex.quote(f'{key}={value}')}" for key, value in said_options(run).items()]
    words += [f"--{key.replace('_', '-')} {shlex.quote(str(value))}" for key, value in parts.items()]
    return " ".join(["stepedit train", run.task, *words, "--out RUN"])


def find(place: str | Path) -> Path:
    """A run's folder: where it is said to be, or, by its name, a model that comes with stepedit."""
    folder, models = Path(place), shipped_models()
    if folder.exists() or not str(place).isidentifier():
        return folder
    if str(place) not in models:
        raise DataError(f"{place}: no run here, and no model that comes with stepedit ({', '.join(models)})")
    return _shipped() / place


def shipped_models() -> list[str]:
    """The names of the models that come with stepedit."""
    return sorted(path.parent.name for path in _shipped().glob(f"*/{CONFIG}"))


def read_tuned(folder: Path) -> float:
    """How sure a programmer has to be of an edit, as `stepedit tune` has found; 0 if it has not been asked."""
    if not (folder / TUNED).exists():
        return 0.0
    value = read_json(folder / TUNED)
    least = value.get("min_confidence") if isinstance(value, dict) else None
    if not isinstance(least, int | float) or not 0 <= least <= 1:
        raise DataError(f"{folder / TUNED}: damaged")
    return float(least)


def is_shipped(folder: Path) -> bool:
    """Whether a folder is one of those that come with stepedit."""
    return folder.parent == _shipped()


def _shipped() -> Path:
    return Path(str(files("stepedit") / "models"))


def export(folder: Path, out: Path, half: bool) -> int:
    """Copy what editing needs of a run, its numbers halved in precision if so wished; the size in bytes."""
    run, words = read_run(folder), read_json(folder / VOCABULARY)
    tensors, facts = read_tensors(folder / BEST)
    if not isinstance(words, dict) or set(words) != {"inputs", "outputs"}:
        raise DataError(f"{folder / VOCABULARY}: damaged")
    out.mkdir(parents=True)
    write_run(out, run, words["inputs"], words["outputs"])
    for name in (METRICS, TUNED):
        if (folder / name).exists():
            write_whole(out / name, (folder / name).read_bytes())
    facts = facts | {"exported": True}
    write_tensors(out / BEST, {name: part.half() if half else part for name, part in tensors.items()}, facts)
    return sum(file.stat().st_size for file in out.iterdir())


def read_run(folder: Path) -> Run:
    """What a folder's run is; DataError if it is none, damaged, or of another version."""
    value = read_json(folder / CONFIG)
    if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
        raise DataError(f"{folder / CONFIG}: not a run of format {FORMAT}; it was written by another version")
    value.pop("stepedit", None)
    with located(str(folder / CONFIG)):
        return checked(Run, value)


def read_reports(folder: Path) -> list[dict[str, Any]]:
    """A run's validations so far. A last line that was not written to its end does not count; DataError for others."""
    path = folder / METRICS
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise DataError(f"{path}: damaged") from None


def check_vocabulary(folder: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """DataError if a run's words are not those that its task and method have in this version."""
    known = read_json(folder / VOCABULARY)
    if known != {"inputs": list(inputs), "outputs": list(outputs)}:
        raise DataError(f"{folder / VOCABULARY}: these are not the words of the task and method in {CONFIG}")


def write_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Tensors and a few facts about them, in one file."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, save(content, metadata={"facts": json.dumps(facts)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; DataError if it is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get("facts", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise DataError(f"{path}: damaged ({error})") from None


def read_facts(path: Path) -> dict[str, Any]:
    """The facts alone, without reading the tensors."""
    try:
        with safe_open(path, framework="pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {}).get("facts", "{}"))
            return facts
    except FileNotFoundError:
        return {}
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise DataError(f"{path}: damaged ({error})") from None


def exported(folder: Path) -> bool:
    """Whether a folder holds what editing needs and nothing to go on from."""
    return bool(read_facts(folder / BEST).get("exported"))


def has_ended(folder: Path) -> bool:
    """Whether a run was trained to its end."""
    return exported(folder) or bool(read_facts(folder / LATEST).get("standing", {}).get("ended"))


def load_weights(net: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put weights into a net; DataError if they are of another."""
    expected = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    if expected != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise DataError(f"{path}: these weights are of another programmer than {CONFIG} describes")
    net.load_state_dict(tensors)


def pack_optimisers(optimisers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """The state of optimisers as named tensors."""
    return {
        f"optimiser.{number}.{index}.{key}": value
        for number, optimiser in enumerate(optimisers)
        for index, parts in optimiser.state_dict()["state"].items()
        for key, value in parts.items()
    }


def unpack_optimisers(optimisers: Sequence[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """Put a packed state back."""
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimisers]
    for name, tensor in tensors.items():
        number, index, key = name.split(".")
        states[int(number)].setdefault(int(index), {})[key] = tensor
    for optimiser, state in zip(optimisers, states, strict=True):
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def pack_pairs(name: str, pairs: Pairs) -> dict[str, Tensor]:
    """Pairs as named tensors."""
    return {
        f"{name}.{side}": torch.from_numpy(texts.ids.astype(np.int32))
        for side, texts in (("sources", pairs.sources), ("targets", pairs.targets))
    }


def unpack_pairs(tensors: dict[str, Tensor]) -> Pairs:
    """The pairs back."""
    sides = (tensors[side].numpy().astype(np.int64) for side in ("sources", "targets"))
    return Pairs(*(Sequences(ids, (ids != PAD).sum(1)) for ids in sides))
