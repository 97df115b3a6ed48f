"""specdec from Python: what the package's own docstring promises, and that nothing is left over between clips."""

import gc
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
import torch

import specdec_cli
from specdec_cli import Captioner, Finished, Prefill, Round, Started, Transcript
from specdec_cli.errors import AudioContentError, AudioNotFoundError, ConfigError, DecodingError, ReferencesError
from specdec_cli.models.session import Session
from tests.mini_pair import MODES, RATE, WINDOW_S, captioner, voice, write_voice
from tests.tiers import named, slow

MODES_BY_TIER = named(MODES, "hybrid")


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("clips")
    return [write_voice(folder / f"{seed}.wav", seed, 0.8 + 0.6 * seed) for seed in range(4)]


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory) -> Path:
    """Three pieces of 2 s, of which the middle one is silent."""
    path = tmp_path_factory.mktemp("long") / "long.wav"
    soundfile.write(path, np.concatenate([voice(1, 2.0), np.zeros(2 * RATE, np.float32), voice(2, 2.0)]), RATE)
    return path


def test_the_example_of_the_package_runs_as_it_stands(clips):
    example = textwrap.dedent((specdec_cli.__doc__ or "").split("\n\n")[1])
    assert "clip.wav" in example
    printed: list[str] = []
    names = {"print": printed.append}
    exec(example.replace("clip.wav", str(clips[0])), names)
    assert printed == [captioner(prompt__language="en").caption(clips[0]).caption]


STATE = """
import os, sys, gc, json
def state():
    finders = [type(finder).__name__ for finder in sys.meta_path]
    return json.dumps([dict(os.environ), finders, sys.getswitchinterval(), gc.get_threshold()])
before = state()
import specdec_cli
assert state() == before
assert not {"torch", "transformers", "numpy", "pydantic"} & set(sys.modules)
"""
LOADED = """
import torch, transformers.modeling_utils  # which change what they like
before = state()
numbers = torch.get_default_dtype(), torch.initial_seed()
specdec_cli.Captioner.load("mini", {"runtime.threads": None})
assert (torch.get_default_dtype(), torch.initial_seed()) == numbers
assert state() == before
"""


