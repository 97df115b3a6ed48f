"""Transcripts in the formats of other tools: annotation tiers, subtitles, speaker turns, tables, text files."""
