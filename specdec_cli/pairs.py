"""The pair of models that a configuration names: loaded in this process, or connected at their servers."""

from __future__ import annotations

import torch

from specdec_cli.config import Config
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.remote import Remote, RemoteEdge
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.loading import load_model
from specdec_cli.types import Loading


def load_pair(config: Config, loading: Loading) -> Pair:
    """The models that the configured mode needs, loaded or connected; errors as in `Captioner.load`."""
    used, edge, cloud = config.models, config.edge, config.cloud
    drafting: AudioLM | RemoteEdge | None = None
    verifying: AudioLM | Remote | None = None
    if config.runtime.threads is not None and any(model.url is None for model in used.values()):
        torch.set_num_threads(config.runtime.threads)
    if edge is not None and "edge" in used:
        with loading(f"edge: {edge.label}") as tell:
            if edge.url is None:
                drafting = load_model(edge, config.runtime, tell)
            else:
                from specdec_cli.cloud.connect import connect_edge

                drafting = connect_edge(config, edge)
    if cloud is not None and "cloud" in used:
        with loading(f"cloud: {cloud.label}") as tell:
            if cloud.url is None:
                verifying = load_model(cloud, config.runtime, tell)
            else:
                from specdec_cli.cloud.connect import connect_cloud

                verifying = connect_cloud(config, cloud, drafting)
    return Pair.of(drafting, verifying)
