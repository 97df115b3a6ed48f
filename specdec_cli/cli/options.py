"""The options and arguments of the commands as `Annotated` types, those that several commands share in groups.

A command is an ordinary typer function, and takes whole groups with `taking`. What an option of a setting takes is
what the setting takes; `resolve` reads those of the running command, with --config and --set. Settings without an
option are given with --set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

from typer import Argument, Context, Option

from specdec_cli.config import ResolvedConfig, load_config, parse_setting
from specdec_cli.config.resolve import misspelt_variables, parse_value
from specdec_cli.config.settings import choices, takes_text
from specdec_cli.console.plain import warn
from specdec_cli.errors import FLAGS
from specdec_cli.types import ExportFormat, GateName

PANELS: Final = (
    *("Models and settings", "Caption", "Input", "What is run", "How captions are judged"),
    *("Output", "Decoding", "Work", "Network", "Limits"),
)
"""The parts of a command's help, in their order."""
_models, _caption, _input, _study, _judging, _output, _decoding, _work, _network, _limits = (
    partial(Option, rich_help_panel=panel) for panel in PANELS
)

TUNED_GATES: Final[tuple[GateName, ...]] = ("entropy", "class-entropy", "margin", "logprob", "learned")
"""The gates that `tune` can fit."""

FLAG_NAMES: Final[dict[str, str]] = {
    "edge.model": "--edge",
    "cloud.model": "--cloud",
    "prompt.language": "--language",
    "prompt.style": "--style",
    "prompt.text": "--prompt",
    "audio.cut": "--cut",
    "audio.start_s": "--start",
    "audio.end_s": "--end",
    "audio.channel": "--channel",
    "audio.track": "--track",
    "audio.strict": "--strict",
    "decoding.mode": "--mode",
    "decoding.k": "-k",
    "decoding.defer": "--defer",
    "decoding.max_new_tokens": "--max-new-tokens",
    "decoding.degrade": "--degrade",
    "gate.name": "--gate",
    "gate.threshold": "--threshold",
    "acceptance.rule": "--accept",
}
"""Setting -> the option that gives it."""

Command = TypeVar("Command", bound=Callable[..., Any])
_FORMATS: Final = ", ".join(get_args(ExportFormat))
File = Path | None
Text = str | None


def _words(setting: str) -> dict[str, Any]:
    """The words that an option of a setting takes, for its help and for completion in the shell."""
    words = choices(setting)

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return {"metavar": "|".join(words), "autocompletion": complete}


