"""Whatever is wrong with a checkpoint, the answer is one typed error that names the model and says what to do."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers.utils import logging as transformers_logging

from specdec_cli.errors import CheckpointError
from specdec_cli.models.checkpoint import is_local
from tests.models.checkpoints import (
    Edit,
    cut,
    edit_json,
    edit_weights,
    load,
    overwrite,
    remove,
    write_thinker,
    write_trap,
    write_weights,
)
from tests.tiny import TEMPLATE, tiny_module

Damage = Callable[..., Path]

LAYER_1 = "model.language_model.layers.1."


def refusal(folder: Path | str, **options: Any) -> CheckpointError:
    """The error that loading raises; nothing else may come out. The folder's name is "edge" in its message."""
    with pytest.raises(CheckpointError) as error:
        load(folder, **options)
    assert str(folder) in error.value.message
    assert "\n" not in error.value.message
    assert error.value.hint
    assert error.value.hint.endswith(".")
    return CheckpointError(error.value.message.replace(str(folder), "edge"), hint=error.value.hint)


def _rename_tensor(old: str, new: str) -> Edit:
    return edit_weights(lambda tensors: tensors.__setitem__(new, tensors.pop(old)))


def _drop_layer_1(tensors: dict[str, torch.Tensor]) -> None:
    for key in [key for key in tensors if key.startswith(LAYER_1)]:
        del tensors[key]


# --- weights that do not fit ---


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edit_weights(lambda w: w.pop("lm_head.weight")), "edge lacks weights: lm_head.weight"),
        (edit_weights(lambda w: w.pop("model.audio_tower.proj.bias")), "edge lacks weights: .*audio_tower.proj.bias"),
        (edit_weights(_drop_layer_1), r"edge lacks weights: .*layers\.1\..* and 7 more"),
        (edit_weights(lambda w: w.update(extra=torch.ones(2))), "edge has unexpected weights: extra"),
        (_rename_tensor(LAYER_1 + "mlp.up_proj.weight", "up"), r"edge lacks weights: .*layers\.1\.mlp\.up_proj"),
        (
            edit_weights(lambda w: w.update({"lm_head.weight": torch.ones(290, 32)})),
            "edge has misshapen weights: lm_head.weight$",
        ),
        (
            edit_weights(lambda w: w.update({"model.audio_tower.conv1.bias": torch.ones(1)})),
            "edge has misshapen weights: .*conv1.bias$",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(damaged: Damage, edit: Edit, message: str) -> None:
    error = refusal(damaged(edit))
    assert re.search(message, error.message)
    assert "download the checkpoint again" in str(error.hint)


@pytest.mark.parametrize(("layers", "what"), [(1, "has unexpected"), (3, "lacks")])
def test_more_or_fewer_layers_than_weights(damaged: Damage, layers: int, what: str) -> None:
    settings = {"text_config__num_hidden_layers": layers, "text_config__layer_types": ["full_attention"] * layers}
    assert (
        f"{what} weights: model.language_model.layers" in refusal(damaged(edit_json("config.json", **settings))).message
    )


@pytest.mark.parametrize("setting", ["hidden_size", "intermediate_size", "num_key_value_heads", "vocab_size"])
def test_a_config_of_another_size(damaged: Damage, setting: str) -> None:
    value = {"hidden_size": 64, "intermediate_size": 50, "num_key_value_heads": 4, "vocab_size": 300}[setting]
    assert "misshapen" in refusal(damaged(edit_json("config.json", **{f"text_config__{setting}": value}))).message


@pytest.mark.parametrize(
    ("key", "value"),
    [("text_config__num_attention_heads", 0), ("text_config__hidden_size", "wide"), ("audio_config__d_model", -4)],
)
def test_a_config_of_nonsense(damaged: Damage, key: str, value: object) -> None:
    refusal(damaged(edit_json("config.json", **{key: value})))


# --- files that are damaged or missing ---


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "generation_config.json",
        "preprocessor_config.json",
        "chat_template.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors.index.json",
    ],
)
@pytest.mark.parametrize("content", [b'{"a": ', b"", b"[1]", b"\xff\xfe{}", b'"text"'])
def test_damaged_json_is_refused(damaged: Damage, hub_dir: Path, name: str, content: bytes) -> None:
    error = refusal(damaged(overwrite(name, content), source=hub_dir))
    assert error.message.startswith("edge cannot be loaded: ")
    assert "download it again" in str(error.hint)


