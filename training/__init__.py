"""The code that trained the mini pair, the small edge and cloud model that ship with specdec; not installed.

The shipped checkpoints are ordinary Qwen2.5-Omni thinker folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import specdec_cli

WEIGHTS: Final = Path(specdec_cli.__file__).parent / "mini" / "weights"
EDGE_WEIGHTS: Final = WEIGHTS / "edge"
CLOUD_WEIGHTS: Final = WEIGHTS / "cloud"
