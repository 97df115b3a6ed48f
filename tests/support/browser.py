"""Chromium, and pages that are open in it: what they complain of, and whom they call."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
]  # fmt: skip
PATIENCE_MS: Final = 120_000
"""A busy machine is no failure."""
WIDTHS = (360, 800, 1400)


@contextmanager
def launched() -> Iterator[Any]:
    """A browser, which has a microphone that beeps."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser; pip install .[dev]")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium or google-chrome on the PATH")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=FLAGS, timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as chromium:
        yield chromium


@dataclass
class Visit:
    """A page that is open.

    Attributes:
        tab: the browser's page.
        url: where it is.
        complaints: console errors and warnings, and uncaught exceptions.
        sent: addresses asked for, with the bodies.
    """

    tab: Any
    url: str
    complaints: list[str] = field(default_factory=list)
    sent: list[tuple[str, str | None]] = field(default_factory=list)

    def until(self, condition: str) -> None:
        """Waits for an expression to hold, which the page's policy lets nothing inside it evaluate."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.tab.evaluate(condition):
            assert time.monotonic() < deadline, condition
            self.tab.wait_for_timeout(50)

    def complained(self, count: int) -> list[str]:
        """Waits for so many complaints, which were to come, and takes them."""
        while len(self.complaints) < count:
            self.tab.wait_for_timeout(50)
        told, self.complaints[:count] = self.complaints[:count], []
        return told

    def looks(self) -> Iterator[None]:
        """Goes through all widths, light and dark; in none of them the page is wider than the window."""
        for width, scheme in product(WIDTHS, ("light", "dark")):
            self.tab.set_viewport_size({"width": width, "height": 900})
            self.tab.emulate_media(color_scheme=scheme)
            colour = self.tab.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness = sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / 3
            assert (brightness > 128) == (scheme == "light")
            yield
            wide, window = self.tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert wide <= window, (width, scheme)

    def cut(self, selector: str) -> list[str]:
        """Texts of elements that are longer than there is room for."""
        long = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent)"
        return list(self.tab.locator(selector).evaluate_all(long))

    def tab_to(self, target: str) -> None:
        """Presses Tab until an element has the focus, whose outline can be seen."""
        for _ in range(60):
            self.tab.keyboard.press("Tab")
            if self.tab.evaluate(f"document.activeElement.matches({target!r})"):
                outline = "(e) => [e, e.parentElement].some((each) => getComputedStyle(each).outlineStyle !== 'none')"
                assert self.tab.evaluate(f"({outline})(document.activeElement)")
                return
        raise AssertionError(f"Tab does not lead to {target}")

    def saved(self, selector: str) -> str:
        """The text of a download, which the keyboard starts."""
        with self.tab.expect_download() as download:
            self.tab.locator(selector).focus()
            self.tab.keyboard.press("Enter")
        return Path(download.value.path()).read_text("utf-8")

    def close(self) -> None:
        """Nothing was complained of, and nobody else was called."""
        self.tab.context.close()
        assert self.complaints == []
        assert [address for address, _ in self.sent if not address.startswith((self.url, "blob:", "data:"))] == []


Visiting = Callable[..., Visit]


@pytest.fixture
def visit(browser: Any) -> Iterator[Visiting]:
    """Opens pages: `visit(url, selector of what has to be there)`. At the end each one has to have been quiet."""
    visits = list[Visit]()

    def open_(url: str, there: str, *, language: str = "en-GB") -> Visit:
        tab = browser.new_context(viewport={"width": 1280, "height": 900}, locale=language).new_page()
        tab.set_default_timeout(PATIENCE_MS)
        visits.append(made := Visit(tab, url))
        tab.on("console", lambda message: made.complaints.append(message.text) if message.type != "log" else None)
        tab.on("pageerror", lambda error: made.complaints.append(str(error)))
        tab.on("request", lambda request: made.sent.append((request.url, request.post_data)))
        tab.goto(url)
        tab.wait_for_selector(there, state="attached")
        return made

    yield open_
    for made in visits:
        made.close()
