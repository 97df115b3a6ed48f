"""Assisted generation beside lossless decoding: the same tokens, and nothing left changed in the models."""

from __future__ import annotations

import pytest

from specdec_cli.bench.clips import Models
from specdec_cli.bench.timing import caption
from specdec_cli.captioner import Captioner
from tests.bench.clip import clip_of
from tests.mini_pair import captioner, captioner_for
from tools.assisted import generate_assisted, main

TOKENS = 12


def test_the_assistant_changes_no_token_and_is_left_as_it_was() -> None:
    lossless = captioner(decoding__mode="lossless", decoding__max_new_tokens=TOKENS, decoding__loop_period=0)
    models = Models.of(lossless.pair)
    clip = clip_of(lossless)
    stated = models.edge.module.config.get_text_config().vocab_size
    assisted = generate_assisted(models.cloud, models.edge, clip.cloud, lossless.config.decoding, TOKENS)
    assert assisted.ids == caption(lossless, clip).ids
    assert models.edge.module.config.get_text_config().vocab_size == stated
    assert not models.cloud.module._forward_hooks


@pytest.mark.full
def test_the_command_prints_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Captioner, "load", captioner_for)
    main(config="mini", clips="samples/en_male_pauses.flac", rounds=1, k=3)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[-5:]] == ["lossless", "generate", "assisted", "generate,", "assisted,"]
    assert rows[-5][-1] == "1.00"
