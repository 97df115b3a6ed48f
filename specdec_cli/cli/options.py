"""The options and arguments of the commands as `Annotated` types, those that several commands share in groups.

A command is an ordinary typer function, and takes whole groups with `taking`. `resolve` makes the configuration of the
running command: an option that gives a setting takes the setting's values, and all other settings are given with --set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

from typer import Argument, Context, Option

from specdec_cli.config import ResolvedConfig, load_config, parse_setting
from specdec_cli.config.layers import misspelt_variables, parse_value
from specdec_cli.config.settings import choices, takes_text
from specdec_cli.console.plain import warn
from specdec_cli.errors import FLAGS, ConfigError
from specdec_cli.text import nearest, show
from specdec_cli.types import ExportFormat

PANELS: Final = (
    *("Models and settings", "Caption", "Input", "What is run", "How captions are judged"),
    *("Output", "Decoding", "Work", "Network"),
)
"""The parts of a command's help, in their order."""
of_models, of_caption, of_input, of_study, of_judging, of_output, of_decoding, of_work, of_network = (
    partial(Option, rich_help_panel=panel) for panel in PANELS
)

_GIVES: Final = {
    "edge": "edge.model",
    "cloud": "cloud.model",
    "language": "prompt.language",
    "style": "prompt.instruction",
    "prompt": "prompt.instruction",
    "segment": "audio.segment",
    "start": "audio.start_s",
    "end": "audio.end_s",
    "channel": "audio.channel",
    "track": "audio.track",
    "strict": "audio.strict",
    "max_new_tokens": "decoding.max_new_tokens",
    "mode": "decoding.mode",
    "k": "decoding.k",
    "gate": "gate.name",
    "threshold": "gate.threshold",
}
"""Parameter of a command -> the setting that it gives."""
FLAG_NAMES: Final = {name: "-k" if by == "k" else f"--{by.replace('_', '-')}" for by, name in _GIVES.items()}
"""Setting -> the option that gives it."""
FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their options too

_ALONE: Final = {
    "serve": ("serve",),
    "judging": ("compare", "tune", "review", "calibrate"),
    "judging.seed": ("compare", "tune", "calibrate"),
    "runtime.fail_fast": ("batch",),
}
"""Section or setting -> the commands in which alone it has an effect."""

Command = TypeVar("Command", bound=Callable[..., Any])
FORMATS: Final = ", ".join(get_args(ExportFormat))
File = Path | None
Text = str | None
Texts = list[str] | None


def taking(*groups: type) -> Callable[[Command], Command]:
    """Gives a command the options of groups; its function is passed those that are among its parameters.

    Typer reads a function's signature, so the parameters of the groups are added to it behind its own.
    """
    shared = {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(group, name), annotation=kind)
        for group in groups
        for name, kind in get_type_hints(group, include_extras=True).items()
    }

    def extended(function: Command) -> Command:
        told = signature(function, eval_str=True).parameters
        own = {name: each.replace(kind=Parameter.KEYWORD_ONLY) for name, each in told.items() if name not in shared}

        @wraps(function)
        def run(**given: Any) -> Any:
            return function(**{name: given[name] for name in told})

        run.__signature__ = signature(function).replace(parameters=[*(own | shared).values()])  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return extended


def resolve(context: Context, fixed: Mapping[str, object] | None = None) -> ResolvedConfig:
    """The configuration in force in a command, from its options, the environment and a file; --set wins over options.

    `fixed` are settings that the command itself decides. ConfigError: anything in any layer is wrong.
    """
    flags: dict[str, object] = {}
    names = dict(FLAG_NAMES)
    for parameter, name in _GIVES.items():
        value = context.params.get(parameter)
        if value is not None and name in flags:
            raise ConfigError(f"{names[name]} and --{parameter} exclude each other.", hint="Give one of them.")
        if parameter == "style" and isinstance(value, str) and value not in choices(name):
            close = nearest(value, choices(name))
            hint = f"Did you mean {close}?" if close else "An instruction of your own goes with --prompt."
            raise ConfigError(f"--style takes {', '.join(choices(name))}, not {show(value)}.", hint=hint)
        if value is not None:
            flags[name] = parse_value(name, value) if isinstance(value, str) and not takes_text(name) else value
            names[name] = "-k" if parameter == "k" else f"--{parameter.replace('_', '-')}"
    flags |= fixed or {}
    for sentence in misspelt_variables(os.environ):
        warn(sentence)
    for assignment in context.params.get("settings") or ():
        name, value = parse_setting(assignment)
        commands = _ALONE.get(name) or _ALONE.get(name.partition(".")[0])
        if commands and context.info_name not in (*commands, "show"):
            hint = f"It is a setting of {', '.join(f'specdec {each}' for each in commands)}."
            raise ConfigError(f"{name} has no effect in specdec {context.info_name}.", hint=hint)
        flags[name] = value
        names[name] = "--set"
    return load_config(context.params.get("source"), flags=flags, flag_names=names)


