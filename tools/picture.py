"""Draws README's pictures of the live view and of the page: `python -m tools.picture`, from the repository's root.

The page is drawn by Chromium, which needs a font with Chinese characters.
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from specdec_cli import Captioner
from specdec_cli.console.view import View
from tests.support.browser import launched
from tests.support.servers import captioning

CLIP = "samples/en_male_pauses.flac"
PICTURE = Path("samples/live-view.svg")
CORRECTED = "samples/en_male_fast_loud.flac"  # by the cloud
PAGE = Path("docs/page.png")


def main() -> None:
    """Draw both."""
    live_view()
    page()


def live_view() -> None:
    """Caption the clip three times with the defaults, and draw the last: the first times hold what loads late."""
    captioner = Captioner.load("mini", {"prompt.language": "en"})
    for _ in range(3):
        console = Console(file=io.StringIO(), record=True, width=100, force_terminal=True, color_system="truecolor")
        view = View(console, "rows")
        view.form = "live"  # the rows of the live view, without its line that is redrawn
        for update in captioner.stream(CLIP):
            view.show(update)
    PICTURE.write_text(console.export_svg(title=f"specdec caption {CLIP}", unique_id="specdec"), encoding="utf-8")


def page() -> None:
    """Caption a clip on the page three times, as above, and draw what comes of the last."""
    with captioning(token=None) as served, launched() as browser:
        tab = browser.new_page(viewport={"width": 980, "height": 900}, locale="en-GB")
        tab.goto(served.url)
        tab.wait_for_selector("input[name=mode]:checked", state="attached")
        for _ in range(3):
            with tab.expect_response("**/completions"):
                tab.set_input_files("#file", CORRECTED)
            tab.wait_for_selector(".downloads")
        tab.wait_for_timeout(500)  # for what moves
        tab.screenshot(path=PAGE, full_page=True)


if __name__ == "__main__":
    main()
