"""Models on the Hugging Face Hub (extra `[hub]`): what editing needs, and nothing that is run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from stepedit import checkpoints
from stepedit.errors import DataError, UserError

FILES = [checkpoints.CONFIG, checkpoints.VOCABULARY, checkpoints.BEST, checkpoints.CARD, checkpoints.TUNED]


def need() -> None:
    """UserError if the library is not installed."""
    if find_spec("huggingface_hub") is None:
        raise UserError("the hub needs huggingface-hub: pip install 'stepedit[hub]'")


def push(folder: Path, name: str, private: bool = True, half: bool = True) -> str:
    """Put a run's model on the hub as NAME (`user/model`); its address."""
    need()
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    with TemporaryDirectory() as place:
        small = Path(place) / folder.resolve().name
        checkpoints.export(folder, small, half)
        api = HfApi()
        try:
            api.create_repo(name, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=name, folder_path=small, allow_patterns=FILES))
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            raise DataError(f"{name}: the hub says: {_first_line(error)}") from None


def pull(name: str, revision: str | None = None) -> Path:
    """The folder of a model: where it lies already, or where it was fetched to from the hub."""
    place = checkpoints.find(name)
    if place.exists():
        return place
    need()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise DataError(f"{name}: neither a folder here nor a model on the hub ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
