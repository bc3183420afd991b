"""The page in a real browser: type, play, step, compare; screenshots are written to test-artefacts/."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from stepedit.server.app import make_app
from stepedit.server.middleware import RequestLimits
from stepedit.server.model_store import ModelStore
from tests.browser import find

BROWSER = find()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser; `python -m tests.browser` tries to install one")
ARTEFACTS = Path(__file__).parents[2] / "test-artefacts"
expect.set_options(timeout=30_000)  # a busy machine is slow


@contextmanager
def served(app: RequestLimits) -> Iterator[str]:
    """Serve an application and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    store = ModelStore.load([str(runs / name) for name in ("recurrence", "tagging", "end2end")])
    with served(make_app(store, [runs / "recurrence"])) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def browser_page(browser: Browser) -> Iterator[Page]:
    """A page of its own for each test, so that what one test holds back or changes does not reach the next."""
    with browser.new_context(viewport={"width": 1100, "height": 900}) as context:
        yield context.new_page()


@pytest.fixture
def page(browser_page: Page, address: str) -> Iterator[Page]:
    errors: list[str] = []
    external: list[str] = []
    browser_page.on("pageerror", lambda error: errors.append(str(error)))
    browser_page.on(
        "console", lambda line: errors.append(line.text) if "Content Security Policy" in line.text else None
    )
    browser_page.on("request", lambda sent: external.append(sent.url) if not sent.url.startswith(address) else None)
    browser_page.goto(address)
    expect(browser_page.locator("#model option")).to_have_count(3)
    yield browser_page
    assert not errors
    assert not [url for url in external if not url.startswith("data:")]


def screenshot(page: Page, name: str) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=True)


