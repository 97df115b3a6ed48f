"""Whatever is wrong with a checkpoint, loading raises one typed error that names the model and what to do."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.utils import logging as transformers_logging

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.errors import CheckpointError, ConfigError
from specdec_cli.models.checkpoint import is_local
from specdec_cli.models.processor import suggestions
from tests.models.checkpoints import Edit, assert_refused, edit_json, edit_weights, load, overwrite, remove, write_trap
from tests.tiny import TEMPLATE

INDEX = "model.safetensors.index.json"
SHARD = "model-00002-of-00003.safetensors"
FILES = ("config", "generation_config", "preprocessor_config", "chat_template", "tokenizer", "tokenizer_config")


def _drop_layer_1(tensors: dict[str, torch.Tensor]) -> None:
    for key in [key for key in tensors if key.startswith("model.layers.1.")]:
        del tensors[key]


def _text_config(**settings: object) -> Edit:
    return edit_json("config.json", **{f"text_config__{name}": value for name, value in settings.items()})


def _fewer_rows(folder: Path) -> None:
    def cut_rows(tensors: dict[str, torch.Tensor]) -> None:
        for key in ("lm_head.weight", "model.embed_tokens.weight"):
            tensors[key] = tensors[key][:262].clone()

    edit_weights(cut_rows)(folder)
    _text_config(vocab_size=262)(folder)


def _template(text: str) -> Edit:
    return overwrite("chat_template.jinja", text.encode())


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (edit_weights(lambda w: w.pop("lm_head.weight")), "edge lacks weights (1): lm_head.weight"),
        (edit_weights(_drop_layer_1), "edge lacks weights (12): "),
        (edit_weights(lambda w: w.update(extra=torch.ones(2))), "edge has unexpected weights (1): extra"),
        (edit_weights(lambda w: w.update({"lm_head.weight": torch.ones(290, 32)})), "edge has misshapen weights"),
        (_text_config(num_attention_heads=0), "edge cannot be loaded"),
        (overwrite("model.safetensors", b"<!DOCTYPE html><html>Access is restricted</html>"), "SafetensorError"),
        (remove("model.safetensors"), "edge/model.safetensors"),
        (remove("config.json"), "there is no checkpoint edge"),
        (remove("tokenizer.json"), "edge cannot be loaded: "),
        (_fewer_rows, "edge has 262 token ids, but its tokenizer goes up to 265"),
        (_template("{% for x in %}"), "the chat template of edge fails"),
        (_template(TEMPLATE.replace("<|AUDIO|>", "")), "puts 0 audio placeholders"),
        (_template(TEMPLATE * 2), "puts 2 audio placeholders"),
        (edit_json("config.json", model_type="mystery"), "is of type 'mystery'"),
        (edit_json("generation_config.json", num_beams=4), "sets num_beams "),
        (edit_json("generation_config.json", guidance_scale=1.5), "sets guidance_scale "),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(damaged, edit, message):
    assert_refused(damaged(edit), message)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda folder: overwrite(SHARD, (folder / SHARD).read_bytes()[:-1])(folder), "SafetensorError"),
        (remove(SHARD), f"edge/{SHARD}"),
        (remove(SHARD, SHARD.replace("2-of", "1-of")), "edge lacks 2 of 3 files of weights: "),
        (overwrite(INDEX, b'{"weight_map": {}}'), "names no files of weights"),
        *(
            (
                edit_json(INDEX, **{"weight_map__thinker.lm_head.weight": name}),
                f"names '{name}', which is no safetensors",
            )
            for name in ("../x.safetensors", "/x.safetensors", "pytorch_model.bin")
        ),
        (edit_json("config.json", transformers_weights="other.safetensors"), "transformers_weights: other.safetensors"),
        (remove("preprocessor_config.json"), "preprocessor_config.json"),
        (remove("chat_template.json"), "does not have a chat template"),
        (edit_json("preprocessor_config.json", feature_size=128), "fails the self-test"),
        *((overwrite(f"{name}.json", b'{"a": '), "edge cannot be loaded: ") for name in (*FILES, INDEX[:-5])),
        *((overwrite(f"{name}.json", b"[1]"), "edge cannot be loaded: ") for name in (*FILES, INDEX[:-5])),
    ],
)
def test_a_published_layout_that_does_not_fit_is_refused(damaged, hub_dir, edit, message):
    assert_refused(damaged(edit, source=hub_dir), message)


@pytest.mark.parametrize("path", ["gone", "../a/b", "~/gone", "a/b/c", "file"])
def test_a_path_that_is_no_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").touch()
    assert_refused(path, "there is no checkpoint")


def test_pickled_weights_are_refused_and_not_opened(damaged, hub_dir, tmp_path):
    mark = tmp_path / "unpickled"
    write_trap(tmp_path / "outside.bin", mark)
    outside = edit_json(INDEX, **{"weight_map__thinker.lm_head.weight": "../outside.bin"})
    assert_refused(damaged(outside, source=hub_dir))
    shutil.rmtree(tmp_path / "copy")
    pickled = damaged(remove("model.safetensors"), lambda folder: write_trap(folder / "pytorch_model.bin", mark))
    assert_refused(pickled, "edge/model.safetensors; there are pytorch_model.bin, which specdec does not load")
    assert not mark.exists()


def test_files_of_weights_that_are_there_are_not_called_others(damaged, hub_dir):
    folder = damaged(remove(SHARD), source=hub_dir)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    assert caught.value.message.endswith(f"lacks 1 of 3 files of weights: {folder / SHARD}")


@pytest.mark.ci
def test_another_architecture(damaged):
    folder = damaged(edit_json("config.json", model_type="qwen2_audio"))
    assert_refused(folder)
    assert_refused(folder, "the family 'qwen2.5-omni' does not load", family="qwen2.5-omni")


def test_a_kernel_that_is_not_installed(thinker_dir):
    assert_refused(thinker_dir, "FlashAttention2", attention="flash_attention_2")


# --- code that came with a checkpoint ---


def _plant(folder: Path) -> None:
    for name in ("evil.py", "custom_generate/generate.py"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"from pathlib import Path\nPath({str(folder.parent / 'executed')!r}).mkdir()\n"
            "class C: ...\nclass M: ...\nclass T: ...\nclass F: ...\ndef generate(*a, **k): ...\n"
        )


_EVIL_TOKENIZER = {"AutoTokenizer": ["evil.T", None]}


@pytest.mark.parametrize(
    ("edit", "loads"),
    [
        (edit_json("config.json", auto_map={"AutoConfig": "evil.C", "AutoModel": "evil.M"}), True),
        (edit_json("processor_config.json", auto_map={"AutoProcessor": "evil.C"}, processor_class="C"), True),
        (edit_json("processor_config.json", feature_extractor__auto_map={"AutoFeatureExtractor": "evil.F"}), True),
        (edit_json("tokenizer_config.json", auto_map=_EVIL_TOKENIZER), True),
        (edit_json("tokenizer_config.json", auto_map=_EVIL_TOKENIZER, tokenizer_class="T"), False),
        (edit_json("generation_config.json", custom_generate="evil"), True),
    ],
)
def test_code_that_came_with_a_checkpoint_is_never_run(damaged, tmp_path, edit, loads):
    folder = damaged(_plant, edit)
    if loads:
        load(folder, offline=False)
    else:
        assert_refused(folder, offline=False)
    assert not (tmp_path / "executed").exists()


# --- hub ids ---


def test_what_counts_as_a_hub_id(thinker_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not is_local("Qwen/Tiny")
    assert all(map(is_local, ("gpt2", "a/b/c", "./a", "../a", "/a", "~/a")))
    shutil.copytree(thinker_dir, tmp_path / "Qwen" / "Tiny")
    assert load("Qwen/Tiny").name == "Qwen/Tiny"


@pytest.mark.parametrize("switch", ["runtime.offline", "HF_HUB_OFFLINE"])
def test_what_forbids_a_download_is_named(switch, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", switch == "HF_HUB_OFFLINE")
    said = f"edge cannot be loaded: {switch} forbids downloads"
    assert_refused("acme/tiny-omni", said, offline=switch == "runtime.offline")


@pytest.mark.parametrize("bars", [False, True])
def test_the_terminal_stays_as_it_was(damaged, bars):
    (transformers_logging.enable_progress_bar if bars else transformers_logging.disable_progress_bar)()
    transformers_logging.set_verbosity_info()
    try:
        assert_refused(damaged(edit_weights(lambda w: w.pop("lm_head.weight"))))
        assert transformers_logging.is_progress_bar_enabled() == bars
        assert transformers_logging.get_verbosity() == transformers_logging.INFO
    finally:
        transformers_logging.enable_progress_bar()
        transformers_logging.set_verbosity_warning()


def test_a_suggested_value_that_makes_no_sense_is_refused_unless_the_setting_is_given():
    generation = SimpleNamespace(
        repetition_penalty=-5.0, no_repeat_ngram_size=None, min_new_tokens=None, suppress_tokens=None
    )
    processor: Any = SimpleNamespace(name="edge", generation=generation)
    with pytest.raises(ConfigError, match=r"generation_config.json of edge: .*repetition_penalty .* not -5.0"):
        suggestions(DecodingConfig(), processor)
    assert suggestions(DecodingConfig(repetition_penalty=1.1), processor) == {}
