"""Files: what several processes or killed ones leave behind, locks, and odd bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from stepedit import files
from stepedit.errors import DataError

WRITER = """
import sys
from pathlib import Path
from stepedit.files import write_atomic
for _ in range(200):
    write_atomic(Path(sys.argv[1]), sys.argv[2].encode() * 20_000)
"""


def test_processes_that_write_the_same_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "f", letter], stderr=subprocess.PIPE, text=True)
        for letter in "abc"
    ]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], errors
    assert (tmp_path / "f").read_text() in [letter * 20_000 for letter in "abc"]
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_the_temporary_file_of_a_killed_process_is_removed_by_the_next_write(tmp_path: Path) -> None:
    program = "import os, signal, sys\nfrom pathlib import Path\nfrom stepedit import files\n"
    program += "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
    program += "files.write_atomic(Path(sys.argv[1]), b'half')\n"
    subprocess.run([sys.executable, "-c", program, tmp_path / "f"], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    files.write_atomic(tmp_path / "f", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_folder_that_was_created_for_nothing_is_removed(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no"), files.locked(tmp_path / "a" / "b"):
        raise DataError("no")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="no"), files.locked(tmp_path / "mine"):
        raise DataError("no")
    assert (tmp_path / "mine").exists()


def test_a_locked_folder_is_refused_to_others(tmp_path: Path) -> None:
    with (
        files.locked(tmp_path / "run"),
        pytest.raises(DataError, match="another process is working on this run"),
        files.locked(tmp_path / "run", timeout=0.1),
    ):
        pass
    assert (tmp_path / "run").exists(), "it is the first one's"
