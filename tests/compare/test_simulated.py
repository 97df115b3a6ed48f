"""What a comparison says of links: that they were imitated, the time on them, and how much of it was hidden."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from specdec_cli.compare.build import comparison
from specdec_cli.console.compare import print_comparison
from specdec_cli.lexicon import Lexicon
from specdec_cli.transcript.schema import Transcript
from tests.compare.fabricate import made

IMITATED: dict[str, object] = {"simulated_rtt_ms": 50.0, "simulated_edge_step_ms": 48.0}


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.load()


def over_a_link(file: str, network_ms: float, hidden_ms: float) -> Transcript:
    made_ = made(file, "hybrid", ms=900, settings=IMITATED)
    assert made_.totals is not None
    totals = made_.totals.model_copy(update={"network_ms": network_ms, "hidden_ms": hidden_ms, "thrown_away": 3})
    timing = made_.timing.model_copy(update={"forwards_cloud_ms": 50.0})
    rounds = [round_.model_copy(update={"network_ms": network_ms}) for round_ in made_.rounds]
    return made_.model_copy(update={"totals": totals, "timing": timing, "rounds": rounds})


def test_time_on_the_link_and_its_hidden_share(lexicon: Lexicon) -> None:
    found = comparison(
        [
            made("a", "edge", settings=IMITATED),
            over_a_link("a", 200.0, 50.0),
            made("b", "edge", settings=IMITATED),
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
    assert "Simulated: a round trip of 50 ms, edge steps of 48 ms." in written
    assert "on the link — 0.30 s" in written
    assert "flights hidden — 37.5%" in written


def test_nothing_is_said_of_links_where_there_is_none(lexicon: Lexicon) -> None:
    found = comparison([made("a", "edge"), made("a", "hybrid")], lexicon)
    screen = io.StringIO()
    print_comparison(found, captions=0, console=Console(file=screen, width=120))
    assert "imulated" not in screen.getvalue()
    assert "on the link" not in screen.getvalue()
