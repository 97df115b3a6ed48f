"""What the modes say of one clip, one below the other, with what differs marked by brackets and by colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from rich.text import Text

from specdec_cli.console.cells import clean, fit_end, hanging, padded, paragraph
from specdec_cli.console.figures import seconds
from specdec_cli.console.theme import ASKED, DIM, STRONG, Signs

if TYPE_CHECKING:
    from specdec_cli.compare.result import ClipComparison
    from specdec_cli.types import Mode

INDENT: Final = 11
LEFT_OUT: Final = "^"
_UNITS: Final = re.compile(r"[A-Za-z0-9'’-]+|\s+|.", re.DOTALL)


def clip_lines(clip: ClipComparison, width: int, signs: Signs) -> Iterator[Text]:
    """The captions of a clip; modes that say the same share a line.

    Args:
        clip: in two modes or more.
        width: cells of a line.
        signs: characters to draw with.
    """
    length = f" ({seconds(clip.duration_s)})" if clip.duration_s is not None else ""
    start = f" from {clip.start_s:g} s" if clip.start_s is not None else ""
    name = fit_end(clean(clip.file), width - len(length + start), signs.ellipsis)
    yield Text.assemble((name, STRONG), (f"{start}{length}", DIM))
    base: Mode = "cloud" if "cloud" in clip.captions else next(iter(clip.captions))
    for caption, modes in _by_caption(clip).items():
        text = Text(paragraph(caption)) if base in modes else marked(paragraph(caption), paragraph(clip.captions[base]))
        yield from _labelled(modes, hanging(Text(" " * INDENT), text, INDENT, width))
    for caption in clip.reference_texts:
        yield from hanging(Text(" reference", DIM), Text(paragraph(caption), DIM), INDENT, width)
    if classes := _classes(clip):
        yield from hanging(Text(" classes", DIM), Text(classes), INDENT, width)


def marked(caption: str, base: str) -> Text:
    """`caption` with what `base` does not say in brackets, and `[^]` where it leaves out something that `base` says."""
    ours, theirs = _UNITS.findall(caption), _UNITS.findall(base)
    text = Text()
    for kind, start, end, at, until in SequenceMatcher(a=ours, b=theirs, autojunk=False).get_opcodes():
        said = "".join(ours[start:end])
        if kind == "equal":
            text.append(said)
        elif said.strip():
            text.append(f"[{said.strip()}]" + (" " if said[-1:].isspace() else ""), f"{ASKED} underline")
        elif "".join(theirs[at:until]).strip():
            text.append(f"[{LEFT_OUT}]", ASKED)
            text.append(said)
    return text


def _labelled(modes: list[Mode], lines: list[Text]) -> Iterator[Text]:
    """The lines of a caption with the modes that say it beside them, one a line."""
    for index in range(max(len(lines), len(modes))):
        head = Text(f" {modes[index]}" if index < len(modes) else "")
        yield Text.assemble(padded(head, INDENT), lines[index][INDENT:] if index < len(lines) else "")


def _by_caption(clip: ClipComparison) -> dict[str, list[Mode]]:
    found: dict[str, list[Mode]] = {}
    for mode, caption in clip.captions.items():
        found.setdefault(caption, []).append(mode)
    return found


def _classes(clip: ClipComparison) -> str:
    """Attributes on which the modes, or the modes and the reference, do not agree: `emotion: edge sad, cloud happy`."""
    parts = []
    for attribute in dict.fromkeys(name for labels in clip.labels.values() for name in labels):
        said = {mode: labels.get(attribute) for mode, labels in clip.labels.items()}
        known = clip.reference_labels.get(attribute)
        if len(set(said.values())) == 1 and known in (None, *said.values()):
            continue
        groups: dict[str | None, list[str]] = {}
        for mode, name in said.items():
            groups.setdefault(name, []).append(mode)
        facts = [f"{' '.join(modes)} {name or 'nothing'}" for name, modes in groups.items()]
        parts.append(f"{attribute}: {', '.join([*facts, f'reference {known}'] if known else facts)}")
    return "; ".join(parts)