@pytest.mark.parametrize("kept", [0, 0.001, 0.5, 0.999])
def test_a_weight_file_that_is_cut_short(damaged: Damage, hub_dir: Path, kept: float) -> None:
    shard = "model-00002-of-00003.safetensors"
    error = refusal(damaged(cut(shard, kept), source=hub_dir))
    assert error.message.startswith(f"{shard} of edge")
    assert "damaged or cut short" in error.message


def test_a_weight_file_that_is_none(damaged: Damage) -> None:
    page = b"<!DOCTYPE html><html>Access to this model is restricted</html>"
    assert "damaged" in refusal(damaged(overwrite("model.safetensors", page))).message


def test_a_pointer_to_large_storage_instead_of_weights(damaged: Damage) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4985055536\n"
    assert "damaged" in refusal(damaged(overwrite("model.safetensors", pointer))).message


def test_a_missing_shard_is_named(damaged: Damage, hub_dir: Path) -> None:
    gone = ("model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors")
    message = refusal(damaged(remove(*gone), source=hub_dir)).message
    assert message == f"edge cannot be loaded: No such file or directory: edge/{gone[0]}"


@pytest.mark.parametrize("content", [b"{}", b'{"weight_map": []}', b'{"weight_map": {}}'])
def test_an_index_without_weights(damaged: Damage, hub_dir: Path, content: bytes) -> None:
    folder = damaged(overwrite("model.safetensors.index.json", content), source=hub_dir)
    assert "names no weights" in refusal(folder).message


def test_an_index_that_places_a_weight_in_the_wrong_shard(damaged: Damage, hub_dir: Path) -> None:
    def swap(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        index["weight_map"]["thinker.lm_head.weight"] = "nowhere.safetensors"
        path.write_text(json.dumps(index))

    assert "nowhere.safetensors" in refusal(damaged(swap, source=hub_dir)).message


def test_an_index_that_points_outside_reads_nothing_there(damaged: Damage, hub_dir: Path, tmp_path: Path) -> None:
    write_trap(tmp_path / "outside.bin", tmp_path / "unpickled")

    def escape(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        index["weight_map"]["thinker.lm_head.weight"] = "../outside.bin"
        path.write_text(json.dumps(index))

    refusal(damaged(escape, source=hub_dir))
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("tokenizer.json", "vocab.json"), "has no tokenizer"),
        (("preprocessor_config.json",), "a preprocessor_config.json file"),
        (("chat_template.json",), "does not have a chat template"),
        (("config.json",), "has no config.json"),
    ],
)
def test_a_missing_file_is_named(damaged: Damage, hub_dir: Path, names: tuple[str, ...], message: str) -> None:
    assert message in refusal(damaged(remove(*names), source=hub_dir)).message


@pytest.mark.parametrize(
    "content", ["{% for x in %}", "{{ messages[0].nothing.at_all }}", "{{ raise_exception('no') }}", "{{ 1 / 0 }}"]
)
def test_a_chat_template_that_fails(damaged: Damage, content: str) -> None:
    error = refusal(damaged(overwrite("chat_template.jinja", content.encode())))
    assert "the chat template of edge fails" in error.message


@pytest.mark.parametrize(("template", "count"), [(TEMPLATE.replace("<|AUDIO|>", ""), 0), (TEMPLATE * 2, 2)])
def test_a_chat_template_without_one_place_for_the_audio(damaged: Damage, template: str, count: int) -> None:
    error = refusal(damaged(overwrite("chat_template.jinja", template.encode())))
    assert f"puts {count} audio placeholders" in error.message


def test_a_tokenizer_of_another_model(damaged: Damage) -> None:
    def shift(folder: Path) -> None:
        path = folder / "tokenizer.json"
        path.write_text(path.read_text().replace("<|AUDIO|>", "<|SOUND|>"))
        (folder / "tokenizer_config.json").unlink()

    assert "puts 0 audio placeholders" in refusal(damaged(shift)).message


