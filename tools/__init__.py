"""Load tests and measurements for people who work on specdec; not installed."""
