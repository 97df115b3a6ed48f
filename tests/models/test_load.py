"""A checkpoint is read bit for bit, in either layout, whole or in shards, with or without what speech does not need."""

import shutil
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig

from specdec_cli.captioner import Captioner
from specdec_cli.config import ModelConfig
from specdec_cli.models.audio_lm import AudioLM, ExactConvolutions
from specdec_cli.models.families import FAMILIES
from specdec_cli.models.loading import fingerprint, forecast
from specdec_cli.models.processor import Processor
from tests.support.checkpoints import (
    Edit,
    assert_refused,
    edit_json,
    edit_weights,
    greedy,
    load,
    remove,
    split_weights,
    write_hub,
)
from tests.support.kinds import KINDS, write
from tests.support.models import save_checkpoint, thinker_config, tiny_model, tiny_module, tiny_processor
from tests.tiers import few


def _assert_same_weights(model: AudioLM, dtype: torch.dtype) -> None:
    wanted = tiny_module(11).state_dict()
    found = model.module.state_dict()
    assert getattr(model.module.model, "visual", None) is None
    assert {key for key in wanted if "visual" not in key} == set(found)
    for key, weight in found.items():
        assert weight.dtype == dtype
        assert torch.equal(weight, wanted[key].to(dtype)), key


def test_a_thinker_only_folder_loads_bit_for_bit(thinker_dir):
    model = load(thinker_dir)
    _assert_same_weights(model, torch.float32)
    described = {"name": str(thinker_dir), "dtype": "float32", "device": "cpu", "weights": model.weights}
    assert model.describe() == described
    processor = model.processor
    assert (processor.vocab_size, processor.logits_size) == (266, 288)
    assert (processor.sampling_rate, processor.window_s, processor.context) == (16000, 30.0, 4096)
    assert not any(weight.requires_grad for weight in model.module.parameters())
    assert not model.module.training


@pytest.mark.slow
def test_the_shipped_pair_captions_without_a_network(samples):
    """The fixtures of this folder let nothing connect, and the hub is not told to stay offline."""
    with Captioner.load("mini", {"decoding.mode": "lossless", "prompt.language": "en"}) as captioner:
        assert captioner.caption(samples / "en_male_pauses.flac").caption


LONG = {"rope_type": "longrope", "original_max_position_embeddings": 1024}


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        (LONG, 1024),
        ({"sliding_attention": {"rope_type": "default"}, "full_attention": LONG}, 1024),
        ({"rope_type": "yarn", "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "dynamic", "factor": 2.0}, 4096),
        (None, 4096),
    ],
)
def test_a_text_ends_where_its_length_would_turn_cached_tokens_otherwise(rope, context):
    config = thinker_config(tiny_processor().tokenizer.get_vocab())
    config.get_text_config(decoder=True).rope_parameters = rope
    family = FAMILIES["qwen2.5-omni"]
    processor = Processor("tiny", family, tiny_processor(), config, GenerationConfig(eos_token_id=1))
    assert processor.context == context


def test_both_layouts_write_the_same_text_as_the_model_that_was_saved(thinker_dir, hub_dir):
    from_thinker = load(thinker_dir)
    from_hub = load(hub_dir, dtype="float32")
    assert greedy(from_thinker) == greedy(tiny_model(11))
    rounded = tiny_model(11)
    rounded.module.bfloat16().float()
    assert greedy(from_hub) == greedy(rounded)
    assert len(set(greedy(from_hub))) > 3
    ours, theirs = from_hub.processor, from_thinker.processor
    assert ours.tokenizer.get_vocab() == theirs.tokenizer.get_vocab()
    assert (ours.eos_ids, ours.banned_ids) == (theirs.eos_ids, theirs.banned_ids)
    assert ours.fingerprints() == theirs.fingerprints()


@pytest.mark.slow
def test_the_vision_tower_is_dropped_and_may_be_absent_or_misshapen(damaged, tmp_path):
    for folder in (
        save_checkpoint(tiny_module(11), tmp_path / "thinker", visual=False),
        write_hub(tmp_path / "hub", tiny_module(11), visual=False),
        damaged(edit_json("config.json", vision_config__intermediate_size=24)),
    ):
        _assert_same_weights(load(folder), torch.float32)


def test_shards_are_put_together(hub_dir, damaged):
    model = load(hub_dir)
    _assert_same_weights(model, torch.bfloat16)
    assert model.describe()["dtype"] == "bfloat16"
    whole = damaged()
    split_weights(whole, 7)
    _assert_same_weights(load(whole, offline=False), torch.float32)  # asks no hub, which the fixture `alone` watches


