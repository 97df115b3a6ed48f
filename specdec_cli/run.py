"""One clip being captioned: its updates as they happen, and its transcript when it is done."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specdec_cli.errors import DecodingError, SpecdecError
from specdec_cli.labels.probabilities import Scorer, needs_review, tokens_of
from specdec_cli.models.processor import Prompt, suggestions
from specdec_cli.prompts import PROMPTS, Language
from specdec_cli.reading import caption_of, description_end, flags_of
from specdec_cli.transcript.recorder import error_transcript, timing, totals
from specdec_cli.transcript.records import ModelInfo, Models, Resources, Started, Transcript, Uplink
from specdec_cli.transcript.terms import SUGGESTED, recorded_settings
from specdec_cli.types import EventText, Finished, Mode, Round, Update

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.cloud.cloud import Payload
    from specdec_cli.config import Config
    from specdec_cli.config.gate_file import GateFile
    from specdec_cli.decoding.assemble import Pair
    from specdec_cli.models.engine import Shared

Prompts = tuple[Prompt | None, Prompt | None]
"""A clip's prompt for the edge and for the cloud; None for one that does not take part."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What all clips of a captioner have in common; the first fields are as in `Transcript`."""

    mode: Mode
    language: Language
    prompt: str
    models: Models
    settings: dict[str, object]
    load_s: float | None  # loading the models; None if it was not measured
    scorer: Scorer | None = None  # of the classes that captions name; None: transcripts have no labels
    measures: bool = False  # whether transcripts have measured figures
    payload: Payload | None = None  # what a cloud elsewhere is sent of a recording; None: there is none
    shipped_only: tuple[str, ...] = ()  # "edge", "cloud": the models that were trained on the shipped prompts alone
    unfitted: tuple[str, ...] = ()  # the models with other weights than those that the learned gate was fitted to
    unanswered: tuple[str, ...] = ()  # why servers did not answer when they were first called

    @classmethod
    def of(cls, config: Config, pair: Pair, load_s: float | None, gate: GateFile | None) -> Setup:
        """That of a configuration, the models that it names, and the learned gate."""
        models = {role: model for role, model in (("edge", pair.edge), ("cloud", pair.cloud)) if model is not None}
        found = {role: suggestions(config.decoding, model.processor) for role, model in models.items()}
        suggested = {role: values for role, values in found.items() if values}
        described = {role: ModelInfo(**model.describe()) for role, model in models.items()}
        known = Models(edge=described.get("edge"), cloud=described.get("cloud"))
        declared = {role: getattr(model.processor.config, "specdec_prompts", None) for role, model in models.items()}
        return cls(
            mode=config.decoding.mode,
            language=config.prompt.language,
            prompt=config.instruction(),
            models=known,
            settings=recorded_settings(config) | ({SUGGESTED: suggested} if suggested else {}),
            load_s=load_s,
            payload=pair.links[0].payload if pair.links else None,
            shipped_only=tuple(role for role, prompts in declared.items() if prompts == "shipped"),
            unfitted=gate.not_fitted_to(known.weights) if gate else (),
            unanswered=tuple(each.failure for each in pair.links if each.failure),
        )

    @property
    def closes(self) -> bool:
        """Whether captions end where they stop describing."""
        return self.settings.get("closing") == "on"

    def caption(self, text: str) -> str:
        """The part of a finished text that is the caption, which no stop string is part of."""
        stops: Any = self.settings["stop_strings"]
        if stops:
            text = re.split("|".join(map(re.escape, stops)), text, maxsplit=1)[0]
        return caption_of(text) if self.closes else text.strip()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know of these settings, in sentences."""
        known, found = PROMPTS.values() if self.settings.get("system") is None else (), list[str]()
        asked = {role: self.settings.get(f"{role}_instruction", self.prompt) for role in self.shipped_only}
        if others := [role for role, prompt in asked.items() if prompt not in known]:
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


class Run:
    """The captioning of one clip: iterate it for its updates as they happen, or `finish()` it for its transcript.

    A run decodes once; stopping to read half-way is safe. Without `prompts` there is nothing to caption, and `error`
    says why; `audio_s` is what decoding the audio and its features took, seconds.
    """

    def __init__(
        self, captioner: Captioner, clip: Started, prompts: Prompts | None, audio_s: float, error: SpecdecError | None
    ) -> None:
        self.clip, self.prompts, self.error = clip, prompts, error
        self._captioner, self._audio_s = captioner, audio_s
        self._rounds: list[Round] = []
        self._transcript: Transcript | None = None

    def __iter__(self) -> Iterator[Update]:
        """Decodes the clip: Started, then Prefill, Sent and Round events, then Finished, each with its text.

        Raises `error`, and a SpecdecError for what goes wrong while decoding, or for a run that was begun before.
        """
        yield from self._updates(None)

    def finish(self, shared: Shared | None = None) -> Transcript:
        """The transcript, decoding the clip if that is not done; an error line where the run has an error.

        `shared` makes its forwards with those of other clips.
        """
        if self.error is not None:
            return self.failed(self.error)
        if self._transcript is None:
            for _ in self._updates(shared):
                pass
        assert self._transcript is not None
        return self._transcript

    def failed(self, error: SpecdecError) -> Transcript:
        """The line of the clip without a caption."""
        return error_transcript(**{**dict(self.clip), "error": error})

    def _updates(self, shared: Shared | None) -> Iterator[Update]:
        prompts, self.prompts = self.prompts, None
        if prompts is None:
            raise self.error or DecodingError("this run was begun before", hint="Make another one of the recording.")
        captioner, ids, text = self._captioner, list[int](), ""
        writer, closes = captioner.pair.writer, captioner.setup.closes
        began = time.perf_counter(), time.process_time()
        yield Update(self.clip, EventText())
        with closing(captioner.loop(prompts, shared, self.clip.language).run()) as events:
            for event in events:
                if isinstance(event, Round):
                    ids.extend(event.committed_ids)
                    before, text = text, writer.text(ids).rstrip("\ufffd")  # half a character waits for its rest
                    event = replace(
                        event,
                        draft_text=writer.text(event.draft_ids),
                        committed_text=text.removeprefix(before),
                        draft_pieces=tuple(map(writer.piece, event.draft_ids)),
                        committed_pieces=tuple(map(writer.piece, event.committed_ids)),
                    )
                    self._rounds.append(event)
                if isinstance(event, Finished):
                    yield Update(event, self._finished(event, text, began))
                else:
                    caption = (text[: description_end(text)] if closes else text).strip()
                    yield Update(event, EventText(caption))

    def _finished(self, finished: Finished, text: str, began: tuple[float, float]) -> EventText:
        """The caption with what is known of it, as the transcript has it, which is made here."""
        setup, clip, language, claims = self._captioner.setup, self.clip, self.clip.language, None
        wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
        alone = threading.current_thread() is threading.main_thread()  # clips of a batch have threads of their own
        caption, flags = setup.caption(text), (*flags_of(text, language), *clip.flags)
        ended = {"finish_reason": finished.finish_reason, "degraded": finished.degraded}
        found: dict[str, Any] = {**dict(clip), "caption": caption, "flags": flags, **ended}
        if setup.scorer is not None:
            lexicon = setup.scorer.lexicon
            labels, emotions = lexicon.labels(caption, language), lexicon.emotions(caption, language)
            scores = setup.scorer.scores(tokens_of(self._rounds), self._captioner.pair.writer.text, language, labels)
            claims = lexicon.claims(labels, clip.measured) if clip.measured else None
            agrees = None if claims is None else {claim.attribute: claim.agrees for claim in claims}
            found |= {"labels": labels, "emotions": emotions, "scores": scores, "agrees": agrees}
            found["needs_review"] = needs_review(labels, scores)
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


def peak_rss_mb() -> float | None:
    """Largest resident memory that this process has had, MiB; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def gpu_mb() -> float | None:
    """Largest GPU memory that PyTorch has allocated, over all GPUs, MiB; None without a GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return round(float(sum(map(torch.cuda.max_memory_allocated, range(torch.cuda.device_count())))) / 2**20, 1)
