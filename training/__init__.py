"""The code that trained the mini pair, the small edge and cloud model that ship with specdec; not installed.

The shipped checkpoints are ordinary Qwen2.5-Omni thinker folders. CONTRIBUTING.md has the commands in their order.

Every command reads clips from a folder DIR by its `labels.tsv`, tab-separated and without quotes, a line a clip. An
empty cell is unknown. The columns that are read:

    file, corpus, speaker           path below DIR; ravdess, cremad, nemo, emodb (trained on), casia, secap
    emotion                         what was meant: neutral, calm, happiness, sadness, anger, fear, disgust, surprise
    heard                           CREMA-D: what most listeners heard
    gender                          m, f
    f0_hz, f0_range_st              median of F0; its 10th to 90th percentile, semitones
    level_dbfs, rate_syl_s, pause_ratio   of active speech; syllables a second of it; share of pauses within it
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import specdec_cli

WEIGHTS: Final = Path(specdec_cli.__file__).parent / "mini" / "weights"
EDGE_WEIGHTS: Final = WEIGHTS / "edge"
CLOUD_WEIGHTS: Final = WEIGHTS / "cloud"
