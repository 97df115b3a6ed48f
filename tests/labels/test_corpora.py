"""Labels as tables of corpora have them, what of them counts, and rows about one of several speakers."""

import json
from pathlib import Path

import pytest

from specdec_cli.errors import ReferencesError
from specdec_cli.inputs.skipped import Skips
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference, References, counted

LEXICON = Lexicon.read()


def column(words: str, name: str = "emotion", separator: str = " ") -> str:
    """A table with a row for each word."""
    return f"file\t{name}\n" + "".join(f"{n}.wav\t{word}\n" for n, word in enumerate(words.split(separator)))


READ: list[tuple[str, str, str, str | None]] = [  # words, their classes, which of them count, and whose codes they are
    ("angry sad happy", "angry sad happy", "-", None),
    ("neutral joy surprise anger sadness disgust fear", "neutral happy surprised angry sad disgusted fearful",
     "-", None),
    ("boredom boredom contempt sad calm neutral", "- - - sad neutral neutral",
     "emotion: 3 of 6; left out: boredom 2, contempt 1; read as neutral: calm 1", None),
    ("neu hap ang sad exc fru fea sur dis oth xxx", "neutral happy angry sad happy - fearful surprised disgusted - -",
     "emotion: 8 of 11; left out: fru 1, oth 1, xxx 1; read as happy: hap 1, exc 1", None),
    ("ANG DIS FEA HAP NEU SAD", "angry disgusted fearful happy neutral sad", "-", None),
    ("sad N/A nan unknown happy", "sad - - - happy", "emotion: 2 of 5; left out: no label 3", None),
    ("ps angry", "surprised angry", "-", None),
    ("中立 惊喜", "neutral surprised", "-", None),
    ("neutral Wut happy", "neutral - happy", "emotion: 2 of 3; left out: wut 1", None),
    ("A:N A N F X", "- angry neutral fearful -", "emotion: 3 of 5; left out: a tie of raters 1, x 1", "MSP-Podcast"),
    ("A:A:N C C", "angry - -", "emotion: 1 of 3; left out: c 2", "MSP-Podcast"),
    ("A S H U F D C N O X", "angry sad happy surprised fearful disgusted - neutral - -",
     "emotion: 7 of 10; left out: c 1, o 1, x 1", "MSP-Podcast"),
    ("W L E A F T N", "angry - disgusted fearful happy sad neutral", "emotion: 6 of 7; left out: l 1", "EMO-DB"),
    ("01 02 03 04 05 06 07 08", "neutral neutral happy sad angry fearful disgusted surprised",
     "emotion: 8 of 8; read as neutral: 01 1, 02 1", "RAVDESS"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "classes", "counts", "corpus"), READ, ids=[row[0] for row in READ])
def test_labels_are_read_and_those_that_are_left_out_are_counted(tmp_path, words, classes, counts, corpus):
    (tmp_path / "r.tsv").write_text(column(words), "utf-8")
    given = corpus if ":" in words else None  # which the raters of a cell are not known by
    references = References.read(tmp_path / "r.tsv", lexicon=LEXICON, label_codes=given)
    assert [entry.labels.get("emotion", "-") for entry in references.entries] == classes.split()
    assert counted(references.entries) == ([] if counts == "-" else [counts])
    assert references.codes == ({"emotion": corpus} if corpus else {})
    assert not corpus or f"by the codes of {corpus}" in references.said()


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("neutral Wut Freude Trauer", "'Wut'"),  # German
        ("neutral neutral enfado alegría tristeza miedo", "'enfado'"),  # Spanish
        ("surprise colère joie peur neutre", "'colère'"),  # French
        ("happy 3 4 5", "'3'"),
        ("hapy sd", "'hapy'"),
    ],
)
def test_figures_of_one_class_of_another_language_are_refused(tmp_path, words, word):
    (tmp_path / "r.tsv").write_text(column(words, "c_emotion"), "utf-8")
    with pytest.raises(ReferencesError, match=rf"line \d, column c_emotion: emotion has no class or word {word}, nor"):
        References.read(tmp_path / "r.tsv", lexicon=LEXICON)


def test_words_that_no_lexicon_knows_are_said_beside_texts(tmp_path):
    (tmp_path / "r.csv").write_text("file,caption,emotion,pitch,rate\na,Sad.,colère,182.4,x1\nb,Happy.,joie,99,0.4\n")
    references = References.read(tmp_path / "r.csv", lexicon=LEXICON)
    (said,) = references.skips.sentences()
    assert "column emotion is not read, since the lexicon knows none of its words" in said


