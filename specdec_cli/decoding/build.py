"""Puts an engine together from two loaded models and a run's settings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from specdec_cli.decoding.adaptive import Costs, block_length
from specdec_cli.decoding.draft import Drafter, Drafts
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.gate import make_gate
from specdec_cli.decoding.generate import NoDrafter
from specdec_cli.decoding.imitation import prompt_bytes
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.decoding.stopping import StopRules
from specdec_cli.decoding.threaded import ThreadedVerifier
from specdec_cli.decoding.verify import SessionVerifier, Verifier
from specdec_cli.errors import DecodingError
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.models.session import Session
from specdec_cli.models.vocabulary import shared_vocab_size, usable_vocab_size
from specdec_cli.types import GateName

if TYPE_CHECKING:
    from specdec_cli.cloud.link import CloudLink


@dataclass(frozen=True, slots=True)
class Pair:
    """The models of a run; either may be absent where no mode needs it.

    Attributes:
        edge, cloud: loaded checkpoints, or None; the cloud may also be behind a link.
        vocab_size: leading token ids that both may use.
        costs: what their steps have taken so far.
    """

    edge: AudioLanguageModel | None
    cloud: AudioLanguageModel | CloudLink | None
    vocab_size: int
    costs: Costs = field(default_factory=Costs, compare=False, repr=False)

    @classmethod
    def of(cls, edge: AudioLanguageModel | None, cloud: AudioLanguageModel | CloudLink | None) -> Pair:
        """Checks that the two can work together; a link has done that when it was made.

        Raises:
            TokenizerMismatchError: their tokenizers differ.
            DecodingError: there is no model at all, or none beside a link.
        """
        if cloud is not None and not isinstance(cloud, AudioLanguageModel):
            if edge is None:
                raise DecodingError("a cloud behind a link needs the edge's features and tokenizer")
            return cls(edge, cloud, min(usable_vocab_size(edge), cloud.vocab_size))
        if edge is not None and cloud is not None:
            return cls(edge, cloud, shared_vocab_size(edge, cloud))
        only = edge or cloud
        if only is None:
            raise DecodingError("a pair needs at least one model")
        return cls(edge, cloud, usable_vocab_size(only))

    @property
    def loaded(self) -> tuple[AudioLanguageModel, ...]:
        """The models of this process, the edge first."""
        return tuple(model for model in (self.edge, self.cloud) if isinstance(model, AudioLanguageModel))

    @property
    def loaded_cloud(self) -> AudioLanguageModel | None:
        """The cloud, if it is a model of this process."""
        return self.cloud if isinstance(self.cloud, AudioLanguageModel) else None

    @property
    def link(self) -> CloudLink | None:
        """The cloud, if it is behind a link."""
        return None if self.cloud is None or isinstance(self.cloud, AudioLanguageModel) else self.cloud

    @property
    def writer(self) -> AudioLanguageModel:
        """A model to turn token ids into text with: the tokenizers are the same."""
        return self.loaded[0]


def build_engine(
    pair: Pair, options: DecodingOptions, edge_inputs: PromptInputs | None, cloud_inputs: PromptInputs | None
) -> Engine:
    """An engine for one clip, with fresh sessions.

    Args:
        pair: the models.
        options: the run's settings; `mode` says which of the models take part.
        edge_inputs, cloud_inputs: the clip's prompt for each model that takes part.

    Raises:
        DecodingError: the mode needs a model that is not there.
    """
    parts = _Parts(pair, options, torch.Generator().manual_seed(options.seed))
    stop_ids = stop_ids_of(pair, options)
    drafter: Drafts
    verifier: Verifier | None = None
    if options.mode == "cloud" and (pair.link is not None or options.imitation.has_link):
        drafter = NoDrafter(pair.vocab_size)
        verifier = parts.verifier(cloud_inputs, stop_ids)
    else:
        drafting = (
            parts.session("cloud", cloud_inputs) if options.mode == "cloud" else parts.session("edge", edge_inputs)
        )
        drafter = Drafter(drafting, parts.processors(drafting), stop_ids, parts.generator, sampling=options.sampling)
        if options.mode in ("hybrid", "lossless"):
            verifier = parts.verifier(cloud_inputs, stop_ids)
    gate = make_gate(
        gate_of(options),
        options.threshold,
        stop_drafting=options.stop_drafting,
        classifier=options.classifier,
        generator=gate_generator(options, edge_inputs),
    )
    return Engine(
        drafter,
        verifier,
        gate,
        StopRules(options, stop_ids, pair.writer.text),
        options,
        block_length(options, pair.costs),
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the two sides of one clip's engine are made of.

    Attributes:
        pair, options: of the run.
        generator: the clip's.
    """

    pair: Pair
    options: DecodingOptions
    generator: torch.Generator

    def session(self, role: Literal["edge", "cloud"], inputs: PromptInputs | None) -> Session:
        """The clip on a loaded model."""
        model = self.pair.edge if role == "edge" else self.pair.cloud
        if not isinstance(model, AudioLanguageModel) or inputs is None:
            raise DecodingError(
                f"mode {self.options.mode!r} needs a {role} model, and none is configured",
                hint=f"Set {role}.model, or choose another --mode.",
            )
        imitation = self.options.imitation
        least_ms = imitation.edge_step_ms if role == "edge" else imitation.cloud_step_ms
        return Session(model, inputs, self.options.capacity, self.pair.vocab_size, least_ms or 0.0)

    def processors(self, on: Session) -> ScoreProcessors:
        """The logits processors for a session's scores."""
        return ScoreProcessors(self.options, on.prompt_ids, on.model.eos_ids, on.model.device)

    def verifier(self, inputs: PromptInputs | None, stop_ids: Collection[int]) -> Verifier:
        """The cloud: behind a link, in a thread beside the edge, or in turns with it."""
        link, options = self.pair.link, self.options
        if link is not None and inputs is not None:
            return link.verifier(inputs, options, options.capacity, self.pair.vocab_size, self.generator, stop_ids)
        session = self.session("cloud", inputs)
        verifier = SessionVerifier(session, self.processors(session), options, self.generator, stop_ids)
        if inputs is None or not _beside(options, self.pair):
            return verifier
        return ThreadedVerifier(verifier, options.imitation, prompt_bytes(inputs))


