"""MOSS-Audio over two vLLM servers: its published files are enough here, and the servers put time markers in.

The stand-in does what vLLM 0.32 does for it: vllm/model_executor/models/moss_audio.py.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_cli.cloud.vllm import Vllm, VllmClip
from specdec_cli.config import ModelConfig, Server
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.remote import RemoteClip
from specdec_cli.errors import CheckpointError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.remote_processor import RemoteProcessor
from specdec_cli.models.session import Session
from tests.cloud.stand_in import ModelServer
from tests.cloud.test_vllm_pair import KIND, pair_case, run
from tests.cloud.vllm_cases import VllmCase, clip, cloud, configured, edge, vllm_case
from tests.cloud.vllm_server import serving
from tests.support.checkpoints import write_json
from tests.support.models import TEMPLATE, audio_processor, byte_tokenizer, tiny_clip
from tests.support.servers import answering
from tests.tiers import few

TOKENS_A_MARKER = 25  # two seconds of 12.5 tokens
LONG, SHORT = 4, 1  # clips with and without a time marker


class MossServer(ModelServer):
    """Takes one placeholder for a recording, and puts a number between its tokens every two seconds."""

    def recording_ids(self, tokens: int) -> list[int]:
        return with_markers(self._model, tokens)


def with_markers(model: AudioLM, tokens: int) -> list[int]:
    processor, ids = model.processor, list[int]()
    for marker in range(1, tokens // TOKENS_A_MARKER + 1):
        ids += [processor.placeholder_id] * TOKENS_A_MARKER + processor.encode(str(2 * marker))
    return ids + [processor.placeholder_id] * (tokens % TOKENS_A_MARKER)


CONFIGURATION = """
from transformers import PretrainedConfig, Qwen3Config

class MossAudioConfig(PretrainedConfig):
    model_type = "moss_audio"

    def __init__(self, audio_config=None, language_config=None, **others):
        self.audio_config = audio_config or {}
        self.language_config = Qwen3Config(**(language_config or {}))
        super().__init__(**others)

    def get_text_config(self, decoder=False):
        return self.language_config
