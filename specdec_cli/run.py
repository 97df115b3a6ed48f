"""One clip being captioned: its updates as they happen, and its transcript when it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Protocol

from specdec_cli.config import Config
from specdec_cli.decoding.accept import Synonyms
from specdec_cli.decoding.block import Block
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.pair import Pair, Prompts
from specdec_cli.errors import DecodingError, SpecdecError
from specdec_cli.labels.grounding import Grounding
from specdec_cli.labels.probabilities import KEPT, Scorer, needs_review
from specdec_cli.models.engine import Engine
from specdec_cli.reading import CaptionRules, flags_of
from specdec_cli.transcript.recorder import error_transcript, gpu_mb, peak_rss_mb, timing, totals
from specdec_cli.transcript.records import Models, Resources, Started, Transcript, Uplink
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.updates import EventText, Update
from specdec_cli.types import Finished, Token


class RunCaptioner(Protocol):
    """What a run needs of its `Captioner`, where these are described."""

    config: Config
    pair: Pair
    gate: Gate
    synonyms: Synonyms
    caption_rules: CaptionRules
    scorer: Scorer | None
    load_s: float | None

    def remember(self, transcript: Transcript) -> None: ...


class Run:
    """The captioning of one clip: iterate it for its updates as they happen, or `finish()` it for its transcript.

    A run decodes once. It is safe to stop reading its updates half-way.

    Args:
        captioner: has its models and settings.
        started: the fields of its transcript that are known before.
        prompts: of both models; None: there is nothing to caption, and `error` is the reason.
        audio_s: time of decoding the audio and computing its features, seconds.
        grounding: checks the caption's claims; None: nothing does.
    """

    def __init__(
        self,
        captioner: RunCaptioner,
        started: Started,
        prompts: Prompts | None,
        audio_s: float,
        error: SpecdecError | None,
        grounding: Grounding | None,
    ) -> None:
        self.started, self.prompts, self.error, self.grounding = started, prompts, error, grounding
        self._captioner, self._audio_s, self._processor = captioner, audio_s, captioner.pair.processor
        self.tokens = list[Token]()  # committed so far
        self._rounds = list[Round]()
        self._transcript: Transcript | None = None

    def __iter__(self) -> Iterator[Update]:
        """Decodes the clip: Started, then Sent, Prefill and Round events, then Finished, each with its text.

        Raises `error`, a SpecdecError if decoding fails, and a DecodingError for a run that was begun before.
        """
        yield from self.updates()

    def finish(self, engine: Engine | None = None) -> Transcript:
        """The transcript; that of a failure if the run has an error. Decodes the clip if it is not decoded yet.

        `engine` makes the forwards together with those of other clips.
        """
        if self.error is not None:
            return self.failed(self.error)
        if self._transcript is None:
            for _ in self.updates(engine):
                pass
        assert self._transcript is not None
        return self._transcript

    def failed(self, error: SpecdecError) -> Transcript:
        """The transcript of the clip with `error` in place of a caption."""
        return error_transcript(**{**dict(self.started), "error": error})

    def updates(self, engine: Engine | None = None) -> Generator[Update]:
        """Decodes the clip while its updates are read, see `__iter__`, by a loop of `Pair.new_loop`.

        `engine` makes the forwards together with those of other clips.
        """
        captioner, prompts = self._captioner, self.prompts
        self.prompts = None
        if prompts is None:
            raise self.error or DecodingError("this run was begun before", hint="Make another one of the recording.")
        text = ""
        began = time.perf_counter(), time.process_time()
        yield Update(self.started, EventText())
        loop = captioner.pair.new_loop(
            captioner.config,
            prompts,
            captioner.gate,
            engine=engine,
            top_n=KEPT if captioner.scorer else 0,
            synonyms=captioner.synonyms,
            language=self.started.language,
            instruction=self.started.prompt,
            grounding=self.grounding,
        )
        with closing(loop.events()) as events:
            for event in events:
                if isinstance(event, Finished):
                    yield Update(event, self._write_transcript(event, text, began))
                    continue
                if isinstance(event, Block):
                    self.tokens.extend(event.tokens)
                    written = self._processor.text([token.id for token in self.tokens])
                    before, text = text, written.rstrip("\ufffd")  # half a character waits for its rest
                    self._rounds.append(Round.of(event, self._processor, text.removeprefix(before)))
                caption = captioner.caption_rules.so_far(text)
                # called only if a display shows claims
                claims_in = None if self.grounding is None else self.grounding.claims
                shown = EventText(caption, claims_in=claims_in)
                yield Update(self._rounds[-1] if isinstance(event, Block) else event, shown)

    def _write_transcript(self, finished: Finished, text: str, began: tuple[float, float]) -> EventText:
        """Makes the transcript; returns the caption with its labels, claims, probabilities and flags.

        `began`: wall clock and CPU time at the start, seconds.
        """
        captioner, started, grounding, language = self._captioner, self.started, self.grounding, self.started.language
        wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
        alone = threading.current_thread() is threading.main_thread()  # in a batch each clip has another thread
        caption, claims = captioner.caption_rules.caption(text), None
        found: dict[str, Any] = dict(started)
        found |= {"models": Models.of(captioner.pair.described), "caption": caption}
        found |= {"finish_reason": finished.finish_reason, "degraded": finished.degraded}
        if grounding is not None:
            found["measured"] = grounding.measured
        if grounding is not None and started.has_speech:
            claims = grounding.claims(caption)
            found["agrees"] = {claim.attribute: claim.agrees for claim in claims}
        if captioner.scorer is not None and started.has_speech:
            lexicon = captioner.scorer.lexicon
            labels = lexicon.labels(caption, language) if grounding is None else grounding.labels(caption)
            scores = captioner.scorer.class_scores(self.tokens, self._processor.text, language, labels)
            found |= {"labels": labels, "emotions": lexicon.emotions(caption, language), "scores": scores}
            found["needs_review"] = needs_review(labels, scores)
        wrong = any(claim.agrees is False for claim in claims or ())
        flags = (*flags_of(text, language), *started.flags, *(("contradicts",) if wrong else ()))
        found["flags"] = flags
        sent = sum(work.bytes_up for work in (finished.edge, finished.cloud) if work)  # 0 if nothing escalated
        self._transcript = Transcript(
            **found,
            rounds=tuple(self._rounds),
            totals=totals(
                self._rounds,
                finished,
                cloud_takes_part=started.mode in ("hybrid", "lossless"),
                sound_decides=grounding is not None and grounding.words is not None,
            ),
            timing=timing(finished, load_s=captioner.load_s, audio_s=self._audio_s),
            resources=Resources(
                cpu_percent=round(100 * cpu / wall, 1) if alone and wall > 0 else None,
                peak_rss_mb=peak_rss_mb(),
                gpu_mb=gpu_mb(),
            ),
            uplink=Uplink(payload=captioner.pair.payload if sent else "none", bytes=sent),
        )
        captioner.remember(self._transcript)
        return EventText(caption, found["labels"], claims, self._transcript.probabilities, flags)
