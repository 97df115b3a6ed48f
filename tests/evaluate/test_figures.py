"""Figures of a comparison against sums made by hand."""

from typing import Any

import pytest

from specdec_cli.evaluate import comparison_tables as tables
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.transcript.records import Transcript
from tests.evaluate.fabricate import LEXICON, against, costs_of, failed, made, quality_of


def asked(rounds: int, escalations: int, drafted: int, accepted: int) -> dict[str, Any]:
    return {"rounds": rounds, "escalations": escalations, "drafted": drafted, "accepted": accepted}


def three_modes() -> list[Transcript]:
    return [
        made("a", "edge", ms=100, ttft_ms=10, tokens=10, forwards=(10, None)),
        made("a", "hybrid", ms=300, ttft_ms=11, tokens=10, forwards=(9, 1), **asked(4, 1, 5, 3)),
        made("a", "cloud", ms=400, ttft_ms=40, tokens=12, forwards=(None, 12), prefill_ms=(None, 40)),
        made("b", "edge", ms=300, ttft_ms=30, tokens=20, forwards=(20, None)),
        made("b", "hybrid", ms=500, ttft_ms=33, tokens=20, forwards=(18, 2), **asked(6, 2, 8, 8)),
        made("b", "cloud", ms=1200, ttft_ms=60, tokens=20, forwards=(None, 20), prefill_ms=(None, 60)),
    ]


def test_costs_are_sums_over_clips_and_ratios_are_of_sums():
    found = comparison(three_modes(), LEXICON)
    assert found.modes == ["edge", "hybrid", "cloud"]
    edge, hybrid, cloud = found.costs
    assert [mode.total_s.value for mode in found.costs] == pytest.approx([0.4, 0.8, 1.6])
    assert hybrid.total_s.to_edge.value == pytest.approx(2.0)
    # of two clips only three draws differ: a a, a b, b b
    assert (hybrid.total_s.to_edge.low, hybrid.total_s.to_edge.high) == pytest.approx((500 / 300, 3.0))
    assert hybrid.total_s.to_cloud.value == pytest.approx(0.5)
    assert edge.total_s.to_edge is None
    assert cloud.total_s.to_cloud is None
    assert [mode.ttft_ms.value for mode in found.costs] == [20, 22, 50]
    assert edge.tokens_per_s.value == pytest.approx(30 / 0.4)
    assert hybrid.tokens_per_s.value == pytest.approx(30 / 0.8)
    assert (edge.forwards_edge.value, edge.forwards_cloud.value) == (30, None)
    assert (hybrid.forwards_edge.value, hybrid.forwards_cloud.value) == (27, 3)
    assert (cloud.forwards_edge.value, cloud.forwards_cloud.value) == (None, 32)
    # rates are of all rounds and tokens
    assert hybrid.clips_woken.value == 1.0
    assert hybrid.escalation_rate.value == pytest.approx(0.3)  # not the mean of 1/4 and 2/6
    assert hybrid.acceptance_rate.value == pytest.approx(11 / 13)
    assert hybrid.edge_token_share.value == pytest.approx((9 + 18) / 30)
    assert (edge.escalation_rate, edge.acceptance_rate, cloud.escalation_rate) == (None, None, None)
    assert (edge.edge_token_share, cloud.edge_token_share) == (None, None)


def four_clips() -> list[Transcript]:
    """The cloud is right in three of four, the edge in one; hybrid wakes it for two, once in vain."""
    runs = []
    for name, edge, hybrid, cloud in (("a", 1, 1, 1), ("b", 0, 1, 1), ("c", 0, 0, 1), ("d", 0, 0, 0)):
        woken = name in "bd"
        spent: dict[str, Any] = {"forwards": (5, 3), "prefill_ms": (10, 40), "cloud_ms": 60.0} if woken else {}
        truth, wrong = "The emotion sounds sad.", "The emotion sounds happy."
        runs += [
            made(name, "edge", truth if edge else wrong),
            made(name, "hybrid", truth if hybrid else wrong, **asked(4, int(woken), 2, 1), **spent),
            made(name, "cloud", truth if cloud else wrong, forwards=(None, 9), prefill_ms=(None, 40), cloud_ms=120.0),
        ]
    return runs


def test_three_costs_are_those_of_the_recorded_works(tmp_path):
    found = against(tmp_path, "file,emotion", [f"{name},sad" for name in "abcd"], four_clips())
    spent = [(mode.escalation_rate, mode.clips_woken, mode.cloud_time) for mode in found.costs]
    assert [share and share.value for share in spent[1]] == pytest.approx([2 / 16, 0.5, 120 / 480])
    assert spent[0] == spent[2] == (None, None, None)
    (gap,) = (gap for gap in found.gaps if (gap.basis, gap.measure) == ("references", "emotion"))
    assert [at.cost for at in gap.at_costs] == ["blocks", "clips", "time"]


