"""Many clips at once: the first begins before others are there, and no clip waits for another's encoder."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.captioner import Captioner
from specdec_cli.captioning.local import BatchBackend
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.preparing import Prepared, prepare
from specdec_cli.captioning.read_ahead import Take
from specdec_cli.cloud.connection import Connection
from specdec_cli.decoding.pair import Pair
from specdec_cli.inputs.recording import InputFile
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.session import Session
from tests.mini_pair import captioner, write_voice
from tests.support.servers import remote_cloud, verifying

QUICK = {"decoding__mode": "edge", "decoding__max_new_tokens": 6, "decoding__k": 2}


@pytest.fixture
def two_threads() -> Iterator[None]:
    captioner()  # its first call sets one thread
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def prepared(captioner: Captioner, folder: Path, count: int) -> list[Prepared]:
    clips = []
    for index in range(count):
        path = write_voice(folder / f"{index}.wav", index, 0.5 + 0.1 * index)
        (ready,) = prepare(captioner, Task(InputFile(str(path))))
        assert isinstance(ready, Prepared)
        clips.append(ready)
    return clips


def given(clips: list[Prepared]) -> Take:
    """Clips that are ready from the start."""
    left = list(clips)
    return lambda *, wait: left.pop(0) if left else None


class Encoding:
    """Holds one clip's audio encoder up, or lets it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clip: Prepared, error: BaseException | None = None) -> None:
        self.gate = threading.Event()
        self._error = error
        self._prompt, self._forward = (clip.run.prompts or (None,))[0], AudioLM.forward
        monkeypatch.setattr(AudioLM, "forward", lambda model, *args, **named: self._encode(model, *args, **named))

    def _encode(self, model: AudioLM, *args: Any, **named: Any) -> Any:
        audio = args[4] if len(args) > 4 else named.get("audio")
        if self._prompt is not None and audio is self._prompt.audio:
            if self._error is not None:
                raise self._error
            assert self.gate.wait(120)
        return self._forward(model, *args, **named)


@pytest.mark.usefixtures("two_threads")
def test_no_clip_waits_for_the_encoder_of_another(tmp_path, monkeypatch):
    edge = captioner(**QUICK)
    clips = prepared(edge, tmp_path, 4)
    encoding = Encoding(monkeypatch, clips[0])
    ends = BatchBackend(edge, batch_size=4).decode(given(clips))
    done = [next(ends).item for _ in range(3)]
    assert sorted(item.path for item in done) == [clip.run.started.file for clip in clips[1:]]
    encoding.gate.set()
    (last,) = ends
    assert last.item is clips[0].outcome.item
    assert last.line.good


@pytest.mark.parametrize("error", [RuntimeError, BaseException])  # a panic of an extension is no Exception
def test_a_clip_whose_encoder_fails_fails_alone(tmp_path, error, monkeypatch):
    edge = captioner(**QUICK)
    clips = prepared(edge, tmp_path, 3)
    Encoding(monkeypatch, clips[1], error("no memory for it"))
    ended = {outcome.item.path: outcome.line for outcome in BatchBackend(edge, batch_size=4).decode(given(clips))}
    first, failed, last = (ended[clip.run.started.file] for clip in clips)
    assert (first.good, last.good) == (True, True)
    assert "no memory for it" in failed.error.message


@pytest.mark.slow
def test_an_abandoned_batch_waits_for_no_cloud(tmp_path, monkeypatch):
    """A second Ctrl-C stops at once, and not when the server's time is up."""
    local = captioner(decoding__mode="lossless")
    assert local.pair.edge is not None
    cloud = local.pair.local("cloud")
    assert cloud is not None
    called, exchange = threading.Event(), Connection.exchange

    async def silent(connection: Connection, method: str, *more: Any) -> Any:
        if method != "PUT":
            return await exchange(connection, method, *more)
        called.set()
        await asyncio.sleep(600)
        raise OSError("no answer")

    with verifying(cloud) as served, remote_cloud(served.url, local.pair.edge, timeout_s=600.0) as cloud:
        far = Captioner(local.config, Pair.of(local.pair.edge, cloud), load_s=0.0)
        left = prepared(far, tmp_path, 1)

        def interrupted(*, wait: bool) -> Prepared | None:
            """Somebody presses Ctrl-C when the first clip is being verified."""
            if left:
                return left.pop()
            assert called.wait(120)
            raise KeyboardInterrupt

        monkeypatch.setattr(Connection, "exchange", silent)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            list(BatchBackend(far, batch_size=4).decode(interrupted))
        assert time.monotonic() - started < 120


def test_a_finished_clip_is_not_kept(tmp_path, monkeypatch):
    ours = captioner(**QUICK)  # first: loading the pair tests it, in sessions of its own
    kept: list[weakref.ref[Session]] = []
    make = Session.__init__

    def making(session: Session, *args: Any) -> None:
        make(session, *args)
        kept.append(weakref.ref(session))

    monkeypatch.setattr(Session, "__init__", making)
    ends = BatchBackend(ours, batch_size=2).decode(given(prepared(ours, tmp_path, 6)))
    alive = []
    gc.disable()  # nothing may wait for the collector: a batch of hours would grow until it runs
    try:
        for _ in ends:
            alive.append(sum(ref() is not None for ref in kept))
    finally:
        gc.enable()
    assert max(alive) <= 4
    assert len(kept) == 6
