"""Prints docs/families.md: the families in the code, and how each is tested.

Use: python tools/families_table.py > docs/families.md
"""

from __future__ import annotations

import sys
from typing import Final

from specdec_cli.models.families import FAMILIES, Family

_PREFACE: Final = """# Model families

Written by `tools/families_table.py`. With `family: auto` a family is chosen by the checkpoint's
`model_type`. Every checkpoint is tested when it is loaded for the first time: cached, rolled-back and joint passes must
score as one pass without a cache does, or it is refused. "Laws" are tests that compare whole runs with transformers'
`generate()` on tiny random models of the same classes. Published weights were not run.
"""
_LAWS: Final = "laws; prompts against transformers' processor"
_QWEN: Final = f"{_LAWS}; the published tokenizer"
_GEMMA: Final = f"{_LAWS}; built without its image part"
_TESTED_AND_NOTES: Final = {
    "qwen2.5-omni": (_QWEN, "25 audio tokens a second, 300 s; vision tower and talker are dropped"),
    "qwen2-audio": (_LAWS, "whole windows of 30 s"),
    "qwen3-omni": (
        _QWEN,
        "13 audio tokens a second; the Captioner takes no instruction and writes English; Thinking is refused",
    ),
    "gemma4": (
        _GEMMA,
        "25 audio tokens a second, 30 s; clips of a batch step one by one (sliding windows)",
    ),
    "gemma4-unified": (
        _GEMMA,
        "25 audio tokens a second, 30 s; its features are the samples themselves, so a cloud needs leave for them",
    ),
    "voxtral": (_LAWS, "whole windows of 30 s, 375 audio tokens each; no Chinese; takes no system prompt"),
    "audio-flamingo-3": (_LAWS, "windows of 30 s, 10 min; the published weights are for non-commercial use"),
    "granite-speech": (
        f"{_LAWS}; features by a stand-in for torchaudio; no adapters",
        "transcribes, and hardly describes; checkpoints with a LoRA adapter are refused",
    ),
    "generic": (
        "the self-test at loading alone",
        "whatever transformers' multimodal auto class loads; passes the self-test or is refused",
    ),
}


def page() -> str:
    """The families as a page of Markdown."""
    columns = ("family", "model_type", "class in transformers", "needs", "tested", "notes")
    rows = [
        (
            f"`{family.name}`" if family.model_types else "any other",
            ", ".join(f"`{name}`" for name in sorted(family.model_types)) or "-",
            f"`{family.class_name}`",
            ", ".join(f"`{name}`" for name in family.needs) or "-",
            *_TESTED_AND_NOTES[family.name],
        )
        for family in (*FAMILIES, Family())
    ]
    lines = [f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *rows)]
    return f"{_PREFACE}\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