@pytest.mark.parametrize("shards", few(["gone", "old", "some"]))
def test_a_whole_file_counts_more_than_an_index_beside_it(shards, damaged, tmp_path):
    old = save_checkpoint(tiny_module(3), tmp_path / "old")
    split_weights(old, 3)
    folder = damaged()
    for path in old.glob("model*"):
        if path.suffix == ".json" or shards == "old" or (shards == "some" and "00001" in path.name):
            shutil.copy(path, folder)
    _assert_same_weights(load(folder), torch.float32)


# --- what ends a text ---


def _rename_im_end(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace("<|im_end|>", "<|over|>"), encoding="utf-8")


def _declared(eos: object) -> Edit:
    return edit_json("generation_config.json", eos_token_id=eos)


_OF_THE_MODEL = edit_json("config.json", text_config__eos_token_id=7)


@pytest.mark.parametrize(
    ("edits", "ids"),
    few(
        [
            ([_declared(7)], (7,)),
            ([_declared([9, 7, 9])], (7, 9)),
            ([_declared([])], (256,)),
            ([_declared(None)], (256,)),
            ([remove("generation_config.json"), _OF_THE_MODEL], (7,)),
            ([remove("generation_config.json"), _rename_im_end], (256,)),
        ],
        2,
    ),
)
def test_what_ends_a_text(damaged, edits, ids):
    assert load(damaged(*edits)).processor.eos_ids == ids


# --- numbers and devices ---


@pytest.mark.parametrize(
    ("edit", "asked", "used"),
    few(
        [
            *((lambda _: None, name, name) for name in ("float32", "bfloat16", "float16")),
            (edit_json("config.json", dtype="float16"), "auto", "float32"),
            (edit_json("config.json", dtype="bfloat16"), "auto", "bfloat16"),
            (edit_json("config.json", dtype=None, torch_dtype="bfloat16"), "auto", "bfloat16"),
            (edit_json("config.json", dtype=None), "auto", "float32"),
        ],
        2,
    ),
)
def test_the_dtype_is_what_is_asked_for_or_declared(damaged, edit, asked, used):
    model = load(damaged(edit), dtype=asked)
    assert model.dtype == model.module.model.audio_tower.conv1.weight.dtype == getattr(torch, used)
    assert len(greedy(model, 3)) == 3


def test_tf32_is_off_while_any_of_several_encoders_runs_and_as_it_was_afterwards(monkeypatch):
    for before in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)
        switch, seen = ExactConvolutions(), list[bool]()
        inside, leave = threading.Event(), threading.Event()

        def other(switch=switch, seen=seen, inside=inside, leave=leave) -> None:
            with switch:
                inside.set()
                leave.wait(60)
                seen.append(torch.backends.cudnn.allow_tf32)

        thread = threading.Thread(target=other)
        with switch:
            thread.start()
            assert inside.wait(60)
        leave.set()  # the first one has left
        thread.join()
        assert seen == [False]
        assert torch.backends.cudnn.allow_tf32 == before


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_writes_the_same_text(thinker_dir):
    assert greedy(load(thinker_dir, device="cuda")) == greedy(load(thinker_dir))


def test_tied_output_weights_need_no_lm_head(damaged):
    def tie(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["lm_head.weight"]

    tied = edit_json("config.json", tie_word_embeddings=True, text_config__tie_word_embeddings=True)
    model = load(damaged(edit_weights(tie), tied))
    assert torch.equal(model.module.lm_head.weight, model.module.get_input_embeddings().weight)


# --- weights that publishers quantised are the numbers that they stand for ---

BLOCK_ROWS = 16
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [16, 16]}
PER_CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
GROUP = {"targets": ["Linear"], "weights": PER_CHANNEL, "input_activations": None, "output_activations": None}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "quantization_status": "compressed",
} | {"ignore": ["lm_head", "re:.*audio.*"], "config_groups": {"group_0": GROUP}}
Stored = dict[str, torch.Tensor]


