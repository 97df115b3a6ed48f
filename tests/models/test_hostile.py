"""A checkpoint that would stop the machine or fill it is refused, within seconds and a little memory."""

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.errors import CheckpointError
from specdec_cli.models import rendering
from specdec_cli.models.rendering import TemplateError, rendered
from specdec_cli.models.selftest import _remembered, self_test
from tests.models.checkpoints import Edit, assert_refused, edit_json, load, overwrite
from tests.tiny import TEMPLATE

MOST_S = 30.0  # of CPU time
MOST_BYTES = 1 << 30


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Fails a test that takes much processor time, or as much memory as a hostile file asks for."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.process_time() - began < MOST_S
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST_BYTES


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

    def edit(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(size)

    return edit


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_pipe("config.json"), "there is no checkpoint"),
        (_link("config.json", "/dev/zero"), "there is no checkpoint"),
        *((_pipe(name), f"{name} is no regular file") for name in ("tokenizer.json", "generation_config.json")),
        *((_link(name, "/dev/zero"), f"{name} is no regular file") for name in ("merges.txt", "chat_template.jinja")),
        (_pipe("adapter_config.json"), "adapter_config.json is no regular file"),
        *((_grown(name, 200 << 20), f"{name} holds 210 MB") for name in ("config.json", "tokenizer.json")),
        (_grown("tokenizer_config.json", 140 << 20), "tokenizer_config.json holds 147 MB, and at most 134 MB are read"),
        (_pipe("model.safetensors"), "model.safetensors"),
        (_link("model.safetensors", "/dev/zero"), "model.safetensors"),
        (overwrite("config.json", b"[" * 1_000_000), "RecursionError"),
    ],
)
def test_files_that_do_not_end(damaged, edit, said):
    assert_refused(damaged(edit), said)


@pytest.mark.parametrize("entries", ["{}", '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'])
def test_a_header_of_90_mb(damaged, entries):
    size = 90 << 20

    def edit(folder: Path) -> None:
        with (folder / "model.safetensors").open("wb") as file:
            file.write(size.to_bytes(8, "little") + entries.encode())
            file.truncate(size + 12)

    assert_refused(damaged(edit), "the header of model.safetensors takes 94 MB, and at most 17 MB")


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("config.json", "audio_config__encoder_layers", 20_000),
        ("config.json", "text_config__num_hidden_layers", 10**9),
        ("config.json", "num_labels", 10**9),
        ("config.json", "audio_config__num_mel_bins", 1_000_000),
        ("config.json", "text_config__vocab_size", 10**9),
        ("processor_config.json", "feature_extractor__feature_size", 1_000_000),
        ("processor_config.json", "feature_extractor__n_fft", 10**8),
        ("processor_config.json", "feature_extractor__chunk_length", 10**9),
        ("processor_config.json", "feature_extractor__sampling_rate", 1e12),
    ],
)
def test_numbers_that_no_model_has(damaged, name, key, value):
    said = f"{name} sets {key.rpartition('__')[2]} to {int(value):,}"
    assert_refused(damaged(edit_json(name, **{key: value})), said)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("text_config__intermediate_size", 10**8),
        ("audio_config__max_source_positions", 10**8),
        ("text_config__vocab_size", 3_000_000),
        ("audio_config__d_model", 32_768),
    ],
)
def test_a_model_far_larger_than_its_weights(damaged, key, value):
    assert_refused(damaged(edit_json("config.json", **{key: value})), "but the files of weights hold")


@pytest.mark.ci
def test_layers_that_would_take_minutes(damaged):
    kinds = ["full_attention"] * 256
    text = {"text_config__num_hidden_layers": 256, "text_config__layer_types": kinds}
    many = edit_json("config.json", audio_config__encoder_layers=256, **text)
    assert_refused(damaged(many), "makes more than 4,000 modules")


LOOPS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro m(n) %}{% for i in range(9) %}{{ m(n - 1) if n }}{% endfor %}{% endmacro %}{{ m(99) }}",
    "{% set n = namespace(x=[1]) %}{% for i in range(99999) %}{% set n.x = n.x + n.x[:9999] %}{% endfor %}",
    "{{ 9 ** (9 ** 9) }}",
)
SWELLS = (
    "{{ 'a' * 9999999999 }}",
    "{% set n = namespace(s='a' * 999) %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
    "{{ '%9999999999d' | format(1) }}",
    "{{ 'a' | center(9999999999) }}",
    "{% for a in range(99999) %}{{ 'a' * 999 }}{% endfor %}",
)


@pytest.mark.ci
@pytest.mark.parametrize("template", [*LOOPS, *SWELLS])
def test_a_template_that_never_ends_or_swells(template):
    with pytest.raises(TemplateError):
        rendered(template, [{"role": "user", "content": "x"}], {})


@pytest.mark.ci
@pytest.mark.parametrize("template", [LOOPS[0], SWELLS[0], TEMPLATE + "{{ 'a' * 2000000 }}"])
def test_a_checkpoint_with_such_a_template(damaged, template):
    assert_refused(damaged(overwrite("chat_template.jinja", template.encode())), "the chat template of edge fails: ")


def test_a_template_that_is_rendered_once_for_all_clips(thinker_dir, monkeypatch):
    processor = load(thinker_dir).processor
    first = processor.prompt(np.zeros(1600, np.float32), "once")
    monkeypatch.setattr(rendering.subprocess, "run", None)
    assert processor.prompt(np.ones(1600, np.float32), "once").ids == first.ids


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('no system') }}", "{% if %}", "{{ cycler.__init__.__globals__ }}"]
)
def test_a_template_that_fails_says_why(template):
    with pytest.raises(TemplateError, match=r"no system|SyntaxError|SecurityError|UndefinedError"):
        rendered(template, [], {})


def test_special_tokens_and_extensions_are_those_of_transformers():
    template = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{% generation %}{{ m.content | tojson }}{% endgeneration %}{% endfor %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    turns = [{"role": "user", "content": "<é>"}, {"role": "user", "content": "b"}]
    assert rendered(template, turns, {"bos_token": "<s>"}) == '<s>"<é>">'


# --- a failing extractor is no failing template ---


def test_an_extractor_that_fails_is_named(thinker_dir, monkeypatch):
    processor = load(thinker_dir).processor
    for error in (RuntimeError("shapes do not fit"), TypeError("x"), ValueError("bins")):
        monkeypatch.setattr(processor.family, "features", _raising(error))
        with pytest.raises(CheckpointError, match=r"the processor of .* fails on 0\.10 s of audio: ") as caught:
            processor.prompt(np.zeros(1600, np.float32), "x")
        assert "template" not in f"{caught.value.message} {caught.value.hint}"
    monkeypatch.setattr(processor.family, "features", _raising(MemoryError()))
    with pytest.raises(MemoryError):  # which the command line advises about
        processor.prompt(np.zeros(1600, np.float32), "x")


def _raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


# --- what is remembered of a self-test ---


def test_a_remembered_test_that_cannot_be_read_is_made_again(thinker_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = load(thinker_dir)
    memory = _remembered(model)
    assert memory.read_text() == "passed"
    memory.write_bytes(b"\xff" * 20)
    self_test(model)
    assert model.self_test == "passed"
    assert memory.read_text() == "passed"
