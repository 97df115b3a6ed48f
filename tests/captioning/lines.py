"""Transcripts without a model, for tests of what is around them."""

from pathlib import Path

from specdec_cli.errors import AudioDecodeError, SpecdecError
from specdec_cli.transcript import Transcript, error_transcript
from specdec_cli.transcript.records import ModelInfo, Models

SETTINGS: dict[str, object] = {"k": 5, "gate": "entropy", "threshold": 1.1, "stop_strings": [], "style": "default"}
MODELS = Models(edge=ModelInfo(name="edge", dtype="float32", device="cpu"), cloud=None)


def failed_line(
    file: str | Path,
    *,
    sha256: str | None = None,
    error: SpecdecError | None = None,
    language: str = "en",
    prompt: str = "Describe.",
    start_s: float | None = None,
) -> Transcript:
    """The line of a recording without a caption."""
    return error_transcript(
        str(file), error or AudioDecodeError("broken."), language=language, prompt=prompt, mode="edge", models=MODELS,
        settings=SETTINGS, sha256=sha256, start_s=start_s, end_s=None if start_s is None else start_s + 1,
    )  # fmt: skip


def good_line(file: str | Path, caption: str = "A calm voice.", **more: object) -> Transcript:
    """The line of a recording with a caption; `more` are fields of it."""
    changed = {"error": None, "caption": caption, "finish_reason": "eos", **more}
    return failed_line(file, sha256="0" * 64).model_copy(update=changed)


def write(path: Path, *lines: Transcript) -> Path:
    """An output with these lines."""
    path.write_text("".join(line.to_json() + "\n" for line in lines), "utf-8")
    return path
