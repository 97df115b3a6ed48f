"""`specdec listen`: captions what a microphone records, utterance by utterance, while the person speaks."""

# no postponed annotations: see `specdec_cli.cli.options`

import math
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from specdec_cli import interrupts
from specdec_cli.audio.microphone import Microphone, Utterance, devices
from specdec_cli.audio.samples import Floats
from specdec_cli.captioning.job import Job, caption_missing
from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.cli import options
from specdec_cli.cli.captions import LoadedBackend, Printer, conclude_clips, require_stdout, status
from specdec_cli.cli.ending import interruptible
from specdec_cli.cli.outputs import Outputs
from specdec_cli.cli.set_up import display
from specdec_cli.config import ResolvedConfig
from specdec_cli.console.plain import write_line
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError, as_specdec_error
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.targets import Targets, writing
from specdec_cli.text import clean
from specdec_cli.times import seconds

if TYPE_CHECKING:
    from specdec_cli.audio.samples import AudioPiece

_OF_FILES: Final = {"segment": None, "start_s": None, "end_s": None}
"""Settings that are about files: what a microphone records is always cut at pauses."""
_DEVICE: Final = "Microphone: its number, or a part of its name; list: print the microphones and exit."
_SAVE: Final = "Keep each utterance as a FLAC file in this folder."
_LOST: Final = "sound was lost in this utterance, because this machine was too busy to record it"


@dataclass(frozen=True, kw_only=True)
class ListenCommand(options.WatchingOptions, options.CaptioningOptions):
    """An utterance ends with a pause of a third of a second. Its caption follows, with the time that it took, and is
    appended to --output at once. Ctrl-C ends the recording and captions what was recorded until then.
    """

    name: ClassVar[str] = "listen"

    device: Annotated[str | None, options.of_input("--device", metavar="DEVICE", help=_DEVICE)] = None
    output: options.CaptionsOut = None
    save: Annotated[Path | None, options.of_output("--save", metavar="FOLDER", help=_SAVE)] = None
    overwrite: options.Overwrite = False

    def run(self) -> int:
        """See `Command.run`."""
        if self.device == "list":
            for line in devices():
                write_line(clean(line))
            return 0
        if self.output is None:
            require_stdout()
        resolved = self.resolved()
        targets = Targets([self.lexicon, *resolved.reads], overwrite=self.overwrite)
        outputs = Outputs.of(self.output, None, targets)
        outputs.require_one(self.save is not None, "With --save each utterance is one: name a .csv or .jsonl file.")
        if self.save is not None and self.save.exists() and not self.save.is_dir():
            raise ConfigError(f"--save {self.save} is not a folder.", hint="Name another one; it will be created.")
        job = self._job(resolved, outputs.transcripts)
        microphone = Microphone(self.device)  # refused before models are loaded
        with display(self, resolved=None if self.json else resolved) as view:
            sink, ended = Printer(view, json=self.json, named=False, cut=True), False
            try:
                caption_missing(job, _Listening(job, view, microphone, self.save), sink)
                ended = True
            finally:
                conclude_clips(view, sink.counts, outputs, ended=ended)
                written = outputs.write(job, view)
            return status(sink, written=written)

    def _job(self, resolved: ResolvedConfig, transcripts: Path | None) -> Job:
        if ignored := [name for name in (f"audio.{each}" for each in _OF_FILES) if resolved.chosen(name)]:
            hint = "A microphone is cut at pauses: leave it out, or save the utterances with --save and caption those."
            raise ConfigError(f"{ignored[0]} has no effect on what a microphone records.", hint=hint)
        config = resolved.config
        return Job(
            config=config.model_copy(update={"audio": config.audio.model_copy(update=_OF_FILES)}),
            lexicon=Lexicon.read(self.lexicon),
            inputs=None,
            transcripts=transcripts,
            overwrite=self.overwrite,
            listens=True,
        )


class _Listening(LoadedBackend):
    """Captions each utterance as it ends. It takes no tasks, and ends with Ctrl-C; `save`: the folder of --save."""

    def __init__(self, job: Job, view: View, microphone: Microphone, save: Path | None) -> None:
        super().__init__(job, view)
        self._microphone, self._save = microphone, save
        self._name = f"microphone-{datetime.now():%Y%m%d-%H%M%S}"

    def outcomes(self, _tasks: Iterable[Task], _stopped: Stopped) -> Generator[Outcome]:
        """The outcome of each utterance."""
        view, captioner = self.view, self.captioner
        stopping = partial(view.stopping, "captioning what was said")
        with interruptible(stopping) as ending, self._microphone as microphone:
            view.say(f"listening to {microphone.name}; Ctrl-C ends")
            shows = partial(_show_level, view)
            for utterance in microphone.utterances(captioner.sampling_rate, captioner.window_s, ending.check, shows):
                outcome = self._outcome(utterance)
                yield outcome
                if outcome.error is None:
                    view.say(f"caption {seconds(time.monotonic() - utterance.ended)} after the end of the utterance")

    def _outcome(self, utterance: Utterance) -> Outcome:
        file = None if self._save is None else self._saved(utterance, self._save)
        outcome = self._caption(utterance.piece, file)
        if utterance.lost and outcome.line is not None:
            self.view.warn(f"{_LOST.capitalize()}: close other programs, or take a smaller model.")
            line = outcome.line.model_copy(update={"warnings": (*outcome.line.warnings, _LOST)})
            outcome = replace(outcome, line=line)
        return outcome

    def _caption(self, cut: "AudioPiece", file: str | None) -> Outcome:
        """Captions an utterance from its file, or from memory, and shows every update."""
        item, captioner = InputFile(file or self._name), self.captioner
        try:
            if file is None:
                rate = captioner.sampling_rate
                run = captioner.run_samples(cut.samples, rate, name=self._name, start_s=cut.start_s)
            else:
                run = next(captioner.runs(file))
        except Exception as unforeseen:
            interrupts.check()  # which may have ended a call
            error = as_specdec_error(unforeseen)
            return Outcome(item, captioner.shared.error_line(item, error), error=error)
        return self.watched(Outcome(item), run)

    def _saved(self, utterance: Utterance, folder: Path) -> str:
        """Writes an utterance as 16-bit FLAC; the file's name holds its start in seconds."""
        import soundfile

        path = folder / f"{self._name}-{utterance.piece.start_s:08.2f}.flac"
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                rate = self.captioner.sampling_rate
                soundfile.write(file, utterance.piece.samples, rate, "PCM_16", format="FLAC")
        return str(path)


def _show_level(view: View, samples: Floats) -> None:
    view.listening(10 * math.log10(float(samples.var()) + 1e-12) if len(samples) else -math.inf)
