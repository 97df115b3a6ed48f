"""`specdec listen`: captions what a microphone records, utterance by utterance, while the person speaks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from specdec_cli.audio.microphone import Microphone, Utterance, devices
from specdec_cli.audio.samples import Floats
from specdec_cli.batch.loader import Prepared
from specdec_cli.batch.local import watched
from specdec_cli.batch.output_file import Output
from specdec_cli.batch.tasks import Outcome, Progress
from specdec_cli.cli import options
from specdec_cli.cli.captioning import Printer, conclude_clips
from specdec_cli.cli.command_run import display, labelling, lexicon_of, load_captioner
from specdec_cli.cli.ending import interruptible
from specdec_cli.cli.outputs import CaptionsFile
from specdec_cli.console.plain import write_line
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError, as_specdec_error
from specdec_cli.inputs.recording import InputFile
from specdec_cli.targets import Targets, writing
from specdec_cli.text import clean
from specdec_cli.times import seconds
from specdec_cli.transcript.terms import Terms, loaded_changes

if TYPE_CHECKING:
    from specdec_cli.audio.samples import AudioPiece
    from specdec_cli.captioner import Captioner

_OF_FILES: Final = {"segment": None, "start_s": None, "end_s": None}
"""Settings that are about files: what a microphone records is always cut at pauses."""
_DEVICE: Final = "Microphone: its number, or a part of its name; list: print the microphones and exit."
_SAVE: Final = "Keep each utterance as a FLAC file in this folder."
_LOST: Final = "sound was lost in this utterance, because this machine was too busy to record it"


@options.taking(*options.CAPTIONING)
def listen(
    context: typer.Context,
    lexicon: Path | None,
    calibration: Path | None,
    measure: bool,
    device: Annotated[str | None, options.of_input("--device", metavar="DEVICE", help=_DEVICE)] = None,
    output: options.CaptionsOut = None,
    overwrite: options.Overwrite = False,
    save: Annotated[Path | None, options.of_output("--save", metavar="FOLDER", help=_SAVE)] = None,
    json: options.Json = False,
    no_live: options.NoLive = False,
) -> int:
    """Caption what a microphone records, an utterance at a time.

    An utterance ends with a pause of a third of a second. Its caption follows in the live view, with the time that it
    took, and is appended to --output at once. Ctrl-C ends the recording and captions what was recorded until then.
    """
    if device == "list":
        for line in devices():
            write_line(clean(line))
        return 0
    resolved, labelled = options.resolve(context), labelling(context)
    target = CaptionsFile.of(output, Targets([lexicon, calibration, *resolved.reads], overwrite=overwrite))
    target.require_one(save is not None, "With --save each utterance is one: name a .csv or .jsonl file.")
    if save is not None and save.exists() and not save.is_dir():
        raise ConfigError(f"--save {save} is not a folder.", hint="Name another one; it will be created.")
    if ignored := [name for name in (f"audio.{each}" for each in _OF_FILES) if resolved.chosen(name)]:
        hint = "A microphone is cut at pauses: leave it out, or save the utterances with --save and caption those."
        raise ConfigError(f"{ignored[0]} has no effect on what a microphone records.", hint=hint)
    config = resolved.config.model_copy(update={"audio": resolved.config.audio.model_copy(update=_OF_FILES)})
    terms = Terms.of(config, lexicon_of(labelled), labelled is not None)
    opening = Microphone(device)  # refused before models are loaded
    with (
        display(context) as view,
        target.journal() as journal,
        Output(journal, lambda line: terms.changes(line.head), overwrite=overwrite) as stored,
    ):
        captioner = load_captioner(config, view, labelled, measures=measure, runs_long=False)
        stored.require(lambda line: loaded_changes(line.head, captioner.setup, ("dtype", "weights")))
        if not json:
            view.say(resolved.note)
        counts, ended, tell = Progress(), False, Printer(view, json=json, named=False, cut=True)
        try:
            with interruptible(partial(view.stopping, "captioning what was said")) as ending, opening as microphone:
                view.say(f"listening to {microphone.name}; Ctrl-C ends")
                for outcome in _outcomes(captioner, view, microphone, ending.check, save):
                    tell(outcome)
                    if outcome.line is not None:
                        stored.add(outcome.item.key, outcome.line)
                    counts.add(outcome)
            ended = True
        finally:
            conclude_clips(view, counts, output, ended=ended)
    return 1 if counts.failed else 0


def _outcomes(
    captioner: Captioner, view: View, microphone: Microphone, ending: Callable[[], bool], save: Path | None
) -> Iterator[Outcome]:
    """Captions each utterance as it ends."""
    rate, name = captioner.sampling_rate, f"microphone-{datetime.now():%Y%m%d-%H%M%S}"
    for utterance in microphone.utterances(rate, captioner.window_s, ending, partial(_show_level, view)):
        cut = utterance.piece
        file = name if save is None else _saved(utterance, rate, save, name)
        outcome = _caption(captioner, view, cut, None if save is None else file, name)
        if utterance.lost:
            view.warn(f"{_LOST.capitalize()}: close other programs, or take a smaller model.")
            assert outcome.line is not None
            line = outcome.line.model_copy(update={"warnings": (*outcome.line.warnings, _LOST)})
            outcome = replace(outcome, line=line)
        yield outcome
        if outcome.error is None:
            view.say(f"caption {seconds(time.monotonic() - utterance.ended)} after the end of the utterance")


def _caption(captioner: Captioner, view: View, cut: AudioPiece, file: str | None, name: str) -> Outcome:
    """Captions an utterance from its file, or from memory, and shows every update."""
    item = InputFile(file or name)
    try:
        if file is None:
            run = captioner.run_samples(cut.samples, captioner.sampling_rate, name=name, start_s=cut.start_s)
        else:
            run = next(captioner.runs(file))
    except Exception as unforeseen:
        error = as_specdec_error(unforeseen)
        return Outcome(item, captioner.setup.error_line(item, error), error=error)
    return watched(Prepared(Outcome(item), run), view.show)


def _show_level(view: View, samples: Floats) -> None:
    view.listening(10 * math.log10(float(samples.var()) + 1e-12) if len(samples) else -math.inf)


def _saved(utterance: Utterance, sampling_rate: int, folder: Path, name: str) -> str:
    """Writes an utterance as 16-bit FLAC; the file's name holds its start in seconds."""
    import soundfile

    path = folder / f"{name}-{utterance.piece.start_s:08.2f}.flac"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            soundfile.write(file, utterance.piece.samples, sampling_rate, "PCM_16", format="FLAC")
    return str(path)
