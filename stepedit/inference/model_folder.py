"""The folder of a run or model: what is in it, and how it is read and written.

    config.json             the complete configuration of the run
    vocabulary.json         input tokens and output symbols
    model.safetensors       the weights with the best validation score
    model.onnx              the same as a graph, written when training ends; all that editing needs
    checkpoint.safetensors  the latest weights, optimizer and trainer state (training.checkpoint)
    tokenizer.json          the subword tokenizer of a pretrained encoder
    metrics.jsonl           one line per validation
    README.md               a model card
    trained-on.safetensors  hashes of the training texts (inference.trained_on)
    scores-SPLIT.json       metrics on a split (evaluation.scores)
    tuned.json              the tuned confidence threshold (evaluation.threshold)
    keep.txt, keep.txt.gz   words that stay as they are (text.keep), if there are some, with KEEP-NOTICE.txt
    pairs.tsv               the data, if they came on standard input

Every file is written atomically. Nothing is ever unpickled, and nothing named in a folder is ever imported.
"""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepedit import __version__
from stepedit.config import RunConfig, RunSettings, checked, preset
from stepedit.errors import DataError, DataWarning, UserError, located
from stepedit.files import new_folder, read_json, write_atomic, write_json
from stepedit.methods.base import Method
from stepedit.registry import METHODS, PROGRAMMERS, TASKS, Registry
from stepedit.tasks.base import Task
from stepedit.text.keep import Keep
from stepedit.text.subwords import SubwordTokenizer

CONFIG, VOCABULARY, CARD = "config.json", "vocabulary.json", "README.md"
WEIGHTS, GRAPH, CHECKPOINT = "model.safetensors", "model.onnx", "checkpoint.safetensors"
METRICS, TUNED, PAIRS, TOKENIZER = "metrics.jsonl", "tuned.json", "pairs.tsv", "tokenizer.json"
TRAINED_ON = "trained-on.safetensors"
KEEP, KEEP_NOTICE = ("keep.txt", "keep.txt.gz"), "KEEP-NOTICE.txt"
FORMAT = 3
OPTIONS = "| option | value |"  # begins the table of options in a model card

Tensors = dict[str, npt.NDArray[Any]]
DTYPES: dict[str, type[np.generic]] = {f"F{8 * size}": np.dtype(f"f{size}").type for size in (2, 4, 8)}
DTYPES |= {f"{kind.upper()}{8 * size}": np.dtype(f"{kind}{size}").type for kind in "iu" for size in (1, 2, 4, 8)}
DTYPES["BOOL"] = np.bool_


# configuration


def write_config(
    folder: Path,
    run: RunConfig,
    inputs: Sequence[str],
    outputs: Sequence[str],
    name: str | None = None,
    notes: str = "",
) -> None:
    """Write configuration, vocabulary and model card, which calls the model by this name or the folder's."""
    write_json(folder / VOCABULARY, {"inputs": list(inputs), "outputs": list(outputs)})
    write_atomic(folder / CARD, _card(run, name or folder.name, notes).encode())
    write_json(folder / CONFIG, {"format": FORMAT, "stepedit": __version__, **run.model_dump()})


def read_config(folder: Path) -> RunConfig:
    """Return the configuration of a run; DataError if there is none, or it is damaged or of another version."""
    path = folder / CONFIG
    value = read_json(path)
    if not isinstance(value, dict) or not {"task", "format"} & value.keys():
        raise DataError(f"{path}: not the configuration of a run of stepedit")
    if value.pop("format", None) != FORMAT:
        raise DataError(f"{path}: not a run of stepedit {__version__}; it was written by another version")
    value.pop("stepedit", None)
    with located(str(path)):
        run = checked(RunConfig, value)
    registries: list[tuple[Registry[Any], str]] = [
        (TASKS, run.task), (METHODS, run.method), (PROGRAMMERS, run.training.programmer)
    ]  # fmt: skip
    for registry, name in registries:
        if name not in registry:
            raise DataError(
                f"{folder}: the {registry.kind} {name!r} is not registered; load the file that defines it: "
                f"--plugin FILE.py"
            )
    return run


def make_task(run: RunSettings) -> Task:
    """Return the task of a run."""
    return TASKS[run.task].from_args(run.task_args)


def make_method(run: RunSettings) -> Method:
    """Return the method of a run, for its task."""
    config = run.training
    return METHODS[run.method](make_task(run), max_actions=config.max_actions, edit_order=config.edit_order)


