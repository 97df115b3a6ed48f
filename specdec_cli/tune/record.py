"""Recording a clip: both texts, and both models' scores along each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specdec_cli.captioner import Captioner
from specdec_cli.config import AcceptanceConfig, Config, DecodingConfig
from specdec_cli.decoding.assemble import Pair, stop_ids_of
from specdec_cli.decoding.draft import Drafter
from specdec_cli.decoding.gate import Gate, Groups, evidence_of
from specdec_cli.decoding.length import capacity, most_drafted
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.stop import StopRules
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import AudioContentError, ConfigError
from specdec_cli.inputs.recording import InputFile
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from specdec_cli.transcript.terms import SUGGESTED
from specdec_cli.tune.trace import DIGITS, Trace, Track


class Recorder:
    """Records clips with a captioner that has both models, in hybrid mode, greedy."""

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self.setup = setup_of(captioner)

    def record(self, path: str) -> Trace:
        """Records one clip.

        Raises:
            AudioError: the clip cannot be captioned as a whole.
        """
        captioner = self._captioner
        recording = captioner.recording(InputFile(path))
        if not recording.whole:
            raise AudioContentError(
                f"{path} is longer than the {captioner.window_s:g} s that the models take at once.",
                hint="Cut it into clips first, or give --set audio.end_s.",
            )
        (cut,) = recording.pieces()
        prompts = captioner.prompts(cut.samples, captioner.setup.prompt)
        edge, cloud = record_tracks(captioner.pair, captioner.config, *prompts, captioner.class_groups)
        return Trace(
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
    suggested = captioner.setup.settings.get(SUGGESTED)
    return {
        "models": captioner.setup.models.model_dump(),
        "language": captioner.config.prompt.language,
        "prompt": captioner.config.instruction(),
        "system": captioner.config.prompt.system,
        "stop_strings": list(decoding.stop_strings),
        "audio": captioner.config.audio.recorded(),
        **({"closing": "on"} if captioner.setup.closes else {}),
        **{name: getattr(decoding, name) for name in names},
        **({SUGGESTED: suggested} if suggested else {}),
    }


def record_tracks(
    pair: Pair, config: Config, edge_prompt: Prompt | None, cloud_prompt: Prompt | None, groups: Groups
) -> tuple[Track, Track]:
    """The edge's and the cloud's text of a clip, each scored by both models at every position.

    Each model encodes the clip once: the cloud's text is decoded losslessly, and the other model's scores along a text
    are one more pass over it. `config` is greedy; its mode, gate and acceptance rule do not count; `groups` are
    those of the gate class-entropy.
    """
    stop_ids = stop_ids_of(pair, config)  # those of hybrid mode, in which the recordings are replayed
    settings = config.decoding.model_copy(update={"mode": "lossless", "cloud_prefill": "lazy"})
    stop = StopRules(settings, stop_ids, pair.writer.text, config.prompt.language if config.closes else None)
    drafter = Drafter(_session(pair, pair.loaded_edge, settings, edge_prompt), settings, stop_ids)
    cloud = _session(pair, pair.loaded_cloud, settings, cloud_prompt)
    verifier = LocalVerifier(cloud, settings, AcceptanceConfig(), stop_ids)
    loop = Loop(drafter, verifier, Gate("always"), stop, settings, most_drafted(settings))
    for _ in loop.run():
        pass
    drafted = drafter.propose((), settings.max_new_tokens, Gate("never").open(0)).ids
    end = stop.first_stop(drafted, 0)
    edge_text = drafted if end is None else drafted[: end[0]]
    return _track(edge_text, drafter, verifier, groups), _track(loop.text, drafter, verifier, groups)


def _session(pair: Pair, model: AudioLM | None, settings: DecodingConfig, prompt: Prompt | None) -> Session:
    if model is None or prompt is None:
        raise ConfigError("tuning needs an edge and a cloud model", hint="Configure both, in mode hybrid.")
    return Session(model, prompt, capacity(settings), pair.vocab_size)


def _scores_along(text: Sequence[int], model: Drafter | LocalVerifier) -> torch.Tensor:
    """[n, vocab] a model's processed scores of each of the n tokens of `text`, by one pass."""
    return model.rows.after(text[:-1], len(text), guesses=False)


def _track(text: Sequence[int], edge: Drafter, cloud: LocalVerifier, groups: Groups) -> Track:
    scores = _scores_along(text, edge)
    chosen = scores.argmax(dim=-1).tolist()
    evidence = evidence_of(scores, chosen, groups)
    return Track(
        ids=tuple(text),
        chosen=tuple(chosen),
        target=tuple(_scores_along(text, cloud).argmax(dim=-1).tolist()),
        entropy=tuple(round(token.entropy, DIGITS) for token in evidence),
        logprob=tuple(round(token.logprob, DIGITS) for token in evidence),
        class_entropy=tuple(round(token.class_entropy, DIGITS) for token in evidence),
        candidates=tuple(tuple((id_, round(p, DIGITS)) for id_, p in token.candidates) for token in evidence),
    )
