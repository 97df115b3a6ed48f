"""Fitting calibrations to transcripts and references; `labels.calibration` has their files and applies them."""
