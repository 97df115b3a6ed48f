"""Loads or connects the models that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from specdec_cli.config import CloudConfig, Config
from specdec_cli.config.model_schema import EdgeConfig, ModelConfig
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.remote import Remote, RemoteEdge
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model, load_processor
from specdec_cli.types import Tell

Loading = Callable[[str], "AbstractContextManager[Tell | None]"]
"""Called with the name of what is loaded. The context lasts while it is loaded, and may yield a `Tell`."""


def load_pair(config: Config, loading: Loading) -> Pair:
    """The models that the configured mode needs, loaded or connected; errors as in `Captioner.load`."""
    used, edge, cloud = config.models, config.edge, config.cloud
    drafting: AudioLM | RemoteEdge | None = None
    verifying: AudioLM | Remote | None = None
    if edge is not None and "edge" in used:
        with loading(f"edge: {edge.label}") as tell:
            drafting = _loaded(config, edge, tell) if edge.url is None else _connect_edge(config, edge)
    if cloud is not None and "cloud" in used:
        with loading(f"cloud: {cloud.label}") as tell:
            here = cloud.url is None
            verifying = _loaded(config, cloud, tell) if here else _connect_cloud(config, cloud, drafting)
    return Pair.of(drafting, verifying)


def _loaded(config: Config, model: ModelConfig, tell: Tell | None) -> AudioLM:
    if config.runtime.threads is not None:
        torch.set_num_threads(config.runtime.threads)
    return load_model(model, config.runtime, tell)


def _connect_edge(config: Config, edge: EdgeConfig) -> RemoteEdge:
    from specdec_cli.cloud.vllm import Vllm
    from specdec_cli.models.remote_processor import RemoteProcessor

    processor = RemoteProcessor(edge.of_processor, offline=config.runtime.offline)
    return Vllm(config.server("edge"), processor, own=True, role="edge")


def _connect_cloud(config: Config, cloud: CloudConfig, edge: AudioLM | RemoteEdge | None) -> Remote:
    """The configured remote cloud. Its own processor or the edge's makes its prompts."""
    own, edge_config, offline = cloud.processor is not None, config.edge, config.runtime.offline
    named = cloud.of_processor if own or edge_config is None else edge_config.of_processor
    if edge is not None and not own:
        processor = edge.processor
    elif cloud.is_vllm and (edge_config is None or edge_config.url is not None):
        from specdec_cli.models.remote_processor import RemoteProcessor

        processor = RemoteProcessor(named, offline=offline)
    else:
        processor = load_processor(named, offline=offline)
    if cloud.is_vllm:
        from specdec_cli.cloud.vllm import Vllm

        return Vllm(config.server("cloud"), processor, own=own)
    from specdec_cli.cloud.verify_client import VerifyClient

    return VerifyClient(config.server("cloud"), processor, own=own)
