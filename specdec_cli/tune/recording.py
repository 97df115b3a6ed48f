"""Recording a clip: the edge's text and the cloud's, each scored by both models at every position; and its file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, ValidationError

from specdec_cli import interrupts
from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.decoding.draft import LocalDrafter
from specdec_cli.decoding.gate import Gate
from specdec_cli.decoding.loop import CloudPrefill, Loop
from specdec_cli.decoding.next_scores import NextScores
from specdec_cli.decoding.pair import Pair
from specdec_cli.decoding.remote import ClipGrounding
from specdec_cli.decoding.rows import CANDIDATES, Groups, RowFigures, TokenEvidence
from specdec_cli.decoding.stop import StopRules
from specdec_cli.decoding.verify import LocalVerifier
from specdec_cli.errors import AudioContentError, TranscriptError, WrongFileError, as_specdec_error
from specdec_cli.inputs.recording import InputFile
from specdec_cli.journal import Change, Journal, StoredLine, Watch
from specdec_cli.models.processor import Prompt
from specdec_cli.stats import Figures
from specdec_cli.targets import RECORDINGS
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.shared import SUGGESTED, differing

_RECORDING: Final = b'{"recording"'
_Step = tuple[str, str, Callable[[], "Trace | Transcript"]]
"""The text to show, the recording, and the function that makes a line of the journal."""
_SHAPING: Final = (
    *("max_new_tokens", "min_new_tokens", "sentences", "repetition_penalty", "no_repeat_ngram", "loop_period"),
    *("stop_strings", "closing", "system", "sound", "lexicon", SUGGESTED),
)


class Track(Figures):
    """One text, with the predictions of both models at each of its n positions."""

    ids: tuple[int, ...] = Field(description="the text")
    edge: tuple[TokenEvidence, ...] = Field(description="the edge's likeliest token after the text so far [n]")
    target: tuple[int, ...] = Field(description="the cloud's likeliest token there [n]")


class Trace(Figures):
    """One clip, as a line of the file of recordings holds it."""

    recording: Literal[1] = 1
    file: str
    sha256: str
    duration_s: float
    setup: dict[str, Any] = Field(description="models, prompt and decoding settings; another setup is another text")
    edge: Track = Field(description="the text that the edge writes alone")
    cloud: Track = Field(description="the text that the cloud writes alone, which is that of a lossless run")
    cloud_caption: str


def record(captioner: Captioner, path: str) -> Trace:
    """Records one clip with a captioner that has both models, in hybrid mode, greedy.

    Raises:
        SpecdecError: the clip cannot be captioned as a whole.
    """
    recording = captioner.reader.open(InputFile(path))
    if len(recording.spans) != 1:
        raise AudioContentError(f"{path} is longer than models take at once.", hint="Cut it into clips first.")
    (run,) = captioner.runs_of(recording)
    if run.error is not None:
        raise run.error
    assert run.prompts is not None  # what has no error has prompts
    edge, cloud = record_tracks(captioner.pair, captioner.config, *run.prompts, captioner.class_groups, run.grounding)
    return Trace(
        file=path,
        sha256=recording.sha256,
        duration_s=run.started.duration_s,
        setup=setup_of(captioner),
        edge=edge,
        cloud=cloud,
        cloud_caption=captioner.decode(cloud.ids),
    )


def setup_of(captioner: Captioner) -> dict[str, object]:
    """All that a recording depends on but the clip: models, prompt, and the settings that shape a greedy text."""
    config, settings = captioner.config, captioner.shared.settings
    return {
        "models": captioner.shared.models.model_dump(),
        "language": config.prompt.language,
        "prompt": config.instruction(),
        "audio": config.audio.recorded(),
        **{name: settings.get(name) for name in _SHAPING},
    }


def record_tracks(
    pair: Pair,
    config: Config,
    edge_prompt: Prompt | None,
    cloud_prompt: Callable[[], Prompt] | None,
    groups: Groups,
    grounding: ClipGrounding | None = None,
) -> tuple[Track, Track]:
    """The edge's and the cloud's text of a clip, each scored by both models at every position.

    Each model encodes the clip once. The cloud's text is the one that it writes alone. The scores of the other model
    along a text take one more pass. Mode, gate and acceptance rule of `config` are ignored: the rule is greedy.
    `groups` are those of the gate class-entropy. `grounding` bans tokens of both models.
    """
    edge_ids, cloud_ids = pair.ends("hybrid")  # those of hybrid mode, in which the recordings are replayed
    settings = config.decoding.model_copy(update={"mode": "lossless", "cloud_prefill": "lazy", "acceptance": None})
    language = config.prompt.language if config.closes else None
    stop = StopRules(settings, cloud_ids, pair.processor.text, language, edge_ids)
    assert edge_prompt is not None and cloud_prompt is not None  # noqa: PT018  # both models take part
    lossless = config.model_copy(update={"decoding": settings})
    scores = partial(pair.new_scores, lossless, bans=None if grounding is None else grounding.banned)
    drafter = LocalDrafter(scores("edge", edge_prompt, edge_ids))
    verifier = LocalVerifier(
        lambda: scores("cloud", cloud_prompt(), cloud_ids), lossless.decoding.rules, settings.max_new_tokens
    )
    gate = Gate("always")
    loop = Loop(drafter, verifier, gate, stop, settings, CloudPrefill("lazy"))
    for _ in loop.events():
        interrupts.check()
    drafted = drafter.propose((), settings.max_new_tokens, Gate("never").open()).ids
    end = stop.first_stop(drafted, 0, kept=True)
    edge_text = drafted if end is None else drafted[: end[0]]
    return _track(edge_text, drafter, verifier, groups), _track(loop.text_ids, drafter, verifier, groups)


def _track(text_ids: Sequence[int], edge: LocalDrafter, cloud: LocalVerifier, groups: Groups) -> Track:
    """The track of a text, by one more pass of each model, which gives processed scores [n, vocab]."""
    edge_rows, cloud_rows = (_rows(text_ids, edge.next_scores, groups), _rows(text_ids, cloud.next_scores, None))
    evidence, target = map(TokenEvidence.of, edge_rows), (row.id for row in cloud_rows)
    return Track(ids=tuple(text_ids), edge=tuple(evidence), target=tuple(target))


def _rows(text_ids: Sequence[int], scores: NextScores, groups: Groups | None) -> list[RowFigures]:
    rows = scores.figures(
        scores.after(text_ids[:-1], len(text_ids), guessing=False), CANDIDATES, doubt=True, groups=groups
    )
    scores.require_finite(rows)
    return rows


class StoredRecordings(Journal[Trace | Transcript]):
    """Recordings and the transcripts of runs, from which a later tuning goes on; errors as in the base class.

    Recordings are accepted that were made with the models, prompts and settings of `setup`.
    """

    def __init__(self, setup: dict[str, object], path: Path | None = None, *, overwrite: bool = False) -> None:
        self.recordings: dict[str, Trace] = {}
        self._runs: defaultdict[str | None, list[Transcript]] = defaultdict(list)
        here = json.loads(json.dumps(setup))

        def accepts(line: Trace | Transcript) -> Iterable[Change]:
            return differing(line.setup, here) if isinstance(line, Trace) else ()

        super().__init__(path, RECORDINGS, accepts, overwrite=overwrite)

    def parsed(self, line: StoredLine) -> Trace | Transcript:
        """A recording, or the transcript of a run."""
        place = f"{self.path}:{line.number}"
        if not line.raw.startswith(_RECORDING):
            return Transcript.from_json(line.raw, place)
        try:
            return Trace.model_validate_json(line.raw)
        except ValidationError as error:
            hint = "Delete that line, or name another file in --traces."
            raise WrongFileError(f"{place} was not recorded by this version of specdec.", hint=hint) from error

    def take(self, entry: Trace | Transcript) -> None:
        """Keeps an entry by its clip."""
        if isinstance(entry, Trace):
            self.recordings[entry.sha256] = entry
        elif entry.error is None:
            self._runs[entry.sha256].append(entry)

    def record(self, captioner: Captioner, clips: Mapping[str, str], watch: Watch) -> list[Trace]:
        """Records the clips (SHA-256 -> path) that are not recorded yet; one that fails does not stop the others.

        Returns the traces of all that could be recorded, in the order of `clips`.
        """
        known = self.recordings
        missing = [path for sha256, path in clips.items() if sha256 not in known]
        self.run_all([(f"recording {path}", path, partial(record, captioner, path)) for path in missing], watch)
        return [known[sha256].model_copy(update={"file": path}) for sha256, path in clips.items() if sha256 in known]

    def run_all(self, steps: Sequence[_Step], watch: Watch) -> None:
        """Adds the lines that steps make. The error of a step is shown, and the next step is taken.

        Raises:
            TranscriptError: a line cannot be written.
        """
        watch.begin(len(steps))
        for what, file, make in steps:
            watch.step(what)
            try:
                self.add(make())
            except TranscriptError:
                raise
            except Exception as error:
                interrupts.check()  # which may have ended a call
                watch.failed(file, as_specdec_error(error))
            watch.advance()

    def add(self, line: Trace | Transcript) -> None:
        """Keeps a line, and appends it to the file; raises TranscriptError if it cannot be written."""
        self.append(line.to_json() if isinstance(line, Transcript) else line.model_dump_json())
        self.take(line)

    def run(self, sha256: str, captioner: Captioner) -> Transcript | None:
        """The last transcript of a clip in the mode and under the settings of a captioner, if there is one."""
        shared, runs = captioner.shared, reversed(self._runs[sha256])
        same = (run for run in runs if run.mode == shared.mode and not any(differing(run.settings, shared.settings)))
        return next(same, None)
