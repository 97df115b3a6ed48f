"""Captioning recordings: what a run is asked for, the run, and where its captions come from and go to."""