@pytest.mark.parametrize("code", [STATE, slow(STATE + LOADED)], ids=["import", "load"])
def test_importing_loads_nothing_heavy_and_loading_a_captioner_changes_nothing_in_the_process(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_stream_tells_the_run_in_order(clips):
    runner = captioner(gate__threshold=0.05)
    updates = list(runner.stream(clips[1]))
    events = [update.event for update in updates]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    prefills = [event.model for event in events if isinstance(event, Prefill)]
    rounds = [event for event in events if isinstance(event, Round)]
    assert prefills[0] == "edge"
    assert set(prefills) == ({"edge", "cloud"} if any(r.escalated for r in rounds) else {"edge"})
    assert len(prefills) == len(set(prefills))
    assert [r.index for r in rounds] == list(range(len(rounds)))
    assert events[-1].token_ids == tuple(id_ for r in rounds for id_ in r.committed_ids)
    captions = [update.text.caption for update in updates]
    assert all(later.startswith(earlier) for earlier, later in pairwise(captions))
    assert captions[-1] == runner.caption(clips[1]).caption
    assert events[0].duration_s == pytest.approx(1.4)


@pytest.mark.parametrize("mode", MODES_BY_TIER)
def test_an_abandoned_stream_leaves_nothing_behind(clips, mode):
    runner = captioner(decoding__mode=mode, **({"gate__threshold": 0.05} if mode == "hybrid" else {}))
    expected = [runner.caption(clip).caption for clip in clips[:2]]
    for stop_after in (1, 2, 4):
        stream = runner.stream(clips[0])
        for _ in range(stop_after):
            next(stream)
        assert isinstance(stream, Iterator)
        stream.close()
        assert [runner.caption(clip).caption for clip in clips[:2]] == expected


def test_two_interleaved_runs_do_not_disturb_each_other(clips):
    runner = captioner(gate__threshold=0.05, decoding__k=3)
    streams = list(zip_longest(*(runner.stream(clip) for clip in clips[:2])))
    ends = [next(update for update in reversed(stream) if update) for stream in zip(*streams, strict=True)]
    assert [end.text.caption for end in ends] == [runner.caption(clip).caption for clip in clips[:2]]


def test_a_seed_repeats_a_sampled_caption_and_leaves_the_global_one_alone(clips):
    state = torch.random.get_rng_state()

    def sampled(seed: int) -> str | None:
        return captioner(decoding__temperature=1.2, decoding__seed=seed).caption(clips[2]).caption

    assert sampled(5) == sampled(5)
    assert len({sampled(seed) for seed in range(6)}) > 1
    assert torch.equal(state, torch.random.get_rng_state())


def test_samples_in_memory_give_the_caption_of_the_file(clips):
    runner = captioner()
    samples, _ = soundfile.read(clips[2], dtype="float32")
    run = runner.run_samples(samples, RATE, name="microphone")
    transcript = run.finish()
    assert transcript.caption == runner.caption(clips[2]).caption
    assert transcript.file == "microphone"
    assert run.finish() is transcript
    assert runner.run_samples(samples.astype(np.float64).tolist(), RATE).finish().caption == transcript.caption


def test_samples_at_another_rate_are_resampled(tmp_path):
    """A man recorded at 48 kHz would be three times as high and fast if his samples were taken for 16 kHz."""
    path, samples = tmp_path / "48.wav", soxr.resample(voice(3, 1.6), RATE, 48_000)
    soundfile.write(path, samples, 48_000, subtype="FLOAT")
    transcript = captioner().run_samples(samples, 48_000).finish()
    of_file = captioner().caption(path)
    assert (transcript.caption, transcript.duration_s) == (of_file.caption, of_file.duration_s)


@pytest.mark.parametrize(
    ("dtype", "full_scale", "silence"), [("int16", 2**15, 0), ("int32", 2**31, 0), ("uint8", 128, 128)]
)
def test_integer_samples_have_the_full_scale_of_their_type(dtype, full_scale, silence):
    integers = (np.round(voice(3, 1.6) * (full_scale - 1)) + silence).astype(dtype)
    floats = (integers - float(silence)) / full_scale
    captions = [captioner().run_samples(samples, RATE).finish().caption for samples in (integers, floats)]
    assert captions[0] == captions[1]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        *((rate, "sample rate") for rate in (0, -16000, float("nan"), float("inf"), 1e12, "16000")),
        (np.zeros((2, RATE)), "shape"),
        (np.tile(voice(1, 1.0), WINDOW_S + 1), f"{WINDOW_S} s"),
        ([1, -1] * RATE, "int64"),
        (np.ones(RATE, bool), "bool"),
        (voice(1, 1.0).astype(complex), "complex"),
        ("clip.wav", "shape"),
        ([[1.0], [1.0, 2.0]], "array"),
    ],
)
def test_samples_that_cannot_be_captioned_are_refused(samples, message):
    given = (voice(1, 1.0), samples) if message == "sample rate" else (samples, RATE)
    with pytest.raises(AudioContentError, match=message):
        captioner().run_samples(*given)


def test_a_prompt_that_the_models_do_not_follow_is_warned_of(clips):
    plain, own = (
        captioner().caption(clips[0]),
        captioner(prompt__force=True, prompt__instruction="How old is the speaker?").caption(clips[0]),
    )
    assert "warnings" not in plain.to_json()
    assert "edge and cloud follow the shipped prompts only" in own.warnings[0]
    assert Transcript.from_json(own.to_json()).warnings == own.warnings
    edge = captioner(decoding__mode="edge", prompt__system="You are a poet.")
    started = next(iter(edge.stream(clips[0]))).event
    assert isinstance(started, Started)
    assert started.warnings == edge.caption(clips[0]).warnings != ()


def test_pieces_come_as_one_transcript_each(long_clip):
    runner = captioner(audio__segment=2.0)
    transcripts = list(runner.captions(long_clip))
    assert [(t.start_s, t.end_s) for t in transcripts] == [(0.0, 2.0), (2.0, 4.0), (4.0, 6.0)]
    assert [t.caption is None for t in transcripts] == [False, True, False]
    silent = transcripts[1].error
    assert silent.type == "AudioContentError"
    assert "2.00 s to 4.00 s" in silent.message
    assert transcripts[0].caption == captioner().run_samples(voice(1, 2.0), RATE).finish().caption
    runs = list(runner.runs(long_clip))
    assert [run.error is None for run in runs] == [True, False, True]
    with pytest.raises(AudioContentError, match="silent"):
        list(runs[1])
    with pytest.raises(ConfigError, match="several pieces"):
        runner.caption(long_clip)


