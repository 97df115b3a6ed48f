"""The benchmark's turns: a `generate` that fails is left out, and the modes are measured all the same."""

from __future__ import annotations

import pytest

from specdec_cli.bench import contenders as run
from tests.bench.clip import clip_of
from tests.mini_pair import captioner


def test_a_generate_that_fails_is_left_out_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(run, "generate", fail)
    both = captioner(decoding__mode="hybrid", decoding__k=2, decoding__max_new_tokens=4, decoding__loop_period=0)
    done: list[None] = []
    timings, notes = run.benchmark(both, [clip_of(both)], 2, lambda: done.append(None))
    assert {name: len(runs) for name, runs in timings.items()} == dict.fromkeys(
        ("edge", "cloud", "lossless", "hybrid"), 2
    )
    assert {"generate-edge", "generate-cloud"} <= {note.partition(" ")[0] for note in notes}
    assert all(note.endswith("does not run here: NotImplementedError") for note in notes)
    assert len(done) == 2
