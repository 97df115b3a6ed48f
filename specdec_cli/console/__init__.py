"""The terminal: the live display of a run, its plain forms, progress, tables and errors.

The only importer of rich. Displays write to stderr; captions, JSON and tables go to stdout.
"""