def _vocabulary_of_another_model(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    for key in ("lm_head.weight", "model.language_model.embed_tokens.weight"):
        tensors[key] = tensors[key][:262].clone()
    write_weights(folder, tensors)
    edit_json("config.json", text_config__vocab_size=262)(folder)


def test_a_tokenizer_with_more_tokens_than_the_model(damaged: Damage) -> None:
    message = refusal(damaged(_vocabulary_of_another_model)).message
    assert message == "edge has 262 token ids, but its tokenizer goes up to 265"


def test_a_feature_extractor_of_another_model(damaged: Damage, hub_dir: Path) -> None:
    message = refusal(damaged(edit_json("preprocessor_config.json", feature_size=128), source=hub_dir)).message
    assert "fails the self-test" in message
    assert "128" in message


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "chat_template.json", "tokenizer.json"])
def test_an_empty_object_in_place_of_a_file(damaged: Damage, hub_dir: Path, name: str) -> None:
    refusal(damaged(overwrite(name, b"{}"), source=hub_dir))


# --- things that are no checkpoint ---


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    error = refusal(tmp_path / "nothing")
    assert error.message == "edge does not exist"
    assert "hub id" in str(error.hint)


@pytest.mark.parametrize("path", ["gone", "./gone", "../a/b", "~/gone", "a/b/c"])
def test_a_relative_path_that_is_not_there(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "does not exist" in refusal(path).message


def test_a_path_that_is_a_file(thinker_dir: Path) -> None:
    assert "is a file, not a folder" in refusal(thinker_dir / "config.json").message


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "no config.json" in refusal(tmp_path).message


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.bin", "consolidated.pt"])
def test_pickled_weights_are_refused_and_not_opened(damaged: Damage, tmp_path: Path, name: str) -> None:
    mark = tmp_path / "unpickled"
    folder = damaged(remove("model.safetensors"), lambda folder: write_trap(folder / name, mark))
    error = refusal(folder)
    assert "only pickled weights, which are never loaded" in error.message
    assert "safetensors" in str(error.hint)
    assert not mark.exists()


def test_pickled_shards_are_refused_and_not_opened(damaged: Damage, tmp_path: Path) -> None:
    mark = tmp_path / "unpickled"

    def pickled(folder: Path) -> None:
        write_trap(folder / "pytorch_model-00001-of-00001.bin", mark)
        index = {"metadata": {}, "weight_map": {"lm_head.weight": "pytorch_model-00001-of-00001.bin"}}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))

    assert "only pickled weights" in refusal(damaged(remove("model.safetensors"), pickled)).message
    assert not mark.exists()


def test_no_weights_at_all(damaged: Damage) -> None:
    assert "no model.safetensors" in refusal(damaged(remove("model.safetensors"))).message


@pytest.mark.parametrize("declared", ["qwen2", "qwen2_audio", "qwen3_omni_moe", "mystery", None, 3])
def test_another_architecture(damaged: Damage, declared: object) -> None:
    folder = damaged(edit_json("config.json", model_type=declared))
    refusal(folder)
    error = refusal(folder, family="qwen2.5-omni")
    assert error.message.startswith(f"edge holds a model of type '{declared}', but the family 'qwen2.5-omni' loads")
    assert "family" in str(error.hint)


def test_a_model_of_text_alone(damaged: Damage) -> None:
    change = edit_json("config.json", model_type="qwen2", audio_token_id=None, audio_token_index=None)
    error = refusal(damaged(change))
    assert error.message == "edge is a model of type 'qwen2', which takes no audio"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("num_beams", 4),
        ("min_length", 9),
        ("forced_eos_token_id", 7),
        ("bad_words_ids", [[7]]),
        ("sequence_bias", [[[7], 2.0]]),
        ("guidance_scale", 1.5),
        ("penalty_alpha", 0.6),
        ("exponential_decay_length_penalty", [5, 1.1]),
        ("begin_suppress_tokens", [7]),
    ],
)
def test_a_way_of_generating_that_there_is_not(damaged: Damage, setting: str, value: object) -> None:
    error = refusal(damaged(edit_json("generation_config.json", **{setting: value})))
    assert error.message.startswith(f"the generation_config.json of edge asks for {setting} ")
    assert setting in str(error.hint)


def test_settings_of_generating_that_change_nothing(damaged: Damage) -> None:
    harmless = {"num_beams": 1, "min_length": 0, "temperature": 0.7, "do_sample": True, "top_p": 0.9, "top_k": 20}
    assert load(damaged(edit_json("generation_config.json", **harmless))).layers == 2


