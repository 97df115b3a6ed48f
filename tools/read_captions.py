"""Reads texts of models as specdec reads captions, and compares the readings with those of people.

    python -m tools.read_captions texts.jsonl
    python -m tools.read_captions texts.jsonl --references read.jsonl

A line of the texts is {"id", "lang", "text"}, `lang` (zh or en) being the language asked for; one of the answer is
{"id", "caption", "labels", "emotions", "flags"}. A line of the references has the id and, of `caption` (where the
description ends), `refusal` (true or false), `language` (zh, en or other) and `labels` (attribute -> the classes that
are right, null among them where the text need not name one), what somebody decided.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from specdec_cli.labels import Lexicon
from specdec_cli.reading import caption_of, flags_of
from specdec_cli.text import readable

Reading = dict[str, Any]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; blank lines are skipped."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


def read(line: Mapping[str, Any], lexicon: Lexicon) -> Reading:
    """The reading of one text."""
    text, language = line["text"], line["lang"]
    caption = caption_of(text)
    return {
        "id": line["id"],
        "caption": caption,
        "labels": lexicon.labels(caption, language),
        "emotions": list(lexicon.emotions(caption, language)),
        "flags": list(flags_of(text, language)),
    }


def score(readings: Sequence[tuple[Mapping[str, Any], Reading]], references: Sequence[Mapping[str, Any]]) -> str:
    """How often readings agree with people's."""
    known = {line["id"]: line for line in references}
    pairs = [(line, ours, known[ours["id"]]) for line, ours in readings if ours["id"] in known]
    cuts = [
        (line["text"].strip(), ours["caption"], r["caption"]) for line, ours, r in pairs if r.get("caption") is not None
    ]
    chatter = [cut for cut in cuts if cut[2] != cut[0]]
    refusals = [("refusal" in ours["flags"], r["refusal"]) for _, ours, r in pairs if r.get("refusal") is not None]
    languages = [
        ("language" in ours["flags"]) == (r["language"] != line["lang"]) for line, ours, r in pairs if r.get("language")
    ]
    rows = (
        ("caption ends where it should", [ours == wanted for _, ours, wanted in cuts]),
        ("  of those that go on", [ours == wanted for _, ours, wanted in chatter]),
        ("cut short", [len(ours) < len(wanted) for _, ours, wanted in cuts]),
        ("refusals found", [found for found, wanted in refusals if wanted]),
        ("refusals made up", [found for found, wanted in refusals if not wanted]),
        ("language right", languages),
        *_classes([(ours["labels"], r["labels"]) for _, ours, r in pairs if r.get("labels")]),
    )
    return "\n".join(
        f"{name}: {sum(found)} of {len(found)} ({sum(found) / len(found):.1%})" for name, found in rows if found
    )


def _classes(
    pairs: Sequence[tuple[Mapping[str, str | None], Mapping[str, Sequence[str | None]]]],
) -> Iterator[tuple[str, list[bool]]]:
    """Of each attribute, how often the class is right where a text names one, and made up where it names none."""
    for name in dict.fromkeys(attribute for _, right in pairs for attribute in right):
        found = [(said[name], right[name]) for said, right in pairs if name in right]
        named = [(said, right) for said, right in found if set(right) != {None}]
        yield f"{name} right", [said in right for said, right in named]
        yield "  none read", [said is None and None not in right for said, right in named]
        yield "  made up", [said is not None for said, right in found if set(right) == {None}]


def main(
    texts: Annotated[Path, typer.Argument(help="Texts of models, JSON lines.")],
    references: Annotated[Path | None, typer.Option(help="What people decided: print how often that agrees.")] = None,
) -> None:
    """Print the readings of texts, or how often they agree with those of people."""
    lexicon, readings = Lexicon.read(), []
    for line in lines_of(texts):
        reading = read(line, lexicon)
        if references is None:
            sys.stdout.buffer.write(readable(json.dumps(reading, ensure_ascii=False)).encode() + b"\n")
        readings.append((line, reading))
    if references is not None:
        print(score(readings, lines_of(references)))


if __name__ == "__main__":
    typer.run(main)