def by_blocks(name: str, weight: torch.Tensor) -> tuple[Stored, torch.Tensor]:
    """A weight [m, n] in FP8 with a scale for each block, as DeepSeek and Qwen publish them, and its numbers."""
    rows, columns = (-(-each // BLOCK_ROWS) for each in weight.shape)
    padded = torch.zeros(rows * BLOCK_ROWS, columns * BLOCK_ROWS)
    padded[: weight.shape[0], : weight.shape[1]] = weight
    blocks = padded.reshape(rows, BLOCK_ROWS, columns, BLOCK_ROWS)
    scales = blocks.abs().amax((1, 3)).clamp(min=1e-6) / 448
    stored = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn)
    numbers = (stored.float() * scales[:, None, :, None]).reshape(padded.shape)
    kept = slice(None, weight.shape[0]), slice(None, weight.shape[1])
    return {name: stored.reshape(padded.shape)[kept], f"{name}_scale_inv": scales}, numbers[kept]


def by_rows(name: str, weight: torch.Tensor) -> tuple[Stored, torch.Tensor]:
    """A weight [m, n] in FP8 with a scale for each row, as llm-compressor writes it, and its numbers."""
    scales = weight.abs().amax(1, keepdim=True).clamp(min=1e-6) / 448
    stored = (weight / scales).to(torch.float8_e4m3fn)
    return {name: stored, f"{name}_scale": scales}, stored.float() * scales


@pytest.mark.parametrize(
    ("family", "config", "by"),
    few(
        [("qwen2-audio", FP8, by_blocks), ("qwen2-audio", COMPRESSED, by_rows)]
        + [(family, FP8, by_blocks) for family in ("qwen2.5-omni", "qwen3-omni", "gemma4")],
        2,
    ),
)
def test_quantised_weights_are_the_numbers_that_they_stand_for(family, config, by, tmp_path):
    if config is COMPRESSED:
        pytest.importorskip("compressed_tensors")
    plain, published = (write(tmp_path / name, KINDS[family], 0) for name in ("plain", "published"))
    whole, kept = load_file(plain / "model.safetensors"), Stored()
    for name, weight in whole.items():
        kept[name] = weight
        if name.endswith("_proj.weight") and ".layers." in name and "audio" not in name and weight.ndim == 2:
            del kept[name]
            stored, whole[name] = by(name, weight.float())
            kept |= stored
    for at, tensors in ((plain, whole), (published, kept)):
        contiguous = {name: weight.contiguous() for name, weight in tensors.items()}
        save_file(contiguous, at / "model.safetensors", {"format": "pt"})
    assert len(kept) > len(whole)
    edit_json("config.json", quantization_config=config)(published)
    model, same = load(published), load(plain)
    assert str(model.self_test).startswith("passed")
    wanted, found = same.module.state_dict(), model.module.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], weight) for name, weight in wanted.items())
    needs = [forecast(ModelConfig(model=str(folder), device="cpu"), offline=True) for folder in (plain, published)]
    assert needs[0].bytes == needs[1].bytes


@pytest.mark.parametrize("method", ["awq", "gptq", "bitsandbytes"])
def test_what_a_gpus_kernels_read_is_left_to_transformers(method, tmp_path):
    """It says what is missing here; as large as its files, as `doctor` tells."""
    folder = write(tmp_path / "a", KINDS["qwen2-audio"], 0)
    edit_json("config.json", quantization_config={"quant_method": method, "bits": 4, "load_in_4bit": True})(folder)
    stored = (folder / "model.safetensors").stat().st_size
    assert forecast(ModelConfig(model=str(folder), device="cpu"), offline=True).bytes == round(1.1 * stored)
    assert_refused(folder, "edge cannot be loaded: ", device="cpu")


# --- fingerprints: equal for equal files, another for any tensor that was trained, added or renamed ---


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    made = {"large": torch.randn(300, 400), "small": torch.randn(5), "half": torch.randn(700).half()}
    return {**made, "empty": torch.empty(0), "one": torch.ones(())}


def saved(path: Path, content: dict[str, torch.Tensor]) -> Path:
    save_file(content, path)
    return path


@pytest.mark.parametrize("name", ["large", "small", "half", "one"])
def test_any_change_of_a_tensor_changes_it_and_a_copy_does_not(tmp_path, name):
    first = fingerprint([saved(tmp_path / "a", tensors())])
    assert first == fingerprint([saved(tmp_path / "b", tensors())])
    rest = tensors()
    value = rest.pop(name)
    for after in ({name: value + 1e-2 * value.sign()}, {"other": value}, {}):
        assert fingerprint([saved(tmp_path / "c", rest | after)]) != first


def test_all_shards_count(tmp_path):
    whole = tensors()
    first, second = (saved(tmp_path / name, {name: whole[name]}) for name in ("large", "small"))
    changed = saved(tmp_path / "changed", {"small": whole["small"] + 1})
    assert len({fingerprint(shards) for shards in ([first], [first, second], [first, changed])}) == 3


def test_it_is_of_the_files_and_not_of_how_they_are_loaded(thinker_dir):
    assert load(thinker_dir).weights == load(thinker_dir, dtype="bfloat16").weights is not None
