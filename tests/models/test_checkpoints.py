"""Whatever is wrong with a checkpoint, loading raises one typed error that names the model and what to do.

Nothing of a checkpoint is run or unpickled, and none fills the memory or takes the machine's time.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import DynamicCache
from transformers.utils import logging as transformers_logging

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.errors import CheckpointError, ConfigError
from specdec_cli.models import families
from specdec_cli.models.loading import is_local
from specdec_cli.models.processor import suggestions
from tests.support.checkpoints import (
    Edit,
    assert_refused,
    edit_json,
    edit_weights,
    load,
    overwrite,
    remove,
    write_json,
    write_trap,
)
from tests.support.kinds import KINDS, TEXT, write
from tests.support.machine import growing_less_than
from tests.support.models import TEMPLATE

INDEX = "model.safetensors.index.json"
SHARD = "model-00002-of-00003.safetensors"
MOST_S = 30.0  # of CPU time
MOST_BYTES = 1 << 30
FILES = ("config", "generation_config", "preprocessor_config", "chat_template", "tokenizer", "tokenizer_config")


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Fails a test that takes much processor time, or as much memory as a hostile file asks for."""
    began = time.process_time()
    with growing_less_than(MOST_BYTES):
        yield
    assert time.process_time() - began < MOST_S


# --- edits ---


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


def _cut(name: str, by: int) -> Edit:
    return lambda folder: overwrite(name, (folder / name).read_bytes()[:-by])(folder)


