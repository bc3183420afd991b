"""Words that stay, over HTTP."""

from typing import Any

import pytest

from stepedit.inference.decoding import Decoding
from stepedit.server.app import make_app
from stepedit.server.model_store import ModelStore
from tests.server.client import call, post

TEXT = "what is the name of the largest river in europe"


@pytest.fixture(scope="module")
def models() -> ModelStore:
    return ModelStore.load(["punctuation", "aor"])


def edited(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["results"][0]["text"])


def test_a_request_names_the_words_that_stay(models: ModelStore) -> None:
    app = make_app(models)
    assert edited(post(app, text=TEXT)) == "What is the name of the largest river in Europe?"
    assert edited(post(app, text=TEXT, keep=["Europe"])) == "What is the name of the largest river in europe?"
    assert edited(post(app, text=TEXT, keep=[])) == "What is the name of the largest river in Europe?"
    assert edited(post(app, text="call os_name in europe", keep_code=True)).startswith("Call os_name")
    assert [each["keeps"] for each in call(app, lambda client: client.get("/api/models")).json()] == [True, False]


def test_the_server_has_words_of_its_own_for_every_text(models: ModelStore) -> None:
    app = make_app(models, keeping=Decoding(keep=["/eu.*e/"]))
    assert edited(post(app, text=TEXT)) == "What is the name of the largest river in europe?"
    assert edited(post(app, text=TEXT, keep=["what"])) == "what is the name of the largest river in europe?"
    assert edited(post(app, model="aor", text="6 10 9 5 2")) == "6 + 10 - 9 - 5 == 2"


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (["/a+/"], "only taken from the server's own list"),
        ([" case: /a+/ "], "only taken from the server's own list"),
        (["a"] * 101, "at most 100 words"),
        (["a" * 101], "at most 100 characters"),
        (["case:"], "no word after"),
        ("words.txt", "a list of at most"),
        ([3], "a list of at most"),
    ],
)
def test_patterns_and_too_many_words_are_refused(models: ModelStore, keep: object, reason: str) -> None:
    answer = post(make_app(models), text=TEXT, keep=keep)
    assert answer.status_code == 422
    assert reason in answer.json()["error"]


def test_words_cannot_be_kept_in_arithmetic(models: ModelStore) -> None:
    answer = post(make_app(models), model="aor", text="6 10 9 5 2", keep=["6"])
    assert answer.status_code == 422
    assert "are for text" in answer.json()["error"]


def test_a_lone_surrogate_is_no_word(models: ModelStore) -> None:
    body = b'{"text": "a", "keep": ["a", "\\ud800"]}'
    headers = {"content-type": "application/json"}
    answer = call(make_app(models), lambda client: client.post("/api/edit", content=body, headers=headers))
    assert answer.status_code == 422
    assert answer.json()["error"] == "keep: line 2: a lone surrogate, U+D800, is not a character"
