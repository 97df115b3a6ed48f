"""What clips should be captioned as: texts by people, and classes, from a table with a row per clip."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.entries import CLIPS, Columns
from specdec_cli.inputs.names import ByRecording, parts_of
from specdec_cli.inputs.skipped import Skips
from specdec_cli.inputs.table_files import Table, read_table
from specdec_cli.inputs.text_files import NONE
from specdec_cli.labels.label_columns import LabelColumn, Vote, decided, label_column, unread_words
from specdec_cli.labels.lexicon import Lexicon
from specdec_cli.prompts import Language
from specdec_cli.reading import language_of
from specdec_cli.text import show, show_name
from specdec_cli.transcript.records import TranscriptHead

_TEXTS: Final = (
    re.compile(r"(captions?|references?|ref|(text_)?descriptions?|style_prompts?)([_ ]?(zh|en|\d+))*", re.IGNORECASE),
    re.compile(r"texts?[_ ]?\d*", re.IGNORECASE),
)
"""Names of columns of texts. The second pattern is used if no column has a name of the first: `text` may be speech."""
_OF_TRANSCRIPTS: Final = frozenset({"finish_reason", "needs_review", "agrees_pitch", "agrees.pitch"})
"""Columns that only transcripts, and the CSV made of them, have."""
CONFIRMED: Final = "confirmed"
"""Column of corrections by `specdec review`: attributes whose class a person took from the caption as it was."""
_ALIKE_S: Final = 0.5
"""Seconds by which two starts or two ends of the same piece may differ."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What one clip should be captioned as."""

    key: str  # the clip's name in the table
    texts: tuple[str, ...]  # reference captions
    labels: Mapping[str, str]  # attribute -> class, of the attributes whose class is known
    speaker: str | None = None
    span: tuple[float, float] | None = None  # start and end of the piece, s; the end may be infinite; None: all of it
    channel: int | None = None  # 1-based
    words: Mapping[str, str] = field(default_factory=dict, compare=False)  # attribute -> the table's word, of any class
    group: str | None = None  # its cell of the column by which results are given

    def texts_in(self, language: Language) -> tuple[str, ...]:
        """The reference captions in a language, and those too short to tell."""
        return tuple(text for text in self.texts if language_of(text) in (language, None))


@dataclass(slots=True)
class _OneClip:
    """The rows about one clip, each of one rater."""

    about: Reference
    number: int = 0
    texts: list[str] = field(default_factory=list)
    votes: defaultdict[str, list[Vote]] = field(default_factory=lambda: defaultdict(list))

    def reference(self) -> Reference:
        found = {attribute: decided(votes) for attribute, votes in self.votes.items() if votes}
        labels = {attribute: class_ for attribute, (class_, _) in found.items() if class_ is not None}
        words = {attribute: word for attribute, (_, word) in found.items()}
        return replace(self.about, texts=tuple(dict.fromkeys(self.texts)), labels=labels, words=words)


def counted(references: Iterable[Reference]) -> list[str]:
    """Which labels of these clips are used, by attribute: "emotion: 3 of 6; left out: boredom 2, contempt 1".

    Words that share a class are named, too: "read as neutral: calm 1". An attribute has no sentence if every clip has a
    class, and every class one word.
    """
    clips, sentences = list(references), list[str]()
    for attribute in dict.fromkeys(name for clip in clips for name in clip.words):
        words = defaultdict[str | None, Counter[str]](Counter)  # class -> the words for it
        for clip in clips:
            words[clip.labels.get(attribute)][clip.words.get(attribute, "no label")] += 1
        without = words.pop(None, Counter())
        shared = {class_: found for class_, found in words.items() if len(found) > 1}
        told = [_listed("left out", without, ""), *(_listed(f"read as {of}", shared[of], of) for of in shared if of)]
        if any(told):
            known = len(clips) - without.total()
            sentences.append("; ".join([f"{attribute}: {known:,} of {len(clips):,}", *filter(None, told)]))
    return sentences


def _listed(what: str, words: Counter[str], but: str | None) -> str:
    found = [f"{word} {clips:,}" for word, clips in words.most_common() if word != but]
    return f"{what}: {', '.join(found)}" if found else ""


