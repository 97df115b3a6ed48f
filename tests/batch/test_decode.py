"""Many clips at once: the first is begun before others are there, and nobody waits for what another has to hear."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.batch.cores import shared_cores
from specdec_cli.batch.decode import BatchCaptioner, Prepared
from specdec_cli.batch.items import Item, Outcome, Task
from specdec_cli.batch.local import LocalBackend
from specdec_cli.batch.prepare import Preparer
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import build_engine
from specdec_cli.decoding.rows import Rows
from specdec_cli.errors import SpecdecError
from specdec_cli.models.encoders import Encoders
from specdec_cli.models.qwen_omni import QwenOmniThinker
from specdec_cli.transcript.schema import Transcript
from specdec_cli.types import Finished
from tests.mini_pair import captioner, mini_pair, write_voice

QUICK = {"decoding__mode": "edge", "decoding__max_new_tokens": 6, "decoding__k": 2}


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def prepared(captioner: Captioner, folder: Path, count: int, seconds: float = 0.5) -> list[Prepared]:
    prepare = Preparer(captioner)
    clips = []
    for index in range(count):
        (ready,) = prepare(Task(Item(str(write_voice(folder / f"{index}.wav", index, seconds + 0.1 * index)))))
        assert isinstance(ready, Prepared)
        clips.append(ready)
    return clips


class Given:
    """Clips that are ready from the start; notes when somebody would have waited."""

    def __init__(self, clips: list[Prepared]) -> None:
        self.left = list(clips)
        self.waits: list[bool] = []

    def take(self, *, wait: bool) -> Prepared | None:
        self.waits.append(wait)
        return self.left.pop(0) if self.left else None


def test_of_five_thousand_files_the_first_is_captioned_before_the_batch_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write_voice(tmp_path / "00000.wav", 1, 0.3)
    for index in range(1, 5000):
        os.link(first, tmp_path / f"{index:05d}.wav")
    happened: list[str] = []
    admit, step = Rows.admit, Rows.step

    def admitting(rows: Rows[Any], key: Any, engine: Any) -> Any:
        happened.append("admit")
        return admit(rows, key, engine)

    def stepping(rows: Rows[Any]) -> Any:
        happened.append("step")
        return step(rows)

    monkeypatch.setattr(Rows, "admit", admitting)
    monkeypatch.setattr(Rows, "step", stepping)
    outcomes: list[Outcome] = []
    backend = LocalBackend(captioner(**QUICK), batch_size=None, workers=2)
    tasks = (Task(Item(str(tmp_path / name))) for name in os.listdir(tmp_path))
    backend.run(tasks, outcomes.append, lambda: bool(outcomes))
    assert happened[:3] == ["admit", "step", "admit"]  # the others join on the way
    assert not outcomes[0].failed
    assert len(outcomes) == happened.count("admit") <= 4  # no more than few before the first is done


def test_a_clip_is_decoded_while_others_are_still_being_read(tmp_path: Path) -> None:
    edge = captioner(**QUICK)
    clips = prepared(edge, tmp_path, 2)

    class Slow(Given):
        """The second clip is ready only when the first is done."""

        def take(self, *, wait: bool) -> Prepared | None:
            super_ready = len(self.left) == 2 or wait
            self.waits.append(wait)
            return self.left.pop(0) if self.left and super_ready else None

    source = Slow(clips)
    seen = [(clip.clip.file, len(source.left)) for clip, _ in BatchCaptioner(edge, 8).run(source)]
    assert seen == [(clips[0].clip.file, 1), (clips[1].clip.file, 0)]
    assert source.waits[0]  # there was nothing else to do
    assert not any(source.waits[1:4])


@pytest.mark.parametrize("mode", ["hybrid", "lossless", "edge", "cloud"])
@pytest.mark.usefixtures("two_threads")
def test_clips_heard_side_by_side_say_what_they_say_alone(tmp_path: Path, mode: str) -> None:
    """Rounds with their entropies too, to the last bit; alone with one thread and with two."""
    gate = {"gate__threshold": 0.3} if mode == "hybrid" else {}
    ours = captioner(decoding__mode=mode, decoding__max_new_tokens=12, **gate)
    clips = prepared(ours, tmp_path, 5, 0.2)
    with shared_cores(ours.pair) as encoders:
        assert encoders is not None
    assert torch.get_num_threads() == 2
    together = {clip.clip.file: result for clip, result in BatchCaptioner(ours, 3).run(Given(clips))}
    assert torch.get_num_threads() == 2
    assert len(together) == 5
    for index, (file, result) in enumerate(together.items()):
        assert isinstance(result, Transcript)
        torch.set_num_threads(1 + index % 2)
        alone = ours.caption(file)
        assert alone.caption == result.caption
        assert [(r.draft_ids, r.entropy, r.committed_ids) for r in alone.rounds] == [
            (r.draft_ids, r.entropy, r.committed_ids) for r in result.rounds
        ]


def decode(captioner: Captioner, clips: list[Prepared], encoders: Encoders) -> Iterator[tuple[int, object]]:
    """What finishes, by index."""
    rows: Rows[int] = Rows(2, encoders)
    for index, clip in enumerate(clips):
        rows.admit(index, build_engine(captioner.pair, captioner.options, clip.edge, clip.cloud))
    assert rows.starting == len(clips)
    while len(rows):
        yield from ((index, what) for index, what in rows.step() if isinstance(what, (Finished, SpecdecError)))


@pytest.fixture
def encoders() -> Iterator[Encoders]:
    pool = Encoders(2)
    yield pool
    pool.close()
    torch.set_num_threads(1)


def test_nobody_waits_for_what_another_has_to_hear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoders: Encoders
) -> None:
    edge = captioner(**QUICK)
    clips = prepared(edge, tmp_path, 4)
    encode, slow, gate = QwenOmniThinker.encode, clips[0].edge, threading.Event()

    def encoding(model: QwenOmniThinker, features: Any) -> torch.Tensor:
        if slow is not None and features is slow.features:
            assert gate.wait(60)
        return encode(model, features)

    monkeypatch.setattr(QwenOmniThinker, "encode", encoding)
    ends = decode(edge, clips, encoders)
    assert sorted(next(ends)[0] for _ in range(3)) == [1, 2, 3]
    gate.set()
    (last,) = ends
    assert last[0] == 0
    assert isinstance(last[1], Finished)


def test_a_clip_that_cannot_be_heard_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoders: Encoders
) -> None:
    edge = captioner(**QUICK)
    clips = prepared(edge, tmp_path, 3)
    encode, bad = QwenOmniThinker.encode, clips[1].edge

    def encoding(model: QwenOmniThinker, features: Any) -> torch.Tensor:
        if bad is not None and features is bad.features:
            raise RuntimeError("no memory for it")
        return encode(model, features)

    monkeypatch.setattr(QwenOmniThinker, "encode", encoding)
    ended = dict(decode(edge, clips, encoders))
    assert isinstance(ended[0], Finished)
    assert isinstance(ended[2], Finished)
    assert isinstance(ended[1], SpecdecError)
    assert "no memory for it" in ended[1].message


def test_one_thread_is_not_divided() -> None:
    assert torch.get_num_threads() == 1
    with shared_cores(mini_pair()) as encoders:
        assert encoders is None
