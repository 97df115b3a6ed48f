"""The pair of models of a run, and what belongs to both: their vocabulary, their prompts, their guesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt

from specdec_cli.config.schema import Config
from specdec_cli.decoding.guesses import OWN_SOURCES, Guesses, GuessTable, key_of
from specdec_cli.decoding.remote import Remote, RemoteEdge
from specdec_cli.errors import ConfigError
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Processor, Prompt, require_lossless, same_prompts, shared_vocab_size
from specdec_cli.types import Decider, Mode, Source

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
    def loaded(self) -> tuple[AudioLM, ...]:
        """The models of this process, the edge first."""
        return tuple(model for model in self.models.values() if not model.is_remote)

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """The remote models, the edge first."""
        return tuple(model for model in self.models.values() if model.is_remote)

    def local(self, role: Decider) -> AudioLM | None:
        """The model of a role, if it is loaded in this process."""
        model = self.models.get(role)
        return None if model is None or model.is_remote else model

    @property
    def processor(self) -> Processor:
        """The processor that turns token ids into text. Either model's would do: over the shared ids they agree."""
        return next(iter(self.models.values())).processor

    def prompts(self, config: Config, samples: npt.NDArray[np.float32], instruction: str) -> Prompts:
        """The prompts of a clip, mono samples [n].

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
