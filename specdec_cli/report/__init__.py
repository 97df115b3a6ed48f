"""A comparison as tables and as one HTML file that opens anywhere, and the frontier as a picture.

figures   figures as text
tables    a comparison's figures as tables of text, for the terminal and the page
rounds    what became of every token, round by round
frontier  quality gap closed against escalation, as SVG
sound     what the page plays and draws of a recording: compressed audio, envelope, pitch curve
clips     everything the page says of one clip
page      all of it in one file, with nothing fetched
assets/   the page's template, style and scripts
"""

from typing import TYPE_CHECKING, Any

from specdec_cli.report.frontier import FrontierPoint, frontier_svg

if TYPE_CHECKING:
    from specdec_cli.report.page import write_report

__all__ = ["FrontierPoint", "frontier_svg", "write_report"]


def __getattr__(name: str) -> Any:  # displays need figures from here, and none of what a page loads
    if name != "write_report":
        raise AttributeError(name)
    from specdec_cli.report.page import write_report

    return write_report