def _pipe(name: str) -> Edit:
    def edit(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return edit


def _link(name: str, target: str) -> Edit:
    def edit(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return edit


def _grown(name: str, size: int) -> Edit:
    """Blanks behind a file's content, of which the disk holds none."""
    return lambda folder: os.truncate(folder / name, size)


def _header(size: int) -> Edit:
    """A file of weights whose header has a length, and no content."""

    def edit(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(size.to_bytes(8, "little") + b"{}")
        os.truncate(folder / "model.safetensors", size + 12)

    return edit


def _as_it_is(_: Path) -> None:
    """No edit."""


def _config_alone(**content: object) -> Edit:
    """A folder of a config.json and nothing else."""

    def edit(folder: Path) -> None:
        for file in folder.iterdir():
            file.unlink()
        write_json(folder / "config.json", content)

    return edit


_LAYERS = edit_json("config.json", text_config__num_hidden_layers=10**9)
_ODD_CONFIGURATIONS = (
    ("config.json", "audio_config__encoder_layers", 20_000),
    ("config.json", "audio_config__num_mel_bins", 1_000_000),
    ("processor_config.json", "feature_extractor__feature_size", 1_000_000),
    ("processor_config.json", "feature_extractor__n_fft", 10**8),
)
_LARGER = (
    ("text_config__intermediate_size", 10**8),
    ("audio_config__max_source_positions", 10**8),
    ("text_config__vocab_size", 3_000_000),
    ("audio_config__d_model", 32_768),
)

# --- refused: what was done to a sound checkpoint, in which layout, what is asked of it, and what is said ---

THINKER: list[tuple[Edit, str]] = [
    (edit_weights(lambda w: w.pop("lm_head.weight")), "edge lacks weights (1): lm_head.weight"),
    (edit_weights(_drop_layer_1), "edge lacks weights (12): "),
    (edit_weights(lambda w: w.update(extra=torch.ones(2))), "edge has unexpected weights (1): extra"),
    (edit_weights(lambda w: w.update({"lm_head.weight": torch.ones(290, 32)})), "edge has misshapen weights"),
    (_text_config(num_attention_heads=0), "edge cannot be loaded"),
    (
        overwrite("model.safetensors", b"<!DOCTYPE html><html>Access is restricted</html>"),
        "model.safetensors is damaged",
    ),
    (_cut("model.safetensors", 100), "model.safetensors is damaged or cut off"),
    (remove("model.safetensors"), "edge lacks 1 of 1 files of weights: edge/model.safetensors"),
    (remove("config.json"), "there is no checkpoint edge"),
    (remove("tokenizer.json"), "edge has no tokenizer.json"),
    (remove("processor_config.json"), "edge has no processor_config.json"),
    (remove("chat_template.jinja"), "edge has no chat template"),
    (_fewer_rows, "edge has 262 token ids, but its tokenizer goes up to 265"),
    (_template("{% for x in %}"), "edge makes no prompt of 1.00 s of audio: TemplateSyntaxError"),
    (_template("{{ raise_exception('no system') }}"), "TemplateError: no system"),
    (_template("{{ cycler.__init__.__globals__ }}"), "SecurityError"),
    (_template(TEMPLATE.replace("<|AUDIO|>", "")), "puts 0 audio placeholders"),
    (_template(TEMPLATE * 2), "puts 2 audio placeholders"),
    (edit_json("config.json", audio_token_id=65, audio_token_index=65), "puts 0 audio placeholders"),
    (edit_json("config.json", model_type="mystery"), "is of type 'mystery'"),
    (edit_json("generation_config.json", num_beams=4), "sets num_beams "),
    (edit_json("generation_config.json", guidance_scale=1.5), "sets guidance_scale "),
    *((edit_json("generation_config.json", eos_token_id=eos), "eos_token_id") for eos in ("x", 288, [7, 999])),
    # what does not end
    *((_pipe(name), f"{name} is not a regular file") for name in ("tokenizer.json", "model.safetensors")),
    (_link("tokenizer.json", "/dev/zero"), "tokenizer.json is not a regular file"),
    (_link("config.json", "/dev/zero"), "there is no checkpoint edge"),
    (_grown("tokenizer_config.json", 140 << 20), "tokenizer_config.json holds 147 MB, and at most 134 MB are read"),
    (_header(200 << 20), "model.safetensors is damaged"),
    (overwrite("config.json", b"[" * 1_000_000), "RecursionError"),
    (_LAYERS, "config.json sets num_hidden_layers to 1,000,000,000"),
    *(
        (edit_json(name, **{key: value}), f"{name} sets {key.rpartition('__')[2]} to {value:,}")
        for name, key, value in _ODD_CONFIGURATIONS
    ),
    *((edit_json("config.json", **{key: value}), "but the files of weights hold") for key, value in _LARGER),
    # what publishers quantised
    (edit_json("config.json", quantization_config={"quant_method": "hqq"}), "quantised (hqq), which specdec does not"),
]
PUBLISHED: list[tuple[Edit, str]] = [
    (_cut(SHARD, 1), f"{SHARD} is damaged or cut off"),
    (remove(SHARD), f"edge lacks 1 of 3 files of weights: edge/{SHARD}"),
    (remove(SHARD, SHARD.replace("2-of", "1-of")), "edge lacks 2 of 3 files of weights: "),
    (overwrite(INDEX, b'{"weight_map": {}}'), "names no safetensors files"),
    *(
        (edit_json(INDEX, **{"weight_map__thinker.lm_head.weight": name}), "names no safetensors files of the folder: ")
        for name in ("../x.safetensors", "/x.safetensors", "pytorch_model.bin")
    ),
    (remove("preprocessor_config.json"), "edge has no processor_config.json"),
    (remove("chat_template.json"), "edge has no chat template"),
    (edit_json("preprocessor_config.json", feature_size=128), "fails the self-test"),
    *(
        (overwrite(f"{name}.json", content), "edge cannot be loaded: ")
        for name in (*FILES, INDEX[:-5])
        for content in (b'{"a": ', b"[1]")
    ),
]


FP8 = edit_json("config.json", quantization_config={"quant_method": "fp8"})
ASKED: list[tuple[Edit, str, dict[str, Any]]] = [
    (_as_it_is, "FlashAttention2", {"attention": "flash_attention_2"}),
    (_as_it_is, "edge cannot be loaded: ", {"device": "cuda:77"}),
    (_as_it_is, "Unknown quantization type, got nothing", {"quantization": {"quant_method": "nothing"}}),
    (FP8, "and quantization is set", {"quantization": "int4"}),
]
OTHERS: list[tuple[Edit, str]] = [
    (_config_alone(model_type="gemma4", audio_config=None), "has no audio encoder"),
    (_config_alone(model_type="granite_speech", has_lora_adapter=True), "has a LoRA adapter"),
    *(
        (_config_alone(model_type=kind), f"is of type '{kind}', which specdec does not load")
        for kind in ("gemma4_assistant", "glmasr", "moss_audio", "nemotron_h_omni", "phi4_multimodal")
    ),
]
"""What matters in the config.json of published checkpoints that cannot be loaded; no weight is looked at."""
REFUSED = [
    *(("thinker_dir", *row, {}) for row in (*THINKER, *OTHERS)),
    *(("hub_dir", *row, {}) for row in PUBLISHED),
    *(("thinker_dir", *row) for row in ASKED),
]


@pytest.mark.parametrize(("source", "edit", "message", "options"), REFUSED)
def test_a_checkpoint_that_does_not_fit_is_refused(request, damaged, source, edit, message, options):
    assert_refused(damaged(edit, source=request.getfixturevalue(source)), message, **options)


@pytest.mark.parametrize("path", ["gone", "../a/b", "~/gone", "a/b/c", "file"])
def test_a_path_that_is_no_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").touch()
    assert_refused(path, "there is no checkpoint")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    folder = write(tmp_path / "model", KINDS["qwen2-audio"], 0)
    monkeypatch.setattr(families.FAMILIES["qwen2-audio"], "needs", ("no-such-package",))
    assert_refused(folder, "needs the package no-such-package, which is not installed", "pip install no-such-package")


def test_a_recurrent_model_is_refused(tmp_path):
    recurrent = {
        "model_type": "bamba", **TEXT, "attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8,
        "mamba_expand": 2, "mamba_d_state": 8,
    }  # fmt: skip

    def config(ids: dict[str, int]) -> Any:
        made = KINDS["qwen2-audio"].config(ids)
        text = transformers.AutoConfig.for_model(**recurrent)
        return transformers.Qwen2AudioConfig(
            audio_config=made.audio_config.to_dict(), text_config=text, audio_token_index=ids["<|AUDIO|>"]
        )

    folder = write(tmp_path / "hybrid", replace(KINDS["qwen2-audio"], config=config), 0)
    assert_refused(folder, "keeps a recurrent state")


def test_a_model_that_reasons_is_refused(tmp_path):
    kind = KINDS["qwen3-omni"]
    kind = replace(kind, template=kind.template.replace("assistant\n{%", "assistant\n<think>\n{%"))
    assert_refused(write(tmp_path / "omni", kind, 0), "reasons before it answers")


@pytest.mark.slow
def test_a_sliding_cache_that_loses_its_past_is_refused(tmp_path, monkeypatch):
    def config(ids: dict[str, int]) -> Any:
        made = KINDS["gemma4"].config(ids)
        made.text_config.sliding_window = 200  # beyond the prompt of the self-test and a few tokens
        return made

    folder = write(tmp_path / "sliding", replace(KINDS["gemma4"], config=config), 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    assert load(folder).self_test == "passed"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(DynamicCache, "activate_past_recording", lambda _: None)
    assert_refused(folder, "fails the self-test")


# --- told ---


def test_a_template_that_is_not_the_checkpoints_own_is_told(tmp_path, caplog):
    folder = write(tmp_path / "base", KINDS["qwen2-audio"], 0)
    load(folder)
    assert not caplog.text
    remove("chat_template.jinja")(folder)
    load(folder)
    assert f"{folder} has no chat template: the default of its class is used" in caplog.text


def test_ends_that_are_words_as_another_familys_ids_would_be_are_told(damaged, caplog):
    load(damaged(edit_json("generation_config.json", eos_token_id=[65, 66])))
    assert "copy ends a text at 'b' and 'c': is its generation_config.json another model's?" in caplog.text


def test_the_tokenizers_template_serves_a_processor_without_one(damaged, thinker_dir):
    moved = edit_json("tokenizer_config.json", chat_template=TEMPLATE)
    found = load(damaged(remove("chat_template.jinja"), moved)).processor
    samples = np.zeros(1600, np.float32)
    assert found.prompt(samples, "how?").ids == load(thinker_dir).processor.prompt(samples, "how?").ids


# --- code and pickles that came with a checkpoint ---


def test_pickled_weights_are_refused_and_not_opened(damaged, hub_dir, tmp_path):
    mark = tmp_path / "unpickled"
    write_trap(tmp_path / "outside.bin", mark)
    outside = edit_json(INDEX, **{"weight_map__thinker.lm_head.weight": "../outside.bin"})
    assert_refused(damaged(outside, source=hub_dir))
    shutil.rmtree(tmp_path / "copy")
    pickled = damaged(remove("model.safetensors"), lambda folder: write_trap(folder / "pytorch_model.bin", mark))
    assert_refused(pickled, "edge/model.safetensors", "save its weights as model.safetensors")
    assert not mark.exists()


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


# --- hub ids, and what else is refused ---


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


def test_an_extractor_that_fails_is_named_and_a_full_memory_is_not_its_fault(thinker_dir, monkeypatch):
    processor = load(thinker_dir).processor

    def raising(error: BaseException) -> Callable[..., None]:
        def fail(*_: object) -> None:
            raise error

        return fail

    monkeypatch.setattr(processor.family, "features", raising(RuntimeError("shapes do not fit")))
    with pytest.raises(CheckpointError, match=r"makes no prompt of 0\.10 s of audio: RuntimeError: shapes do not fit"):
        processor.prompt(np.zeros(1600, np.float32), "x")
    monkeypatch.setattr(processor.family, "features", raising(MemoryError()))
    with pytest.raises(MemoryError):  # which the command line advises about
        processor.prompt(np.zeros(1600, np.float32), "x")
