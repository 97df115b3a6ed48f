"""Transcripts: one JSON object for each clip, its schema, how it is made, written and read."""

from specdec_cli.transcript.recorder import error_transcript
from specdec_cli.transcript.records import Started, Transcript, json_schema

__all__ = ["Started", "Transcript", "error_transcript", "json_schema"]