@pytest.mark.parametrize("name", ["captions.csv", "captions.jsonl"])
def test_captions_as_references_are_called_so(tmp_path, name):
    row = {"file": "a.wav", "caption": "A sad voice.", "label_emotion": "sad", "finish_reason": "eos"}
    csv = f"{','.join(row)}\n{','.join(row.values())}\n"
    (tmp_path / name).write_text(csv if name.endswith(".csv") else json.dumps(row))
    (said,) = References.read(tmp_path / name, lexicon=LEXICON).skips.sentences()
    assert "were written by specdec, as column finish_reason shows" in said


def test_the_class_of_most_raters_counts(tmp_path):
    """Also those of a word without a class, and of raters in one cell; all their texts count."""
    votes = {"a": "sad sad happy", "b": "sad happy", "c": "boredom boredom sad", "d": "joy - happiness sad", "e": "sad"}
    rows = [f"{clip}\t{word}\tText {n}.\n" for clip, words in votes.items() for n, word in enumerate(words.split())]
    (tmp_path / "r.tsv").write_text("file\temotion\tcaption\n" + "".join(rows))
    references = References.read(tmp_path / "r.tsv", lexicon=LEXICON, strict=True)
    classes = {entry.key: entry.labels.get("emotion") for entry in references.entries}
    assert classes == {"a": "sad", "b": None, "c": None, "d": "happy", "e": "sad"}
    assert counted(references.entries) == ["emotion: 3 of 5; left out: a tie of raters 1, boredom 1"]
    assert references.entries[0].texts == ("Text 0.", "Text 1.", "Text 2.")
    assert "4 clips have several rows" in references.skips.sentences()[0]
    (tmp_path / "r.json").write_text('[{"file": "a", "emotion": ["sad", "sad", "joy"]}]')
    (entry,) = References.read(tmp_path / "r.json", lexicon=LEXICON).entries
    assert entry.labels == {"emotion": "sad"}


ANN, BOB = (Reference("a.wav", (), {}, name, (0.0, 1.0)) for name in ("Ann Lee", "Bob"))
NOBODY, LATER = Reference("a.wav", (), {}, None, (0.0, 1.0)), Reference("a.wav", (), {}, "Bob", (0.3, 1.3))
LEFT, RIGHT = (Reference("a.wav", (), {}, None, (0.0, 1.0), channel) for channel in (1, 2))
WHOLE_ANN, WHOLE_BOB = (Reference("a.wav", (), {}, name) for name in ("ann", "bob"))


@pytest.mark.parametrize(
    ("entries", "speaker", "channel", "found"),
    [
        ([ANN, BOB], "Ann Lee", None, ANN),
        ([ANN, BOB], "ann_lee", None, ANN),
        ([ANN, BOB], "Bob", None, BOB),
        ([ANN, BOB], "SPEAKER_00", None, None),
        ([ANN, BOB], None, None, None),
        ([ANN, BOB, NOBODY], "SPEAKER_00", None, NOBODY),
        ([ANN], "SPEAKER_00", None, ANN),
        ([ANN, LATER], "SPEAKER_00", None, ANN),
        ([ANN, LATER], "Bob", None, LATER),
        ([LEFT, RIGHT], None, 1, LEFT),
        ([LEFT, RIGHT], None, 2, RIGHT),
        ([LEFT, RIGHT], None, None, None),
        ([WHOLE_ANN, WHOLE_BOB], "bob", None, WHOLE_BOB),
        ([WHOLE_ANN, WHOLE_BOB], None, None, None),
    ],
)
def test_a_piece_is_judged_by_the_row_about_its_speaker_and_channel(entries, speaker, channel, found):
    references = References(Path("r.csv"), entries, {}, {}, Skips())
    assert references.find("a.wav", 0.0, 1.0, speaker=speaker, channel=channel) is found


def test_rows_of_one_span_and_two_channels_are_two(tmp_path):
    (tmp_path / "r.csv").write_text("file,start,end,channel,emotion\na.wav,0,1,1,sad\na.wav,0,1,2,happy\n")
    references = References.read(tmp_path / "r.csv", lexicon=LEXICON, strict=True)
    found = [references.find("a.wav", 0, 1, channel=channel) for channel in (1, 2)]
    assert [one and dict(one.labels) for one in found] == [{"emotion": "sad"}, {"emotion": "happy"}]