def edit(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("#edit")
    expect(page.locator(".card").first).to_be_visible()


def shown_text(page: Page) -> str:
    """Return the displayed text without the tokens that the last step deleted."""
    return " ".join(page.locator(".tokens > *:not(del)").all_inner_texts())


def test_stepping_shows_the_text_after_each_step(page: Page) -> None:
    screenshot(page, "start")
    edit(page, "9 5 2")
    page.click(".steps li:first-child button")  # stop playing and go to the start
    assert shown_text(page) == "9 5 2"
    texts = page.locator(".steps button").all_inner_texts()
    assert len(texts) > 2
    for number, text in enumerate(texts[1:], start=1):
        page.click("#next")
        assert shown_text(page) == text
        expect(page.locator("#step-count")).to_have_text(f"step {number} of {len(texts) - 1}")
        expect(page.locator("#announcement")).to_contain_text(f"The text is now: {text}")
    expect(page.locator(".tokens ins").first).to_be_visible()
    expect(page.locator("#next")).to_have_attribute("aria-disabled", "true")
    expect(page.locator(".outcome")).to_have_text(re.compile("^(✓ valid|✗ not valid), finished$"))
    expect(page.locator("#announcement")).to_contain_text("finished")
    screenshot(page, "end")
    page.click("#previous")
    assert shown_text(page) == texts[-2]
    page.click(".steps li:first-child button")
    assert shown_text(page) == texts[0]


def test_playback_starts_after_an_edit_and_stops_at_the_end(page: Page) -> None:
    edit(page, "9 5 2")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    screenshot(page, "playing")
    expect(page.locator("#play")).to_have_text("▶ Play", timeout=20_000)
    expect(page.locator("#next")).to_have_attribute("aria-disabled", "true")


def test_the_page_can_be_used_with_the_keyboard_alone(page: Page) -> None:
    page.fill("#text", "9 5 2")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#next")).to_have_attribute("aria-disabled", "true")
    page.focus("#next")
    page.keyboard.press("Home")
    assert shown_text(page) == "9 5 2"
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step-count")).to_contain_text("step 1 of")
    page.keyboard.press("ArrowLeft")
    page.focus("#player")
    page.keyboard.press("Space")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    page.keyboard.press("Space")
    expect(page.locator("#play")).to_have_text("▶ Play")


def test_candidates_are_shown_with_their_probabilities(page: Page) -> None:
    edit(page, "9 5 2")
    page.click(".steps li:first-child button")
    first = page.locator(".candidates li").first
    expect(first).to_have_class("chosen")
    expect(first).to_contain_text("swap")
    expect(first).to_contain_text("%")
    assert 1 <= page.locator(".candidates li").count() <= 3


def test_a_step_names_its_position_from_zero_and_its_confidence(page: Page) -> None:
    edit(page, "9 5 2")
    page.click(".steps li:first-child button")
    expect(page.locator(".card h3")).to_have_text("Candidates")
    page.click("#next")
    expect(page.locator(".action")).to_have_text(re.compile(r"^swap (9 5 at 0|5 2 at 1) · confidence [\d.]+\s%$"))
    page.click("#last")
    expect(page.locator(".card h3")).to_have_text("Final candidates")
    expect(page.locator(".candidates li.chosen")).to_contain_text("done")


def sent(page: Page) -> dict[str, Any]:
    """Click Edit and return the request that the page sends."""
    with page.expect_request("**/api/edit") as request:
        page.click("#edit")
    return request.value.post_data_json


def test_decoding_options_are_sent_with_the_request(page: Page) -> None:
    page.fill("#text", "9 5 2")
    common = {"model": "recurrence", "text": "9 5 2", "trace": True}
    assert sent(page) == common
    page.select_option("#min-confidence", "0.9")
    assert sent(page) == {**common, "min_confidence": 0.9}
    page.select_option("#beam-size", "5")
    assert sent(page) == {**common, "beam_size": 5, "verify": False, "min_confidence": 0.9}
    page.select_option("#beam-size", "1")
    page.select_option("#min-confidence", "")
    page.check("#verify")
    assert sent(page) == {**common, "beam_size": 1, "verify": True}
    page.select_option("#model", "tagging")
    assert sent(page) == {**common, "model": "tagging"}


@pytest.mark.parametrize(
    ("missing", "disabled"),
    [
        ("iterative", {"min-confidence"}),
        ("can_search", {"beam-size", "verify"}),
        ("verifiable", {"verify"}),
        ("has_examples", {"random"}),
    ],
)
def test_options_that_a_model_does_not_support_are_disabled(
    page: Page, address: str, missing: str, disabled: set[str]
) -> None:
    def without(route: Route) -> None:
        route.fulfill(json=[{**model, missing: False} for model in route.fetch().json()])

    page.route("**/api/models", without)
    page.goto(address)
    expect(page.locator("#model option")).to_have_count(3)
    for name in ("beam-size", "min-confidence", "verify", "random"):
        expect(page.locator(f"#{name}")).to_be_enabled(enabled=name not in disabled)


def test_methods_are_compared_side_by_side_on_the_same_text(page: Page) -> None:
    page.check("#compare")
    edit(page, "9 5 2")
    expect(page.locator(".card")).to_have_count(3)
    assert [title.split(" · ")[1] for title in page.locator(".card h2").all_inner_texts()] == [
        "recurrence",
        "tagging",
        "end2end",
    ]
    page.click("#play")
    page.click("#last")
    expect(
        page.locator(".outcome", has_text="finished").or_(page.locator(".outcome", has_text="stopped"))
    ).to_have_count(3)
    screenshot(page, "compare")


class HeldRequests:
    """Requests that are held back until they are released, the first one first."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.routes: list[Route] = []
        page.route(url, self.hold)

    def hold(self, route: Route) -> None:
        self.routes.append(route)

    def wait(self) -> None:
        """Wait until a request is held back."""
        for _ in range(600):  # half a minute
            if self.routes:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"the page made no request to {self.url}")

    def release(self) -> None:
        """Let the first request go on, and wait until the page has its response."""
        self.wait()
        with self.page.expect_response(self.url):
            self.routes.pop(0).continue_()
        self.page.wait_for_timeout(200)  # to show it, if the page does

    def close(self) -> None:
        self.page.unroute(self.url, self.hold)
        for route in self.routes:
            route.abort()


@contextmanager
def held(page: Page, url: str) -> Iterator[HeldRequests]:
    """Hold requests back; at the end, those that are left are aborted."""
    requests = HeldRequests(page, url)
    yield requests
    requests.close()


def test_a_response_to_an_earlier_request_is_not_shown(page: Page) -> None:
    with held(page, "**/api/edit") as requests:
        page.fill("#text", "9 5 2")
        page.click("#edit", no_wait_after=True)
        page.fill("#text", "4 3 2")
        page.click("#edit", no_wait_after=True)
        requests.release()
        expect(page.locator(".steps button")).to_have_count(0)
        requests.release()
        expect(page.locator(".steps button").first).to_have_text("4 3 2")


@contextmanager
def opened_before_its_example(page: Page, address: str) -> Iterator[None]:
    """Open the page; it has asked for its first example, which arrives at the end."""
    expect(page.locator("#text")).not_to_have_value("")  # the example of the page as it was opened before
    with held(page, "**/example?seed=1") as requests:
        page.goto(address)
        requests.wait()
        yield
        requests.release()


def test_text_typed_before_the_first_example_arrives_is_kept(page: Page, address: str) -> None:
    with opened_before_its_example(page, address):
        page.fill("#text", "9 5 2")
    page.click("#edit")
    expect(page.locator(".steps button").first).to_have_text("9 5 2")
    expect(page.locator("#text")).to_have_value("9 5 2")


def test_an_example_does_not_get_in_the_way_of_somebody_about_to_type(page: Page, address: str) -> None:
    with opened_before_its_example(page, address):
        page.focus("#text")
    page.keyboard.type("9 5 2")
    expect(page.locator("#text")).to_have_value("9 5 2")


def test_a_text_field_that_has_the_focus_before_the_models_arrive_is_left_alone(page: Page, address: str) -> None:
    with held(page, "**/api/models") as requests:
        page.goto(address)
        page.focus("#text")
        requests.release()
    expect(page.locator("#model option")).to_have_count(3)
    page.wait_for_load_state("networkidle")
    expect(page.locator("#text")).to_have_value("")


def test_typed_text_is_kept_when_another_model_is_selected(page: Page, address: str) -> None:
    def with_different_tasks(route: Route) -> None:
        models = route.fetch().json()
        route.fulfill(json=[{**model, "task": model["name"]} for model in models])

    page.route("**/api/models", with_different_tasks)
    page.goto(address)
    expect(page.locator("#text")).not_to_have_value("")  # an example was loaded
    page.fill("#text", "9 5 2")
    page.select_option("#model", "tagging")
    page.select_option("#model", "recurrence")
    expect(page.locator("#text")).to_have_value("9 5 2")
    page.fill("#text", "")
    page.focus("#model")
    with page.expect_response("**/example?seed=1"):
        page.select_option("#model", "tagging")
    expect(page.locator("#text")).to_have_value(re.compile(r"\d"))


def test_a_random_example_is_loaded_and_edited(page: Page) -> None:
    page.click("#random")
    expect(page.locator(".card")).to_be_visible()
    assert len(page.input_value("#text").split()) == 3


@pytest.mark.parametrize(
    "text", ["<script>document.title='x'</script>", "<img src=x onerror=alert(1)>", "🙂 3 2", "\u202e3 2", "3 " * 400]
)
def test_hostile_text_is_shown_as_text(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("#edit")
    expect(page.locator("#message")).to_be_visible()
    expect(page.locator("#message")).to_contain_text("tokens" if len(text) > 60 else text.split()[0].strip("\u202e"))
    expect(page.locator("#player")).to_be_hidden()
    assert page.title() == "stepedit"
    assert page.locator("#message script, #message img").count() == 0
    screenshot(page, f"error-{'long' if len(text) > 60 else ord(text[1])}")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1100), ("light", 360), ("dark", 360)])
def test_the_page_fits_narrow_screens_in_both_color_schemes(page: Page, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})
    edit(page, "9 5 2")
    page.click("#play")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    screenshot(page, f"{scheme}-{width}")


def test_controls_have_names_for_screen_readers(page: Page) -> None:
    edit(page, "9 5 2")
    unnamed = page.evaluate(
        """[...document.querySelectorAll("button, input, select")].filter(node =>
            !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length)).length"""
    )
    assert unnamed == 0
    assert page.locator("[aria-live]").count() == 1
    assert page.locator("main").count() == page.locator("h1").count() == 1


def test_selecting_a_method_selects_its_model(page: Page) -> None:
    page.select_option("#method", "tagging")
    expect(page.locator("#model")).to_have_value("tagging")
    edit(page, "9 5 2")
    expect(page.locator(".card h2")).to_have_text("tagging · tagging")


def test_the_api_page_lists_endpoints(page: Page, address: str) -> None:
    page.goto(f"{address}/docs.html")
    expect(page.locator(".endpoint h2", has_text="POST /api/edit")).to_be_visible()
    screenshot(page, "docs")


def test_the_learning_curve_of_a_watched_run_is_shown(page: Page, address: str) -> None:
    page.goto(f"{address}/watch.html")
    expect(page.locator(".curves h2")).to_have_text("recurrence: sort recurrence augmented")
    expect(page.locator(".curves p")).to_contain_text("epoch 60 of 60")
    expect(page.locator(".curves svg path.line")).to_have_count(2)
    screenshot(page, "watch")


def test_a_server_without_models_shows_the_learning_curves(browser_page: Page, runs: Path) -> None:
    with served(make_app(ModelStore({}), [runs / "recurrence"])) as address:
        browser_page.goto(address)
        expect(browser_page).to_have_url(f"{address}/watch.html")
        expect(browser_page.locator(".curves svg")).to_be_visible()
        expect(browser_page.locator("#edit-link")).to_be_hidden()
        browser_page.goto("about:blank")  # the page polls; stop before the server does


def test_the_texts_of_the_steps_are_replayed_with_spaces_and_capitals(browser_page: Page) -> None:
    store, text = ModelStore.load(["punctuation"]), "what is the name of the largest river in europe"
    expected = [step.text for step in store["punctuation"].edit([text], trace=True, states=True)[0].steps]
    assert len(expected) > 2
    with served(make_app(store)) as address:
        browser_page.goto(address)
        expect(browser_page.locator("#model option")).to_have_count(1)
        edit(browser_page, text)
        expect(browser_page.locator(".steps button")).to_have_count(len(expected) + 1)
        assert browser_page.locator(".steps button").all_inner_texts() == [text, *expected]


def test_words_to_keep_are_sent_for_text_only(browser_page: Page) -> None:
    with served(make_app(ModelStore.load(["aor", "punctuation"]))) as address:
        browser_page.goto(address)
        expect(browser_page.locator("#model option")).to_have_count(2)
        expect(browser_page.locator("#keep")).to_be_disabled()
        browser_page.select_option("#model", "punctuation")
        browser_page.fill("#keep", "Europe, what,")
        edit(browser_page, "what is the name of the largest river in europe")
        expect(browser_page.locator(".steps button").last).to_have_text(
            "what is the name of the largest river in europe?"
        )
        screenshot(browser_page, "keep")
