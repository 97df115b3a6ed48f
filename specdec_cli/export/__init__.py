"""Transcripts in the formats of other tools: annotation tiers, subtitles, tables, pictures."""
