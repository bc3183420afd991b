"""Models on the Hugging Face Hub (extra `[hub]`): the files that editing needs, none of them code."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from stepedit.errors import DataError, UserError
from stepedit.inference import model_folder

FILES = [
    *(model_folder.CONFIG, model_folder.VOCABULARY, model_folder.GRAPH, model_folder.CARD, model_folder.TUNED),
    *(model_folder.TRAINED_ON, model_folder.TOKENIZER, *model_folder.KEEP, model_folder.KEEP_NOTICE),
]


def require_hub() -> None:
    """Raise UserError if huggingface-hub is not installed."""
    if find_spec("huggingface_hub") is None:
        raise UserError("the hub needs huggingface-hub: pip install 'stepedit[hub]'")


def push(folder: Path, name: str, private: bool = True, dtype: str = "float16") -> str:
    """Upload a run's model as NAME (`user/model`) and return its address."""
    require_hub()
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    with TemporaryDirectory() as temporary:
        exported = Path(temporary) / folder.resolve().name
        model_folder.export(folder, exported, dtype)
        api = HfApi()
        try:
            api.create_repo(name, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=name, folder_path=exported, allow_patterns=FILES))
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            raise DataError(f"{name}: the hub answered: {_first_line(error)}") from None


def pull(name: str, revision: str | None = None) -> Path:
    """Return the folder of a model: a local one, or the downloaded copy of one on the hub."""
    folder = model_folder.find(name)
    if folder.exists():
        return folder
    return download(name, FILES, revision)


def download(name: str, files: list[str], revision: str | None = None) -> Path:
    """Return the downloaded copy of some files of a model on the Hub."""
    require_hub()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise DataError(f"{name}: neither a local folder nor a model on the hub ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