def check_vocabulary(folder: Path, method: Method) -> None:
    """Raise DataError if the vocabulary of a folder is not that of its task and method."""
    known = read_json(folder / VOCABULARY)
    if known != {"inputs": list(method.task.vocabulary.tokens), "outputs": list(method.outputs.tokens)}:
        raise DataError(f"{folder / VOCABULARY}: not the vocabulary of the task and method in {CONFIG}")


def user_task_args(run: RunSettings) -> dict[str, Any]:
    """Return the task arguments that people may set, without those learned from pairs."""
    return {key: value for key, value in run.task_args.items() if key not in TASKS[run.task].fitted_args}


def _card(run: RunConfig, name: str, notes: str = "") -> str:
    """Return a model card; `notes` are sections that somebody wrote."""
    data = f"generated from seed {run.seed}, {run.num_examples:,} targets"
    data += ", splits disjoint by source" if run.disjoint_sources else ""
    if run.data is not None:  # by name and content: where they were on some machine says nothing
        digest = f", SHA-256 `{run.data_hash}`" if run.data_hash else ""
        data = f"`{Path(run.data).name}`{digest}"
    options = "\n".join(f"| {key} | {value} |" for key, value in without_paths(run).training.chosen().items())
    args = ", ".join(f"{key}={value}" for key, value in user_task_args(run).items())
    return f"""# {name}: {run.task}, {run.method}, {run.mode}

A model of stepedit {__version__} for the task `{run.task}`{f" ({args})" if args else ""}.

- Edit: `stepedit edit {name} "..." --trace`, or `Editor.load("{name}").edit(["..."])`
- Evaluate: `stepedit evaluate {name}`
- Training data: {data}
- `{TRAINED_ON}`, if it is here, has hashes of training targets; `stepedit evaluate {name} --data OTHER` says how many
  of the pairs it has met
- Seed {run.seed}, at most {" or ".join(limits_of(run))}; `metrics.jsonl` has the validation scores
- Training command: `{training_command(run)}`
- The weights are those with the best validation score, or the last ones if it stayed at 0
- The model is for text of its task only

{notes}{OPTIONS}
|---|---|
{options}
"""


def _card_notes(folder: Path) -> str:
    """Return the sections of a model card that somebody wrote: where data and words are from, and their licenses."""
    card = (folder / CARD).read_text(encoding="utf-8", errors="replace") if (folder / CARD).exists() else ""
    written, _, _ = card.partition(OPTIONS)
    start = written.find("\n## ") + 1
    return f"{written[start:].strip()}\n\n" if start else ""


def limits_of(run: RunConfig) -> list[str]:
    """Return the limits of a run in words; the first that is reached ends it."""
    limits = {"epoch": run.max_epochs, "step": run.max_steps, "minute": run.max_minutes}
    return [f"{value:,} {name}{'s' * (value != 1)}" for name, value in limits.items() if value is not None]


def training_command(run: RunConfig) -> str:
    """Return the command that repeats a run; data have their names only."""
    run = without_paths(run)
    values = run.training.chosen()
    named = preset(run.preset)
    # defaults may depend on task and method, so all options are named but those of the preset
    changed = {key: value for key, value in values.items() if key not in named or value != named[key]}
    parts = {"method": run.method, "mode": run.mode, "preset": run.preset, **changed}
    source = {name: getattr(run, name) for name in ("data", "target_file", "source_column", "target_column", "strip")}
    parts |= (
        {name: value for name, value in source.items() if value} if run.data else {"num_examples": run.num_examples}
    )
    parts |= {"disjoint_sources": True} if run.disjoint_sources else {}
    parts |= {name: getattr(run, name) for name in ("seed", "max_epochs", "max_steps", "max_minutes", "eval_every")}
    parts |= {"threads": run.threads}
    parts |= {"device": run.device} if run.device != "cpu" else {}
    words = [f"--task-arg {shlex.quote(f'{key}={value}')}" for key, value in user_task_args(run).items()]
    words += [_flag(key, each) for key, value in parts.items() if value is not None for each in _each(value)]
    return " ".join(["stepedit train", run.task, *words, "--out RUN"])