def test_a_clip_whose_prefill_was_early_wakes_the_cloud():
    runs = [
        made("a", "edge"),
        made("a", "hybrid", forwards=(9, 1), prefill_ms=(10, 40), cloud_ms=40.0),
        made("a", "cloud", forwards=(None, 9), cloud_ms=80.0),
    ]
    hybrid = costs_of(comparison(runs, LEXICON), "hybrid")
    assert (hybrid.escalation_rate.value, hybrid.clips_woken.value, hybrid.cloud_time.value) == (0.0, 1.0, 0.5)


def test_of_several_captions_of_one_mode_the_first_counts():
    runs = [made("a", "edge", text, ms=ms) for text, ms in (("She sounds sad.", 100), ("She sounds calm.", 900))]
    found = comparison([failed("a", "edge"), *runs, made("a", "cloud", ms=200)], LEXICON)
    assert [mode.total_s.value for mode in found.costs] == pytest.approx([0.1, 0.2])
    assert found.clips[0].captions["edge"] == "She sounds sad."


def test_one_clip_has_ratios_and_no_spread():
    found = comparison(three_modes()[:3], LEXICON)
    ratio = costs_of(found, "hybrid").total_s.to_edge
    assert ratio.value == pytest.approx(3.0)
    assert (ratio.low, ratio.high) == (None, None)
    assert found.headline == ["1 clip only: at least 10 are needed to say which mode is better."]


def test_only_clips_that_every_mode_captioned_are_compared():
    runs = [failed("a", "edge"), *three_modes(), made("c", "edge", ms=5000), made("c", "hybrid", ms=5000)]
    runs += [failed("d", mode) for mode in ("edge", "hybrid", "cloud")]
    runs += [made("e", "edge"), made("e", "hybrid"), failed("e", "cloud")]
    found = comparison(runs, LEXICON)  # the failure of "a" was mended
    assert [clip.file for clip in found.clips] == ["a", "b"]
    assert found.unfinished == 1
    assert [(e.file, e.modes) for e in found.errors] == [("d", ["edge", "hybrid", "cloud"]), ("e", ["cloud"])]
    assert found.errors[0].type == "AudioDecodeError"
    assert costs_of(found, "edge").total_s.value == pytest.approx(0.4)


def test_agreement_with_the_cloud_needs_no_references():
    named = {"a": ("sad", "happy", "happy"), "b": ("angry", "angry", "angry")}
    modes = ("edge", "hybrid", "cloud")
    pairs = [(name, *pair) for name, classes in named.items() for pair in zip(modes, classes, strict=True)]
    runs = [made(name, mode, f"The emotion sounds {class_}.") for name, mode, class_ in pairs]
    found = comparison(runs, LEXICON)
    assert [mode.same_captions for mode in found.quality] == [0.5, 1.0, None]
    assert [mode.same_labels and mode.same_labels.value for mode in found.quality] == [0.5, 1.0, None]
    assert found.references_found is None
    gap = next(gap for gap in found.gaps if gap.measure == "captions")
    assert (gap.edge, gap.value, gap.cloud, gap.gain.value) == (0.5, 1.0, 1.0, 0.5)


def test_what_the_cloud_does_not_name_is_not_judged():
    runs = [
        made("a", "edge", "The emotion sounds sad. She speaks fast."),
        made("a", "cloud", "The emotion sounds sad."),
        made("b", "edge", "She speaks fast."),
        made("b", "cloud", "The emotion sounds sad."),
    ]
    assert quality_of(comparison(runs, LEXICON), "edge").same_labels.value == 0.5  # of emotion alone


def test_without_a_baseline_there_is_no_gap():
    for absent in ("edge", "cloud"):
        found = comparison([run for run in three_modes() if run.mode != absent], LEXICON)
        total = costs_of(found, "hybrid").total_s
        assert (total.to_edge is None, total.to_cloud is None) == (absent == "edge", absent == "cloud")
        assert (quality_of(found, "hybrid").same_captions is None) == (absent == "cloud")
        assert found.gaps == []


def test_nothing_complete_is_said_and_not_computed():
    found = comparison([made("a", "edge"), failed("b", "edge")], LEXICON, modes=("edge", "cloud"))
    assert found.headline == ["No clip was captioned by every mode, so there is nothing to compare."]
    assert (found.clips, found.costs, found.quality, found.unfinished) == ([], [], [], 1)


def test_time_on_a_link():
    edge, hybrid = (made("a", mode) for mode in ("edge", "hybrid"))
    linked = hybrid.model_copy(update={"totals": hybrid.totals.model_copy(update={"network_ms": 300.0})})
    for runs, shown in (([edge, linked], ["—", "0.30 s"]), ([edge, hybrid], None)):
        rows = {row.label: [cell.value for cell in row.cells] for row in tables.summary(comparison(runs, LEXICON)).rows}
        assert rows.get("time on the network") == shown
