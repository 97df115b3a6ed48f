"""What the shipped pair says of known sounds: `golden.jsonl`, which changes with the weights alone.

    python -m tests.golden

writes it anew. A caption is in it if it and its rounds stay the same where every score is moved by ten times what
CPUs differ by, three times over: then each choice, each gate figure and each class is clear.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soundfile

from specdec_cli.transcript import Transcript
from tests.laws.planted import noise
from tests.laws.tolerance import TOLERANCE
from tests.mini_pair import RATE, captioner, mini_pair, voice

GOLDEN: Final = Path(__file__).with_name("golden.jsonl")
SAMPLES: Final = Path(__file__).parents[1] / "samples"
VOICES: Final = 20
_MOVED: Final = 10 * TOLERANCE  # of a row's standard deviation
_TIMES: Final = 3


def sounds() -> Iterator[tuple[str, str, npt.NDArray[np.float32]]]:
    """Name, language and mono samples of each sound at 16 kHz: the shipped samples, and synthetic voices."""
    for path in sorted(SAMPLES.glob("*.flac")):
        yield path.name, path.name[:2], soundfile.read(path, dtype="float32")[0]
    for seed in range(VOICES):
        yield f"voice {seed}", ("en", "zh")[seed % 2], voice(seed, 1.0 + 0.1 * seed)


def said(run: Transcript) -> dict[str, Any]:
    """What must stay the same."""
    rounds = [[len(each.draft_ids), each.accepted, each.escalated, len(each.committed_ids)] for each in run.rounds]
    return {"caption": run.caption, "rounds": rounds}


def caption(samples: npt.NDArray[np.float32], language: str, mode: str) -> dict[str, Any]:
    use = captioner(decoding__mode=mode, prompt__language=language)
    return said(use.run_samples(samples, RATE).finish())


def weights() -> list[str | None]:
    """Digests of the weights of both models."""
    return [model.weights for model in mini_pair().loaded]


def main() -> None:
    edge, cloud = mini_pair().loaded
    rows = list[dict[str, Any]]()
    for name, language, samples in sounds():
        for mode in ("hybrid", "edge", "cloud"):
            found = caption(samples, language, mode)
            others = []
            for seed in range(_TIMES):
                with noise(edge, _MOVED, seed), noise(cloud, _MOVED, seed):
                    others.append(caption(samples, language, mode))
            clear = all(other == found for other in others)
            print(f"{name}, {mode}: {'clear' if clear else 'left out'}")
            if clear:
                rows.append({"sound": name, "language": language, "mode": mode} | found)
    head = {"weights": weights()}
    GOLDEN.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in (head, *rows)), "utf-8")


if __name__ == "__main__":
    main()
