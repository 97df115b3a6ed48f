"""Puts the loop of one clip together from loaded models and a configuration."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec_cli.cloud.remote import RemoteClip
from specdec_cli.config.schema import Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.ahead import CloudCalls
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.stop import StopRules
from specdec_cli.models.processor import Prompt
from specdec_cli.prompts import Language
from specdec_cli.types import Decider

if TYPE_CHECKING:
    import torch

    from specdec_cli.cloud.remote import RemoteVerifier
    from specdec_cli.cloud.vllm import VllmDrafter
    from specdec_cli.decoding.draft import Drafter
    from specdec_cli.decoding.next_scores import NextScores
    from specdec_cli.decoding.verify import LocalVerifier
    from specdec_cli.labels.grounding import Grounding
    from specdec_cli.models.engine import Engine


def build_loop(
    pair: Pair,
    config: Config,
    edge_prompt: Prompt | None,
    cloud_prompt: Prompt | None,
    gate: Gate | None = None,
    *,
    engine: Engine | None = None,
    top_n: int = 0,
    synonyms: Synonyms = NO_SYNONYMS,
    language: Language | None = None,
    instruction: str | None = None,
    sound: Grounding | None = None,
) -> Loop:
    """The loop of one clip, with fresh sessions of the models that `decoding.mode` uses.

    Args:
        gate: the gate of all clips; None: the configured one, without weights.
        engine: makes the forwards together with those of other clips; None: the sessions make them.
        top_n: most likely tokens to name at each committed one.
        synonyms: groups of tokens, for the acceptance rule class.
        language, instruction: of the caption; None: the configured ones.
        sound: checks the caption's claims; None: nothing does.
    """
    settings, mode = config.decoding, config.decoding.mode
    drafts_end, text_ends = ends_of(pair, config)
    # in lossless mode a draft is kept once the cloud has failed
    kept_ids = pair.edge.processor.eos_ids if pair.edge and mode in ("hybrid", "lossless") else ()
    gate = replace(gate or Gate.of(config), generator=gate_generator(config, edge_prompt))
    asked = config.instruction() if instruction is None else instruction

    def next_scores(role: Decider, prompt: Prompt | None, stop_ids: tuple[int, ...]) -> NextScores:
        return pair.next_scores(role, prompt, settings, stop_ids, engine, pair.guesses(role, asked, config))

    remote_cloud = pair.cloud if pair.cloud is not None and pair.cloud.is_remote else None
    drafter: Drafter | VllmDrafter | None = None
    verifier: LocalVerifier | RemoteVerifier | None = None
    if mode != "cloud" and pair.edge is not None and pair.edge.is_remote:
        assert edge_prompt is not None
        summed = synonyms if gate.name == "class-entropy" else NO_SYNONYMS
        drafter = pair.edge.drafter(RemoteClip(edge_prompt, config, pair.vocab_size, drafts_end, top_n, summed))
    elif mode != "cloud" or remote_cloud is None:
        from specdec_cli.decoding.draft import Drafter

        role: Decider = "cloud" if mode == "cloud" else "edge"
        drafter = Drafter(next_scores(role, cloud_prompt if mode == "cloud" else edge_prompt, drafts_end))
    if mode != "edge" and remote_cloud is not None and cloud_prompt is not None:
        verifier = remote_cloud.verifier(RemoteClip(cloud_prompt, config, pair.vocab_size, text_ends, top_n, synonyms))
    elif mode in ("hybrid", "lossless"):
        from specdec_cli.decoding.verify import LocalVerifier

        verifier = LocalVerifier(
            next_scores("cloud", cloud_prompt, text_ends), config.acceptance, settings.max_new_tokens, top_n, synonyms
        )
    spoken = (language or config.prompt.language) if config.closes else None
    parallel = remote_cloud is not None or len({model.device for model in pair.loaded}) > 1
    aside = nullcontext if engine is None else engine.step_aside
    return Loop(
        drafter,
        verifier,
        gate,
        StopRules(settings, text_ends, pair.writer.text, spoken, kept_ids),
        settings,
        CloudCalls(settings, pair.costs, drafter, gate, parallel, aside),
        top_n=top_n,
        sound=sound if config.escalates_contradictions else None,
    )


def gate_generator(config: Config, clip: Prompt | None) -> torch.Generator | None:
    """The random gate's own generator, so that the gate changes no drawn token; None for every other gate."""
    if config.gate_in_force != "random" or clip is None:
        return None
    # the clip's features seed it as well: otherwise every clip would escalate the same blocks
    from specdec_cli.decoding.scores import generator_for

    audio = [clip.audio[name].detach().cpu().contiguous().numpy().tobytes() for name in sorted(clip.audio)]
    return generator_for(config.decoding.seed, b"".join(audio))


def ends_of(pair: Pair, config: Config) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that end a draft, and the ids that end the text.

    Each model ends a text at its own ids, as its `generate()` does. In lossless mode a draft ends at the cloud's.
    """
    edge, cloud = (model.processor.eos_ids if model is not None else () for model in (pair.edge, pair.cloud))
    mode = config.decoding.mode
    if mode == "hybrid":
        return edge, cloud
    return (edge, edge) if mode == "edge" else (cloud, cloud)
