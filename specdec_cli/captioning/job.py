"""What a run is asked for: the recordings, the settings, and the file of its transcripts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from specdec_cli.captioning.output_file import Check, Output, Task, accepting
from specdec_cli.captioning.tasks import find_tasks
from specdec_cli.config import Config
from specdec_cli.inputs.cuts import Cuts
from specdec_cli.inputs.find import Paths
from specdec_cli.inputs.manifest import Inputs
from specdec_cli.journal import read_lines
from specdec_cli.labels import Lexicon
from specdec_cli.prompts import Language
from specdec_cli.transcript.lines import Line
from specdec_cli.transcript.records import Transcript
from specdec_cli.transcript.shared import SharedFields

_REMEMBERED: Final = 500
"""The latest transcripts of a file, from which tokens are guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run of `caption`, `batch` or `listen`.

    Attributes:
        config: its settings.
        lexicon: finds the classes that captions name.
        inputs: the recordings; None: those of `transcripts` that failed before, or what a microphone records.
        transcripts: the file that they are appended to, and that a later run resumes; None: nothing is kept.
        overwrite: whether that file is replaced.
        limit: number of recordings to take; None: all.
        only_failed: whether only recordings are taken that failed before, or whose captions are degraded.
        listens: whether a microphone records what is captioned.
    """

    config: Config
    lexicon: Lexicon
    inputs: Inputs | None
    transcripts: Path | None
    overwrite: bool = False
    limit: int | None = None
    only_failed: bool = False
    listens: bool = False

    @property
    def shared(self) -> SharedFields:
        """What the transcripts of the run have in common."""
        return SharedFields.of(self.config, self.lexicon)

    @property
    def recordings(self) -> tuple[str, ...]:
        """The paths of all recordings that are named."""
        return tuple(item.path for item in self.inputs or ())

    @property
    def several(self) -> bool:
        """Whether more than one recording is asked for."""
        return self.inputs is None or len(list(islice(iter(self.inputs), 2))) > 1

    @property
    def resumes(self) -> bool:
        """Whether there are transcripts of an earlier run, to which those of this one are added."""
        return self.transcripts is not None and self.transcripts.is_file() and not self.overwrite

    @property
    def names_people(self) -> bool:
        """Whether speakers and texts come from a manifest; a file of cuts and channels may name some, too."""
        audio = self.config.audio
        of_manifest = self.inputs is not None and not isinstance(self.inputs, Paths)
        return of_manifest and audio.cuts_path is None and audio.channel != "each"

    def accepts(self) -> Check:
        """A check whether a stored line was made with the settings of this run."""
        return accepting(self.shared, self._prompting)

    def tasks(self, stored: Output) -> list[Task]:
        """The recordings to caption, compared with what the output holds of them."""
        audio = self.config.audio
        cuts = Cuts.of_config(audio) if audio.cuts_path is not None and audio.cuts_path.is_dir() else None
        return find_tasks(self.inputs, stored, limit=self.limit, only_failed=self.only_failed, cuts=cuts)

    def earlier(self) -> Iterator[Transcript]:
        """The latest transcripts of the file that is resumed."""
        if self.transcripts is not None and self.resumes:
            for line in deque(read_lines(self.transcripts), maxlen=_REMEMBERED):
                if not line.torn:
                    yield Transcript.from_json(line.raw, str(self.transcripts))

    def _prompting(self, line: Line) -> tuple[Language, str] | None:
        """Language and instruction of a line's clip in this run; None if the line's own count."""
        if self.inputs is None or isinstance(self.inputs, Paths):
            known = self.listens or self.inputs is not None
            return (self.config.prompt.language, self.config.instruction()) if known else None
        row = self.inputs.rows.get(line.key)
        return None if row is None else row.language_and_prompt(self.config)
