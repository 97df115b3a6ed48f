"""One clip being captioned: its updates as they happen, and its transcript when it is done."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec_cli.decoding.block import Block
from specdec_cli.errors import DecodingError, SpecdecError
from specdec_cli.labels import Lexicon
from specdec_cli.labels.grounding import Grounding
from specdec_cli.labels.probabilities import Scorer, needs_review
from specdec_cli.models.processor import Processor, Prompt, suggestions
from specdec_cli.prompts import PROMPTS, Language
from specdec_cli.reading import caption_of, description_end, flags_of, settled
from specdec_cli.transcript.recorder import error_transcript, gpu_mb, peak_rss_mb, timing, totals
from specdec_cli.transcript.records import ModelInfo, Models, Resources, Started, Transcript, Uplink
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.terms import SUGGESTED, recorded_settings
from specdec_cli.transcript.updates import EventText, Update
from specdec_cli.types import Decider, Finished, Mode, Token

if TYPE_CHECKING:
    from specdec_cli.cloud.remote import Payload
    from specdec_cli.config import Config
    from specdec_cli.config.gate_file import GateFile
    from specdec_cli.decoding.assemble import Pair
    from specdec_cli.decoding.loop import Loop
    from specdec_cli.models.engine import Shared

Prompts = tuple[Prompt | None, Prompt | None]
"""A clip's prompt for the edge and for the cloud; None for one that does not take part."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What all clips of a captioner have in common; language, prompt, models and settings are as in `Transcript`."""

    config: Config
    language: Language
    prompt: str
    models: Models
    settings: dict[str, object]
    load_s: float | None  # loading the models; None if it was not measured
    scorer: Scorer | None = None  # of the classes that captions name; None: transcripts have no labels
    measures: bool = False  # whether transcripts have measured figures, whatever else they are needed for
    grounds: Lexicon | None = None  # whose claims are set against the sound; None: nothing is
    payload: Payload | None = None  # what a remote model is sent of a recording; None: both are loaded
    shipped_only: tuple[Decider, ...] = ()  # the models that were trained on the shipped prompts alone
    unfitted: tuple[str, ...] = ()  # the models with other weights than those that the learned gate was fitted to
    unanswered: tuple[str, ...] = ()  # why servers did not answer when they were first called

    @classmethod
    def of(cls, config: Config, pair: Pair, load_s: float | None, gate: GateFile | None) -> Setup:
        """That of a configuration, the models that it names, and the learned gate's file."""
        roles: tuple[Decider, Decider] = ("edge", "cloud")
        models = {role: model for role in roles if (model := getattr(pair, role)) is not None}
        suggested = {role: found for role in models if (found := suggestions(config.decoding, models[role].processor))}
        described = {role: ModelInfo(**model.describe()) for role, model in models.items()}
        known = Models(edge=described.get("edge"), cloud=described.get("cloud"))
        declared = {role: getattr(model.processor.config, "specdec_prompts", None) for role, model in models.items()}
        return cls(
            config=config,
            language=config.prompt.language,
            prompt=config.instruction(),
            models=known,
            settings=recorded_settings(config) | ({SUGGESTED: suggested} if suggested else {}),
            load_s=load_s,
            payload=pair.remotes[0].payload if pair.remotes else None,
            shipped_only=tuple(role for role, prompts in declared.items() if prompts == "shipped"),
            unfitted=gate.not_fitted_to(known.weights) if gate else (),
            unanswered=tuple(each.failure for each in pair.remotes if each.failure),
        )

    @property
    def mode(self) -> Mode:
        """Who decides."""
        return self.config.decoding.mode

    def caption(self, text: str) -> str:
        """The part of a finished text that is the caption, which no stop string is part of."""
        if stops := self.config.decoding.stop_strings:
            text = re.split("|".join(map(re.escape, stops)), text, maxsplit=1)[0]
        return caption_of(text) if self.config.closes else text.strip()

    def settled(self, caption: str) -> str:
        """The part of an unfinished caption that stays, whatever follows."""
        for stop in self.config.decoding.stop_strings:
            caption = caption.split(stop, 1)[0]
            begun = next((size for size in range(len(stop) - 1, 0, -1) if caption.endswith(stop[:size])), 0)
            caption = caption[: len(caption) - begun]
        return settled(caption) if self.config.closes else caption.rstrip()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know of these settings, in sentences."""
        known = PROMPTS.values() if self.config.prompt.system is None else ()
        others = [role for role in self.shipped_only if self.config.instruction_of(role, self.prompt) not in known]
        found = list[str]()
        if others:
            follow = f"{' and '.join(others)} follow{'s' if len(others) == 1 else ''}"
            found.append(f"{follow} the shipped prompts only: this one changes little")
        found.extend(f"no answer at the start: {failure}" for failure in self.unanswered)
        if self.unfitted:
            fitted = f"the learned gate was fitted to other weights of {' and '.join(self.unfitted)}"
            found.append(f"{fitted}: fit one to these with specdec tune")
        return tuple(found)

    def fields(self) -> dict[str, Any]:
        """The fields of a transcript that have the same names."""
        names = ("mode", "language", "prompt", "models", "settings", "warnings")
        return {name: getattr(self, name) for name in names}


BuildLoop = Callable[[Prompts, "Shared | None", Started, Grounding | None], "Loop"]
"""Puts the loop of a clip together; with `Shared`, its forwards are made with those of other clips."""


class Run:
    """The captioning of one clip: iterate it for its updates as they happen, or `finish()` it for its transcript.

    A run decodes once; stopping to read half-way is safe. Without `prompts` there is nothing to caption, and `error`
    says why; `audio_s` is what decoding the audio and its features took, seconds. `sound` is what the caption's claims
    are set against; None: they are not.
    """

    def __init__(
        self,
        setup: Setup,
        writer: Processor,
        build_loop: BuildLoop,
        clip: Started,
        prompts: Prompts | None,
        audio_s: float,
        error: SpecdecError | None,
        sound: Grounding | None = None,
    ) -> None:
        self.clip, self.prompts, self.error, self.sound = clip, prompts, error, sound
        self._setup, self._writer, self._build_loop, self._audio_s = setup, writer, build_loop, audio_s
        self.tokens = list[Token]()  # committed so far
        self._rounds = list[Round]()
        self._transcript: Transcript | None = None

    def __iter__(self) -> Iterator[Update]:
        """Decodes the clip: Started, then Prefill, Sent and Round events, then Finished, each with its text.

        Raises `error`, and a SpecdecError for what goes wrong while decoding, or for a run that was begun before.
        """
        yield from self.updates()

    def finish(self, shared: Shared | None = None) -> Transcript:
        """The transcript, decoding the clip if that is not done; an error line where the run has an error.

        `shared` makes its forwards with those of other clips.
        """
        if self.error is not None:
            return self.failed(self.error)
        if self._transcript is None:
            for _ in self.updates(shared):
                pass
        assert self._transcript is not None
        return self._transcript

    def failed(self, error: SpecdecError) -> Transcript:
        """The line of the clip without a caption."""
        return error_transcript(**{**dict(self.clip), "error": error})

    def updates(self, shared: Shared | None = None) -> Generator[Update]:
        """The same; `shared` makes the forwards with those of other clips."""
        prompts, self.prompts = self.prompts, None
        if prompts is None:
            raise self.error or DecodingError("this run was begun before", hint="Make another one of the recording.")
        closes, text = self._setup.config.closes, ""
        began = time.perf_counter(), time.process_time()
        yield Update(self.clip, EventText())
        if self.sound is not None and shared is None:
            self.sound.begin()  # other clips keep the cores busy where forwards are shared
        with closing(self._build_loop(prompts, shared, self.clip, self.sound).run()) as events:
            for event in events:
                if isinstance(event, Finished):
                    yield Update(event, self._finished(event, text, began))
                    continue
                if isinstance(event, Block):
                    self.tokens.extend(event.tokens)
                    written = self._writer.text([token.id for token in self.tokens])
                    before, text = text, written.rstrip("\ufffd")  # half a character waits for its rest
                    self._rounds.append(Round.of(event, self._writer, text.removeprefix(before)))
                caption = (text[: description_end(text)] if closes else text).strip()
                claims_in = None if self.sound is None else self.sound.claims  # of what is read only where it is shown
                shown = EventText(caption, claims_in=claims_in)
                yield Update(self._rounds[-1] if isinstance(event, Block) else event, shown)

    def _finished(self, finished: Finished, text: str, began: tuple[float, float]) -> EventText:
        """The caption with what is known of it, as the transcript has it, which is made here."""
        setup, clip, language, sound = self._setup, self.clip, self.clip.language, self.sound
        wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
        alone = threading.current_thread() is threading.main_thread()  # clips of a batch have threads of their own
        caption, claims = setup.caption(text), None
        ended = {"finish_reason": finished.finish_reason, "degraded": finished.degraded}
        found: dict[str, Any] = {**dict(clip), "caption": caption, **ended}
        if sound is not None:
            claims = sound.claims(caption)
            found |= {"measured": sound.measured, "agrees": {claim.attribute: claim.agrees for claim in claims}}
        if setup.scorer is not None:
            lexicon = setup.scorer.lexicon
            labels = lexicon.labels(caption, language) if sound is None else sound.labels(caption)
            scores = setup.scorer.scores(self.tokens, self._writer.text, language, labels)
            found |= {"labels": labels, "emotions": lexicon.emotions(caption, language), "scores": scores}
            found["needs_review"] = needs_review(labels, scores)
        wrong = any(claim.agrees is False for claim in claims or ())
        flags = (*flags_of(text, language), *clip.flags, *(("contradicts",) if wrong else ()))
        found["flags"] = flags
        sent = sum(work.bytes_up for work in (finished.edge, finished.cloud) if work)  # 0 where nothing escalated
        self._transcript = Transcript(
            **found,
            rounds=tuple(self._rounds),
            totals=totals(self._rounds, finished, cloud_takes_part=clip.mode in ("hybrid", "lossless")),
            timing=timing(finished, load_s=setup.load_s, audio_s=self._audio_s),
            resources=Resources(
                cpu_percent=round(100 * cpu / wall, 1) if alone and wall > 0 else None,
                peak_rss_mb=peak_rss_mb(),
                gpu_mb=gpu_mb(),
            ),
            uplink=Uplink(payload=setup.payload or "none" if sent else "none", bytes=sent),
        )
        return EventText(caption, found["labels"], claims, self._transcript.probabilities, flags)
