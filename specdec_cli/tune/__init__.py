"""Choosing a gate by measurement: record once, sweep gates and thresholds offline, confirm by real runs."""
