"""The mini pair: a small trained edge and cloud model that ship with specdec, and the code that trained them.

Nothing here is imported at caption time: the shipped checkpoints are ordinary Qwen2.5-Omni thinker directories.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

WEIGHTS: Final = Path(__file__).parent / "weights"
EDGE_WEIGHTS: Final = WEIGHTS / "edge"
CLOUD_WEIGHTS: Final = WEIGHTS / "cloud"
