"""What commands share: models and references that they load, captions and results that they print, and Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from specdec_cli.config import Config, ResolvedConfig
from specdec_cli.console.live import choose_view
from specdec_cli.console.plain import print_caption, write_line
from specdec_cli.console.view import View
from specdec_cli.errors import CloudError, ConfigError, SpecdecError, typed
from specdec_cli.format import marked
from specdec_cli.inputs.find import identify
from specdec_cli.inputs.recording import InputFile
from specdec_cli.labels import Lexicon
from specdec_cli.labels.calibration import Labelling, read_calibration
from specdec_cli.labels.references import References
from specdec_cli.transcript import Transcript

if TYPE_CHECKING:
    from specdec_cli.captioner import Captioner
    from specdec_cli.run import Run, Setup


def exit_code(*, interrupted: bool, failed: bool) -> int:
    """How a command over many recordings ends; see `app.EXIT_CODES`."""
    return 130 if interrupted else 1 if failed else 0


@contextmanager
def interruptible(*callbacks: Callable[[], None]) -> Iterator[list[int]]:
    """Within the block the first Ctrl-C calls `callbacks`, and the second ends the process at once.

    Gives a list that is not empty after the first.
    """
    interrupts: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt
        for call in callbacks:
            call()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)


class CommandRun:
    """One run of a command over recordings: its display, Ctrl-C, the recordings that failed, the exit code.

    `with CommandRun(...) as work`, then `return work.code()`. Ctrl-C ends the block without an error and sets
    `interrupted`; the terminal is given back in any case.

    Args:
        quiet: show no progress.
        debug: show tracebacks.
        interruption: message on Ctrl-C.
        resolved: the configuration, whose language is shown first.
    """

    def __init__(
        self, *, quiet: bool, debug: bool, interruption: str = "interrupted", resolved: ResolvedConfig | None = None
    ) -> None:
        self.view = choose_view(quiet=quiet, debug=debug, steps=True)
        self.begin, self.step, self.advance = self.view.begin, self.view.step, self.view.advance
        self.interrupted = False
        self._interruption = interruption
        self._failed: set[str] = set()
        if resolved is not None:
            self.view.say(resolved.note)

    def __enter__(self) -> CommandRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> bool:
        self.view.close()
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return False
        self.interrupted = True
        self.view.say(self._interruption, good=False)
        return True

    def failed(self, file: str, error: SpecdecError) -> None:
        """A recording cannot be used."""
        self._failed.add(file)
        self.view.failed(file, error)

    def code(self) -> int:
        """The exit code."""
        return exit_code(interrupted=self.interrupted, failed=bool(self._failed))

    def identified(self, files: Sequence[str]) -> list[InputFile]:
        """The recordings by their bytes; a copy of another one is left out, and named."""
        recordings, copies = identify(files)
        for copy, original in copies.items():
            self.view.say(f"{copy} holds the same bytes as {original} and is left out", good=False)
        return recordings


@dataclass
class Job:
    """Captions printed, kept and counted one after the other, as `caption` and `listen` do.

    Attributes:
        append: takes each transcript.
        json: print transcripts on stdout instead of captions.
        labelled: write the file's name before each caption.
        done, failed, before: recordings or pieces captioned, without a caption, and captioned by an earlier run.
        empty: recordings or pieces in which an earlier run found nothing to describe.
    """

    view: View
    append: Callable[[Transcript], None]
    json: bool
    labelled: bool
    done: int = 0
    failed: int = 0
    before: int = 0
    empty: int = 0

    def keep(self, file: str, transcripts: Iterable[tuple[Transcript, SpecdecError | None]]) -> None:
        """Prints, records and counts the transcripts of one file, one per segment, and shows their errors.

        Raises:
            TranscriptError: the output file cannot be written, which the next file would not change.
        """
        for transcript, error in transcripts:
            if error is not None:
                self.failed += 1
                self.view.failed(file, error)
            self._print(file, transcript)
            self.append(transcript)
            self.done += error is None

    def repeat(self, file: str, transcripts: Iterable[Transcript]) -> None:
        """Prints what an earlier run captioned."""
        for transcript in transcripts:
            self.before += 1
            self._print(file, transcript)

    def finished(self) -> None:
        """Shows how many recordings or pieces there were."""
        facts = ((self.before, "done before"), (self.empty, "without anything to describe, as found before"))
        self.view.finished_all(self.done, self.failed, [f"{number} {what}" for number, what in facts if number])

    def transcripts(
        self, captioner: Captioner, file: str, runs: Iterable[Run], item: InputFile | None = None
    ) -> Iterator[tuple[Transcript, SpecdecError | None]]:
        """What `keep` takes, shown while it comes about. What is wrong with `file` never costs the next one."""
        try:
            for run in runs:
                error = self._watch(run)
                yield (run.failed(error), error) if error else (run.finish(), None)
        except Exception as error:
            known = typed(error)
            yield captioner.error_line(item or InputFile(file), known), known

    def _watch(self, run: Run) -> SpecdecError | None:
        """Shows a run from beginning to end; returns what stopped it."""
        if run.error is not None:
            return run.error
        try:
            for update in run:
                self.view.show(update)
        except Exception as error:
            return typed(error)
        return None

    def _print(self, file: str, transcript: Transcript) -> None:
        if self.json:
            write_line(transcript.to_json())
        elif transcript.caption is not None:
            columns, speaker = [file] if self.labelled else [], ""
            if transcript.pieces is not None:
                columns += [f"{transcript.start_s or 0.0:.2f}", f"{transcript.end_s or 0.0:.2f}"]
                speaker = f"{transcript.speaker}: " if transcript.speaker else ""
            text = marked(speaker + transcript.caption, " ".join(transcript.flags))
            print_caption(text, before=columns, shown=self.view.shows_caption)


def emit(found: BaseModel, page: Callable[..., Any], *, json: bool, **shown: Any) -> None:
    """Prints a result: one JSON object, or its page."""
    if json:
        write_line(found.model_dump_json(by_alias=True))
    else:
        page(found, **shown)


def load_captioner(
    config: Config,
    view: View,
    labelled: Labelling | None = None,
    *,
    measures: bool = False,
    degrades: bool | None = None,
) -> Captioner:
    """The captioner of a command, whose display shows what is being loaded.

    `degrades` is whether the edge writes what the cloud cannot (None: as configured). CloudError: the cloud does not
    answer, and nothing replaces it.
    """
    from specdec_cli.captioner import Captioner

    if config.loads_models:
        with view.loading("PyTorch"):
            import specdec_cli.models.loading  # noqa: F401 - takes seconds
    captioner = Captioner.load(config, loading=view.loading)
    require_cloud(captioner.setup, degrades=config.decoding.degrades if degrades is None else degrades)
    if labelled is not None:
        captioner = captioner.labelled(*labelled)
    return captioner.measuring() if measures else captioner


def require_cloud(setup: Setup, *, degrades: bool) -> None:
    """Refuses to begin if the cloud does not answer, unless the edge writes what the cloud cannot (`degrades`)."""
    if setup.unanswered and not degrades:
        alone = " With decoding.degrade the edge writes alone." if setup.mode == "lossless" else ""
        hint = f"Start the server, or check cloud.url.{alone}"
        raise CloudError(f"The cloud does not answer: {setup.unanswered[0]}.", hint=hint)


def labelling(labels: bool, words: Path | None, calibration: Path | None) -> Labelling | None:
    """What --labels, --lexicon and --calibration ask for, None if none is given; ConfigError if a file is unusable."""
    if not labels and words is None and calibration is None:
        return None
    return Labelling(Lexicon.load(words), None if calibration is None else read_calibration(calibration))


def read_references(
    table: Path | None,
    file_column: str | None,
    text_columns: Sequence[str] | None,
    label_columns: Sequence[str] | None,
    words: Path | None,
) -> tuple[Lexicon, References | None]:
    """The lexicon at `words` (None: the shipped one), and the references at `table`, by which captions are judged.

    A label's column is given as "attribute=column". ConfigError: a file is malformed, or a column is of no table.
    """
    lexicon = Lexicon.load(words)
    if table is None:
        if file_column or text_columns or label_columns:
            raise ConfigError("Columns are named, but there are no references.", hint="Name the table: --references")
        return lexicon, None
    labels = dict(label.partition("=")[::2] for label in label_columns or ())
    if wrong := sorted(name for name in labels if name not in lexicon.attributes or not labels[name]):
        hint = f"Attributes: {', '.join(lexicon.attributes)}. For example: --label-column emotion=mood"
        raise ConfigError(f"--label-column {wrong[0]!r} is not of the form attribute=column.", hint=hint)
    texts = tuple(text_columns or ())
    read = References.read(table, file_column=file_column, text_columns=texts, label_columns=labels, lexicon=lexicon)
    return lexicon, read
