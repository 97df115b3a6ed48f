"""Tables of public corpora under the headers that they are published with, and rows about one of several speakers."""

from pathlib import Path

import pytest

from specdec_cli.inputs.manifest import Manifest
from specdec_cli.inputs.skipped import Skips
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import Reference, References

LEXICON = Lexicon.load()

MELD = (
    "Sr No.,Utterance,Speaker,Emotion,Sentiment,Dialogue_ID,Utterance_ID,Season,Episode,StartTime,EndTime\n"
    '1,"Oh, no",Chandler,sadness,negative,0,0,8,21,"00:16:16,059","00:16:21,731"\n'
    '2,Hi.,Joey,joy,positive,0,1,8,21,"00:16:21,940","00:16:23,442"\n'
    '3,Hi.,Joey,joy,positive,1,1,8,21,"00:16:21,940","00:16:23,442"\n'
)
COMMON_VOICE = (
    "client_id\tpath\tsentence_id\tsentence\tsentence_domain\tup_votes\tdown_votes\tage\tgender\taccents\tvariant\tlocale"
    "\tsegment\n"
    + "".join(
        f'c{n}\tcv_{n}.mp3\te\tThe "x\t\t2\t0\t\t{gender}\t\t\ten\t\n'
        for n, gender in enumerate(
            ("male_masculine", "female_feminine", "intersex", "non-binary", "do_not_wish_to_say")
        )
    )
)
SPONTANEOUS = (
    "client_id\taudio_id\taudio_file\tduration_ms\tprompt_id\tprompt\ttranscription\tvotes\tage\tgender\tlanguage\n"
    "c0\t12\tss-12.mp3\t8820\t7\tWhat did you eat?\tbread\t2\t\tfemale_feminine\ten\n"
)
LABELS: list[tuple[str, str, list[dict[str, str]]]] = [
    ("meld.csv", MELD, [{"emotion": "sad"}, {"emotion": "happy"}, {"emotion": "happy"}]),
    ("cv.tsv", COMMON_VOICE, [{"voice": "male"}, {"voice": "female"}, {}, {}, {}]),
    ("ss.tsv", SPONTANEOUS, [{"voice": "female"}]),
    ("crema.csv", '"","FileName","VoiceVote","VoiceLevel"\n"1","a","N","1"\n"2","b","A:N","1:2"\n"3","c","F","1"\n', [{"emotion": "neutral"}, {}, {"emotion": "fearful"}]),  # noqa: E501
    ("msp.csv", "FileName,EmoClass,SpkrID,Gender\na.wav,N,Unknown,Unknown\nb.wav,F,127,Male\n", [{"emotion": "neutral"}, {"emotion": "fearful", "voice": "male"}]),  # noqa: E501
    ("esd.tsv", "file\ttext\temotion\na\t打\t中立\nb\t打\t惊喜\n", [{"emotion": "neutral"}, {"emotion": "surprised"}]),
    ("tess.csv", "path,emotion\na.wav,ps\nb.wav,angry\n", [{"emotion": "surprised"}, {"emotion": "angry"}]),
    ("libritts_p.csv", "spk_id,item_name,gender,pitch,speaking_speed,energy,style_prompt_key,seq\n1,1_2_3,F,low,slow,high,F_p-low,x\n", [{"voice": "female", "pitch": "low", "rate": "slow", "volume": "loud"}]),  # noqa: E501
    ("bars.csv", "item_name|gender|speaking_rate|energy\n1_2_3|M|fast|0.31\n", [{"voice": "male", "rate": "fast"}]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "labels"), LABELS, ids=[name for name, *_ in LABELS])
def test_labels(tmp_path, name, text, labels):
    (tmp_path / name).write_text(text, "utf-8")
    references = References.read(tmp_path / name, lexicon=LEXICON, strict=True)
    assert [dict(entry.labels) for entry in references.entries] == labels
    assert all(entry.span is None for entry in references.entries)


def test_clips_of_meld_are_called_after_dialogue_and_utterance(tmp_path):
    (tmp_path / "m.csv").write_text(MELD, "utf-8")
    references = References.read(tmp_path / "m.csv", lexicon=LEXICON)
    found = [references.find(f"/d/{name}.wav") for name in ("dia0_utt0", "dia0_utt1", "dia1_utt1", "dia1_utt0")]
    assert [one and one.speaker for one in found] == ["Chandler", "Joey", "Joey", None]
    items = list(Manifest.read(tmp_path / "m.csv"))
    assert [(Path(item.path).name, item.speaker, item.text, item.start_s) for item in items] == [
        ("dia0_utt0.mp4", "Chandler", "Oh, no", None),
        ("dia0_utt1.mp4", "Joey", "Hi.", None),
        ("dia1_utt1.mp4", "Joey", "Hi.", None),
    ]


def test_manifests_of_common_voice(tmp_path):
    """Clips are in a folder of their own; what a speaker was asked is no instruction to the model."""
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "cv_0.mp3").touch()
    (tmp_path / "cv.tsv").write_text(COMMON_VOICE, "utf-8")
    (tmp_path / "ss.tsv").write_text(SPONTANEOUS, "utf-8")
    first, second, *_ = Manifest.read(tmp_path / "cv.tsv")
    assert (first.path, first.speaker, first.text) == (str(tmp_path / "clips" / "cv_0.mp3"), "c0", 'The "x')
    assert second.path == str(tmp_path / "cv_1.mp3")  # is nowhere, and said so by its name in the table
    (spontaneous,) = Manifest.read(tmp_path / "ss.tsv")
    assert (spontaneous.prompt, spontaneous.text, spontaneous.language) == (None, "bread", "en")


def test_descriptions_of_style_are_reference_captions(tmp_path):
    for header in ("style_prompt", "text_description", "caption", "style_prompts"):
        (tmp_path / "r.csv").write_text(f"item_name,style_prompt_key,{header},txt\na,F_low,A soft voice.,hello\n")
        (entry,) = References.read(tmp_path / "r.csv", lexicon=LEXICON).entries
        assert entry.texts == ("A soft voice.",)


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
