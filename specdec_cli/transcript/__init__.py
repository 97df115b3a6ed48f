"""The record of a run: one JSON object a clip, its schema, and how it is put together and written."""

from specdec_cli.transcript.build import error_transcript
from specdec_cli.transcript.schema import SCHEMA_VERSION, Transcript, json_schema
from specdec_cli.transcript.writer import append_transcript, read_transcripts

__all__ = [
    "SCHEMA_VERSION",
    "Transcript",
    "append_transcript",
    "error_transcript",
    "json_schema",
    "read_transcripts",
]