def test_a_feature_extractor_that_pads_on_the_left(damaged: Damage, hub_dir: Path) -> None:
    """The features would begin with silence."""
    error = refusal(damaged(edit_json("preprocessor_config.json", padding_side="left"), source=hub_dir))
    assert error.message == "the feature extractor of edge pads on the left, which moves the audio"
    assert "preprocessor_config.json" in str(error.hint)


def test_a_kernel_that_is_not_installed(thinker_dir: Path) -> None:
    message = refusal(thinker_dir, attention="flash_attention_2").message
    assert "flash" in message.lower()


# --- code that came with a checkpoint ---


def _plant(*names: str) -> Edit:
    def plant(folder: Path) -> None:
        for name in names:
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(
                f"from pathlib import Path\nPath({str(folder.parent / 'executed')!r}).mkdir()\n"
                "class C: ...\nclass M: ...\nclass T: ...\nclass F: ...\ndef generate(*a, **k): ...\n"
            )

    return plant


@pytest.mark.parametrize(
    ("edits", "loads"),
    [
        ([edit_json("config.json", auto_map={"AutoConfig": "evil.C", "AutoModel": "evil.M"})], True),
        ([edit_json("config.json", auto_map={"AutoConfig": "evil.C"}, model_type="evil")], False),
        ([edit_json("processor_config.json", auto_map={"AutoProcessor": "evil.C"}, processor_class="C")], True),
        ([edit_json("processor_config.json", feature_extractor__auto_map={"AutoFeatureExtractor": "evil.F"})], True),
        ([edit_json("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]})], True),
        (
            [edit_json("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]}, tokenizer_class="T")],
            False,
        ),
        ([edit_json("generation_config.json", custom_generate="evil")], True),
        ([], True),
    ],
)
@pytest.mark.parametrize("offline", [True, False])
def test_code_that_came_with_a_checkpoint_is_never_run(
    damaged: Damage, tmp_path: Path, edits: list[Edit], loads: bool, offline: bool
) -> None:
    folder = damaged(_plant("evil.py", "custom_generate/generate.py"), *edits)
    if loads:
        load(folder, offline=offline)
    else:
        refusal(folder, offline=offline)
    assert not (tmp_path / "executed").exists()


# --- hub ids ---


@pytest.mark.parametrize(
    ("model", "local"),
    [
        ("Qwen/Qwen2.5-Omni-3B", False),
        ("gpt2", True),
        ("a/b/c", True),
        ("./a", True),
        ("../a", True),
        ("/a", True),
        ("~/a", True),
    ],
)
def test_what_counts_as_a_hub_id(model: str, local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_local(model) == local


def test_an_existing_folder_wins_over_a_hub_id(
    thinker_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(thinker_dir, tmp_path / "Qwen" / "Tiny")
    assert load("Qwen/Tiny").name == "Qwen/Tiny"


def test_a_hub_id_while_offline_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError) as error:
        load("acme/tiny-omni")
    absent = "is not in the local hub cache, or not all of it, and downloads are off"
    assert error.value.message == f"acme/tiny-omni {absent}"
    assert "runtime.offline: false" in str(error.value.hint)
    assert "set `model` to its folder" in str(error.value.hint)


@pytest.mark.parametrize("broken", [False, True])
def test_the_terminal_stays_as_it_was(thinker_dir: Path, damaged: Damage, broken: bool) -> None:
    folder = damaged(edit_weights(lambda w: w.pop("lm_head.weight"))) if broken else thinker_dir
    for bars in (True, False):
        (transformers_logging.enable_progress_bar if bars else transformers_logging.disable_progress_bar)()
        transformers_logging.set_verbosity_info()
        try:
            if broken:
                refusal(folder)
            else:
                load(folder)
            assert transformers_logging.is_progress_bar_enabled() == bars
            assert transformers_logging.get_verbosity() == transformers_logging.INFO
        finally:
            transformers_logging.enable_progress_bar()
            transformers_logging.set_verbosity_warning()


def test_sharded_and_single_refuse_alike(tmp_path: Path) -> None:
    module = tiny_module(11)
    folder = write_thinker(tmp_path / "m", module, shards=4)
    edit_json("config.json", text_config__num_hidden_layers=3, text_config__layer_types=["full_attention"] * 3)(folder)
    assert "lacks weights" in refusal(folder).message