def without_paths(run: RunConfig) -> RunConfig:
    """Return a configuration to share: data have their names only."""
    names: dict[str, Any] = {"data": Path(run.data).name} if run.data else {}
    if run.target_file:
        names["target_file"] = tuple(Path(path).name for path in run.target_file)
    encoder = run.training.encoder
    if encoder and Path(encoder).is_absolute():
        names["training"] = run.training.model_copy(update={"encoder": Path(encoder).name})
    return run.model_copy(update=names)


def _each(value: object) -> tuple[object, ...]:
    """Return the values of an option that may be repeated."""
    return value if isinstance(value, tuple) else (value,)


def _flag(name: str, value: object) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {shlex.quote(str(value))}"


# models that come with the package


def find(name: str | Path) -> Path:
    """Return a model's folder: a path, or the name of a model that comes with stepedit."""
    folder, models = Path(name), shipped_models()
    if str(name) in models and not (folder / CONFIG).exists():  # pairs may be in a folder of that name
        return _shipped() / name
    if folder.exists() or not str(name).isidentifier():
        return folder
    raise DataError(f"{name}: no run here, and no model that comes with stepedit ({', '.join(models)})")


def shipped_models() -> list[str]:
    """Return the names of the models that come with stepedit."""
    return sorted(path.parent.name for path in _shipped().glob(f"*/{CONFIG}"))


def is_shipped(folder: Path) -> bool:
    """Whether a folder is one of those that come with stepedit."""
    return folder.parent == _shipped()


def _shipped() -> Path:
    return Path(str(files("stepedit") / "models"))


# weights and results


def remove_results(folder: Path) -> None:
    """Remove what was made with weights that are not the best any more: threshold, graph, scores, predictions."""
    if (folder / TUNED).exists():
        message = f"{folder}: the weights have changed, so the tuned threshold is removed; run `stepedit tune` again"
        warnings.warn(message, DataWarning, stacklevel=2)
    for path in (folder / TUNED, folder / GRAPH, *folder.glob("scores-*.json"), *folder.glob("predictions-*.jsonl")):
        path.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Tensors, facts: dict[str, Any]) -> None:
    """Write named tensors and a few facts about them to one file."""
    from safetensors.numpy import save

    content = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    write_atomic(path, save(content, metadata={"facts": json.dumps(facts)}))


def read_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Return what `write_tensors` wrote; DataError if it is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    facts = read_facts(path, missing_ok=False)
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: _widened(file.get_tensor(name)) for name in file.keys()}, facts  # noqa: SIM118
    except TypeError:  # numpy has no bfloat16, unless ml_dtypes was imported
        return _read_widened(path), facts
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path}: damaged ({error})") from None


def _widened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _read_widened(path: Path) -> Tensors:
    """Return the tensors of a file in which some are in bfloat16, those in float32; DataError if others are strange."""
    from safetensors import SafetensorError, deserialize

    found: Tensors = {}
    try:
        for name, part in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
            if part["dtype"] == "BF16":
                wide = np.frombuffer(part["data"], np.uint16).astype(np.uint32) << 16
                found[name] = wide.view(np.float32).reshape(part["shape"])
            else:
                found[name] = np.frombuffer(part["data"], DTYPES[part["dtype"]]).reshape(part["shape"])
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: damaged ({error})") from None
    return found


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file of tensors from its header; DataError if it is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path}: damaged ({error})") from None


