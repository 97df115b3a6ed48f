"""Transcripts with figures that a test can add up by hand."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from specdec_cli.errors import AudioDecodeError
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.evaluate.result import Comparison, ModeFigures, ModeQuality
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.transcript.recorder import error_transcript
from specdec_cli.transcript.records import Models, Transcript
from specdec_cli.types import Mode

LEXICON = Lexicon.read()
EDGE, CLOUD = ({"name": f"package:mini/{role}", "dtype": "float32", "device": "cpu"} for role in ("edge", "cloud"))
SETTINGS: dict[str, object] = {"k": 5, "gate": "entropy", "threshold": 1.0, "acceptance": "greedy", "temperature": 0.0}


def digest(file: str) -> str:
    """The hash that a fabricated file has."""
    return hashlib.sha256(file.encode()).hexdigest()


def made(
    file: str,
    mode: Mode,
    caption: str = "He sounds sad.",
    *,
    ms: float = 100.0,
    ttft_ms: float = 20.0,
    tokens: int = 10,
    rounds: int = 4,
    escalations: int = 0,
    drafted: int = 0,
    accepted: int = 0,
    forwards: tuple[int | None, int | None] = (None, None),
    prefill_ms: tuple[float | None, float | None] = (10.0, None),
    cloud_ms: float | None = None,
    language: str = "en",
    settings: dict[str, object] | None = None,
) -> Transcript:
    """A transcript of one clip in one mode."""
    share = 0.0 if mode == "cloud" else 1 - escalations / max(tokens, 1)
    return Transcript.model_validate(
        {
            "file": file,
            "sha256": digest(file),
            "duration_s": 2.0,
            "language": language,
            "prompt": "Describe the voice.",
            "mode": mode,
            "caption": caption,
            "finish_reason": "eos",
            "models": {"edge": None if mode == "cloud" else EDGE, "cloud": None if mode == "edge" else CLOUD},
            "settings": SETTINGS | (settings or {}),
            "rounds": [],
            "totals": {
                "tokens": tokens,
                "rounds": rounds,
                "escalations": escalations,
                "drafted": drafted,
                "accepted": accepted,
                "corrected": 0,
                "bonus": 0,
                "acceptance_rate": accepted / drafted if drafted else None,
                "escalation_rate": escalations / rounds if mode in ("hybrid", "lossless") else None,
                "edge_token_share": share,
                "forwards_edge": forwards[0],
                "forwards_cloud": forwards[1],
                "encoder_passes": {"edge": 1, "cloud": 0},
            },
            "timing": {
                "load_s": 1.5, "audio_s": 0.1, "prefill_edge_ms": prefill_ms[0], "prefill_cloud_ms": prefill_ms[1],
                "forwards_edge_ms": None, "forwards_cloud_ms": cloud_ms, "ttft_ms": ttft_ms, "total_ms": ms,
                "tokens_per_s": tokens / ms * 1e3, "input_tokens_per_s": 5000.0,
            },
            "resources": {"cpu_percent": 100.0, "peak_rss_mb": 500.0},
            "uplink": {"payload": "none", "bytes": 0},
        }
    )  # fmt: skip


def failed(file: str, mode: Mode) -> Transcript:
    """The line of a clip that could not be captioned."""
    return error_transcript(
        file, AudioDecodeError(f"{file} is no recording."), language="en", prompt="Describe the voice.",
        mode=mode, models=Models(edge=None, cloud=None), settings=dict(SETTINGS), sha256=digest(file),
    )  # fmt: skip


def against(folder: Path, head: str, rows: Iterable[str], runs: list[Transcript], by: str | None = None) -> Comparison:
    """A comparison of runs beside a table of references, `truth.csv`."""
    table = folder / "truth.csv"
    table.write_text("\n".join([head, *rows, ""]), "utf-8")
    return comparison(runs, LEXICON, references=References.read(table, lexicon=LEXICON, by=by), by=by)


def costs_of(found: Comparison, mode: Mode) -> ModeFigures:
    """The costs of one of its modes."""
    return found.costs[found.modes.index(mode)]


def quality_of(found: Comparison, mode: Mode) -> ModeQuality:
    """The quality of one of its modes."""
    return found.quality[found.modes.index(mode)]
