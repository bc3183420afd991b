"""Lines of standard input: odd ones are passed on and named, whole batches are not lost."""

import json
import shlex
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()"]
GOOD, EDITED = b"6 10 9 5 2", b"6 + 10 - 9 - 5 == 2"
WORKERS = pytest.mark.parametrize("workers", [1, 2])


def edit(given: bytes, *options: object, model: str = "aor") -> subprocess.CompletedProcess[bytes]:
    command = [*COMMAND, "edit", model, *map(str, options)]
    return subprocess.run(command, input=given, capture_output=True, check=False)


@WORKERS
def test_a_bad_line_is_passed_on_and_named(workers: int) -> None:
    given = [GOOD] * 1500 + [b"6 zz", b"caf\xe9 1", GOOD]
    run = edit(b"\n".join(given) + b"\n", "--num-workers", workers)
    assert run.returncode == 0
    assert run.stdout.split(b"\n") == [EDITED] * 1500 + [b"6 zz", b"caf\xe9 1", EDITED, b""]
    assert run.stderr.decode().splitlines() == [
        "stepedit: line 1501: unknown token 'zz'; it is printed unchanged",
        "stepedit: line 1502: not UTF-8 (byte 0xe9); it is printed unchanged",
    ]


@WORKERS
def test_strict_stops_at_the_first_bad_line_after_those_before_it(workers: int) -> None:
    given = b"\n".join([GOOD] * 1030 + [b"", b"6 zz", GOOD, b"\xff"])
    run = edit(given, "--strict", "--num-workers", workers)
    assert run.returncode == 1
    assert run.stdout == (EDITED + b"\n") * 1030 + b"\n"
    assert run.stderr == b"stepedit: line 1032: unknown token 'zz'\n"


def test_json_has_an_object_for_every_line() -> None:
    run = edit(b"\n".join([GOOD, b"6 zz", b"", b"\xff", GOOD]), "--json")
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert [result.get("error") for result in results] == [
        None,
        "unknown token 'zz'",
        "the text is empty",
        "not UTF-8 (byte 0xff)",
        None,
    ]
    assert results[1] == {"source": "6 zz", "text": "6 zz", "error": "unknown token 'zz'"}
    assert results[4]["text"].encode() == EDITED
    assert run.returncode == 0


def test_a_byte_order_mark_is_dropped_and_blank_lines_and_line_ends_are_kept() -> None:
    run = edit(b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n\n  \n" + GOOD)
    assert run.stdout == EDITED + b"\r\n\r\n\n  \n" + EDITED
    assert (run.returncode, run.stderr) == (0, b"")
    run = edit(b"\xef\xbb\xbfThe cat\r\n\r\n", model="punctuation")
    assert run.stdout.startswith(b"The cat")
    assert run.stdout.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("options", ["", "--num-workers 2", "--json"])
def test_a_reader_may_close_the_pipe(options: str) -> None:
    command = f"yes '{GOOD.decode()}' | head -n 20000 | {shlex.join(COMMAND)} edit aor {options} | head -n 1"
    run = subprocess.run(["bash", "-c", f"{command}; echo ${{PIPESTATUS[2]}}"], capture_output=True, check=False)
    assert run.stderr == b""
    assert run.stdout.endswith(b"\n0\n")
    assert run.stdout.count(b"\n") == 2


def test_a_text_in_python_may_not_have_lone_surrogates() -> None:
    from stepedit import Editor

    with pytest.raises(ValueError, match="line 2: a lone surrogate"):
        Editor.load("spelling").edit(["fine", "caf\udce9"])
