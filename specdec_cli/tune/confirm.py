"""Confirming a setting: real runs of it, on clips that nothing was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specdec_cli.captioner import Captioner
from specdec_cli.config import Config
from specdec_cli.transcript.schema import Transcript
from specdec_cli.tune.candidates import Candidate
from specdec_cli.tune.frontier import Outcome
from specdec_cli.tune.journal import Journal
from specdec_cli.tune.quality import Yardstick
from specdec_cli.tune.recording import Recording


def configured(config: Config, candidate: Candidate, weights: Path | None) -> Config:
    """`config` with the candidate's gate and k.

    Args:
        config: of a hybrid run.
        candidate: the setting.
        weights: file of the learned gate, if that is the candidate's.
    """
    gate = config.gate.model_copy(
        update={
            "name": candidate.gate,
            "threshold": candidate.threshold,
            "stop_drafting": candidate.stop_drafting,
            "file": str(weights) if candidate.gate == "learned" else None,
        }
    )
    decoding = config.decoding.model_copy(update={"k": candidate.k})
    return config.model_copy(update={"gate": gate, "decoding": decoding})


class Confirming:
    """One candidate on the loaded models.

    Args:
        captioner: the loaded pair.
        candidate: the setting.
        weights: file of the learned gate, if that is the candidate's.
        journal: keeps the transcripts.
    """

    def __init__(self, captioner: Captioner, candidate: Candidate, weights: Path | None, journal: Journal) -> None:
        self._captioner = captioner.variant(configured(captioner.config, candidate, weights))
        self._candidate = candidate
        self._journal = journal

    @property
    def label(self) -> str:
        """Short name of the candidate."""
        return self._candidate.label

    def missing(self, recordings: Sequence[Recording]) -> list[Recording]:
        """The clips that it has not been run on."""
        return [recording for recording in recordings if self._transcript(recording) is None]

    def run(self, recording: Recording) -> None:
        """Captions a clip and keeps the transcript.

        Raises:
            SpecdecError: the clip cannot be captioned any more.
        """
        self._journal.add(self._captioner.caption(recording.file))

    def outcome(self, recordings: Sequence[Recording], yardstick: Yardstick) -> Outcome:
        """What it did with clips that it has been run on."""
        runs = [run for recording in recordings if (run := self._transcript(recording)) is not None]
        ids = [tuple(id_ for record in run.rounds for id_ in record.committed_ids) for run in runs]
        return Outcome(
            self._candidate,
            yardstick.table(recordings, ids),
            np.array([len(run.rounds) for run in runs], dtype=float),
            np.array([sum(record.escalated for record in run.rounds) for run in runs], dtype=float),
            confirmed=True,
        )

    def _transcript(self, recording: Recording) -> Transcript | None:
        return self._journal.run(recording.sha256, self._captioner.setup.settings)