def taking(*groups: type) -> Callable[[Command], Command]:
    """Gives a command the options of groups; those that its function names are passed to it.

    Typer reads a function's signature, so this one gets the parameters of the groups behind its own.
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


def _log_everything(debug: bool) -> bool:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    return debug


_CONFIG: Final = "A shipped configuration (see `specdec config list`) or a YAML file. Default: SPECDEC_CONFIG, or mini."
_EDGE: Final = "Small model, which drafts: a folder or a Hugging Face id."
_CLOUD: Final = "Large model, which verifies: a folder or a Hugging Face id. One model alone writes alone."
_SET: Final = "Any setting, e.g. decoding.seed=1; `specdec config show --all` lists them. Repeatable."
EdgeModel = Annotated[Text, _models("--edge", metavar="NAME", help=_EDGE)]
CloudModel = Annotated[Text, _models("--cloud", metavar="NAME", help=_CLOUD)]
ConfigFile = Annotated[Text, _models("--config", "-c", metavar="NAME|FILE", help=_CONFIG)]
Settings = Annotated[list[str] | None, _models("--set", metavar="NAME=VALUE", help=_SET)]


class ModelOptions:
    """Which models, and every other setting."""

    edge: EdgeModel = None
    cloud: CloudModel = None
    source: ConfigFile = None
    settings: Settings = None


Debug = Annotated[bool, Option("--debug", help="Show tracebacks and log messages.", callback=_log_everything)]


class DisplayOptions:
    """What is shown meanwhile."""

    quiet: Annotated[bool, _output("--quiet", "-q", help="Show no progress; print results and errors only.")] = False
    debug: Debug = False


_LANGUAGE: Final = "Language of the captions. Default: of the locale."
_STYLE: Final = "Which of the shipped instructions the models are given."
_PROMPT: Final = "An instruction of your own, in place of the shipped ones."
_LENGTH: Final = "Length limit of a caption, tokens."


class PromptOptions:
    """What the models are asked for."""

    language: Annotated[Text, _caption("--language", "-l", help=_LANGUAGE, **_words("prompt.language"))] = None
    style: Annotated[Text, _caption("--style", help=_STYLE, **_words("prompt.style"))] = None
    prompt: Annotated[Text, _caption("--prompt", metavar="TEXT", help=_PROMPT)] = None
    max_new_tokens: Annotated[Text, _decoding("--max-new-tokens", metavar="N", help=_LENGTH)] = None


_CUT: Final = (
    "Where to cut: at pauses, every so many seconds, or as a file or folder says (RTTM, TextGrid, SRT, VTT, CSV, "
    "WhisperX ...). Default: only recordings too long for the model, at pauses."
)
_STRICT: Final = "Refuse what cuts, manifests and references would have left out or changed."
_CHANNEL: Final = "The mean of all channels, each as a speaker of its own, or one by its number from 1."
_TRACK: Final = "Sound track of a video, from 1. Default: the one that the video marks."


_START: Final = "Caption from here on: seconds or HH:MM:SS."
Strict = Annotated[bool | None, _caption("--strict/--no-strict", help=_STRICT)]


class CuttingOptions:
    """Which part of a recording counts, and how it is cut."""

    cut: Annotated[Text, _caption("--cut", metavar="pauses|SECONDS|FILE", help=_CUT)] = None
    start: Annotated[Text, _caption("--start", metavar="TIME", help=_START)] = None
    end: Annotated[Text, _caption("--end", metavar="TIME", help="Caption up to here: seconds or HH:MM:SS.")] = None
    channel: Annotated[Text, _caption("--channel", metavar="mix|each|N", help=_CHANNEL)] = None
    track: Annotated[Text, _caption("--track", metavar="N", help=_TRACK)] = None
    strict: Strict = None


_LEXICON: Final = "Words for classes, in place of the shipped ones"
_MEASURE: Final = "Measure F0, level, rate and pauses (docs/acoustics.md)."
_CALIBRATION: Final = "Calibration by `specdec calibrate`; implies --labels."


class LabelOptions:
    """Which classes captions name."""

    labels: Annotated[bool, _caption("--labels", help="Show which classes each caption names.")] = False
    lexicon: Annotated[File, _caption("--lexicon", metavar="FILE", help=f"{_LEXICON}; implies --labels.")] = None


class MeasuringOptions(LabelOptions):
    """What is told of a recording beside its caption."""

    calibration: Annotated[File, _caption("--calibration", metavar="FILE", help=_CALIBRATION)] = None
    measure: Annotated[bool, _caption("--measure", help=_MEASURE)] = False


_GATE: Final = "What decides whether a block goes to the large model, or a gate file (.json)."
_THRESHOLD: Final = "How unsure the small model must be for that, in the gate's own unit (docs/gates.md)."
_ACCEPT: Final = "Which drafted tokens stand."
_DEFER: Final = "Draft the whole caption and verify it in one call."
_DEGRADE: Final = "Let the small model write the rest where the large one fails. Default: in mode hybrid."
_MODE: Final = "The gate decides; the large model verifies all; or one model writes alone."


Accept = Annotated[Text, _decoding("--accept", help=_ACCEPT, **_words("acceptance.rule"))]


class BlockOptions:
    """What is drafted at a time, and when the cloud is called."""

    k: Annotated[Text, _decoding("-k", metavar="auto|N", help="Tokens drafted per block.")] = None
    gate: Annotated[Text, _decoding("--gate", help=_GATE, **_words("gate.name"))] = None
    threshold: Annotated[Text, _decoding("--threshold", metavar="X", help=_THRESHOLD)] = None
    defer: Annotated[bool | None, _decoding("--defer/--no-defer", help=_DEFER)] = None


class VerifyOptions(BlockOptions):
    """What the modes of a comparison have in common."""

    accept: Accept = None
    degrade: Annotated[bool | None, _decoding("--degrade/--no-degrade", help=_DEGRADE)] = None


class DecodingOptions:
    """Which of the two models writes."""

    mode: Annotated[Text, _decoding("--mode", help=_MODE, **_words("decoding.mode"))] = None


_PATHS: Final = "Audio or video files, folders, patterns; - for stdin: a recording, or a list."
_LISTED: Final = "Audio or video files, folders, patterns; - for a list of them on stdin."
_SAMPLES: Final = "A recording, or a folder. Default: the shipped samples."
_JSONL: Final = "Transcripts that caption, batch or compare wrote with --output."
_DATA_SET: Final = "Parquet, Arrow or tar file, or a folder of them; a split behind a colon, as in emotions:train."
_AUDIO: Final = "Column that holds the recording, where several do."
_DEVICE: Final = "Microphone: its number, or a part of its name."
_OVERWRITE: Final = "Start --output anew, in place of going on from it."
_MANIFEST: Final = "Table with a column file (.tsv, .csv, .json, .jsonl), or data of Kaldi, NeMo, Lhotse."
_RETRY: Final = "Take only what failed or was degraded in a .jsonl output; needs no PATH."
_GLOB: Final = "Files to take from folders, e.g. '*.wav'. Default: by audio endings."
_AFTER: Final = f"Write what --output holds in these formats too: {_FORMATS}."
ListedPaths = Annotated[list[str], Argument(help=_LISTED, metavar="PATH")]
OnePath = Annotated[Text, Argument(help=_SAMPLES, metavar="PATH")]
TranscriptFile = Annotated[Path, Argument(help=_JSONL, metavar="JSONL")]
TranscriptFiles = Annotated[list[Path], Argument(help=_JSONL, metavar="JSONL")]
DataSetName = Annotated[str, Argument(help=_DATA_SET, metavar="DATASET[:SPLIT]")]
ConfigArgument = Annotated[Text, Argument(help=_CONFIG, metavar="NAME|FILE")]
ConfigSection = Annotated[Text, Argument(help="Section to explain, e.g. gate.", metavar="SECTION")]
AudioColumn = Annotated[Text, _input("--audio-column", metavar="COLUMN", help=_AUDIO)]
OnlyMode = Annotated[Text, _input("--only-mode", metavar="MODE", help="Take the captions of this mode alone.")]
Limit = Annotated[int | None, _input("--limit", metavar="N", help="Take the first N alone.", min=1)]
Recursive = Annotated[bool, _input("--recursive", "-r", help="Search folders at every depth.")]
Microphone = Annotated[Text, _input("--device", metavar="DEVICE", help=_DEVICE)]
ListDevices = Annotated[bool, _input("--list-devices", help="List the microphones and exit.")]
Overwrite = Annotated[bool, _output("--overwrite", help=_OVERWRITE)]


class RecordingOptions:
    """What `caption` and `batch` caption, and what becomes of it."""

    paths: Annotated[list[str] | None, Argument(help=_PATHS, metavar="PATH")] = None
    recursive: Recursive = False
    pattern: Annotated[Text, _input("--glob", metavar="PATTERN", help=_GLOB)] = None
    manifest: Annotated[File, _input("--manifest", metavar="FILE|FOLDER", help=_MANIFEST)] = None
    limit: Limit = None
    retry_failed: Annotated[bool, _input("--retry-failed", help=_RETRY)] = False
    overwrite: Overwrite = False
    exports: Annotated[Text, _output("--export", metavar="FORMAT,FORMAT", help=_AFTER)] = None
    export_dir: Annotated[File, _output("--export-dir", metavar="FOLDER", help="Folder of --export.")] = None


_BUDGET: Final = (
    "Largest share, 0 to 1, of clips that call the cloud (0.5 or clips=0.5; default without --risk), of cloud-only's "
    "time (time=0.4), or of escalated blocks (blocks=0.2)."
)
_RISK: Final = "Certify that at most this share of captions names other classes than the cloud's."
_GATES: Final = f"Gates that compete. Default: {', '.join(TUNED_GATES)}."
Modes = Annotated[str, _study("--modes", metavar="MODE,MODE", help="Modes to compare, two or more.")]
Repeat = Annotated[int, _study("--repeat", metavar="N", help="Time everything N times over.", min=1)]
Gates = Annotated[Text, _study("--gates", metavar="GATE,GATE", help=_GATES)]
BlockSizes = Annotated[str, _study("--ks", metavar="K,K", help="Block sizes to try, tokens.")]
Budget = Annotated[Text, _study("--budget", metavar="SHARE|COST=SHARE", help=_BUDGET)]
Risk = Annotated[float | None, _study("--risk", metavar="SHARE", help=_RISK, min=0.001, max=0.999)]

_TABLE: Final = "Captions or classes by people, a row per recording (.tsv, .csv, .json, .jsonl)."
_FILES: Final = "Column that names the recording."
_TEXTS: Final = "Column that holds a caption. Repeatable."
_CLASSES: Final = "Column of an attribute's class, e.g. emotion=mood. Repeatable."
_UNKNOWN: Final = "What an unknown label costs: itself (ignore), or the table (refuse)."
_CODES: Final = "Corpus that labels are codes of: MSP-Podcast, EMO-DB, RAVDESS or SAVEE. Default: found by the codes."
Seed = Annotated[int, _judging("--eval-seed", metavar="N", help="Seed of whatever is drawn at random.", min=0)]
JudgingLexicon = Annotated[File, _judging("--lexicon", metavar="FILE", help=f"{_LEXICON}.")]
_WHEELS: Final = "Folder of emotion wheels by which the captions' emotion words are scored, too (OV-MERD's tables)."
Wheels = Annotated[File, _judging("--wheels", metavar="FOLDER", help=_WHEELS)]
Bertscore = Annotated[bool, _judging("--bertscore", help="Compute BERTScore too; needs the extra bertscore.")]
Attribute = Annotated[str, _output("--attribute", metavar="NAME", help="Attribute whose classes are drawn.")]


class ReferenceOptions:
    """The classes that are right."""

    references: Annotated[File, _judging("--references", metavar="TABLE", help=_TABLE)] = None
    file_column: Annotated[Text, _judging("--file-column", metavar="COLUMN", help=_FILES)] = None
    label_column: Annotated[list[str] | None, _judging("--label-column", metavar="NAME=COLUMN", help=_CLASSES)] = None
    unknown_label: Annotated[str, _judging("--unknown-label", metavar="ignore|refuse", help=_UNKNOWN)] = "ignore"
    label_codes: Annotated[Text, _judging("--label-codes", metavar="CORPUS", help=_CODES)] = None
    lexicon: JudgingLexicon = None
    strict: Strict = None


class TextOptions(ReferenceOptions):
    """The classes and captions that are right."""

    text_column: Annotated[list[str] | None, _judging("--text-column", metavar="COLUMN", help=_TEXTS)] = None


CAPTIONING: Final = (
    ModelOptions,
    PromptOptions,
    CuttingOptions,
    MeasuringOptions,
    DecodingOptions,
    VerifyOptions,
    DisplayOptions,
)
"""What `caption` and `batch` take beside recordings."""

BatchSize = Annotated[str, _work("--batch-size", metavar="auto|N", help="Clips decoded together.")]
Ray = Annotated[bool, _work("--ray", help="Run on the Ray cluster at RAY_ADDRESS, or on one of this machine.")]
FailFast = Annotated[bool, _work("--fail-fast", help="Stop at the first failure.")]
Quick = Annotated[bool, _work("--quick", help="Do not load the models.")]

# Output: --output is what the command is for, by the ending of the file's name
_CAPTIONS: Final = (
    "Transcripts (.jsonl), from which the same command goes on; or an export of them, made in one go (.srt, .vtt, "
    ".TextGrid, .eaf, .txt, .csv, .rttm)."
)
_COMPARED: Final = (
    "Transcripts (.jsonl), from which the same command goes on, or the page with every clip (.html). Repeatable."
)
_EXPORT: Final = "Folder, or one file by its ending; - for stdout. Default: named after JSONL."
_PICTURE: Final = "Picture (.svg, .png, .pdf), or a folder for several. Default: named after JSONL."
_FITTED: Final = "The calibration (.json), or how often each probability was right (.svg, .png, .pdf). Repeatable."
_TUNED: Final = "The recommended gate (.json), or quality against cost (.svg, .png, .pdf). Repeatable."
_TRACES: Final = "Keep the measured forward passes here: a later run takes them from it."
_TO: Final = f"Formats to write: {_FORMATS}. Default: the ending of --output."
_TURNS: Final = "What names turns in RTTM: speaker, or an attribute, whose classes are taken."
_AUDIO_MB: Final = "Most audio in the page, MB; 64: about two hours."
_out = partial(_output, "--output", "-o")
CaptionsOut = Annotated[File, _out(metavar="FILE", help=_CAPTIONS)]
BatchOut = Annotated[Path, _out(metavar="FILE", help=_CAPTIONS)]
ComparisonOut = Annotated[list[Path] | None, _out(metavar="FILE", help=_COMPARED)]
ExportOut = Annotated[File, _out(metavar="FOLDER|FILE", help=_EXPORT)]
PictureOut = Annotated[File, _out(metavar="FILE|FOLDER", help=_PICTURE)]
PageOut = Annotated[Path, _out(metavar="FILE", help="The page (.html).")]
CalibrationOut = Annotated[list[Path] | None, _out(metavar="FILE", help=_FITTED)]
TuningOut = Annotated[list[Path] | None, _out(metavar="FILE", help=_TUNED)]
UnpackedFolder = Annotated[
    Path, _out(metavar="FOLDER", help="Folder for the recordings and their table; it will be created.")
]
Traces = Annotated[File, _output("--traces", metavar="JSONL", help=_TRACES)]
To = Annotated[Text, _output("--to", metavar="FORMAT,FORMAT", help=_TO)]
NamedAfter = Annotated[str, _output("--attribute", metavar="NAME", help=_TURNS)]
PictureFormat = Annotated[
    Text, _output("--to", metavar="svg|png|pdf", help="Format of pictures. Default: as --output ends, or svg.")
]
AudioMb = Annotated[float, _output("--audio-mb", metavar="N", help=_AUDIO_MB, min=0)]
Save = Annotated[File, _output("--save", metavar="FOLDER", help="Keep each utterance as a FLAC file in this folder.")]
Json = Annotated[bool, _output("--json", help="Print JSON on stdout in place of text.")]
NoLive = Annotated[bool, _output("--no-live", help="Print rounds as plain lines; nothing is redrawn.")]
Everything = Annotated[bool, _output("--all", help="Also settings that are at their defaults.")]
Yaml = Annotated[bool, _output("--yaml", help="Print a configuration file that loads back.")]

Host = Annotated[str, _network("--host", metavar="ADDRESS", help="Address to listen at.")]
Port = Annotated[int, _network("--port", metavar="N", help="Port to listen at; 0: any that is free.", min=0, max=65535)]
_TOKEN: Final = "Variable that holds the clients' token, 16 characters or more; required beyond loopback."
TokenVariable = Annotated[Text, _network("--token-env", metavar="NAME", help=_TOKEN)]
_HOSTS: Final = "Host, or address of a private network, that recordings may be fetched from; repeat it for more."
AudioHosts = Annotated[list[str] | None, _network("--audio-host", metavar="NAME", help=_HOSTS)]
TlsCert = Annotated[File, _network("--tls-cert", metavar="PEM", help="Certificate, for HTTPS.")]
TlsKey = Annotated[File, _network("--tls-key", metavar="PEM", help="Private key of the certificate.")]
ServedAtATime = Annotated[
    int, _limits("--batch-size", metavar="N", help="Recordings captioned together.", min=1, max=256)
]
MaxSessions = Annotated[int, _limits("--max-sessions", metavar="N", help="Clips held at a time.", min=1)]
MemoryMb = Annotated[int, _limits("--memory-mb", metavar="N", help="Memory of their caches, MiB.", min=1)]
_LONGEST: Final = "Longest clip or recording, s. Default: what the model takes, and an hour."
MaxClipSeconds = Annotated[float | None, _limits("--max-clip-seconds", metavar="S", help=_LONGEST, min=0.1)]
_IDLE: Final = "Time until an unused clip is forgotten, s."
IdleSeconds = Annotated[float, _limits("--idle-s", metavar="S", help=_IDLE, min=0.1)]

FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their options too


def resolve(
    context: Context, fixed: Mapping[str, object] = MappingProxyType({}), spelled: Mapping[str, str] | None = None
) -> ResolvedConfig:
    """The configuration in force in a command, from its options, the environment and a file; --set wins over options.

    `fixed` are settings that the command itself decides, and `spelled` its own options for them, for messages.
    ConfigError: anything in any layer is wrong.
    """
    options = {each.opts[0]: each for each in context.command.params if each.param_type_name == "option"}
    flags: dict[str, object] = {}
    names = {**FLAG_NAMES, **(spelled or {})}
    for name, flag in FLAG_NAMES.items():
        value = context.params.get(str(options[flag].name)) if flag in options else None
        if value is not None:
            flags[name] = parse_value(name, value) if isinstance(value, str) and not takes_text(name) else value
            names |= {name: options[flag].secondary_opts[0]} if value is False else {}
    flags |= fixed
    for sentence in misspelt_variables(os.environ):
        warn(sentence)
    for assignment in context.params.get("settings") or ():
        name, value = parse_setting(assignment)
        flags[name] = value
        names[name] = "--set"
    return load_config(context.params.get("source"), flags=flags, flag_names=names)
