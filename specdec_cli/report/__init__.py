"""A comparison as one HTML file that opens anywhere, and the frontier as a picture.

frontier  quality gap closed against escalation, as SVG
sound     what the page plays and draws of a recording: compressed audio, envelope, pitch curve
rounds    what became of every token, round by round
clips     everything the page says of one clip
summary   the tables over all clips
page      all of it in one file, with nothing fetched
assets/   the page's template, style and scripts
"""

from specdec_cli.report.frontier import FrontierPoint, frontier_svg
from specdec_cli.report.page import write_report

__all__ = ["FrontierPoint", "frontier_svg", "write_report"]
