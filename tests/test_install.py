"""The package as people install it: a wheel in a clean environment without PyTorch, in which editing works."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAX_MEGABYTES = 250


def run(*words: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=stdin, env=environment, check=False)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment `env` that has the wheel and its core dependencies."""
    place = tmp_path_factory.mktemp("install")
    others = shutil.ignore_patterns(".*", "build", "demo", "runs", "*.egg-info", "__pycache__", "test-artefacts")
    source = shutil.copytree(ROOT, place / "source", ignore=others)  # building leaves files behind
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", place, source, cwd=place)
    assert built.returncode == 0, built.stderr
    (wheel,) = place.glob("*.whl")
    assert run(sys.executable, "-m", "venv", "env", cwd=place).returncode == 0
    pip = place / "env" / "bin" / "pip"
    installed = run(pip, "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=place)
    assert installed.returncode == 0, installed.stderr
    return place


def stepedit(clean: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run(clean / "env" / "bin" / "stepedit", *words, cwd=clean, stdin=stdin)


def test_the_environment_is_small_and_has_no_torch(clean: Path) -> None:
    packages = next((clean / "env" / "lib").glob("python*/site-packages"))
    assert not (packages / "torch").exists()
    assert not (packages / "onnx").exists()
    tools = {"pip", "setuptools"}  # of the environment itself
    parts = [path for path in packages.iterdir() if path.name not in tools]
    files = [path for part in parts for path in (part, *part.rglob("*")) if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_MEGABYTES * 1e6


@pytest.mark.parametrize(
    ("words", "stdin", "expected"),
    [
        (["edit", "aor", "6 10 9 5 2"], "", "6 + 10 - 9 - 5 == 2"),
        (["edit", "aor", "6 10 9 5 2", "--beam-size", "10", "--verify", "--trace"], "", "confidence"),
        (["edit", "aes"], "( 3 + 4 ) + 2 == 9\n", "7 + 2 == 9"),
        (["edit", "punctuation", "it is here", "--json"], "", '"changes"'),
        (["tasks"], "", "aec"),
        (["expert", "aec", "--seed", "1"], "", "(valid)"),
        (["generate", "aor", "--num-examples", "100", "--out", "data"], "", "wrote 100 pairs"),
        (["inspect", "data"], "", "edits per pair"),
        (["evaluate", "aor", "--data", "data"], "", "equation"),
        (["export", "aor", "--out", "copy"], "", "MB"),
        (["corrupt", "--out", "pairs.jsonl"], "", "pairs"),
    ],
)
def test_what_edits_works_without_torch(clean: Path, words: list[str], stdin: str, expected: str) -> None:
    done = stepedit(clean, *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


@pytest.mark.parametrize("words", [["train", "aor", "--out", "run"], ["sweep", "table", "--out", "runs"]])
def test_training_without_torch_names_the_extra(clean: Path, words: list[str]) -> None:
    refused = stepedit(clean, *words)
    assert refused.returncode == 2
    assert "pip install 'stepedit[train]'" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_python_works_without_torch(clean: Path) -> None:
    program = (
        "import sys, stepedit\n"
        "results = stepedit.Editor.load('aec').edit(['2 + 3 3 == 5'], stepedit.Decoding(beam_size=3), trace=True)\n"
        "assert results[0].steps and results[0].valid, results\n"
        "assert 'torch' not in sys.modules\n"
        "try:\n"
        "    stepedit.train\n"
        "except ImportError as error:\n"
        "    assert 'stepedit[train]' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
        "print(results[0].text)\n"
    )
    done = run(clean / "env" / "bin" / "python", "-c", program, cwd=clean)
    assert done.stdout.endswith("== 5\n"), done.stderr


def test_the_server_works_without_torch(clean: Path) -> None:
    pip = clean / "env" / "bin" / "pip"
    extra = ["fastapi", "uvicorn"]
    assert run(pip, "install", "--quiet", "-c", ROOT / "constraints.txt", *extra, cwd=clean).returncode == 0
    command = [str(clean / "env" / "bin" / "stepedit"), "serve", "aor", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=clean)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        base = line.split(" on ")[1].split(";")[0]
        body = json.dumps({"text": "6 10 9 5 2"}).encode()
        request = urllib.request.Request(f"{base}/api/edit", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            result = json.load(answer)["results"][0]
        assert (result["text"], result["valid"]) == ("6 + 10 - 9 - 5 == 2", True)
    finally:
        server.terminate()
        server.communicate(timeout=30)
