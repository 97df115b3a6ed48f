"""`specdec listen`: what a microphone records, cut at pauses, a caption per utterance while the person speaks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.audio.microphone import Block, Microphone, Utterance, devices, utterances
from specdec_cli.cli import options
from specdec_cli.cli.command_run import Job, display, interruptible, labelling, load_captioner
from specdec_cli.console.cells import clean
from specdec_cli.console.plain import write_line
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError
from specdec_cli.format import seconds
from specdec_cli.store import Store
from specdec_cli.targets import TRANSCRIPTS, refuse, writing

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner

_OF_FILES: Final = {"segment": None, "start_s": None, "end_s": None}
"""Settings of which part of a recording counts and how it is cut: a microphone is cut at pauses."""
_LOST: Final = "sound was lost in this utterance, which the system did not take in time"


@options.takes(options.settings(*options.PROMPT, "decoding.mode", *options.DECODED), options.LABELS, options.CLIPS)
def listen(
    device: str | None = None,
    list_devices: bool = False,
    output: Path | None = None,
    save: Path | None = None,
    **given: Any,
) -> int:
    """Caption what a microphone records, an utterance at a time.

    An utterance ends with a pause of a third of a second. Its caption follows in the live view, with the time that it
    took, and is appended to --output at once. Ctrl-C ends the recording and captions what was recorded until then.
    """
    if list_devices:
        for line in devices():
            write_line(clean(line))
        return 0
    resolved, labelled = options.resolve(given), labelling(**given)
    refuse({"--output": (output, TRANSCRIPTS)}, [given["lexicon"], given["calibration"], *resolved.reads])
    if save is not None and save.exists() and not save.is_dir():
        raise ConfigError(f"--save {save} is not a folder.", hint="Name another one; it will be created.")
    config = resolved.config.model_copy(update={"audio": resolved.config.audio.model_copy(update=_OF_FILES)})
    opening = Microphone(device)  # refused before models are loaded
    with display(given) as view, nullcontext() if output is None else Store(output, TRANSCRIPTS) as store:
        append = None if store is None else lambda line: store.append([line.to_json()])
        with Job(view, output, append, json=given["json"], named=False) as job:
            captioner = load_captioner(config, view, labelled, measures=given["measure"])
            if not given["json"]:
                view.say(resolved.note)
            for _ in store.lines() if store else ():
                pass  # half a line that a killed run left is cut off
            with interruptible(partial(view.stopping, "captioning what was said")) as ending, opening as microphone:
                view.say(f"listening to {microphone.name}; Ctrl-C ends")
                _caption_all(captioner, job, microphone.blocks(captioner.sampling_rate, lambda: bool(ending)), save)
            if microphone.gone is not None:
                raise microphone.gone
    return 1 if job.counts.failed else 0


def _caption_all(captioner: Captioner, job: Job, blocks: Iterable[Block], save: Path | None) -> None:
    """Captions each utterance as it ends."""
    view, rate, name = job.view, captioner.sampling_rate, f"microphone-{datetime.now():%Y%m%d-%H%M%S}"
    for utterance in utterances(_shown(blocks, view), rate, captioner.window_s):
        cut = utterance.segment
        if save is None:
            file, runs = name, iter([captioner.run_samples(cut.samples, rate, name=name, start_s=cut.start_s)])
        else:
            file = _saved(utterance, rate, save, name)
            runs = captioner.runs(file)
        transcripts, done = job.transcripts(captioner, file, runs), job.counts.captioned
        if utterance.lost:
            view.warn(f"{_LOST.capitalize()}: close other programs, or take a smaller model.")
            transcripts = (
                (line.model_copy(update={"warnings": (*line.warnings, _LOST)}), error) for line, error in transcripts
            )
        job.keep(file, transcripts)
        if job.counts.captioned > done:
            view.say(f"caption {seconds(time.monotonic() - utterance.ended)} after the end of the utterance")


def _shown(blocks: Iterable[Block], view: View) -> Iterator[Block]:
    """The blocks, with the level of each shown."""
    for block in blocks:
        view.listening(10 * math.log10(float(block.samples.var()) + 1e-12) if len(block.samples) else -math.inf)
        yield block


def _saved(utterance: Utterance, sampling_rate: int, folder: Path, name: str) -> str:
    """Writes an utterance as 16-bit FLAC; the file's name holds its start in seconds."""
    import soundfile

    path = folder / f"{name}-{utterance.segment.start_s:08.2f}.flac"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            soundfile.write(file, utterance.segment.samples, sampling_rate, "PCM_16", format="FLAC")
    return str(path)