def _beside(options: DecodingOptions, pair: Pair) -> bool:
    """Whether a cloud that is loaded here works in a thread beside the edge: only where that gains or shows something.

    On one device the two would only take time from each other.
    """
    if options.draft_ahead == "on" or options.cloud_prefill == "overlap" or options.imitation.has_link:
        return True
    return options.draft_ahead == "auto" and len({model.device for model in pair.loaded}) > 1


def gate_generator(options: DecodingOptions, clip: PromptInputs | None) -> torch.Generator | None:
    """The random gate's generator, seeded by the run's seed and the clip; None for every other gate.

    It is another one than the clip's, so that the gate changes no token that is drawn. The clip counts, or every clip
    would escalate the same blocks.
    """
    if gate_of(options) != "random" or clip is None:
        return None
    heard = clip.features.values.detach().to("cpu", torch.float32).contiguous().numpy()
    digest = hashlib.blake2b(heard.tobytes(), digest_size=8, key=options.seed.to_bytes(8, "big"))
    return torch.Generator().manual_seed(int.from_bytes(digest.digest(), "big") >> 1)


def gate_of(options: DecodingOptions) -> GateName:
    """The gate in force: the configured one in hybrid mode, else the one that makes the mode what it is."""
    if options.mode == "hybrid":
        return options.gate
    return "always" if options.mode == "lossless" else "never"


def stop_ids_of(pair: Pair, options: DecodingOptions) -> tuple[int, ...]:
    """Ids that end the text: those of the model whose text it is; in hybrid mode, of either."""
    edge = pair.edge.eos_ids if pair.edge is not None else ()
    cloud = pair.cloud.eos_ids if pair.cloud is not None else ()
    if options.mode == "hybrid":
        return tuple(sorted({*edge, *cloud}))
    return edge if options.mode == "edge" else cloud
