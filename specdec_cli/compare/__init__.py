"""Modes side by side on the same recordings: run fairly, kept so that a later run goes on, and judged.

recordings  files and folders to recordings, known by their bytes
plan        which modes, and the settings of each
schedule    in which order recordings and modes take their turns
journal     what is captioned already, in memory and in a file
runner      captions what is missing
pairing     transcripts to clips that every mode captioned
costs, quality, gaps  what each mode costs, how good it is, what of the cloud's lead it gains
headline    that in sentences
result      the object that `--json` prints
build       transcripts to that object

Nothing here imports torch but what runs models.
"""
