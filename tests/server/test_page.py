"""The page in a real browser: type, play, step, compare; a screenshot of each state is kept in test-artefacts/."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Page, Route, expect, sync_playwright

from stepedit.serving.api import make_app
from stepedit.serving.shelf import Shelf
from tests.browser import find

BROWSER = find()
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser; `python -m tests.browser` tries to install one")
ARTEFACTS = Path(__file__).parents[2] / "test-artefacts"
expect.set_options(timeout=30_000)  # a busy machine is slow


@pytest.fixture(scope="module")
def address(runs: Path) -> Iterator[str]:
    shelf = Shelf.load([str(runs / name) for name in ("recurrence", "tagging", "end2end")])
    server = uvicorn.Server(uvicorn.Config(make_app(shelf, [runs / "recurrence"]), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1100, "height": 900})
        browser.close()


@pytest.fixture
def page(browser_page: Page, address: str) -> Iterator[Page]:
    wrong: list[str] = []
    outside: list[str] = []
    browser_page.on("pageerror", lambda error: wrong.append(str(error)))
    browser_page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    browser_page.on("request", lambda sent: outside.append(sent.url) if not sent.url.startswith(address) else None)
    browser_page.goto(address)
    expect(browser_page.locator("#model option")).to_have_count(3)
    yield browser_page
    assert not wrong
    assert not [url for url in outside if not url.startswith("data:")]


def shot(page: Page, name: str) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=True)


def edit(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("#edit")
    expect(page.locator(".card").first).to_be_visible()


def shown(page: Page) -> str:
    """The text that is on the stage, without what the last step took away."""
    return " ".join(page.locator(".tokens > *:not(del)").all_inner_texts())


def test_typing_and_stepping_shows_each_text_on_the_way(page: Page) -> None:
    shot(page, "start")
    edit(page, "9 5 2")
    page.click(".way li:first-child button")  # it plays by itself; now it is paused, at the start
    assert shown(page) == "9 5 2"
    way = page.locator(".way button").all_inner_texts()
    assert len(way) > 2
    for number, text in enumerate(way[1:], start=1):
        page.click("#forth")
        assert shown(page) == text
        expect(page.locator("#count")).to_have_text(f"step {number} of {len(way) - 1}")
        expect(page.locator("#said")).to_contain_text(f"The text is now: {text}")
    expect(page.locator(".tokens ins").first).to_be_visible()
    expect(page.locator("#forth")).to_have_attribute("aria-disabled", "true")
    expect(page.locator(".verdict")).to_have_text(re.compile("holds, finished|does not hold, finished"))
    expect(page.locator("#said")).to_contain_text("finished")
    shot(page, "end")
    page.click("#back")
    assert shown(page) == way[-2]
    page.click(".way li:first-child button")
    assert shown(page) == way[0]


def test_playing_goes_to_the_end_by_itself(page: Page) -> None:
    edit(page, "9 5 2")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    shot(page, "playing")
    expect(page.locator("#play")).to_have_text("▶ Play", timeout=20_000)
    expect(page.locator("#forth")).to_have_attribute("aria-disabled", "true")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.fill("#text", "9 5 2")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#forth")).to_have_attribute("aria-disabled", "true")
    page.focus("#forth")
    page.keyboard.press("Home")
    assert shown(page) == "9 5 2"
    page.keyboard.press("ArrowRight")
    expect(page.locator("#count")).to_contain_text("step 1 of")
    page.keyboard.press("ArrowLeft")
    page.focus("#stage")
    page.keyboard.press("Space")
    expect(page.locator("#play")).to_have_text("❚❚ Pause")
    page.keyboard.press("Space")
    expect(page.locator("#play")).to_have_text("▶ Play")


def test_what_was_considered_is_shown_with_its_probability(page: Page) -> None:
    edit(page, "9 5 2")
    page.click(".way li:first-child button")
    first = page.locator(".considered li").first
    expect(first).to_have_class("chosen")
    expect(first).to_contain_text("swap")
    expect(first).to_contain_text("%")
    assert 1 <= page.locator(".considered li").count() <= 3


def test_methods_stand_side_by_side_on_the_same_text(page: Page) -> None:
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
        page.locator(".verdict", has_text="finished").or_(page.locator(".verdict", has_text="stopped"))
    ).to_have_count(3)
    shot(page, "compare")


def test_an_answer_that_comes_too_late_is_not_shown(page: Page) -> None:
    def slowly(route: Route) -> None:
        time.sleep(0.6 if "9 5 2" in (route.request.post_data or "") else 0)
        route.continue_()

    page.route("**/api/edit", slowly)
    page.fill("#text", "9 5 2")
    page.click("#edit", no_wait_after=True)
    page.fill("#text", "4 3 2")
    page.click("#edit")
    expect(page.locator(".way button").first).to_have_text("4 3 2")
    page.wait_for_timeout(900)
    expect(page.locator(".way button").first).to_have_text("4 3 2")
    page.unroute("**/api/edit")


def test_what_is_typed_before_the_first_example_comes_stays(page: Page, address: str) -> None:
    def slowly(route: Route) -> None:
        time.sleep(0.6)
        route.continue_()

    page.route("**/example?seed=1", slowly)
    page.goto(address)
    with page.expect_response("**/example?seed=1"):
        page.fill("#text", "9 5 2")
    page.click("#edit")
    expect(page.locator(".way button").first).to_have_text("9 5 2")
    expect(page.locator("#text")).to_have_value("9 5 2")
    page.unroute("**/example?seed=1")


def test_what_is_typed_stays_when_another_model_is_chosen(page: Page, address: str) -> None:
    def as_if_of_other_tasks(route: Route) -> None:
        models = route.fetch().json()
        route.fulfill(json=[{**model, "task": model["name"]} for model in models])

    page.route("**/api/models", as_if_of_other_tasks)
    page.goto(address)
    expect(page.locator("#text")).not_to_have_value("")  # an example has come
    page.fill("#text", "9 5 2")
    page.select_option("#model", "tagging")
    page.select_option("#model", "recurrence")
    expect(page.locator("#text")).to_have_value("9 5 2")
    page.fill("#text", "")
    with page.expect_response("**/example?seed=1"):
        page.select_option("#model", "tagging")
    expect(page.locator("#text")).to_have_value(re.compile(r"\d"))
    page.unroute("**/api/models")


def test_a_random_example_is_drawn_and_edited(page: Page) -> None:
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
    expect(page.locator("#stage")).to_be_hidden()
    assert page.title() == "stepedit"
    assert page.locator("#message script, #message img").count() == 0
    shot(page, f"refused-{'long' if len(text) > 60 else ord(text[1])}")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1100), ("light", 360), ("dark", 360)])
def test_it_fits_narrow_screens_and_the_dark(page: Page, scheme: str, width: int) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})
    edit(page, "9 5 2")
    page.click("#play")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    shot(page, f"{scheme}-{width}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1100, "height": 900})


def test_names_and_roles_are_there_for_screen_readers(page: Page) -> None:
    edit(page, "9 5 2")
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, select")].filter(node =>
            !(node.getAttribute("aria-label") || node.textContent.trim() || node.labels?.length)).length"""
    )
    assert nameless == 0
    assert page.locator("[aria-live]").count() == 1
    assert page.locator("main").count() == page.locator("h1").count() == 1


def test_a_method_can_be_chosen_and_the_api_is_described(page: Page, address: str) -> None:
    page.select_option("#method", "tagging")
    expect(page.locator("#model")).to_have_value("tagging")
    edit(page, "9 5 2")
    expect(page.locator(".card h2")).to_have_text("tagging · tagging")
    page.goto(f"{address}/docs.html")
    expect(page.locator(".calls h2", has_text="POST /api/edit")).to_be_visible()
    shot(page, "docs")


def test_the_learning_curve_of_a_watched_run_is_drawn(page: Page, address: str) -> None:
    page.goto(f"{address}/watch.html")
    expect(page.locator(".curves h2")).to_have_text("recurrence: sort recurrence online")
    expect(page.locator(".curves p")).to_contain_text("epoch 60 of 60")
    expect(page.locator(".curves svg path.line")).to_have_count(2)
    shot(page, "watch")