def read_facts(path: Path, missing_ok: bool = True) -> dict[str, Any]:
    """Return the facts of a file of tensors without reading the tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts = json.loads((file.metadata() or {}).get("facts", "{}"))
    except FileNotFoundError:
        if missing_ok:
            return {}
        raise DataError(f"{path}: no such file") from None
    except (SafetensorError, ValueError, RecursionError, OSError) as error:
        raise DataError(f"{path}: damaged ({error})") from None
    if not isinstance(facts, dict):
        raise DataError(f"{path}: damaged (its facts are no object)")
    return facts


def export(folder: Path, out: Path, dtype: str | None = None) -> int:
    """Copy what editing needs of a run, as a graph with weights in `dtype`; return the size in bytes.

    The default is float16; for a folder that has a graph and no weights, the graph as it is. The copy is made beside
    its place and renamed, so that it is there completely or not at all.
    """
    if out.exists():
        raise DataError(f"{out} exists already; choose another folder")
    run, words = read_config(folder), read_json(folder / VOCABULARY)
    require_model(folder)
    if (folder / WEIGHTS).exists():
        require_graph_makers()
    if not isinstance(words, dict) or set(words) != {"inputs", "outputs"}:
        raise DataError(f"{folder / VOCABULARY}: damaged")
    graph = make_graph(folder, dtype or "float16") if (folder / WEIGHTS).exists() else _read_graph(folder, dtype)
    with new_folder(out) as copy:
        write_config(
            copy, without_paths(run), words["inputs"], words["outputs"], out.absolute().name, _card_notes(folder)
        )
        for name in (METRICS, TUNED, TRAINED_ON, TOKENIZER, *KEEP, KEEP_NOTICE):
            if (folder / name).exists():
                write_atomic(copy / name, (folder / name).read_bytes())
        write_atomic(copy / GRAPH, graph)
    return sum(file.stat().st_size for file in out.iterdir())


def require_model(folder: Path) -> None:
    """Raise DataError if a run has neither weights nor a graph."""
    if (folder / GRAPH).exists() or (folder / WEIGHTS).exists():
        return
    if read_metrics(folder):
        raise DataError(f"{folder}: no model here (neither {WEIGHTS} nor {GRAPH})")
    command = f"stepedit train --resume --out {folder}"
    raise DataError(f"{folder}: no validation yet, so there is no model; continue with: {command}")


def require_graph_makers() -> None:
    """Raise UserError if what makes graphs is not installed."""
    for name in ("torch", "onnx"):
        if find_spec(name) is None:
            raise UserError(f"making a graph needs {name}: pip install 'stepedit[train]'")


def make_graph(folder: Path, dtype: str) -> bytes:
    """Return the graph of a run's best weights; UserError if what makes graphs is not installed."""
    require_graph_makers()
    run = read_config(folder)
    method, programmer = make_method(run), PROGRAMMERS[run.training.programmer]
    programmer.require_weights(folder / WEIGHTS, method, run.training)
    weights, _ = read_tensors(folder / WEIGHTS)
    return programmer.graph(method, run.training, weights, dtype)


def _read_graph(folder: Path, dtype: str | None) -> bytes:
    """Return the graph of a folder without weights; UserError if its weights are not in `dtype`."""
    from stepedit.inference.onnx_runtime import Graph

    stored = Graph(folder / GRAPH).facts.get("dtype")
    if dtype not in (None, stored):
        raise UserError(f"{folder} has a graph in {stored} and no weights to make one in {dtype} from")
    return (folder / GRAPH).read_bytes()


def is_exported(folder: Path) -> bool:
    """Whether a folder has what editing needs and no weights to train further."""
    return (folder / GRAPH).exists() and not (folder / WEIGHTS).exists()


def is_finished(folder: Path) -> bool:
    """Whether a run was trained to its end."""
    state = read_facts(folder / CHECKPOINT).get("state")
    return is_exported(folder) or (isinstance(state, dict) and bool(state.get("finished")))


def read_tuned(folder: Path) -> float:
    """Return the confidence threshold that `stepedit tune` chose; 0 if there is none."""
    if not (folder / TUNED).exists():
        return 0.0
    value = read_json(folder / TUNED)
    threshold = value.get("min_confidence") if isinstance(value, dict) else None
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise DataError(f"{folder / TUNED}: damaged")
    return float(threshold)


def read_tokenizer(folder: Path, run: RunSettings) -> SubwordTokenizer | None:
    """Return the subword tokenizer of a model with a pretrained encoder; None for others."""
    shape = run.training.encoder_shape
    return None if shape is None else SubwordTokenizer(folder / TOKENIZER, shape.max_length, shape.vocab_size)


def read_keep(folder: Path) -> Keep | None:
    """Return the words that stay; None if the model comes without."""
    found = [folder / name for name in KEEP if (folder / name).exists()]
    return Keep.read(found[0]) if found else None


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return a run's validations so far; an incomplete last line is ignored, other damage is a DataError."""
    path = folder / METRICS
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        reports = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):  # also bytes that are not UTF-8, huge integers, deep brackets
        raise DataError(f"{path}: damaged") from None
    if not all(isinstance(report, dict) and _is_report(report) for report in reports):
        raise DataError(f"{path}: damaged (a line that is not a validation)")
    return reports


def _is_report(values: Mapping[str, Any]) -> bool:
    """Whether a line of validations has numbers where others rely on them."""
    numbers = all(isinstance(values.get(name), int | float) for name in ("epoch", "step", "seconds"))
    return numbers and isinstance(values.get("metrics"), dict)
