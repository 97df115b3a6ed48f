"""Quality against references, and what may be claimed of it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.console.pages import comparison_page
from specdec_cli.console.tables import print_page
from specdec_cli.errors import ReferencesError
from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.evaluate.comparison_tables import confusions, gaps, summary, worst_confusions
from specdec_cli.evaluate.gap import AtCost
from specdec_cli.evaluate.page import render
from specdec_cli.evaluate.result import Comparison, Figure
from specdec_cli.evaluate.text_scores import TextQuality
from specdec_cli.transcript.records import Transcript
from specdec_cli.types import COSTS, Interval, Mode
from tests.console.screens import Screen
from tests.evaluate.fabricate import LEXICON, against, made, quality_of

EMOTIONS = ("sad", "happy", "angry", "fearful")


def said(emotion: str) -> str:
    return f"The emotion sounds {emotion}."


def judged(tmp_path: Path, right: dict[Mode, list[bool]]) -> Comparison:
    """Of a mode that names the right emotion of clip i where right[mode][i]."""
    runs, rows = list[Transcript](), list[str]()
    for index in range(len(next(iter(right.values())))):
        truth, wrong = EMOTIONS[index % 4], EMOTIONS[(index + 1) % 4]
        rows.append(f"clip{index}.wav,{truth}")
        for mode, hits in right.items():
            runs.append(made(f"/data/clip{index}.wav", mode, said(truth if hits[index] else wrong)))
    return against(tmp_path, "file,emotion", rows, runs)


def sad(clips: int) -> list[Transcript]:
    """Clips that edge and cloud call sad."""
    return [made(f"{n}.wav", mode, said("sad")) for n in range(clips) for mode in ("edge", "cloud")]


def page(found: Comparison) -> str:
    print_page(partial(comparison_page, found), screen := Screen(100))
    return "\n".join(screen.lines)


def hits(count: int, of: int, start: int = 0) -> list[bool]:
    """`count` right ones among `of`, spread out the same way every time."""
    order = np.random.default_rng(3).permutation(of)
    right = set(order[start : start + count].tolist())
    return [index in right for index in range(of)]


def test_a_gap_that_is_closed_is_claimed_in_one_sentence(tmp_path):
    right: dict[Mode, list[bool]] = {"edge": hits(24, 60), "hybrid": hits(42, 60), "cloud": hits(52, 60)}
    quality, cost = judged(tmp_path, right).headline
    assert quality.startswith(
        "Emotion named right: edge-only 40.0%, hybrid 70.0%, cloud-only 86.7%. Hybrid closes 64% ("
    )
    assert quality.endswith("of the gap between edge-only and cloud-only.")
    assert cost == "Hybrid takes 100% (100% to 100%) of cloud-only's time and calls the cloud for 0% of the clips."


@pytest.mark.parametrize(
    ("hybrid", "cloud", "verdict"),
    [
        (hits(31, 60), hits(55, 60), "No difference between hybrid and edge-only can be reported from these clips."),
        (hits(10, 60), hits(55, 60), "Hybrid is worse than edge-only."),
        (hits(33, 60, start=2), hits(30, 60, start=5), "so there is no gap to close."),
        (hits(33, 60, start=2), hits(10, 60), "so there is no gap to close."),
    ],
)
def test_no_difference_is_claimed_whose_interval_includes_0(tmp_path, hybrid, cloud, verdict):
    found = judged(tmp_path, {"edge": hits(30, 60), "hybrid": hybrid, "cloud": cloud})
    sentence, _ = found.headline
    assert sentence.endswith(verdict)
    assert (found.gaps[0].closed is None) == ("no gap" in verdict)


def test_reference_texts_are_scored(tmp_path):
    runs = [
        made(f"{name}.wav", mode, text)
        for name, edge in (("a", "a man speaks slowly"), ("b", "a dog barks at the moon"))
        for mode, text in (("edge", edge), ("cloud", "a man speaks slowly in a low voice"))
    ]
    rows = [f"{name}.wav,a man speaks slowly in a low voice" for name in "ab"]
    found = against(tmp_path, "file,caption", rows, runs)
    cloud, edge = quality_of(found, "cloud").text, quality_of(found, "edge").text
    assert (cloud.clips, cloud.bleu, cloud.chrf, cloud.rouge_l) == (2, pytest.approx(100), pytest.approx(100), 100)
    assert edge.rouge_l == pytest.approx((100 * 2 * 4 / 12 + 100 * 2 * 1 / 14) / 2)
    assert quality_of(found, "edge").labels == {}


def described(tmp_path: Path, texts: list[str]) -> Comparison:
    rows = [f"{index}.wav,{text}" for index, text in enumerate(texts)]
    return against(tmp_path, "file,text", rows, sad(len(texts)))


def test_what_was_said_is_no_description_and_is_not_scored(tmp_path):
    spoken = ["Kids are talking by the door.", "I am so angry with you!", "That is exactly what happened.", "Dogs sit."]
    found = described(tmp_path, spoken)
    assert found.texts == "said"
    assert [each.text for each in found.quality] == [None, None]
    assert not any(gap.measure == "chrf" for gap in found.gaps)
    left_out, instead = found.notes
    assert "BLEU, chrF and ROUGE-L are left out" in left_out
    assert "captions are compared with the cloud's alone" in instead


def test_descriptions_are_scored_even_if_the_lexicon_reads_nothing_in_some(tmp_path):
    texts = ["A man speaks slowly.", "She sounds sad.", "There is something in this voice.", "He is angry and loud."]
    found = described(tmp_path, texts)
    assert (found.texts, found.notes) == ("descriptions", [])
    assert all(each.text for each in found.quality)


def test_references_in_another_language_are_counted(tmp_path):
    found = described(tmp_path, ["A man speaks slowly.", "说话人语速较慢，情绪低落。", "说话人很生气，音量很大。"])
    assert found.notes == ["The texts of 2 references are left out: not in the language of the captions (en)."]
    assert found.texts == "descriptions"


@pytest.mark.parametrize(
    ("speakers", "says", "line"),
    [
        (("ann", "ann", "ann"), "All clips are of one speaker. Intervals draw speakers, so none is given.", False),
        (("ann", "bob", ""), "1 of 3 clips name no speaker.", True),
        (("ann", "bob", "ann"), "", True),
        (("", "", ""), "", True),
    ],
)
def test_what_intervals_miss_is_said(tmp_path, speakers, says, line):
    rows = [f"{n}.wav,sad,{speaker}" for n, speaker in enumerate(speakers)]
    found = against(tmp_path, "file,emotion,speaker", rows, sad(3))
    assert says in " ".join(found.notes)
    assert bool(says) == bool(found.notes)
    assert ("interval over" in page(found)) == line


def test_labels_that_are_left_out_stand_above_the_table(tmp_path):
    words = ("boredom", "boredom", "contempt", "sad", "calm", "neutral")
    found = against(tmp_path, "file,emotion", [f"{n}.wav,{word}" for n, word in enumerate(words)], sad(6))
    counts = "emotion: 3 of 6; left out: boredom 2, contempt 1; read as neutral: calm 1"
    assert found.notes == [counts]
    assert page(found).index(counts) < page(found).index("Beside a figure")


def test_quality_by_a_column_is_that_of_its_clips(tmp_path):
    rows = [("tess", "sad"), ("tess", "happy"), ("", "angry"), ("cremad", "sad"), ("cremad", "sad"), ("cremad", "none")]
    table = [f"{n}.wav,{corpus},{word}" for n, (corpus, word) in enumerate(rows)]
    runs = sad(7)  # one has no row
    found = against(tmp_path, "file,corpus,emotion", table, runs, by="corpus")
    assert [(each.group, each.clips, each.emotion.value) for each in found.groups if each.mode == "edge"] == [
        ("cremad", 3, 1.0), ("tess", 2, 0.5), (None, 2, 0.0)
    ]  # fmt: skip
    assert all(text in page(found) for text in ("emotion, by corpus (clips)", "tess (2)", "(none) (2)"))
    assert "cremad (3)" in render(found, runs, LEXICON)
    with pytest.raises(ReferencesError, match="has no column speaker"):
        against(tmp_path, "file,corpus,emotion", table, runs, by="speaker")


@pytest.mark.parametrize(("column", "cell"), [("label_emotion", "boredom"), ("text", "说话人很生气，音量很大。")])
def test_references_that_judge_nothing_are_said_to(tmp_path, column, cell):
    found = against(tmp_path, f"file,{column}", [f"0.wav,{cell}"], sad(1))
    assert "captions are compared with the cloud's alone" in found.notes[-1]


@pytest.mark.parametrize("times", ["1,2", "0,600"])
def test_references_of_other_places_are_refused(tmp_path, times):
    """In place of figures of agreement with the cloud."""
    with pytest.raises(ReferencesError, match=r"No row of .*truth\.csv is about one of the 1 clips"):
        against(tmp_path, "file,start,end,emotion", [f"0.wav,{times},sad"], sad(1))


def test_the_commonest_confusions_are_said_in_words(tmp_path):
    found = judged(tmp_path, {"edge": hits(8, 40), "hybrid": [False, *[True] * 39], "cloud": [True] * 40})
    assert worst_confusions(found) == "Hybrid's commonest errors: sad emotion named happy (1 of 10 clips)."
    assert worst_confusions(judged(tmp_path, {"edge": hits(8, 40), "cloud": [True] * 40})) is None
    matrices = confusions(found, LEXICON)["emotion"]
    assert [matrix.title for matrix in matrices][
        1
    ] == "hybrid: clips by the true emotion (rows) and the one named (columns)"
    row = dict(zip(matrices[1].columns, next(r for r in matrices[1].rows if r.label == "sad").cells, strict=True))
    assert {name: cell.value for name, cell in row.items()} == {"happy": "1", "sad": "9", "angry": "", "fearful": ""}
    assert matrices[1].columns == [name for name in LEXICON.attributes["emotion"] if name in row]


def test_a_mode_that_gives_the_clouds_captions_has_no_confusions_of_its_own(tmp_path):
    same = hits(8, 40)
    (matrix,) = confusions(judged(tmp_path, {"lossless": same, "cloud": same}), LEXICON)["emotion"]
    assert matrix.title.startswith("cloud:")


def test_every_figure_has_a_sentence_that_says_what_it_means(tmp_path):
    found = judged(tmp_path, {"edge": hits(24, 60), "hybrid": hits(42, 60), "cloud": hits(52, 60)})
    some = Interval(0.5, 0.4, 0.6)
    spent = {name: some for name, value in found.costs[1] if value is None or isinstance(value, Interval)}
    spent |= {name: Figure(value=1.0, to_edge=some, to_cloud=some) for name in ("forwards_edge", "forwards_cloud")}
    spent |= {"uplink_bytes": 9, "degraded": 1, "network_s": 1.0}
    costs = [each.model_copy(update=spent) for each in found.costs]
    texts = TextQuality(clips=1, bleu=1.0, chrf=1.0, rouge_l=1.0)
    quality = [each.model_copy(update={"text": texts}) for each in found.quality]
    gaps = [
        gap.model_copy(update={"at_costs": [AtCost(cost=c, spent=some, above_random=some) for c in COSTS]})
        for gap in found.gaps
    ]
    found = found.model_copy(update={"costs": costs, "quality": quality, "gaps": gaps})
    shown = tables.costs(found), tables.quality(found), tables.gaps(found)
    assert [len(table.rows) for table in shown] == [19, 9, 3]
    rows = {row.label.strip() for table in shown[:2] for row in table.rows} - {"emotion", "UAR of emotion"}
    assert (rows | {*shown[2].columns}) - tables.meanings(*shown).keys() == {"this mode", "cloud-only"}


def test_a_lossless_text_that_is_not_the_clouds_is_a_fault_and_said_first():
    runs = [made(f"c{i}", mode, said("sad")) for i in range(12) for mode in ("lossless", "cloud")]
    quality, cost = comparison(runs, LEXICON).headline
    assert quality == "Lossless gives cloud-only's captions."
    assert cost.startswith("Lossless takes 100%")
    runs[2] = made("c1", "lossless", said("happy"))
    assert comparison(runs, LEXICON).headline[0].startswith("Lossless differs from cloud-only in 1 of 12 captions")


def test_the_gap_closed_stands_below_what_it_is_about_and_only_where_there_is_one(tmp_path):
    found = judged(tmp_path, {"edge": hits(24, 60), "hybrid": hits(42, 60), "cloud": hits(52, 60)})
    rows = summary(found).rows
    labels = [row.label for row in rows]
    assert labels[:4] == ["heard, right", "  emotion", "  gap closed", "  points over edge"]
    assert [cell.value for cell in rows[2].cells] == ["", "64%", ""]
    assert "gap closed" in gaps(found).columns
    same = judged(tmp_path, {"edge": hits(24, 60), "hybrid": hits(26, 60), "cloud": hits(24, 60)})
    assert "  gap closed" not in [row.label for row in summary(same).rows]
    rows = [row for row in gaps(same).rows if "emotion" in row.label]
    assert [cell.value for cell in rows[0].cells][:4] == ["40.0%", "43.3%", "40.0%", "+3.3"]
