"""Writes the captions that the mini pair guesses from before it has written any: `python -m training.memory`.

They are captions of random classes, as token ids; training again needs the file again, since it names the weights.
"""

from __future__ import annotations

import json
import random
from typing import Final

from transformers import AutoTokenizer

from specdec_cli.captioner import Captioner
from specdec_cli.pair_loading import SHIPPED_CAPTIONS
from specdec_cli.prompts import PROMPTS
from training.dialogue import Dialogue
from training.labels import CLASSES

CAPTIONS: Final = 24  # of each instruction: enough to weigh the classes alike


def shipped_captions(weights: dict[str, str | None]) -> str:
    """The file's text, for models of these weights; their tokenizer is that of the file's folder."""
    rng = random.Random(0)
    dialogue = Dialogue(AutoTokenizer.from_pretrained(SHIPPED_CAPTIONS.parent / "edge"))
    captions = {
        prompt: [
            dialogue.answer({name: rng.choice(classes) for name, classes in CLASSES.items()}, *key).ids
            for _ in range(CAPTIONS)
        ]
        for key, prompt in PROMPTS.items()
    }
    return json.dumps({"weights": weights, "captions": captions}, ensure_ascii=False, separators=(",", ":")) + "\n"


def main() -> None:
    """Writes the file for the shipped weights."""
    weights = Captioner.load("mini", {"decoding.guess_tokens": 0}).setup.models.weights
    SHIPPED_CAPTIONS.write_text(shipped_captions(weights), encoding="utf-8")


if __name__ == "__main__":
    main()
