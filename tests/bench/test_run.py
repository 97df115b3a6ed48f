"""The benchmark's turns: a `generate` that fails is left out, and the modes are measured all the same."""

from types import SimpleNamespace

import pytest

from specdec_cli.bench import contenders as run
from tests.bench.clip import clip_of
from tests.mini_pair import captioner


@pytest.mark.ci
def test_a_generate_that_fails_is_left_out_and_noted(monkeypatch):
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


@pytest.mark.parametrize(
    ("lossless", "hybrid", "advice"),
    [
        (1.4, 2.1, "lossless writes 1.40 times and hybrid writes 2.10 times cloud-only's tokens/s."),
        (0.8, 0.9, "Speculation does not pay here: use --mode cloud."),
        (0.9, 1.3, "For speed, use hybrid or cloud, not lossless."),
    ],
)
def test_what_pays_is_said_from_what_was_measured(lossless, hybrid, advice):
    def contender(name: str, gain: float) -> SimpleNamespace:
        return SimpleNamespace(name=name, to_cloud=SimpleNamespace(value=gain))

    found = [contender("cloud", 1.0), contender("lossless", lossless), contender("hybrid", hybrid)]
    told = run.what_pays(found, 2.0, 8.04)
    assert told.startswith("An edge step takes 2.0 ms and a forward of the cloud 8.0 ms: ")
    assert told.endswith(advice)
