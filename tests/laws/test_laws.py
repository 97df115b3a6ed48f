"""The laws, each in every way in which a pair can be run: none of them may notice it.

plain: as a user runs it. unread: tokens are fed from the device before the host has read them, as on a GPU.
row_by_row: each row is read by itself, as with a large vocabulary on a CPU. heard: beside a sound, which bans tokens in
the pipeline of both models; its reference is a processor of `generate()` as well.
"""

from typing import Final
from unittest.mock import patch

import pytest

from specdec_cli.decoding import draft, rows
from specdec_cli.models.session import Session
from tests.laws import occur
from tests.laws.registry import LAWS
from tests.laws.tolerance import ENOUGH, cases, numbers
from tests.support.models import DEVICE
from tests.tiers import named

_ON_CPU: Final = {
    "edge, sampled": "generate() draws on the GPU, where a seed gives other numbers",
    "edge, packed": "specdec packs weights for CPUs alone",
}
_READ_LATER: Final = ("edge", "edge, sampled", "cloud", "reference", "reference, everything", "sampling")
_HEARD: Final = (*_READ_LATER, "cloud, alone", "guess")


@pytest.mark.parametrize("name", LAWS)
def test_plain(law, name):
    if name in _ON_CPU and DEVICE != "cpu":
        pytest.skip(_ON_CPU[name])
    make, check, first, share, must_occur = LAWS[name]
    ran = law(name, map(make, numbers(first, share)), check)
    if must_occur is not None and cases() >= ENOUGH:
        must_occur(ran)


@pytest.mark.parametrize("name", named(_READ_LATER, "edge", "reference, everything"))
def test_unread(law, name, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)
    with patch.object(Session, "step", autospec=True, side_effect=Session.step) as step:
        law(f"{name}, unread", map(LAWS[name].make, numbers(400_000, 0.25)), LAWS[name].check)
    assert step.called


@pytest.mark.parametrize("name", named(_READ_LATER, "edge, sampled", "reference, everything"))
def test_row_by_row(law, name, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 1)
    monkeypatch.setattr(rows, "_LARGE", 0)
    law(f"{name}, row by row", map(LAWS[name].make, numbers(500_000, 0.25)), LAWS[name].check)


@pytest.mark.parametrize("name", named(_HEARD, "edge", "cloud", "reference"))
def test_heard(law, name):
    make, check, *_ = LAWS[name]
    ran = law(f"sound, {name}", (make(number).heard() for number in numbers(600_000, 0.25)), check)
    if cases() >= ENOUGH:
        occur.bans(ran)
