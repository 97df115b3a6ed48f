"""Puts the loop of one clip together from loaded models and a configuration."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specdec_cli.cloud.remote import RemoteClip
from specdec_cli.config.schema import Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.block import AnyDrafter, AnyVerifier
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.prefill import CloudPrefill
from specdec_cli.decoding.stop import StopRules
from specdec_cli.models.processor import Prompt
from specdec_cli.prompts import Language
from specdec_cli.types import Decider

if TYPE_CHECKING:
    import torch

    from specdec_cli.decoding.next_scores import NextScores
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
        gate: the gate of all clips; None: the configured one, without groups of tokens.
        engine: makes the forwards together with those of other clips; None: the sessions make them.
        top_n: most likely tokens to name at each committed one.
        synonyms: groups of tokens, for the acceptance rule class.
        language, instruction: of the caption; None: the configured ones.
        sound: bans tokens of both models; None: nothing does.
    """
    asked = config.instruction() if instruction is None else instruction
    models = _ClipModels(pair, config, asked, engine, top_n, synonyms, sound)
    drafts_end, text_ends = ends_of(pair, config)
    gate = replace(gate or Gate.of(config), generator=gate_generator(config, edge_prompt))
    drafter = models.drafter(cloud_prompt if config.decoding.mode == "cloud" else edge_prompt, drafts_end, gate)
    # in lossless mode a draft is kept once the cloud has failed
    kept_ids = pair.edge.processor.eos_ids if pair.edge and config.decoding.mode in ("hybrid", "lossless") else ()
    spoken = (language or config.prompt.language) if config.closes else None
    aside = nullcontext if engine is None else engine.step_aside
    return Loop(
        drafter,
        models.verifier(cloud_prompt, text_ends),
        gate,
        StopRules(config.decoding, text_ends, pair.writer.text, spoken, kept_ids),
        config.decoding,
        CloudPrefill(config.decoding.cloud_prefill, aside),
        top_n=top_n,
    )


@dataclass(frozen=True)
class _ClipModels:
    """Makes the drafter and the verifier of one clip; for the fields see `build_loop`."""

    pair: Pair
    config: Config
    instruction: str
    engine: Engine | None
    top_n: int
    synonyms: Synonyms
    sound: Grounding | None

    def drafter(self, prompt: Prompt | None, stop_ids: tuple[int, ...], gate: Gate) -> AnyDrafter | None:
        """The edge, or a loaded cloud that writes alone; None if a remote cloud does."""
        pair, alone = self.pair, self.config.decoding.mode == "cloud"
        if pair.edge is not None and pair.edge.is_remote and not alone:
            summed = self.synonyms if gate.name == "class-entropy" else NO_SYNONYMS
            return pair.edge.drafter(self._remote(prompt, stop_ids, summed))
        if pair.cloud is not None and pair.cloud.is_remote and alone:
            return None
        from specdec_cli.decoding.draft import Drafter

        return Drafter(self._scores("cloud" if alone else "edge", prompt, stop_ids))

    def verifier(self, prompt: Prompt | None, stop_ids: tuple[int, ...]) -> AnyVerifier | None:
        """The cloud; None if the edge, or a loaded cloud, writes alone."""
        mode, cloud = self.config.decoding.mode, self.pair.cloud
        if mode == "edge":
            return None
        if cloud is not None and cloud.is_remote:
            return cloud.verifier(self._remote(prompt, stop_ids, self.synonyms))
        if mode == "cloud":
            return None
        from specdec_cli.decoding.verify import LocalVerifier

        rules, most = self.config.acceptance, self.config.decoding.max_new_tokens
        return LocalVerifier(self._scores("cloud", prompt, stop_ids), rules, most, self.top_n, self.synonyms)

    def _remote(self, prompt: Prompt | None, stop_ids: tuple[int, ...], synonyms: Synonyms) -> RemoteClip:
        assert prompt is not None
        return RemoteClip(prompt, self.config, self.pair.vocab_size, stop_ids, self.top_n, synonyms, self.sound)

    def _scores(self, role: Decider, prompt: Prompt | None, stop_ids: tuple[int, ...]) -> NextScores:
        guesses = self.pair.guesses(role, self.instruction, self.config)
        sound = None if self.sound is None else self.sound.banned
        return self.pair.next_scores(role, prompt, self.config.decoding, stop_ids, self.engine, guesses, sound)


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
