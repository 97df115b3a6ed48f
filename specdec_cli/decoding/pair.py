"""The models of a run, and what belongs to both: their vocabulary, prompts and guesses, and the loop of a clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.config.schema import Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.block import Drafter, Verifier
from specdec_cli.decoding.draft import LocalDrafter
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.guesses import OWN_SOURCES, Guesses, GuessTable, key_of
from specdec_cli.decoding.length import capacity
from specdec_cli.decoding.loop import CloudPrefill, Loop
from specdec_cli.decoding.next_scores import Bans, NextScores
from specdec_cli.decoding.remote import ClipGrounding, Remote, RemoteClip, RemoteEdge
from specdec_cli.decoding.scores import generator_for
from specdec_cli.decoding.stop import StopRules
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import ConfigError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.engine import Engine
from specdec_cli.models.processor import (
    Processor,
    Prompt,
    require_lossless,
    same_prompts,
    shared_vocab_size,
    suggestions,
)
from specdec_cli.models.session import Session
from specdec_cli.prompts import Language
from specdec_cli.types import Decider, Mode, Payload, Source

Prompts = tuple[Prompt | None, Callable[[], Prompt] | None]
"""A clip's prompt for the edge, and what makes that for the cloud; None for a model that does not take part."""


@dataclass(frozen=True)
class Pair:
    """The models of a run; either may be absent if no mode needs it."""

    edge: AudioLM | RemoteEdge | None
    cloud: AudioLM | Remote | None
    vocab_size: int  # leading token ids that both may use
    guess_table: GuessTable = field(default_factory=GuessTable, compare=False, repr=False)  # of their captions so far

    @classmethod
    def of(cls, edge: AudioLM | RemoteEdge | None, cloud: AudioLM | Remote | None) -> Pair:
        """The pair of two models, at least one of them not None, once they are found to work together.

        Raises TokenizerMismatchError if they share too little vocabulary, ConfigError if their sampling rates differ.
        """
        processors = [model.processor for model in (edge, cloud) if model is not None]
        one, other = processors[0], processors[-1]
        if one.sampling_rate != other.sampling_rate:
            raise ConfigError("edge and cloud take audio at different sampling rates")
        return cls(edge, cloud, shared_vocab_size(one, other))

    def require_mode(self, mode: Mode) -> None:
        """Raises TokenizerMismatchError if the pair cannot keep the cloud's own text in lossless mode."""
        if mode == "lossless" and self.cloud is not None:
            require_lossless(self.cloud.processor, self.vocab_size)

    @property
    def models(self) -> dict[Decider, AudioLM | Remote]:
        """The models that take part, by role, the edge first."""
        both: dict[Decider, AudioLM | Remote | None] = {"edge": self.edge, "cloud": self.cloud}
        return {role: model for role, model in both.items() if model is not None}

    @property
    def described(self) -> dict[Decider, Mapping[str, str]]:
        """What transcripts record of each model. A remote one knows more once its server has answered."""
        return {role: model.describe() for role, model in self.models.items()}

    @property
    def loaded(self) -> tuple[AudioLM, ...]:
        """The models of this process, the edge first."""
        return tuple(model for model in self.models.values() if not model.is_remote)

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """The remote models, the edge first."""
        return tuple(model for model in self.models.values() if model.is_remote)

    @property
    def payload(self) -> Payload | Literal["none"]:
        """The form in which a recording is sent to a remote model; `none` if all are loaded."""
        return next((model.payload for model in self.remotes), "none")

    @property
    def shipped_only(self) -> tuple[Decider, ...]:
        """The models that were trained on the shipped prompts alone."""
        configs = {role: model.processor.config for role, model in self.models.items()}
        return tuple(role for role, own in configs.items() if getattr(own, "specdec_prompts", None) == "shipped")

    def suggested(self, decoding: DecodingConfig) -> dict[Decider, dict[str, float]]:
        """What the checkpoints add to settings of decoding that were left open."""
        found = {role: suggestions(decoding, model.processor) for role, model in self.models.items()}
        return {role: added for role, added in found.items() if added}

    def local(self, role: Decider) -> AudioLM | None:
        """The model of a role, if it is loaded in this process."""
        model = self.models.get(role)
        return None if model is None or model.is_remote else model

    @property
    def processor(self) -> Processor:
        """The processor that turns token ids into text. Either model's would do: over the shared ids they agree."""
        return next(iter(self.models.values())).processor

    def prompts(self, config: Config, samples: npt.NDArray[np.float32], instruction: str) -> Prompts:
        """What each model reads of a clip, mono samples [n]: its instruction as token ids, its audio as features.

        One prompt serves both models if they take the same. Otherwise that of a cloud that may never be called is made
        when it is called.
        """
        asked = {role: config.instruction_of(role, instruction) for role in self.models}
        makers = {
            role: cache(partial(model.processor.prompt, samples, asked[role], config.prompt.system))
            for role, model in self.models.items()
        }
        edge, cloud = makers.get("edge"), makers.get("cloud")
        if edge is not None and cloud is not None and asked["edge"] == asked["cloud"] and self._alike:
            cloud = edge
        elif cloud is not None and not (config.decoding.mode == "hybrid" and config.decoding.cloud_prefill == "lazy"):
            cloud()
        return None if edge is None else edge(), cloud

    @cached_property
    def _alike(self) -> bool:
        """Whether one prompt serves both models."""
        processors = [model.processor for model in self.models.values()]
        return len(processors) == 2 and same_prompts(*processors)

    def new_loop(
        self,
        config: Config,
        prompts: Prompts,
        gate: Gate | None = None,
        *,
        engine: Engine | None = None,
        top_n: int = 0,
        synonyms: Synonyms = NO_SYNONYMS,
        language: Language | None = None,
        instruction: str | None = None,
        grounding: ClipGrounding | None = None,
    ) -> Loop:
        """Makes the loop of one clip; nothing is decoded yet.

        What drafts and what verifies are those that `decoding.mode` uses: of a loaded model a `LocalDrafter` and a
        `LocalVerifier`, each with its `new_scores`; of a remote one what it makes itself.

        Args:
            prompts: of the clip, for the models that take part.
            gate: that of all clips; None: the configured one, without groups of tokens.
            engine: makes the forwards together with those of other clips; None: the sessions make them.
            top_n: most likely tokens to name at each committed one.
            synonyms: groups of tokens, for the acceptance rule class.
            language, instruction: of the clip; None: the configured ones.
            grounding: bans tokens of both models, if it decides any attribute; None: nothing does.
        """
        edge_prompt, cloud_prompt = prompts
        settings, mode = config.decoding, config.decoding.mode
        draft_ends, text_ends = self.ends(mode)
        gate = replace(gate or Gate.of(config), generator=gate_generator(config, edge_prompt))
        bans = grounding if grounding is not None and grounding.attributes else None
        banned = None if bans is None else bans.banned
        scores = partial(self.new_scores, config, engine=engine, instruction=instruction, bans=banned)
        clip = partial(RemoteClip, config=config, vocab_size=self.vocab_size, top_n=top_n, grounding=bans)
        drafter: Drafter | None = None
        verifier: Verifier | None = None
        if mode != "cloud" and self.edge is not None:
            assert edge_prompt is not None  # the mode uses it
            if self.edge.is_remote:
                summed = synonyms if gate.name == "class-entropy" else NO_SYNONYMS
                drafter = self.edge.drafter(clip(lambda: edge_prompt, stop_ids=draft_ends, synonyms=summed))
            else:
                drafter = LocalDrafter(scores("edge", edge_prompt, draft_ends), top_n)
        if mode != "edge" and self.cloud is not None:
            assert cloud_prompt is not None
            if self.cloud.is_remote:
                verifier = self.cloud.verifier(clip(cloud_prompt, stop_ids=text_ends, synonyms=synonyms))
            elif mode == "cloud":  # it writes alone
                drafter = LocalDrafter(scores("cloud", cloud_prompt(), text_ends), top_n)
            else:
                of_cloud = cache(lambda: scores("cloud", cloud_prompt(), text_ends))
                if settings.cloud_prefill == "overlap":
                    of_cloud()  # in the clip's own thread, whose sessions the engine closes
                verifier = LocalVerifier(of_cloud, settings.rules, settings.max_new_tokens, top_n, synonyms)
        prefill = CloudPrefill(settings.cloud_prefill, nullcontext if engine is None else engine.step_aside)
        return Loop(drafter, verifier, gate, self._stop_rules(config, text_ends, language), settings, prefill, top_n)

    def _stop_rules(self, config: Config, text_ends: tuple[int, ...], language: Language | None) -> StopRules:
        """Where a text ends, apart from its models."""
        # in lossless mode a draft is kept once the cloud has failed
        keeps_drafts = self.edge is not None and config.decoding.mode in ("hybrid", "lossless")
        kept_ids = self.edge.processor.eos_ids if self.edge is not None and keeps_drafts else ()
        spoken = (language or config.prompt.language) if config.closes else None
        return StopRules(config.decoding, text_ends, self.processor.text, spoken, kept_ids)

    def new_scores(
        self,
        config: Config,
        role: Decider,
        prompt: Prompt,
        stop_ids: tuple[int, ...],
        *,
        engine: Engine | None = None,
        instruction: str | None = None,
        bans: Bans | None,
    ) -> NextScores:
        """A `NextScores` of a loaded model with a fresh `Session` of the clip; nothing is scored yet.

        `engine`: makes the session, and its forwards; `bans`: those of the sound.
        """
        model, settings = self.local(role), config.decoding
        assert model is not None  # checked when the pair was made
        new_session = Session if engine is None else engine.session
        session = new_session(model, prompt, capacity(settings), self.vocab_size)
        guesses = self.guesses(role, config.instruction() if instruction is None else instruction, config)
        return NextScores(session, settings, stop_ids, guesses, bans)

    def ends(self, mode: Mode) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that end a draft, and the ids that end the text.

        Each model ends a text at its own ids, as its `generate()` does. In lossless mode a draft ends at the cloud's.
        """
        edge, cloud = (model.processor.eos_ids if model is not None else () for model in (self.edge, self.cloud))
        if mode == "hybrid":
            return edge, cloud
        return (edge, edge) if mode == "edge" else (cloud, cloud)

    def guesses(self, role: Decider, instruction: str, config: Config) -> Guesses | None:
        """The source of a model's guesses; None for a model that is not loaded in this process."""
        model = self.local(role)
        if model is None:
            return None
        asked = config.instruction_of(role, instruction), config.prompt.system
        key = key_of(model.weights or model.name, role, asked)
        most, longest = config.decoding.guess_tokens, config.decoding.max_new_tokens
        return Guesses(self.guess_table, key, most, longest)

    def learn(
        self,
        config: Config,
        instruction: str,
        ids: Sequence[int],
        sources: Sequence[Source],
        weights: Mapping[str, str | None],
    ) -> None:
        """Lets later captions be guessed from a finished one, for each model whose weights wrote it.

        `weights` are the fingerprints of the models that wrote it, by role.
        """
        for role, own in OWN_SOURCES.items():
            model, guesses = self.local(role), self.guesses(role, instruction, config)
            if model is not None and guesses is not None and weights.get(role, "") == model.weights:
                guesses.table.learn(guesses.key, ids, [source in own for source in sources])


def gate_generator(config: Config, prompt: Prompt | None) -> torch.Generator | None:
    """The random gate's own generator, so that the gate changes no drawn token; None for every other gate."""
    if config.gate_in_force != "random" or prompt is None:
        return None
    # the clip's features seed it as well: otherwise every clip would escalate the same blocks
    audio = [prompt.audio[name].detach().cpu().contiguous().numpy().tobytes() for name in sorted(prompt.audio)]
    return generator_for(config.decoding.seed, b"".join(audio))
