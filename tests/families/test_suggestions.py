"""What a checkpoint's generation_config.json suggests holds until a setting overrides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.config import ModelConfig
from specdec_cli.decoding.assemble import Pair, build_loop
from specdec_cli.errors import CheckpointError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model
from tests.families.checkpoints import KINDS, write
from tests.families.running import banned, config, generate, sound


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> AudioLM:
    """A Qwen2-Audio that suggests what the published one does."""
    folder = tmp_path_factory.mktemp("model")
    write(folder, KINDS["qwen2-audio"], 3, repetition_penalty=1.1, do_sample=True, top_p=0.5, top_k=20, temperature=0.7)
    return load_model(ModelConfig(model=str(folder), device="cpu"), offline=True)


def edge_text(of: AudioLM, clip: int, penalty: float | None) -> list[int]:
    """A plain edge run."""
    made = of.processor.prompt(sound(clip, 0.5), "say how")
    settings = config(mode="edge", max_new_tokens=24, repetition_penalty=penalty, no_repeat_ngram=None)
    *_, finished = build_loop(Pair.of(of, None), settings, made, None).run()
    return list(finished.token_ids)


def generated(of: AudioLM, clip: int, **settings: float) -> list[int]:
    """transformers' text, with the checkpoint's suggestions."""
    made = of.processor.prompt(sound(clip, 0.5), "say how")
    ids = banned(of, of.processor.vocab_size)
    return generate(of, made, suppress_tokens=ids, max_new_tokens=24, **settings)


def test_a_setting_of_null_follows_the_checkpoint_and_a_value_overrides_it(of: AudioLM) -> None:
    clips = range(6)
    suggested = [edge_text(of, clip, None) for clip in clips]
    given = [edge_text(of, clip, 1.6) for clip in clips]
    off = [edge_text(of, clip, 1.0) for clip in clips]
    assert _parted(suggested, [generated(of, clip) for clip in clips]) <= 1
    assert _parted(given, [generated(of, clip, repetition_penalty=1.6) for clip in clips]) <= 1
    assert _parted(off, [generated(of, clip, repetition_penalty=1.0) for clip in clips]) <= 1
    assert suggested != off
    assert suggested != given


def test_a_checkpoint_that_asks_for_what_no_loop_here_does_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", KINDS["qwen2-audio"], 3, num_beams=4)
    with pytest.raises(CheckpointError, match="num_beams to 4"):
        load_model(ModelConfig(model=str(folder), device="cpu"), offline=True)


def _parted(ours: list[list[int]], theirs: list[list[int]]) -> int:
    return sum(mine != other for mine, other in zip(ours, theirs, strict=True))
