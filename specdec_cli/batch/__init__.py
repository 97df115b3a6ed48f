"""Captioning many recordings at once."""
