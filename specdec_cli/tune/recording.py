"""Recording a clip: the edge's text and the cloud's, each scored by both models at every position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import torch
from pydantic import Field

from specdec_cli.captioner import Captioner
from specdec_cli.config import AcceptanceConfig, Config, DecodingConfig
from specdec_cli.decoding.assemble import Pair, stop_ids_of
from specdec_cli.decoding.draft import Drafter
from specdec_cli.decoding.evidence import Groups, TokenEvidence, evidence_of
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.length import capacity, most_drafted
from specdec_cli.decoding.loop import Loop
from specdec_cli.decoding.stop import StopRules
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import AudioContentError, ConfigError
from specdec_cli.evaluate.bootstrap import Figures
from specdec_cli.inputs.recording import InputFile
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import Prompt
from specdec_cli.models.session import Session
from specdec_cli.transcript.terms import SUGGESTED
from specdec_cli.types import Candidates

_DIGITS: Final = 5


class Track(Figures):
    """One text, with what both models predict at each of its n positions. All lists have n entries."""

    ids: tuple[int, ...] = Field(description="the text")
    chosen: tuple[int, ...] = Field(description="the edge's likeliest token after the text so far")
    target: tuple[int, ...] = Field(description="the cloud's likeliest token there")
    entropy: tuple[float, ...] = Field(description="of the edge, nats")
    logprob: tuple[float, ...] = Field(description="of the edge's likeliest token, nats")
    class_entropy: tuple[float, ...] = Field(description="of the edge, summed over groups of tokens, nats")
    candidates: tuple[Candidates, ...] = Field(description="the edge's likeliest tokens with their probabilities")

    def evidence(self, position: int) -> TokenEvidence:
        """The evidence on the token that the edge chooses at `position`."""
        candidates = self.candidates[position]
        second = candidates[1][1] if len(candidates) > 1 else 0.0
        own = self.chosen[position], self.entropy[position], candidates[0][1] - second, self.logprob[position]
        return TokenEvidence(*own, candidates, self.class_entropy[position])

    def drafted(self, position: int, k: int) -> list[TokenEvidence]:
        """The block of up to `k` tokens that the edge drafts at `position`, ended by the end of the text."""
        return [self.evidence(place) for place in range(position, min(position + k, len(self.ids)))]


class Trace(Figures):
    """One clip, as a line of the file of recordings holds it."""

    recording: Literal[1] = 1
    file: str
    sha256: str
    duration_s: float
    setup: dict[str, Any] = Field(description="models, prompt and decoding settings; another setup is another text")
    edge: Track = Field(description="the text that the edge writes alone")
    cloud: Track = Field(description="the text that the cloud writes alone, which is that of a lossless run")
    edge_caption: str
    cloud_caption: str

    def to_json(self) -> str:
        """One line of JSON."""
        return self.model_dump_json()


def record(captioner: Captioner, path: str) -> Trace:
    """Records one clip with a captioner that has both models, in hybrid mode, greedy.

    Raises:
        SpecdecError: the clip cannot be captioned as a whole.
    """
    recording = captioner.recording(InputFile(path))
    if len(recording.cuts) != 1:
        raise AudioContentError(
            f"{path} is longer than the {captioner.window_s:g} s that the models take at once.",
            hint="Cut it into clips first, or give --set audio.end_s.",
        )
    (run,) = captioner.runs_of(recording)
    if run.error is not None:
        raise run.error
    assert run.prompts is not None  # what has no error has prompts
    edge, cloud = record_tracks(captioner.pair, captioner.config, *run.prompts, captioner.class_groups)
    return Trace(
        file=path,
        sha256=recording.sha256,
        duration_s=run.clip.duration_s,
        setup=setup_of(captioner),
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
        entropy=tuple(round(token.entropy, _DIGITS) for token in evidence),
        logprob=tuple(round(token.logprob, _DIGITS) for token in evidence),
        class_entropy=tuple(round(token.class_entropy, _DIGITS) for token in evidence),
        candidates=tuple(tuple((id_, round(p, _DIGITS)) for id_, p in token.candidates) for token in evidence),
    )
