"""Puts the loop of one clip together from loaded models and a configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from specdec_cli.cloud.remote import RemoteClip
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.config.schema import Config
from specdec_cli.decoding.accept import NO_SYNONYMS, Synonyms
from specdec_cli.decoding.ahead import CloudCalls
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.guesses import OWN, Guesses, GuessTable, key_of
from specdec_cli.decoding.length import Costs, capacity
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.stop import StopRules
from specdec_cli.errors import ConfigError
from specdec_cli.models.processor import Processor, Prompt, same_prompts, shared_vocab_size
from specdec_cli.prompts import Language
from specdec_cli.types import Decider, Source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from specdec_cli.cloud.remote import RemoteModel, RemoteVerifier
    from specdec_cli.cloud.vllm import Vllm, VllmDrafter
    from specdec_cli.decoding.draft import Drafter
    from specdec_cli.decoding.next_scores import NextScores
    from specdec_cli.decoding.verify import LocalVerifier
    from specdec_cli.labels.grounding import Grounding
    from specdec_cli.models.audio_lm import AudioLM
    from specdec_cli.models.engine import Engine


Prompts = tuple[Prompt | None, Prompt | None]
"""A clip's prompt for the edge and for the cloud; None for one that does not take part."""


@dataclass(frozen=True)
class Pair:
    """The models of a run; either may be absent where no mode needs it."""

    edge: AudioLM | Vllm | None
    cloud: AudioLM | RemoteModel | None
    vocab_size: int  # leading token ids that both may use
    costs: Costs = field(default_factory=Costs, compare=False, repr=False)  # of their steps so far
    guess_table: GuessTable = field(default_factory=GuessTable, compare=False, repr=False)  # of their captions so far

    @classmethod
    def of(cls, edge: AudioLM | Vllm | None, cloud: AudioLM | RemoteModel | None) -> Pair:
        """The pair of two models, at least one of them not None, once they are found to work together.

        Raises TokenizerMismatchError if they share too little vocabulary, ConfigError if their sampling rates differ.
        """
        processors = [model.processor for model in (edge, cloud) if model is not None]
        one, other = processors[0], processors[-1]
        if one.sampling_rate != other.sampling_rate:
            raise ConfigError("edge and cloud take audio at different sampling rates")
        return cls(edge, cloud, shared_vocab_size(one, other))

    @property
    def models(self) -> dict[Decider, AudioLM | RemoteModel]:
        """The models that take part, by role, the edge first."""
        both: dict[Decider, AudioLM | RemoteModel | None] = {"edge": self.edge, "cloud": self.cloud}
        return {role: model for role, model in both.items() if model is not None}

    @property
    def loaded(self) -> tuple[AudioLM, ...]:
        """The models of this process, the edge first."""
        return tuple(model for model in self.models.values() if not model.is_remote)

    @property
    def remotes(self) -> tuple[RemoteModel, ...]:
        """The remote models, the edge first."""
        return tuple(model for model in self.models.values() if model.is_remote)

    def local(self, role: Decider) -> AudioLM | None:
        """The model of a role, if it is loaded in this process."""
        model = self.models.get(role)
        return None if model is None or model.is_remote else model

    @property
    def writer(self) -> Processor:
        """The processor that turns token ids into text. Either model's would do: over the shared ids they agree."""
        return next(iter(self.models.values())).processor

    def prompts(self, config: Config, samples: npt.NDArray[np.float32], instruction: str) -> Prompts:
        """The prompts of a clip, mono samples [n], for edge and cloud; made once if both take the same."""
        made: dict[str, Prompt] = {}
        found: dict[Decider, Prompt] = {}
        for role, model in self.models.items():
            asked = config.instruction_of(role, instruction)
            if not (asked in made and self._alike):
                made[asked] = model.processor.prompt(samples, asked, config.prompt.system)
            found[role] = made[asked]
        return found.get("edge"), found.get("cloud")

    @cached_property
    def _alike(self) -> bool:
        """Whether one prompt serves both models."""
        processors = [model.processor for model in self.models.values()]
        return len(processors) == 2 and same_prompts(*processors)

    def guesses(self, role: Decider, instruction: str, config: Config) -> Guesses | None:
        """The source of a model's guesses; None for a model that is not loaded in this process."""
        model = self.local(role)
        if model is None:
            return None
        asked = config.instruction_of(role, instruction), config.prompt.system
        key = key_of(model.weights or model.name, role, asked)
        most, longest = config.decoding.guess_tokens, config.decoding.max_new_tokens
        return Guesses(self.guess_table, key, most, longest, self.costs.guesses[role])

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
        for role, own in OWN.items():
            model, guesses = self.local(role), self.guesses(role, instruction, config)
            if model is not None and guesses is not None and weights.get(role, "") == model.weights:
                guesses.table.learn(guesses.key, ids, [source in own for source in sources])

    def next_scores(
        self,
        role: Decider,
        prompt: Prompt | None,
        settings: DecodingConfig,
        stop_ids: Collection[int],
        engine: Engine | None = None,
        guesses: Guesses | None = None,
    ) -> NextScores:
        """The next-token scores of a loaded model for a clip, with a fresh session."""
        from specdec_cli.decoding.next_scores import NextScores
        from specdec_cli.models.session import Session

        model = self.local(role)
        assert model is not None and prompt is not None, "checked when the pair was made"  # noqa: PT018
        session = Session(model, prompt, capacity(settings), self.vocab_size, engine)
        return NextScores(session, settings, stop_ids, guesses)


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
