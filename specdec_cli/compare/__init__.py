"""Modes side by side on the same recordings: run in turns, kept so that a later run resumes, and judged.

plan and runner caption what the journal lacks; pairing, costs, quality and headline make of transcripts what build puts
together as the result that `--json` prints. Nothing here imports torch but what runs models.
"""
