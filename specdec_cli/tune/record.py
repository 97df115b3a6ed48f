"""Recording a clip: both texts, and both models' opinions along each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from specdec_cli.audio import load_audio, segments
from specdec_cli.captioner import Captioner
from specdec_cli.decoding.build import Pair, stop_ids_of
from specdec_cli.decoding.draft import Drafter
from specdec_cli.decoding.engine import Engine
from specdec_cli.decoding.evidence import evidence_of
from specdec_cli.decoding.gate import make_gate
from specdec_cli.decoding.options import DecodingOptions
from specdec_cli.decoding.processors import ScoreProcessors
from specdec_cli.decoding.stopping import StopRules
from specdec_cli.decoding.verify import SessionVerifier
from specdec_cli.errors import AudioContentError, ConfigError
from specdec_cli.models.family import AudioLanguageModel, PromptInputs
from specdec_cli.models.session import Session, run_alone
from specdec_cli.tune.recording import DIGITS, Recording, Track


class Recorder:
    """Records clips with a loaded pair.

    Args:
        captioner: with both models, in hybrid mode.

    Raises:
        ConfigError: a temperature above 0, under which there is no one text to record; or a cloud behind a link.
    """

    def __init__(self, captioner: Captioner) -> None:
        if captioner.options.sampling:
            raise ConfigError(
                f"tuning compares texts, and at temperature {captioner.options.temperature:g} there is no one text",
                hint="Use temperature 0; the gate that comes out serves sampling too.",
            )
        if captioner.pair.link is not None:
            raise ConfigError(
                f"tuning reads the cloud's scores, and {captioner.pair.link.name} tells its verdicts only",
                hint="Tune where both models can be loaded: set cloud.model in place of cloud.url.",
            )
        self._captioner = captioner
        self._options = replace(captioner.options, mode="lossless", gate="entropy", threshold=None, classifier=None)
        self.setup = setup_of(captioner)

    def record(self, path: str) -> Recording:
        """Records one clip.

        Raises:
            AudioError: the clip cannot be captioned as a whole.
        """
        captioner = self._captioner
        recording = load_audio(path, captioner.sampling_rate)
        cuts = segments(recording, captioner.window_s, None)
        if cuts[0].silent:
            raise AudioContentError(f"{path} is silent: a caption would be invented")
        edge, cloud = record_tracks(
            captioner.pair, self._options, *captioner.inputs(cuts[0].samples, captioner.setup.prompt)
        )
        return Recording(
            file=path,
            sha256=recording.sha256,
            duration_s=round(recording.duration_s, 4),
            setup=self.setup,
            edge=edge,
            cloud=cloud,
            edge_caption=captioner.decode(edge.ids),
            cloud_caption=captioner.decode(cloud.ids),
        )


def setup_of(captioner: Captioner) -> dict[str, object]:
    """What a recording depends on, beside the clip: models, prompt, and the settings that shape a greedy text."""
    decoding = captioner.config.decoding
    names = ("max_new_tokens", "min_new_tokens", "sentences", "repetition_penalty", "no_repeat_ngram", "loop_period")
    return {
        "models": captioner.setup.models.model_dump(),
        "language": captioner.config.prompt.language,
        "prompt": captioner.config.prompt.instruction,
        "system": captioner.config.prompt.system,
        "stop_strings": list(decoding.stop_strings),
        **{name: getattr(decoding, name) for name in names},
    }


def record_tracks(
    pair: Pair, options: DecodingOptions, edge_inputs: PromptInputs | None, cloud_inputs: PromptInputs | None
) -> tuple[Track, Track]:
    """The edge's and the cloud's text of a clip, each with both models' opinions.

    Each model hears the clip once: the cloud's text is decoded losslessly, and what the other model says along a text
    is one more pass over it.

    Args:
        pair: both models.
        options: greedy, in mode `lossless`.
        edge_inputs, cloud_inputs: the clip's prompts.
    """
    edge, cloud = _Side(pair, pair.edge, options, edge_inputs), _Side(pair, pair.loaded_cloud, options, cloud_inputs)
    generator = torch.Generator().manual_seed(options.seed)
    stop_ids = stop_ids_of(pair, options)
    stopping = StopRules(options, stop_ids, pair.writer.text)
    drafter = Drafter(edge.session, edge.processors, stop_ids, generator, sampling=False)
    verifier = SessionVerifier(cloud.session, cloud.processors, options, generator, stop_ids)
    engine = Engine(drafter, verifier, make_gate("always"), stopping, options)
    for _ in engine.run():
        pass
    cloud_text = engine.text
    edge.session.rollback(())
    drafted = run_alone(drafter.propose((), options.max_new_tokens)).ids
    stop = stopping.first_stop(drafted, 0)
    edge_text = drafted if stop is None else drafted[: stop[0]]
    return _track(edge_text, edge, cloud), _track(cloud_text, edge, cloud)


class _Side:
    """One model with the clip."""

    def __init__(
        self, pair: Pair, model: AudioLanguageModel | None, options: DecodingOptions, inputs: PromptInputs | None
    ) -> None:
        if model is None or inputs is None:
            raise ConfigError("tuning needs an edge and a cloud model", hint="Configure both, in mode hybrid.")
        self.session = Session(model, inputs, options.capacity, pair.vocab_size)
        self.processors = ScoreProcessors(options, inputs.ids, model.eos_ids, model.device)

    def scores_along(self, text: Sequence[int]) -> torch.Tensor:
        """[n, vocab] processed scores of each of the n tokens of `text`, by one pass."""
        self.session.rollback(())
        return self.processors(text[:-1], self.session.advance(text[:-1], len(text)))


def _track(text: Sequence[int], edge: _Side, cloud: _Side) -> Track:
    scores = edge.scores_along(text)
    chosen = scores.argmax(dim=-1).tolist()
    evidence = evidence_of(scores, chosen)
    return Track(
        ids=tuple(text),
        chosen=tuple(chosen),
        target=tuple(cloud.scores_along(text).argmax(dim=-1).tolist()),
        entropy=tuple(round(token.entropy, DIGITS) for token in evidence),
        logprob=tuple(round(token.logprob, DIGITS) for token in evidence),
        candidates=tuple(tuple((id_, round(p, DIGITS)) for id_, p in token.candidates) for token in evidence),
    )
