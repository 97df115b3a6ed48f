"""Fitting temperatures to transcripts whose right classes are known, and measuring how well probabilities hold."""
