"""Puts the loop of one clip together from loaded models and a configuration."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache

import torch

from specdec_cli.config.schema import Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.block import Drafter, Verifier
from specdec_cli.decoding.draft import LocalDrafter
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.length import capacity
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.prefill import CloudPrefill
from specdec_cli.decoding.remote import MeasuredSound, RemoteClip
from specdec_cli.decoding.scores import generator_for
from specdec_cli.decoding.stop import StopRules
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.models.engine import Engine
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from specdec_cli.prompts import Language
from specdec_cli.types import Decider


@dataclass(frozen=True, slots=True)
class ClipModels:
    """The models and settings of one clip, as its loop needs them."""

    pair: Pair
    config: Config
    engine: Engine | None = None  # makes the forwards together with those of other clips; None: the sessions make them
    top_n: int = 0  # most likely tokens to name at each committed one
    synonyms: Synonyms = field(default_factory=dict)  # groups of tokens, for the acceptance rule class
    language: Language | None = None  # of the caption; None: the configured one
    instruction: str | None = None  # None: the configured one
    sound: MeasuredSound | None = None  # bans tokens of both models; None: nothing does

    def loop(
        self, edge_prompt: Prompt | None, cloud_prompt: Callable[[], Prompt] | None, gate: Gate | None = None
    ) -> Loop:
        """The loop, with fresh sessions of the models that `decoding.mode` uses.

        `gate`: that of all clips; None: the configured one, without groups of tokens.
        """
        pair, config, mode = self.pair, self.config, self.config.decoding.mode
        drafts_end, text_ends = ends_of(pair, config)
        gate = replace(gate or Gate.of(config), generator=gate_generator(config, edge_prompt))
        drafter, verifier = None, None
        if mode == "cloud":
            assert cloud_prompt is not None
            if pair.local("cloud") is None:
                verifier = self.verifier(cloud_prompt, text_ends)
            else:
                drafter = self.drafter("cloud", cloud_prompt(), text_ends, gate)
        else:
            assert edge_prompt is not None
            drafter = self.drafter("edge", edge_prompt, drafts_end, gate)
        if mode in ("hybrid", "lossless"):
            assert cloud_prompt is not None
            verifier = self.verifier(cloud_prompt, text_ends)
        # in lossless mode a draft is kept once the cloud has failed
        kept_ids = pair.edge.processor.eos_ids if pair.edge and mode in ("hybrid", "lossless") else ()
        spoken = (self.language or config.prompt.language) if config.closes else None
        stop = StopRules(config.decoding, text_ends, pair.processor.text, spoken, kept_ids)
        aside = nullcontext if self.engine is None else self.engine.step_aside
        prefill = CloudPrefill(config.decoding.cloud_prefill, aside)
        return Loop(drafter, verifier, gate, stop, config.decoding, prefill, self.top_n)

    def drafter(self, role: Decider, prompt: Prompt, stop_ids: tuple[int, ...], gate: Gate) -> Drafter:
        """The edge, or a loaded cloud that writes alone."""
        edge = self.pair.edge
        if role == "edge" and edge is not None and edge.is_remote:
            summed = self.synonyms if gate.name == "class-entropy" else NO_SYNONYMS
            return edge.drafter(self._remote(lambda: prompt, stop_ids, summed))
        return LocalDrafter(self.scores(role, prompt, stop_ids), self.top_n)

    def verifier(self, prompt: Callable[[], Prompt], stop_ids: tuple[int, ...]) -> Verifier:
        """The cloud."""
        cloud, config = self.pair.cloud, self.config
        if cloud is not None and cloud.is_remote:
            return cloud.verifier(self._remote(prompt, stop_ids, self.synonyms))
        make_scores = cache(lambda: self.scores("cloud", prompt(), stop_ids))
        if config.decoding.cloud_prefill == "overlap":
            make_scores()  # the engine closes the sessions that the clip's own thread opens
        rules, most = config.decoding.rules, config.decoding.max_new_tokens
        return LocalVerifier(make_scores, rules, most, self.top_n, self.synonyms)

    def scores(self, role: Decider, prompt: Prompt, stop_ids: tuple[int, ...]) -> NextScores:
        """The next-token scores of a loaded model, with a fresh session."""
        model, settings = self.pair.local(role), self.config.decoding
        assert model is not None  # checked when the pair was made
        session = Session(model, prompt, capacity(settings), self.pair.vocab_size, self.engine)
        instruction = self.config.instruction() if self.instruction is None else self.instruction
        guesses = self.pair.guesses(role, instruction, self.config)
        sound = None if self.sound is None else self.sound.banned
        return NextScores(session, settings, stop_ids, guesses, sound)

    def _remote(self, prompt: Callable[[], Prompt], stop_ids: tuple[int, ...], synonyms: Synonyms) -> RemoteClip:
        return RemoteClip(prompt, self.config, self.pair.vocab_size, stop_ids, self.top_n, synonyms, self.sound)


def gate_generator(config: Config, clip: Prompt | None) -> torch.Generator | None:
    """The random gate's own generator, so that the gate changes no drawn token; None for every other gate."""
    if config.gate_in_force != "random" or clip is None:
        return None
    # the clip's features seed it as well: otherwise every clip would escalate the same blocks
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
