"""Totals and times: recomputed by hand from the rounds, and null where nothing was measured."""

import pytest

from specdec_cli import Finished, Round
from specdec_cli.decoding.length import MOST_DEFERRED
from specdec_cli.transcript.recorder import timing, totals
from specdec_cli.types import ModelWork, Source
from tests.mini_pair import MODES
from tests.tiers import named

EVERY = [f"{mode}-{language}" for mode in MODES for language in ("zh", "en")] + ["asked-often", "never-asked"]
CASES = named(EVERY, "hybrid-zh", "lossless-en", "edge-zh", "cloud-en", "asked-often")


@pytest.mark.parametrize("case", CASES)
def test_rounds_add_up_to_the_caption(transcripts, case):
    transcript = transcripts[case]
    assert "".join(r.committed_text for r in transcript.rounds).strip() == transcript.caption
    assert [r.index for r in transcript.rounds] == list(range(len(transcript.rounds)))
    for r in transcript.rounds:
        assert len(r.draft_ids) == len(r.entropy) == len(r.gate_values)
        assert len(r.committed_ids) == len(r.source)
        assert r.max_entropy == max(r.entropy)
        k = transcript.settings["k"]
        assert 1 <= len(r.draft_ids) <= (MOST_DEFERRED if k == "whole" else k)
        assert r.committed_ids[: r.accepted] == r.draft_ids[: min(r.accepted, len(r.committed_ids))]


@pytest.mark.parametrize("case", CASES)
def test_what_was_not_measured_is_null_and_what_was_is_not(transcripts, case):
    transcript = transcripts[case]
    timing, totals = transcript.timing, transcript.totals
    edge, cloud = case.split("-")[0] != "cloud", case.split("-")[0] != "edge"
    heard = totals.escalations > 0 or transcript.mode == "cloud"
    assert (timing.prefill_edge_ms is not None) == edge
    assert (timing.forwards_edge_ms is not None) == edge
    assert (timing.prefill_cloud_ms is not None) == heard
    assert (timing.forwards_cloud_ms is not None) == heard
    assert totals.encoder_passes.edge == (1 if edge else None)
    assert totals.encoder_passes.cloud == (int(heard) if cloud else None)
    assert (totals.forwards_edge, totals.forwards_cloud) != (0, 0)
    assert (totals.forwards_edge is None, totals.forwards_cloud is None) == (not edge, not cloud)
    for r in transcript.rounds:
        assert (r.verify_ms is not None) == r.escalated
        assert r.network_ms is None
        assert r.draft_ms > 0
    assert timing.total_ms is not None
    assert timing.ttft_ms is not None
    assert 0 < timing.ttft_ms <= timing.total_ms
    assert timing.tokens_per_s == pytest.approx(totals.tokens / timing.total_ms * 1e3, rel=1e-3)
    assert timing.load_s == 0.5
    assert transcript.resources.peak_rss_mb
    assert (transcript.uplink.payload, transcript.uplink.bytes) == ("none", 0)


def round_(index: int, source: str, *, drafted: int, accepted: int, escalated: bool) -> Round:
    """A round whose sources are spelled by their initials: e, a, c(orrected), b(onus), C(loud)."""
    names: dict[str, Source] = {"e": "edge", "a": "accepted", "c": "corrected", "b": "bonus", "C": "cloud"}
    sources = tuple(names[letter] for letter in source)
    committed = tuple(range(len(sources)))
    figures = (0.5,) * drafted
    return Round(
        index=index, draft_ids=tuple(range(drafted)), entropy=figures, gate_values=figures, escalated=escalated,
        reason="entropy" if escalated else None, accepted=accepted, committed_ids=committed, source=sources,
        draft_ms=1.0, verify_ms=2.0 if escalated else None,
    )  # fmt: skip


def finished(tokens: int, *, edge: ModelWork | None, cloud: ModelWork | None) -> Finished:
    return Finished(tuple(range(tokens)), "eos", edge, cloud, 10.0, 500.0)


READ = ModelWork(1, 5, 40.0, 10.0, 100.0, 100, 20)


def test_totals_of_a_run_that_was_cut_by_a_stop_rule():
    rounds = [
        round_(0, "eeeee", drafted=5, accepted=5, escalated=False),
        round_(1, "aac", drafted=5, accepted=2, escalated=True),
        round_(2, "aaaab", drafted=4, accepted=4, escalated=True),
        round_(3, "c", drafted=5, accepted=0, escalated=True),
        round_(4, "aa", drafted=5, accepted=3, escalated=True),  # a stop rule cut behind the second token
    ]
    got = totals(rounds, finished(16, edge=READ, cloud=READ), cloud_takes_part=True)
    assert (got.tokens, got.rounds, got.escalations) == (16, 5, 4)
    assert (got.drafted, got.accepted) == (19, 9)
    assert (got.corrected, got.bonus) == (2, 1)
    assert got.acceptance_rate == pytest.approx(9 / 19)
    assert got.escalation_rate == pytest.approx(4 / 5)
    assert got.edge_token_share == pytest.approx(13 / 16)


def test_times_of_two_models_and_of_one_that_was_never_asked():
    both = timing(finished(20, edge=READ, cloud=READ), load_s=1.0, audio_s=0.25)
    assert (both.prefill_edge_ms, both.prefill_cloud_ms) == (50.0, 50.0)
    assert (both.forwards_edge_ms, both.forwards_cloud_ms) == (150.0, 150.0)
    assert both.tokens_per_s == pytest.approx(40.0)
    assert both.input_tokens_per_s == pytest.approx(2000.0)
    never = timing(finished(20, edge=READ, cloud=ModelWork()), load_s=None, audio_s=None)
    assert (never.load_s, never.audio_s, never.prefill_cloud_ms, never.forwards_cloud_ms) == (None,) * 4
    assert never.input_tokens_per_s == pytest.approx(2000.0)
