"""The self-test of a loaded model: it passes sound models, refuses others with a reason, and is run once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.errors import CheckpointError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.selftest import hardware, self_test
from tests.laws.planted import rollback
from tests.support.checkpoints import assert_refused, load
from tests.support.models import as_audio_lm, save_checkpoint, tiny_model, tiny_module

ONE_BY_ONE = "passed; clips of a batch step one by one"
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch) -> Path:
    """A cache folder that remembers nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "specdec" / "self-test"


def _changed(model: AudioLM, change: Change) -> AudioLM:
    """The model, whose module's forward gets other arguments."""
    forward = model.module.forward

    def changed(**inputs: Any) -> Any:
        change(inputs)
        return forward(**inputs)

    model.module.forward = changed
    return model


def _count_forwards(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every forward of any model."""
    seen, forward = list[int](), AudioLM.forward

    def counting(*args: Any, **kwargs: Any) -> Any:
        seen.append(1)
        return forward(*args, **kwargs)

    monkeypatch.setattr(AudioLM, "forward", counting)
    return seen


# --- what passes ---


@pytest.mark.parametrize("seed", range(6))
def test_sound_models_pass(seed):
    model = tiny_model(seed, layers=1 + seed % 3, vocab_size=(266, 288, 320)[seed % 3], scale=(0.1, 0.3, 0.6)[seed % 3])
    self_test(model)
    assert model.self_test == "passed"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_passes(dtype):
    model = as_audio_lm(tiny_module(2, layers=3).to(dtype), "half")
    self_test(model)
    assert model.self_test == "passed"
    with rollback(1), pytest.raises(CheckpointError, match="is what rounding explains"):
        self_test(model)


# --- what does not ---


def _refused(model: AudioLM) -> CheckpointError:
    with pytest.raises(CheckpointError, match=model.name) as error:
        self_test(model)
    assert error.value.hint
    assert model.self_test is None
    return error.value


@pytest.mark.parametrize("kept", [1, -1])
@pytest.mark.parametrize("seed", range(4))
def test_a_cache_that_rolls_back_wrong_is_refused(seed, kept):
    with rollback(kept):
        message = _refused(tiny_model(seed)).message
    assert "fails the self-test: its cached scores differ from those of one pass by" in message
    assert "standard deviations" in message


def _shift(inputs: dict[str, Any]) -> None:
    if inputs["past_key_values"].get_seq_length():
        inputs["position_ids"] = inputs["position_ids"] + 1


def test_positions_that_are_read_otherwise_are_refused():
    assert "its cached scores differ" in _refused(_changed(tiny_model(0), _shift)).message


def test_an_encoder_that_runs_twice_is_refused():
    model = tiny_model(0)
    inner, encode = model.module.model, model.module.model.get_audio_features

    def twice(*args: Any, **kwargs: Any) -> Any:
        encode(*args, **kwargs)
        return encode(*args, **kwargs)

    inner.get_audio_features = twice
    assert "runs its audio encoder 2 times" in _refused(model).message


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_not_finite_are_refused(value):
    """As float16 makes them in many models, or damaged weights: the same with a cache and without."""
    model = tiny_model(0)
    model.module.get_output_embeddings().weight.data[7] = value
    assert _refused(model).message.endswith("fails the self-test: its scores are not finite")


def test_a_module_that_raises_is_refused_in_a_sentence():
    def fail(inputs: dict[str, Any]) -> None:
        raise NotImplementedError("no cache\nhere")

    message = _refused(_changed(tiny_model(0), fail)).message
    assert message.endswith("fails the self-test: NotImplementedError: no cache")


# --- clips that share a forward ---


def _see_each_other(inputs: dict[str, Any]) -> None:
    if isinstance(inputs.get("attention_mask"), torch.Tensor):  # a mask of several clips
        inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])


def _raise(inputs: dict[str, Any]) -> None:
    if isinstance(inputs.get("attention_mask"), torch.Tensor):  # a mask of several clips
        raise ValueError("this mask has four axes")


@pytest.mark.parametrize("wrong", [_see_each_other, _raise])
def test_joint_forwards_that_fail_only_make_clips_step_alone(wrong):
    model = _changed(tiny_model(0), wrong)
    self_test(model)
    assert not model.joins
    assert model.self_test == ONE_BY_ONE


# --- run once ---


def test_a_result_is_remembered_for_the_weights(tmp_path, memory, monkeypatch):
    folder = save_checkpoint(tiny_module(3), tmp_path / "m")
    forwards = _count_forwards(monkeypatch)
    assert load(folder).self_test == "passed"
    tested = len(forwards)
    assert tested > 5
    assert load(folder).self_test == "passed"
    assert load(save_checkpoint(tiny_module(3), tmp_path / "same")).self_test == "passed"
    assert len(forwards) == tested, "the same files under another name"
    load(save_checkpoint(tiny_module(4), tmp_path / "other"))
    load(folder, dtype="bfloat16")
    assert len(forwards) == 3 * tested
    load(folder, attention="eager")
    assert len(forwards) > 3 * tested


def test_that_clips_step_alone_is_remembered_and_a_failure_is_not(tmp_path, monkeypatch):
    folder = save_checkpoint(tiny_module(3), tmp_path / "m")
    with rollback(1):
        assert_refused(folder)
    with monkeypatch.context() as patch:
        patch.setattr("specdec_cli.models.selftest.forward_together", lambda wanted: [None] * len(wanted))
        assert load(folder).self_test == ONE_BY_ONE
    assert not load(folder).joins


def test_it_can_be_switched_off(tmp_path, memory):
    with rollback(1):
        assert load(save_checkpoint(tiny_module(3), tmp_path / "m"), tested=False).self_test is None
    assert not memory.exists()


def test_a_result_counts_for_the_hardware_that_it_was_found_on(tmp_path, monkeypatch):
    """A home folder may be shared by machines whose kernels differ."""
    folder, forwards = save_checkpoint(tiny_module(3), tmp_path / "m"), _count_forwards(monkeypatch)
    load(folder)
    tested = len(forwards)
    for device in (("AVX2", "model name: another"), ("NVIDIA H200", "(9, 0)")):
        monkeypatch.setattr("specdec_cli.models.selftest.hardware", lambda _, device=device: device)
        load(folder)
    assert len(forwards) == 3 * tested
    monkeypatch.undo()
    assert hardware(torch.device("cpu"))[0] == torch.backends.cpu.get_cpu_capability()


def test_a_remembered_test_that_cannot_be_read_is_made_again(tmp_path, memory):
    model = load(save_checkpoint(tiny_module(3), tmp_path / "m"))
    (file,) = memory.iterdir()
    assert file.read_text() == "passed"
    file.write_bytes(b"\xff" * 20)
    self_test(model)
    assert model.self_test == file.read_text() == "passed"