def test_a_missing_recording_and_wrong_settings_are_typed_errors(tmp_path):
    with pytest.raises(AudioNotFoundError):
        captioner().caption(tmp_path / "none.wav")
    with pytest.raises(ConfigError, match=r"decoding\.k"):
        Captioner.load("mini", {"decoding.k": 0})
    with pytest.raises(ConfigError, match=r"decoding\.kk"):
        Captioner.load("mini", {"decoding.kk": 3})
    with pytest.raises(ConfigError, match="finished"):
        Captioner.load(captioner().config, {"decoding.k": 3})


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_variant_says_what_a_captioner_of_its_own_says(clips, language):
    both = captioner(prompt__language=language)
    for settings in (
        *({"decoding__mode": mode, "decoding__k": 3} for mode in MODES),
        {"gate__name": "always"},
        {"decoding__temperature": 0.9, "decoding__seed": 4},
    ):
        alone = captioner(prompt__language=language, **settings)
        variant = both.variant(alone.config)
        assert variant.shared.mode == alone.shared.mode
        assert (variant.shared.settings, variant.shared.models) == (alone.shared.settings, alone.shared.models)
        for clip in clips[:1]:
            ours, theirs = variant.caption(clip), alone.caption(clip)
            assert (ours.caption, ours.finish_reason) == (theirs.caption, theirs.finish_reason)
            assert [r.committed_ids for r in ours.rounds] == [r.committed_ids for r in theirs.rounds]
    assert both.variant(both.config).pair.edge is both.pair.edge


def test_a_variant_needs_its_models_loaded_and_no_others():
    both, edge = captioner(), captioner(decoding__mode="edge")
    other = both.config.model_copy(update={"edge": both.config.edge.model_copy(update={"dtype": "float16"})})
    for loaded, config in ((edge, captioner(decoding__mode="cloud").config), (edge, both.config), (both, other)):
        with pytest.raises(ConfigError, match="its settings need others"):
            loaded.variant(config)


def test_cpu_time_is_of_a_clip_only_where_no_other_thread_captions(clips):
    edge = captioner(decoding__mode="edge", decoding__max_new_tokens=4)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(edge.caption, clips[0]).result().resources.cpu_percent is None
    assert edge.caption(clips[0]).resources.cpu_percent is not None


def test_a_run_decodes_once(clips):
    run = next(captioner().runs(clips[0]))
    next(iter(run))
    with pytest.raises(DecodingError, match="begun before"):
        run.finish()
    other = next(captioner().runs(clips[0]))
    transcript = other.finish()
    assert other.finish() is transcript
    with pytest.raises(DecodingError, match="begun before"):
        list(other)


def sessions() -> int:
    """How many there are, each with the cache of a clip."""
    return sum(type(each) is Session for each in gc.get_objects())


@pytest.mark.parametrize("mode", MODES_BY_TIER)
def test_what_a_clip_held_goes_with_its_run(mode):
    """Without the garbage collector, which comes by after many clips."""
    beside = {"gate__threshold": 0.05, "decoding__cloud_prefill": "overlap"} if mode == "hybrid" else {}
    used = captioner(decoding__mode=mode, **beside)
    run = used.run_samples(voice(3), RATE)
    edge, cloud = run.prompts
    prompt = edge or cloud()
    held = [weakref.ref(each) for each in (run.grounding, *prompt.audio.values())]
    del prompt, edge, cloud
    gc.collect()
    gc.disable()
    before = sessions()
    try:
        run.finish()
        del run
        assert sessions() <= before
        assert [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()


def test_a_file_of_cuts_is_read_once_and_before_models_are(tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        pytest.fail("models were loaded")

    with monkeypatch.context() as patched:
        patched.setattr("specdec_cli.captioner.load_pair", fail)
        with pytest.raises(ReferencesError, match=r"none\.rttm cannot be read"):
            Captioner.load("mini", {"audio.segment": str(tmp_path / "none.rttm")})
    (tmp_path / "cuts.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nhi\n")
    captioner = Captioner.load("mini", {"audio.segment": str(tmp_path / "cuts.srt")})
    assert captioner.variant(captioner.config).reader.cuts is captioner.reader.cuts
