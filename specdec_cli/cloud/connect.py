"""Connects the remote models that a configuration names."""

from __future__ import annotations

from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.cloud.vllm import Vllm
from specdec_cli.config import CloudConfig, Config
from specdec_cli.config.model_schema import EdgeConfig
from specdec_cli.decoding.remote import Remote, RemoteEdge
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_processor
from specdec_cli.models.remote_processor import RemoteProcessor


def connect_edge(config: Config, edge: EdgeConfig) -> RemoteEdge:
    """The configured remote edge."""
    processor = RemoteProcessor(edge.of_processor, offline=config.runtime.offline)
    return Vllm(config.server("edge"), processor, own=True, role="edge")


def connect_cloud(config: Config, cloud: CloudConfig, edge: AudioLM | RemoteEdge | None) -> Remote:
    """The configured remote cloud. Its own processor or the edge's makes its prompts."""
    own, edge_config, offline = cloud.processor is not None, config.edge, config.runtime.offline
    named = cloud.of_processor if own or edge_config is None else edge_config.of_processor
    if edge is not None and not own:
        processor = edge.processor
    elif cloud.is_vllm and (edge_config is None or edge_config.url is not None):
        processor = RemoteProcessor(named, offline=offline)
    else:
        processor = load_processor(named, offline=offline)
    client = Vllm if cloud.is_vllm else VerifyClient
    return client(config.server("cloud"), processor, own=own)