@dataclass(frozen=True, eq=False)
class References:
    """The references of a set of clips, found by the clips' paths.

    Attributes:
        entries: the references in the order of the table.
        columns: attribute, or `text` -> column of the table at `path`.
        codes: attribute -> corpus whose codes its column holds.
        skips: rows and labels that were left out.
    """

    path: Path
    entries: Sequence[Reference]
    columns: Mapping[str, str]
    codes: Mapping[str, str]
    skips: Skips

    @cached_property
    def _by_recording(self) -> ByRecording[Reference]:
        found = ByRecording[Reference](self.path)
        for entry in self.entries:
            found.add(entry.key, entry)
        return found

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        file_column: str | None = None,
        text_columns: Sequence[str] = (),
        label_columns: Mapping[str, str] | None = None,
        lexicon: Lexicon,
        strict: bool = False,
        label_codes: str | None = None,
        by: str | None = None,
    ) -> References:
        """Reads a table (.tsv, .csv, .json or .jsonl).

        Several rows about one clip are those of several raters: all their texts count, and of their classes that of
        most. A column that is not named is found by its name. The clip is in `file`, `path`, `audio`, `id` or the like.
        Texts are in `caption`, `reference` or `description`, else in `text`; these may be numbered. Classes are in
        `c_<attribute>` or `label_<attribute>`, else in `<attribute>` if the lexicon knows a word of that column.

        Args:
            strict: whether a row or label that would be left out is refused instead.
            label_codes: corpus whose codes label the clips; None: the one that has codes for all words of a column.
            by: column by which results are given.

        Raises:
            ReferencesError: the table cannot be read; a column is missing; no row names a clip; no word of a column is
                known; a column fits the codes of several corpora. The message names row or column.
        """
        skips = Skips(strict)
        table = read_table(path, skips)
        columns, texts, named = _find_columns(table, file_column, text_columns, label_columns or {}, by, lexicon)
        for attribute in lexicon.attributes.keys() - named.keys():
            if unread := unread_words(columns, attribute, lexicon):
                skips.note(
                    f"{path}: column {show_name(unread)} is not read, since the lexicon knows none of its words; "
                    f"--lexicon takes a file with them, --column {attribute}={show_name(unread)} names the first"
                )
        labels = [LabelColumn.of(table, *item, lexicon, label_codes) for item in named.items()]
        codes = {each.attribute: each.corpus for each in labels if each.corpus is not None}
        found, said = dict[tuple[object, ...], _OneClip](), show_name(str(columns.file))
        confirmed = 0
        for entry in columns.entries(skips):
            if entry.file is None or entry.row is None:
                skips.leave_out(entry.place, f"column {said} is empty, so the row belongs to no clip")
                continue
            part = None if entry.start_s is None else (entry.start_s, math.inf if entry.end_s is None else entry.end_s)
            channel = None if entry.channel is None else entry.channel + 1
            key = parts_of(entry.file), part, entry.speaker, channel
            group = next((each for each in entry.row.cell(by) if each.casefold() not in NONE), None) if by else None
            about = Reference(entry.file, (), {}, entry.speaker, part, channel, group=group)
            rows = found.setdefault(key, _OneClip(about))
            rows.number += 1
            confirmed += bool(entry.row.cell(CONFIRMED))
            cells = (text for column in texts for text in entry.row.cell(column))
            rows.texts += [text for text in cells if text.casefold() not in NONE]
            for each in labels:
                rows.votes[each.attribute] += each.votes(entry, skips)
        if own := _OF_TRANSCRIPTS.intersection(table.columns):
            skips.note(
                f"{path}: its captions and classes were written by specdec, as column {min(own)} shows, so figures are "
                "agreement with them, which flatters the mode that wrote them (specdec review saves corrections)"
            )
        if several := sum(rows.number > 1 for rows in found.values()):
            skips.note(f"{path}: {several:,} clips have several rows, as of several raters: the class of most is taken")
        if confirmed:
            skips.note(
                f"{path}: classes of {confirmed:,} rows were only confirmed as captions had them, which flatters what "
                "wrote the captions (specdec review --blind shows none)"
            )
        skips.require_some(found, f"{path} has no row about a clip.", "It needs a row per clip.")
        read = {**named, **({"text": ", ".join(texts)} if texts else {})}
        return cls(path, tuple(rows.reference() for rows in found.values()), read, codes, skips)

    def find(
        self,
        file: str,
        start_s: float | None = None,
        end_s: float | None = None,
        *,
        speaker: str | None = None,
        channel: int | None = None,
    ) -> Reference | None:
        """The reference of a recording, or of a piece of it; None if there is none.

        A recording is found by its path as far as the table gives one, and then by its name, if only one path has it;
        an ending may be missing. Of rows about pieces of it, the nearest to `start_s` and `end_s` is used, each within
        half a second; a row about the whole recording is used for every piece. Rows about the speaker or the channel
        (1-based) of the piece come first, then rows that name none. Of several others just as near, none is used.

        Raises:
            ReferencesError: several paths of the table may be this recording's.
        """
        near, whole = list[tuple[float, Reference]](), list[tuple[float, Reference]]()
        for entry in self._by_recording.of(file):
            if entry.span is None:
                whole.append((0.0, entry))
            elif start_s is not None and end_s is not None:
                until_s = end_s if entry.span[1] == math.inf else entry.span[1]
                off_s = max(abs(entry.span[0] - start_s), abs(until_s - end_s))
                if off_s <= _ALIKE_S:
                    near.append((off_s, entry))
        left = _preferring(near or whole, lambda entry: _plain_speaker(entry.speaker), _plain_speaker(speaker))
        left = _preferring(left, lambda entry: entry.channel, channel)
        least_s = min((off_s for off_s, _ in left), default=0.0)
        nearest = [entry for off_s, entry in left if off_s == least_s]
        return nearest[0] if len(nearest) == 1 else None

    def of(self, run: TranscriptHead) -> Reference | None:
        """The reference of the clip that a transcript is of; see `find`."""
        return self.find(run.file, run.start_s, run.end_s, speaker=run.speaker, channel=run.channel)

    def require_some(self, files: Sequence[str]) -> None:
        """Raises ReferencesError if the table has a row about none of these recordings; see `ByRecording.expect`."""
        self._by_recording.expect(files)
        if files and not any(self._by_recording.of(file) for file in files):
            raise ReferencesError(
                f"0 of {len(files)} recordings were found in {self.path}.",
                hint=f"The first recording is {show(files[0])} and the first row is about {show(self.entries[0].key)}: "
                "names or ends of paths have to agree. --column file=NAME names another column.",
            )

    def require_found(self, found: Sequence[Reference | None]) -> None:
        """Raises ReferencesError if of all clips, by their places, none has a reference: `find` gave these."""
        if found and not any(found):
            raise ReferencesError(
                f"No row of {self.path} is about one of the {len(found)} clips: its rows name other parts of them.",
                hint="Cut recordings at the same places, with --segment, or leave the starts and ends of rows out.",
            )

    def said(self) -> str:
        """Which columns were read, and by the codes of which corpus: for a command to print."""
        read = [f"{name} from {column}" for name, column in self.columns.items()]
        read += [f"{attribute} by the codes of {corpus}" for attribute, corpus in self.codes.items()]
        return f"{self.path}: {', '.join(read)}"


