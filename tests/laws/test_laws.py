"""The laws, in the ways in which a pair can be run: none of them may notice it.

plain: as a user runs it; all laws. unread: tokens are fed from the device before the host has read them, as on a GPU.
row_by_row: each row is read by itself, as with a large vocabulary on a CPU. heard: beside a sound, which bans tokens in
the pipeline of both models; its reference is a processor of `generate()` as well. slow: one model takes longer, so that
the other is ahead of it.
"""

import time
from typing import Any, Final
from unittest.mock import patch

import pytest

from specdec_cli.decoding import draft, rows
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.session import Session
from tests.laws import occur
from tests.laws.cases import Case
from tests.laws.registry import EVERY, LAWS
from tests.laws.tolerance import ENOUGH, cases, numbers
from tests.support.models import DEVICE
from tests.tiers import named

_ON_CPU: Final = {
    "edge, sampled": "generate() draws on the GPU, where a seed gives other numbers",
    "edge, packed": "specdec packs weights for CPUs alone",
}
_UNREAD, _HEARD = ([name for name, law in LAWS.items() if way in law.ways] for way in EVERY)


@pytest.mark.parametrize("name", LAWS)
def test_plain(law, name):
    if name in _ON_CPU and DEVICE != "cpu":
        pytest.skip(_ON_CPU[name])
    one = LAWS[name]
    ran = law(name, map(one.make, numbers(one.first, one.share)), one.check)
    if one.must_occur is not None and cases() >= ENOUGH:
        one.must_occur(ran)


@pytest.mark.parametrize("name", named(_UNREAD, "edge", "reference, everything"))
def test_unread(law, name, monkeypatch):
    monkeypatch.setitem(draft.UNREAD_TOKENS, "cpu", 8)
    with patch.object(Session, "step", autospec=True, side_effect=Session.step) as step:
        law(f"{name}, unread", map(LAWS[name].make, numbers(400_000, 0.25)), LAWS[name].check)
    assert step.called


@pytest.mark.parametrize("name", named(_UNREAD, "edge, sampled", "reference, everything"))
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


@pytest.mark.parametrize("role", ["edge", "cloud"])
def test_slow(law, role):
    make, check, *_ = LAWS["reference, everything"]

    def beside_a_slow_model(case: Case) -> str | None:
        late, forward = getattr(case, role), AudioLM.forward

        def slowly(model: AudioLM, *args: Any, **given: Any) -> Any:
            time.sleep(0.004 * (model is late))
            return forward(model, *args, **given)

        with patch.object(AudioLM, "forward", slowly):
            return check(case)

    law(f"reference, everything, slow {role}", map(make, numbers(160_000, 0.2)), beside_a_slow_model)
