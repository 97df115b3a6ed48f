"""Options that several commands share, and the settings that they set; see `configured` for how commands get them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from specdec_cli.errors import FLAGS

FLAG_NAMES: Final[Mapping[str, str]] = {
    "decoding.mode": "--mode",
    "decoding.k": "-k",
    "decoding.max_new_tokens": "--max-new-tokens",
    "decoding.min_new_tokens": "--min-new-tokens",
    "decoding.sentences": "--sentences",
    "decoding.stop_strings": "--stop",
    "decoding.temperature": "--temperature",
    "decoding.top_p": "--top-p",
    "decoding.top_k": "--top-k",
    "decoding.seed": "--seed",
    "decoding.repetition_penalty": "--repetition-penalty",
    "decoding.no_repeat_ngram": "--no-repeat-ngram",
    "decoding.draft_ahead": "--draft-ahead",
    "decoding.run_on": "--run-on",
    "decoding.require_cloud": "--require-cloud",
    "gate.name": "--gate",
    "gate.threshold": "--threshold",
    "gate.stop_drafting": "--stop-drafting",
    "acceptance.rule": "--accept",
    "prompt.language": "--language",
    "prompt.style": "--style",
    "prompt.text": "--prompt",
    "audio.segment_s": "--segment",
    "audio.refuse_no_speech": "--refuse-no-speech",
}
"""Setting -> the flag that sets it."""

FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their flags too

_MODELS: Final = "Models and settings"
_DECODING: Final = "Decoding"
_TEXT: Final = "Caption"

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|PATH",
        help="Shipped configuration (mini, qwen2.5-omni) or a YAML file. [default: mini]",
        rich_help_panel=_MODELS,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting, e.g. decoding.loop_period=0; `specdec config show` lists them. Repeatable.",
        rich_help_panel=_MODELS,
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="hybrid|lossless|edge|cloud",
        help="hybrid: the gate decides; lossless: verify every block; edge, cloud: one model alone.",
        rich_help_panel=_DECODING,
    ),
]


def count_or_word(text: str) -> int | str:
    """A whole number as one, anything else as it is: whether it is a word that the setting takes is checked there."""
    return int(text) if text.isascii() and text.isdecimal() else text


K = Annotated[
    Any,
    typer.Option(
        "-k",
        metavar="auto|N",
        parser=count_or_word,
        help="Tokens drafted per round; auto: as many as pay.",
        rich_help_panel=_DECODING,
    ),
]
Gate = Annotated[
    str | None,
    typer.Option(
        "--gate",
        metavar="entropy|margin|logprob|learned|random|always|never|FILE",
        help="What decides whether a block is escalated; a gate file (.json) brings its threshold and k.",
        rich_help_panel=_DECODING,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="X",
        help="Of the gate; entropy and logprob: nats, margin: a difference of probabilities, learned: a probability.",
        rich_help_panel=_DECODING,
    ),
]
StopDrafting = Annotated[
    bool | None,
    typer.Option(
        "--stop-drafting/--no-stop-drafting",
        help="End a block with its first unsure token, and escalate it at once.",
        rich_help_panel=_DECODING,
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        "--accept",
        metavar="greedy|sampling|rank|prob|typical",
        help="Which drafted tokens the cloud lets pass; the last three are lossy.",
        rich_help_panel=_DECODING,
    ),
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option("--max-new-tokens", metavar="N", help="Length limit, tokens.", rich_help_panel=_DECODING),
]
MinNewTokens = Annotated[
    int | None,
    typer.Option("--min-new-tokens", metavar="N", help="No end before so many tokens.", rich_help_panel=_DECODING),
]
Sentences = Annotated[
    int | None, typer.Option("--sentences", metavar="N", help="Stop after N sentences.", rich_help_panel=_DECODING)
]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="Stop before this text. Repeatable.", rich_help_panel=_DECODING),
]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="Above 0: sample; 0: greedy.", rich_help_panel=_DECODING),
]
TopP = Annotated[
    float | None, typer.Option("--top-p", metavar="P", help="Sample from this nucleus.", rich_help_panel=_DECODING)
]
TopK = Annotated[
    int | None, typer.Option("--top-k", metavar="K", help="Sample among K tokens.", rich_help_panel=_DECODING)
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="S", help="Seed of the sampling.", rich_help_panel=_DECODING)
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option("--repetition-penalty", metavar="P", help="Above 1: repeat less.", rich_help_panel=_DECODING),
]
NoRepeatNgram = Annotated[
    int | None,
    typer.Option(
        "--no-repeat-ngram", metavar="N", help="No sequence of N tokens occurs twice.", rich_help_panel=_DECODING
    ),
]

DraftAhead = Annotated[
    str | None,
    typer.Option(
        "--draft-ahead",
        metavar="auto|on|off",
        help="Draft on while a block is verified; auto: by a cloud elsewhere, on: also by one loaded here.",
        rich_help_panel=_DECODING,
    ),
]
RunOn = Annotated[
    Any,
    typer.Option(
        "--run-on",
        metavar="N",
        parser=count_or_word,
        help="Tokens that the cloud generates after its own token.",
        rich_help_panel=_DECODING,
    ),
]
RequireCloud = Annotated[
    bool | None,
    typer.Option(
        "--require-cloud/--no-require-cloud",
        help="Fail where the cloud fails, instead of letting the edge write on alone.",
        rich_help_panel=_DECODING,
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", "-l", metavar="zh|en", help="Language of the caption.", rich_help_panel=_TEXT),
]
Style = Annotated[
    str | None,
    typer.Option("--style", metavar="default|detailed|concise", help="Shipped instruction.", rich_help_panel=_TEXT),
]
Prompt = Annotated[
    str | None, typer.Option("--prompt", metavar="TEXT", help="An instruction of your own.", rich_help_panel=_TEXT)
]
Segment = Annotated[
    float | None,
    typer.Option(
        "--segment", metavar="SECONDS", help="Cut longer recordings, one caption a piece.", rich_help_panel=_TEXT
    ),
]
RefuseNoSpeech = Annotated[
    bool | None,
    typer.Option(
        "--refuse-no-speech/--no-refuse-no-speech",
        help="Fail where no speech is found, instead of marking the transcript.",
        rich_help_panel=_TEXT,
    ),
]
Labels = Annotated[
    bool,
    typer.Option(
        "--labels", help="Show which classes each caption names, in transcripts and totals.", rich_help_panel=_TEXT
    ),
]
LexiconFile = Annotated[
    Path | None,
    typer.Option(
        "--lexicon", metavar="FILE", help="Words of your own for --labels, which it turns on.", rich_help_panel=_TEXT
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Tracebacks and log messages.")]

SHARED: Final[Mapping[str, tuple[str, Any]]] = {
    "language": ("prompt.language", Language),
    "style": ("prompt.style", Style),
    "prompt": ("prompt.text", Prompt),
    "segment": ("audio.segment_s", Segment),
    "refuse_no_speech": ("audio.refuse_no_speech", RefuseNoSpeech),
    "mode": ("decoding.mode", Mode),
    "k": ("decoding.k", K),
    "gate": ("gate.name", Gate),
    "threshold": ("gate.threshold", Threshold),
    "stop_drafting": ("gate.stop_drafting", StopDrafting),
    "accept": ("acceptance.rule", Accept),
    "max_new_tokens": ("decoding.max_new_tokens", MaxNewTokens),
    "min_new_tokens": ("decoding.min_new_tokens", MinNewTokens),
    "sentences": ("decoding.sentences", Sentences),
    "stop": ("decoding.stop_strings", Stop),
    "temperature": ("decoding.temperature", Temperature),
    "top_p": ("decoding.top_p", TopP),
    "top_k": ("decoding.top_k", TopK),
    "seed": ("decoding.seed", Seed),
    "repetition_penalty": ("decoding.repetition_penalty", RepetitionPenalty),
    "no_repeat_ngram": ("decoding.no_repeat_ngram", NoRepeatNgram),
    "draft_ahead": ("decoding.draft_ahead", DraftAhead),
    "run_on": ("decoding.run_on", RunOn),
    "require_cloud": ("decoding.require_cloud", RequireCloud),
}
"""Parameter of a command -> the setting it sets, and how it is declared."""
