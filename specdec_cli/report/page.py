"""The report: one HTML file that fetches nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from specdec_cli.compare.result import Comparison
from specdec_cli.errors import ReportError, TranscriptError
from specdec_cli.report import figures, frontier, tables
from specdec_cli.report.clips import clip_views
from specdec_cli.report.sound import SoundReader
from specdec_cli.targets import PAGE, write
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.terms import SUGGESTED, suggestions_in_words
from specdec_cli.types import Mode

_ASSETS: Final = files("specdec_cli.report") / "assets"
_SCRIPTS: Final = ("dom.js", "sound.js", "timeline.js", "tokens.js", "clip.js", "list.js", "app.js")
"""Joined in this order into one module."""


def write_report(
    path: Path,
    comparison: Comparison,
    transcripts: Mapping[Mode, Sequence[Transcript]],
    *,
    embed_audio: bool = True,
) -> None:
    """Writes `comparison` as a page that works offline, with a view for every clip.

    Recordings are read again for their waveform and pitch; one that is gone or has changed since is shown without.

    Args:
        path: the file, written whole or not at all.
        comparison: what was found.
        transcripts: mode -> its transcripts; those of one clip are found by file, digest and start.
        embed_audio: whether the page plays the clips: 8 kB a second.

    Raises:
        ReportError: the file cannot be written.
    """
    page = render(comparison, transcripts, embed_audio=embed_audio)
    try:
        write(path, page, PAGE)
    except TranscriptError as error:
        raise ReportError(f"The report {error.message}", hint=error.hint) from error


def render(
    comparison: Comparison, transcripts: Mapping[Mode, Sequence[Transcript]], *, embed_audio: bool = True
) -> str:
    """The page itself; see `write_report`."""
    clips = list(clip_views(comparison, transcripts, SoundReader(embed_audio)))
    data = {name: getattr(comparison, name) for name in ("modes", "language", "attributes")}
    picture = tables.frontier_points(comparison)
    style, script = _asset("report.css"), "\n".join(map(_asset, _SCRIPTS))
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            policy=_policy(styles=(style, frontier.STYLE), scripts=(script,)),
            style=Markup(style),
            script=Markup(script),
            frontier=Markup(frontier.frontier_svg(picture[1], title=picture[0])) if picture else None,
            comparison=comparison,
            settings=_settings(comparison),
            tables=tables,
            data={**data, "clips": [values for values, _ in clips]},
            audio=[(number, audio) for number, (_, audio) in enumerate(clips, 1) if audio is not None],
        )
    )


def _settings(comparison: Comparison) -> list[tuple[str, str]]:
    """Name and value of every setting, and of what checkpoints add to those that were left open."""
    own = [(name, figures.setting(value)) for name, value in comparison.settings.items() if name != SUGGESTED]
    return [*own, *suggestions_in_words(comparison.settings.get(SUGGESTED))]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("specdec_cli.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.globals |= {name: getattr(figures, name) for name in ("count", "seconds", "percent", "whole")}
    return environment


def _policy(*, styles: Iterable[str], scripts: Iterable[str]) -> str:
    """A Content-Security-Policy that allows nothing but what the page brings along, named by its hash."""
    own = f"script-src {_hashes(scripts)}; style-src {_hashes(styles)}"
    return f"default-src 'none'; {own}; media-src blob:; base-uri 'none'; form-action 'none'"


def _hashes(sources: Iterable[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(source.encode("utf-8")).digest()).decode("ascii") for source in sources)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