def _preferring(
    found: Sequence[tuple[float, Reference]], name_of: Callable[[Reference], object], wanted: object
) -> Sequence[tuple[float, Reference]]:
    """Rows that name what is wanted; else those that name nothing; else all."""
    own = [row for row in found if wanted is not None and name_of(row[1]) == wanted]
    return own or [row for row in found if name_of(row[1]) is None] or found


def _plain_speaker(name: str | None) -> str | None:
    """A speaker's name as every format can write it."""
    return None if name is None else "_".join(name.casefold().split())


def _find_columns(
    table: Table, file: str | None, texts: Sequence[str], labels: Mapping[str, str], by: str | None, lexicon: Lexicon
) -> tuple[Columns, Sequence[str], Mapping[str, str]]:
    """The columns of the clip and of its texts, and attribute -> column of its class: as named, else by their names.

    Raises:
        ReferencesError: a named column is missing, no column names the clip, or none has texts or labels.
    """
    hint = (
        f"Its columns: {', '.join(map(show_name, table.columns))}. "
        "Name them with --column file=NAME, --column text=NAME or --column emotion=NAME."
    )
    missing = {file, *texts, *labels.values(), by} - {None, *table.columns}
    if missing:
        raise ReferencesError(f"{table.path} has no column {show_name(str(missing.pop()))}.", hint=hint)
    columns = Columns(table, file=file, clips=CLIPS)
    if columns.file is None:
        message = f"{table.path} has no column that names the clip."
        raise ReferencesError(message, hint=f"The first line has to hold the names of the columns. {hint}")
    columns.language = None  # that of the recording, not of the texts
    found = {attribute: label_column(columns, attribute, lexicon) for attribute in lexicon.attributes}
    labels = {**{attribute: column for attribute, column in found.items() if column}, **labels}
    groups = ([name for name in table.columns if pattern.fullmatch(name)] for pattern in _TEXTS)
    texts = texts or next(filter(None, groups), ())
    if not texts and not labels:
        raise ReferencesError(f"{table.path} has neither reference texts nor labels.", hint=hint)
    return columns, texts, labels