def _words(setting: str) -> dict[str, Any]:
    """The words that an option of a setting takes, for its help and for completion in the shell."""
    words = choices(setting)
    return {
        "metavar": "|".join(words),
        "autocompletion": lambda incomplete: [word for word in words if word.startswith(incomplete)],
    }


def _log_everything(debug: bool) -> bool:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    return debug


CONFIG: Final = "A shipped configuration (see `specdec config show`) or a YAML file. Default: SPECDEC_CONFIG, or mini."
_EDGE: Final = "Small model, which drafts: a folder or a Hugging Face id."
_CLOUD: Final = (
    "Large model, which verifies: a folder or a Hugging Face id. If only one model is named, it writes alone."
)
_SET: Final = "A setting without an option of its own; `specdec config show --all` lists them. Repeatable."
Settings = Annotated[Texts, of_models("--set", metavar="NAME=VALUE", help=_SET)]
Debug = Annotated[bool, Option("--debug", help="Show tracebacks and log messages.", callback=_log_everything)]


class ModelOptions:
    """Which models, and every other setting."""

    edge: Annotated[Text, of_models("--edge", metavar="NAME", help=_EDGE)] = None
    cloud: Annotated[Text, of_models("--cloud", metavar="NAME", help=_CLOUD)] = None
    source: Annotated[Text, of_models("--config", "-c", metavar="NAME|FILE", help=CONFIG)] = None
    settings: Settings = None


class DisplayOptions:
    """What a command shows while it works."""

    quiet: Annotated[bool, of_output("--quiet", "-q", help="Show no progress; print results and errors only.")] = False
    debug: Debug = False


_LANGUAGE: Final = "Language of the captions. Default: of the locale."
_STYLE: Final = "Which of the shipped instructions to use."
_PROMPT: Final = "An instruction of your own, in place of the shipped ones."


class PromptOptions:
    """The instruction to the models, and the length of captions."""

    language: Annotated[Text, of_caption("--language", "-l", help=_LANGUAGE, **_words("prompt.language"))] = None
    style: Annotated[Text, of_caption("--style", help=_STYLE, **_words("prompt.instruction"))] = None
    prompt: Annotated[Text, of_caption("--prompt", metavar="TEXT", help=_PROMPT)] = None
    max_new_tokens: Annotated[Text, of_caption("--max-new-tokens", metavar="N", help="Longest caption, tokens.")] = None


_SEGMENT: Final = (
    "Where to cut: at pauses, every so many seconds, or as a file or folder says (RTTM, TextGrid, SRT, VTT, CSV, "
    "WhisperX ...). Default: only recordings too long for the model, at pauses."
)
_CHANNEL: Final = "The mean of all channels, each as a speaker of its own, or one by its number from 1."
_TRACK: Final = "Sound track of a video, by its number from 1. Default: the one that the video marks as such."
_STRICT: Final = "Refuse rows of cuts and tables that would be left out or changed."
Strict = Annotated[bool | None, of_caption("--strict", help=_STRICT)]


class CuttingOptions:
    """Which part of a recording counts, and how it is cut."""

    segment: Annotated[Text, of_caption("--segment", metavar="pauses|SECONDS|FILE", help=_SEGMENT)] = None
    start: Annotated[Text, of_caption("--start", metavar="TIME", help="Caption from here: seconds or HH:MM:SS.")] = None
    end: Annotated[Text, of_caption("--end", metavar="TIME", help="Caption up to here: seconds or HH:MM:SS.")] = None
    channel: Annotated[Text, of_caption("--channel", metavar="mix|each|N", help=_CHANNEL)] = None
    track: Annotated[Text, of_caption("--track", metavar="N", help=_TRACK)] = None
    strict: Strict = None


_LEXICON: Final = "Words for classes, in place of the shipped ones"
_MEASURE: Final = "Measure F0, level, rate and pauses (docs/acoustics.md)."
_CALIBRATION: Final = "Calibration by `specdec calibrate`; implies --labels."


class LabelOptions:
    """Which classes captions name."""

    labels: Annotated[bool, of_caption("--labels", help="Show which classes each caption names.")] = False
    lexicon: Annotated[File, of_caption("--lexicon", metavar="FILE", help=f"{_LEXICON}; implies --labels.")] = None


class MeasuringOptions(LabelOptions):
    """What is found out about a recording beside its caption."""

    calibration: Annotated[File, of_caption("--calibration", metavar="FILE", help=_CALIBRATION)] = None
    measure: Annotated[bool, of_caption("--measure", help=_MEASURE)] = False