"""
"""What vLLM reads config.json with, as the class that is published beside it does."""
TOWER = {"d_model": 32, "output_dim": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64}
DECODER = {"vocab_size": 288, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 2} | {
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 4096,
}


def served(folder: Path) -> Path:
    """A tiny MOSS-Audio that vLLM loads with random weights; its tokenizer lacks the marks of sound, as published."""
    tokenizer = byte_tokenizer(("<|im_end|>", "<|endoftext|>", "<|im_start|>", "<|vision_pad|>"))
    marks = {"audio_token_id": len(tokenizer) - 1, "audio_start_id": len(tokenizer), "audio_end_id": len(tokenizer) + 2}
    published(folder, tokenizer, **marks, enable_time_marker=True)
    config: dict[str, Any] = {"model_type": "moss_audio", "architectures": ["MossAudioModel"], "vocab_size": 288}
    config |= {"auto_map": {"AutoConfig": "configuration_moss_audio.MossAudioConfig"}, "adapter_hidden_size": 64}
    config |= {"audio_config": TOWER | {"downsample_hidden_size": 16, "deepstack_encoder_layer_indexes": [0]}}
    config |= {"language_config": DECODER, "deepstack_num_inject_layers": 1}
    write_json(folder / "config.json", config)
    (folder / "configuration_moss_audio.py").write_text(CONFIGURATION)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def published(folder: Path, tokenizer: Any = None, **config: Any) -> Path:
    """The files of a repository of MOSS-Audio that matter here, with a tiny tokenizer and without weights."""
    folder.mkdir()
    tokenizer = tokenizer or audio_processor().tokenizer
    added = {id_: {"content": piece, "special": True} for piece, id_ in tokenizer.get_added_vocab().items()}
    vocab = {piece: id_ for piece, id_ in tokenizer.get_vocab().items() if id_ not in added}
    write_json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    names = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    write_json(folder / "tokenizer_config.json", names | {"added_tokens_decoder": added})
    write_json(folder / "config.json", {"model_type": "moss_audio", "language_config": {"vocab_size": 272}})
    write_json(folder / "processor_config.json", {"audio_token_id": cloud().processor.placeholder_id} | config)
    write_json(folder / "generation_config.json", {"eos_token_id": tokenizer.eos_token_id})
    return folder


def joined(stack: ExitStack, folder: Path, at_edge: str, at_cloud: str) -> tuple[Vllm, Vllm]:
    """Clients of an edge's and a cloud's server, for both of which `folder` has tokenizer and prompt."""
    processors = [RemoteProcessor(ModelConfig(model=str(folder)), offline=True) for _ in range(2)]
    named = {"served_model": "tiny", "timeout_s": 60.0, "allow_audio_upload": True}
    drafting = Vllm(Server(url=at_edge, **named), processors[0], own=True, role="edge")
    verifying = Vllm(configured(at_cloud), processors[1], own=True)
    stack.callback(drafting.close)
    stack.callback(verifying.close)
    return drafting, verifying


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[Pair]:
    folder = published(tmp_path_factory.mktemp("moss") / "audio")
    with ExitStack() as stack:
        at_edge, at_cloud = (
            stack.enter_context(answering(MossServer(model).respond)) for model in (edge("near"), cloud())
        )
        yield Pair.of(*joined(stack, folder, at_edge, at_cloud))


def alone(model: AudioLM, of: VllmCase, size: int) -> tuple[int, ...]:
    """What a model writes greedily about a clip with time markers."""
    processor, made = model.processor, model.processor.prompt(clip(of.clip), of.instruction)
    at, tokens = made.ids.index(processor.placeholder_id), made.ids.count(processor.placeholder_id)
    ids = (*made.ids[:at], *with_markers(model, tokens), *made.ids[at + tokens :])
    session, text = Session(model, Prompt(ids, made.audio), 64), list[int]()
    with torch.inference_mode():
        while len(text) < of.config.decoding.max_new_tokens and not (text and text[-1] in processor.eos_ids):
            row = session.logits(text)[-1][:size].clone()
            row[[id_ for id_ in processor.banned_ids if id_ < size]] = -torch.inf
            text.append(int(row.argmax()))
    return tuple(text)


@pytest.mark.parametrize("number", few([LONG, SHORT]))
@pytest.mark.parametrize("mode", few(["lossless", "edge"]))
def test_texts_are_those_of_the_models_with_time_markers(pair, mode, number):
    writer = edge("near") if mode == "edge" else cloud()
    drawn = pair_case(number, mode=mode, acceptance=None, max_new_tokens=24)
    of = vllm_case(number, KIND, number, drawn.instruction, drawn.given)
    _, finished = run(pair, of)
    assert finished.token_ids == alone(writer, of, pair.vocab_size)
    assert len(set(finished.token_ids)) > 1
    unmarked = of.run()[1].token_ids
    assert (finished.token_ids == unmarked) == (number == SHORT)  # the markers matter


@pytest.mark.slow
@pytest.mark.vllm
def test_a_real_server_takes_one_placeholder_and_puts_markers_in(tmp_path):
    """The model is its own edge and cloud, so that all of a draft is accepted, whatever its random weights are."""
    options = ("--load-format", "dummy", "--trust-remote-code", "--limit-mm-per-prompt", '{"audio": 1}')
    folder = served(tmp_path / "moss")
    with serving(folder, tmp_path / "log.txt", *options) as url, ExitStack() as stack:
        drafting, verifying = joined(stack, folder, url, url)
        texts = []
        for mode in ("edge", "lossless"):
            of = pair_case(LONG, mode=mode, acceptance=None, max_new_tokens=24)
            rounds, finished = run(Pair.of(drafting, verifying), of)
            texts.append(finished.token_ids)
            assert finished.degraded is None
        assert texts[0] == texts[1]
        assert all(round_.accepted == len(round_.draft_ids) for round_ in rounds)
        for seconds in (1.0, 2.0, 4.4, 21.0):
            sent = drafting.processor.prompt(tiny_clip(1, seconds), "How?")
            prompt_of = partial(drafting.processor.prompt, tiny_clip(1, seconds), "How?")
            requests = VllmClip(drafting, RemoteClip(prompt_of, of.config, 260, (256,)))
            with requests.call.within_deadline():
                prompt = len(drafting.prompt_ids(sent, requests.call))
                read = requests.scored((), 0, 1, 5).length
            tokens = math.ceil(round(seconds * 12.5, 6))
            markers = sum(len(str(second)) for second in range(2, int(tokens / 12.5) + 1, 2))
            assert read == prompt - 1 + tokens + markers


def test_its_tokenizer_is_read_as_it_is_published(tmp_path):
    ours, theirs = RemoteProcessor(ModelConfig(model=str(published(tmp_path / "a"))), offline=True), cloud().processor
    text = "How does she speak? 她的声音低沉。<|im_end|><|AUDIO|>"
    assert ours.encode(text) == theirs.encode(text)
    assert ours.text(theirs.encode(text)) == theirs.text(theirs.encode(text))
    for name in ("placeholder_id", "banned_ids", "sampling_rate", "window_s"):
        assert getattr(ours, name) == getattr(theirs, name), name
    (tmp_path / "a" / "processor_config.json").write_text('{"mel_config": {"mel_sr": 16000}}')
    assert RemoteProcessor(ModelConfig(model=str(tmp_path / "a")), offline=True).placeholder_id == 151_654
    (tmp_path / "a" / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no tokenizer\.json") as caught:
        RemoteProcessor(ModelConfig(model=str(tmp_path / "a")), offline=True)
    assert "`processor`" in str(caught.value.hint)
