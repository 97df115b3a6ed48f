"""The record of a run: one JSON object a clip, its schema, and how it is put together and written."""

from specdec_cli.transcript.recorder import error_transcript
from specdec_cli.transcript.records import Started, Transcript, json_schema

__all__ = ["Started", "Transcript", "error_transcript", "json_schema"]