_GATE: Final = "Rule that decides whether a block goes to the large model."
_THRESHOLD: Final = (
    "How unsure the small model must be for the large one to verify, in the gate's unit (docs/gates.md)."
)
_MODE: Final = "The gate decides; the large model verifies all; or one model writes alone."


class BlockOptions:
    """What is drafted at a time, and when the cloud is called."""

    k: Annotated[Text, of_decoding("-k", metavar="auto|N", help="Tokens drafted per block.")] = None
    gate: Annotated[Text, of_decoding("--gate", help=_GATE, **_words("gate.name"))] = None
    threshold: Annotated[Text, of_decoding("--threshold", metavar="X", help=_THRESHOLD)] = None


class DecodingOptions(BlockOptions):
    """Which of the two models writes."""

    mode: Annotated[Text, of_decoding("--mode", help=_MODE, **_words("decoding.mode"))] = None


_PATHS: Final = "Audio or video files, folders, patterns; - for stdin: a recording, or a list."
_LISTED: Final = "Audio or video files, folders, patterns; - for a list of them on stdin."
_JSONL: Final = "Transcripts that caption, batch or compare wrote with --output."
_MANIFEST: Final = "Table with a column file (.tsv, .csv, .json, .jsonl), also of NeMo."
_RETRY: Final = "Take only recordings that failed or were degraded in --output; needs no PATH."
_GLOB: Final = "Files to take from folders, e.g. '*.wav'. Default: by audio endings."
_AFTER: Final = f"Write what --output holds in these formats too: {FORMATS}."
ListedPaths = Annotated[list[str], Argument(help=_LISTED, metavar="PATH")]
TranscriptFile = Annotated[Path, Argument(help=_JSONL, metavar="JSONL")]
TranscriptFiles = Annotated[list[Path], Argument(help=_JSONL, metavar="JSONL")]
OnlyMode = Annotated[Text, of_input("--only-mode", metavar="MODE", help="Take only captions of this mode.")]
Limit = Annotated[int | None, of_input("--limit", metavar="N", help="Take only the first N.", min=1)]
Recursive = Annotated[bool, of_input("--recursive", "-r", help="Search folders at every depth.")]
Overwrite = Annotated[bool, of_output("--overwrite", help="Replace what --output names; captions start anew.")]


class RecordingOptions:
    """What `caption` and `batch` caption, and the exports of it."""

    paths: Annotated[Texts, Argument(help=_PATHS, metavar="PATH")] = None
    recursive: Recursive = False
    pattern: Annotated[Text, of_input("--glob", metavar="PATTERN", help=_GLOB)] = None
    manifest: Annotated[File, of_input("--manifest", metavar="FILE|FOLDER", help=_MANIFEST)] = None
    limit: Limit = None
    retry_failed: Annotated[bool, of_input("--retry-failed", help=_RETRY)] = False
    overwrite: Overwrite = False
    exports: Annotated[Text, of_output("--export", metavar="FORMAT,FORMAT", help=_AFTER)] = None
    export_dir: Annotated[File, of_output("--export-dir", metavar="FOLDER", help="Folder of --export.")] = None


_TABLE: Final = "Table of captions or classes by people, a row per recording (.tsv, .csv, .json, .jsonl)."
_COLUMN: Final = "Column of the references: file=clip, text=said or emotion=mood. Repeatable."
JudgingLexicon = Annotated[File, of_judging("--lexicon", metavar="FILE", help=f"{_LEXICON}.")]


class ReferenceOptions:
    """What people say of the recordings, and how captions are judged by it."""

    references: Annotated[File, of_judging("--references", metavar="TABLE", help=_TABLE)] = None
    columns: Annotated[Texts, of_judging("--column", metavar="WHAT=COLUMN", help=_COLUMN)] = None
    lexicon: JudgingLexicon = None
    strict: Strict = None
    settings: Settings = None


CAPTIONING: Final = (ModelOptions, PromptOptions, MeasuringOptions, DecodingOptions, DisplayOptions)
"""The groups of `caption`, `batch` and `listen`."""
STUDYING: Final = (ModelOptions, PromptOptions, ReferenceOptions, DisplayOptions)
"""The groups of `compare` and `tune`."""
CAPTIONS: Final = "Transcripts (.jsonl), which the same command resumes, or an export (.srt, .csv, .TextGrid ...)."
out = partial(of_output, "--output", "-o")
CaptionsOut = Annotated[File, out(metavar="FILE", help=CAPTIONS)]
Json = Annotated[bool, of_output("--json", help="Print JSON on stdout instead of text.")]
NoLive = Annotated[bool, of_output("--no-live", help="Print rounds as plain lines; nothing is redrawn.")]
