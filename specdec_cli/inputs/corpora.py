"""Data folders of Kaldi, and cuts of Lhotse."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from specdec_cli.inputs.entries import Entry, language_named, pieces
from specdec_cli.inputs.moments import moment, required_moment, span
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import JSON, Object, Table, read_objects, read_table
from specdec_cli.inputs.text_files import cell_text, ending, read_text
from specdec_cli.text import show

_ROUNDING_S: Final = 0.01
_CHANNELS: Final = {"A": 0, "B": 1}  # else numbers from 0
_CUTS: Final = ("MixedCut", "PaddingCut")  # without a recording of their own


def kaldi(scp: Path, skips: Skips) -> Iterator[Entry]:
    """The utterances of a data folder: wav.scp, with segments, text and utt2spk where they are. It runs no command."""
    recordings: dict[str, tuple[str, str]] = {}
    for place, name, file in _pairs(scp):
        if name in recordings:
            skips.leave_out(place, f"{show(name)} is in {recordings[name][0]} too")
        else:
            recordings[name] = place, file
    texts, speakers = ({name: text for _, name, text in _pairs(scp.with_name(of))} for of in ("text", "utt2spk"))
    segments = scp.with_name("segments")
    cut = segments.exists()
    for place, utterance, rest in _pairs(segments) if cut else [(place, n, n) for n, (place, _) in recordings.items()]:
        of, start, end, channel = (*rest.split(), None, None, None, None)[:4]
        if of not in recordings:
            skips.leave_out(place, f"{scp} has no recording {show(of)}")
            continue
        listed, file = recordings[of]
        if file.endswith("|"):
            why = f"{show(of)} is a command, and specdec runs no commands of a list: write it to a file of its own"
            skips.leave_out(listed, why)
            continue
        known: dict[str, Any] = {"speaker": speakers.get(utterance) or None, "text": texts.get(utterance) or None}
        if channel is not None:
            known["channel"] = _CHANNELS.get(channel, int(channel[:3]) if channel.isdecimal() else None)
            if known["channel"] is None:
                skips.change(place, f"{show(channel)} is no channel: the mix of all is taken")
        begin, until = (required_moment(start), moment(end) if end != "-1" else None) if cut else (None, None)
        yield from pieces(place, skips, begin, until, file=file, id=utterance, **known)


def _pairs(path: Path) -> Iterator[tuple[str, str, str]]:
    """Place, first word and rest of each line of a file. Files other than wav.scp may be absent."""
    if path.suffix != ".scp" and not path.exists():
        return
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if words := line.split(maxsplit=1):
            yield f"{path}, line {number}", words[0], "".join(words[1:]).strip()


def table_or_cuts(path: Path, skips: Skips) -> Table | Iterator[Entry]:
    """The table that a file holds, or the cuts of a Lhotse manifest: objects with a `recording` of their own."""
    if ending(path) not in JSON:
        return read_table(path, skips)
    objects = list(read_objects(path, skips))
    if any(isinstance(row.get("recording"), dict) or row.get("type") in _CUTS for _, row in objects):
        return _lhotse(objects, skips)
    return read_table(path, skips, objects)


def _lhotse(objects: Iterable[Object], skips: Skips) -> Iterator[Entry]:
    """The cuts of a Lhotse manifest whose recordings are files, each with the channel that it names.

    Source: https://lhotse.readthedocs.io/en/latest/cuts.html; a MixedCut has no recording of its own.
    """
    for place, row in objects:
        try:
            recording, said = row["recording"], row.get("supervisions") or []
            (source,) = recording["sources"]
            changed = {change["name"] for change in recording.get("transforms") or []} - {"Resample"}
            if source["type"] != "file" or changed:
                raise ValueError("its sound is made when it is read")
            file, total, id_ = os.fspath(source["source"]), moment(recording["duration"]), str(row["id"])
            texts, speakers, languages = (
                [each[name] for each in said if each.get(name)] for name in ("text", "speaker", "language")
            )
            channels = max(len(recording.get("channel_ids") or ()), len(source.get("channels") or ()))
        except (AttributeError, KeyError, TypeError, ValueError):
            skips.leave_out(
                place, "this is no cut of a recording in a file: write it to one with cuts.save_audios(...)"
            )
            continue
        length = moment(row.get("duration"))
        if (part := span(place, skips, required_moment(row.get("start")), length=length)) is None:
            continue
        if part[0] == 0 and (part[1] is None or (isinstance(total, float) and abs(total - part[1]) < _ROUNDING_S)):
            part = None, None
        names = {*map(str, speakers)}
        channel = row.get("channel")
        yield Entry(
            place,
            file,
            id_,
            speaker=cell_text(speakers[0]) if len(names) == 1 else None,
            text=cell_text(" ".join(map(str, texts))),
            language=_one(place, languages, skips),
            start_s=part[0],
            end_s=part[1],
            channel=channel if isinstance(channel, int) and (channels > 1 or channel > 0) else None,
        )


def _one(place: str, languages: list[Any], skips: Skips) -> Any:
    return language_named(place, languages[0], skips) if len({*map(str, languages)}) == 1 else None
