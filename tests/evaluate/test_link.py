"""What a comparison shows of verification: the time on the link, how much of it was hidden, and near ties."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from specdec_cli.console.comparison_view import print_comparison
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.labels import Lexicon
from specdec_cli.transcript.records import Transcript
from tests.evaluate.fabricate import made


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.load()


def over_a_link(file: str, network_ms: float, hidden_ms: float) -> Transcript:
    made_ = made(file, "hybrid", ms=900)
    assert made_.totals is not None
    totals = made_.totals.model_copy(update={"network_ms": network_ms, "hidden_ms": hidden_ms, "thrown_away": 3})
    timing = made_.timing.model_copy(update={"forwards_cloud_ms": 50.0})
    rounds = [round_.model_copy(update={"network_ms": network_ms}) for round_ in made_.rounds]
    return made_.model_copy(update={"totals": totals, "timing": timing, "rounds": rounds})


def test_time_on_the_link_and_its_hidden_share(lexicon: Lexicon) -> None:
    found = comparison(
        [
            made("a", "edge"),
            over_a_link("a", 200.0, 50.0),
            made("b", "edge"),
            over_a_link("b", 100.0, 100.0),
        ],
        lexicon,
    )
    edge, hybrid = found.costs
    assert edge.network_s is None
    assert edge.hidden_share is None
    assert hybrid.network_s == pytest.approx(0.3)
    assert hybrid.hidden_share is not None
    assert hybrid.hidden_share.value == pytest.approx(150 / 400)
    screen = io.StringIO()
    print_comparison(found, captions=0, console=Console(file=screen, width=120))
    written = " ".join(screen.getvalue().split())
    assert "on the link — 0.30 s" in written


def test_nothing_is_said_of_links_where_there_is_none(lexicon: Lexicon) -> None:
    found = comparison([made("a", "edge"), made("a", "hybrid")], lexicon)
    screen = io.StringIO()
    print_comparison(found, captions=0, console=Console(file=screen, width=120))
    assert "on the link" not in screen.getvalue()


def test_near_ties_are_counted_per_mode(lexicon: Lexicon) -> None:
    def with_ties(file: str, near_ties: int) -> Transcript:
        transcript = made(file, "lossless")
        assert transcript.totals is not None
        return transcript.model_copy(update={"totals": transcript.totals.model_copy(update={"near_ties": near_ties})})

    found = comparison([made("a", "edge"), with_ties("a", 2), made("b", "edge"), with_ties("b", 1)], lexicon)
    assert [mode.near_ties for mode in found.costs] == [None, 3]
