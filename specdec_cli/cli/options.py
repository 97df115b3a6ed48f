"""The options and arguments of the commands, each once, as `Annotated` types, and the configuration that they give.

A command is an ordinary typer function. An option of a setting takes what the setting takes and has its meaning;
`resolve` reads those of the running command, with --config and --set. Settings without an option are given with --set.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from specdec_cli.config import SETTINGS, ResolvedConfig, load_config, parse_setting
from specdec_cli.config.resolve import misspelt_variables, parse_value
from specdec_cli.config.settings import choices, takes_text
from specdec_cli.console.plain import warn
from specdec_cli.errors import FLAGS
from specdec_cli.types import ExportFormat, GateName

MODELS, CAPTION, DECODING = "Models and settings", "Caption", "Decoding"
INPUT, STUDY, JUDGING, WORK, OUTPUT = "Input", "What is run", "How captions are judged", "Work", "Output"
NETWORK, LIMITS = "Network", "Limits"

TUNED_GATES: Final[tuple[GateName, ...]] = ("entropy", "class-entropy", "margin", "logprob", "learned")
"""The gates that `tune` can fit."""

FLAG_NAMES: Final[dict[str, str]] = {}
"""Setting -> the option that gives it."""

_OFF_NAMES: Final[dict[str, str]] = {}  # setting -> the option that switches it off
_STARTS_WITH_A_VALUE: Final = re.compile(r"[\w-]+(, [\w-]+)*:")
_FORMATS: Final = ", ".join(get_args(ExportFormat))

MaybePath = Path | None
MaybeText = str | None


def _option(panel: str | None, spelled: str, text: str, **more: Any) -> Any:
    """An option that is spelled like "--config -c NAME|FILE", in a panel of the help."""
    flags = [word for word in spelled.split() if word.startswith("-")]
    metavar = spelled.removeprefix(" ".join(flags)).strip() or None
    return typer.Option(*flags, help=text, metavar=metavar, rich_help_panel=panel, **more)


def _setting(panel: str, name: str, spelled: str, text: str | None = None) -> Any:
    """The option of a setting; without a metavar in `spelled`, that is the words that the setting takes."""
    flag, _, off = spelled.split()[0].partition("/")
    words = choices(name)
    FLAG_NAMES[name] = flag
    if off:
        _OFF_NAMES[name] = off
    elif spelled.split()[-1].startswith("-") and not isinstance(SETTINGS[name].default, bool):
        spelled += f" {'|'.join(words) or 'N'}"

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return _option(panel, spelled, text or _sentence(name), autocompletion=complete)


def _sentence(name: str) -> str:
    """What the option of a setting does."""
    text = str(SETTINGS[name].description).replace("null:", "left out:")
    if text.startswith("true: "):
        text = re.sub("; false: [^;]*", "", text.removeprefix("true: "))
    return (text if _STARTS_WITH_A_VALUE.match(text) else text[0].upper() + text[1:]) + "."


def _log_everything(debug: bool) -> bool:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    return debug


# Models and settings
_CONFIG_HELP: Final = "Name of a shipped configuration, or a YAML file; left out: SPECDEC_CONFIG, or else mini."
EdgeModel = Annotated[MaybeText, _setting(MODELS, "edge.model", "--edge NAME", "Edge model: a folder or a hub id.")]
CloudModel = Annotated[
    MaybeText, _setting(MODELS, "cloud.model", "--cloud NAME", "Cloud model, likewise; one model alone makes the mode.")
]
ConfigFile = Annotated[MaybeText, _option(MODELS, "--config -c NAME|FILE", _CONFIG_HELP)]
ConfigArgument = Annotated[MaybeText, typer.Argument(help=_CONFIG_HELP, metavar="NAME|FILE")]
_SET_HELP: Final = "Any setting, e.g. decoding.seed=1; `specdec config show --all` lists them. Repeatable."
Settings = Annotated[list[str] | None, _option(MODELS, "--set NAME=VALUE", _SET_HELP)]

# Caption
Language = Annotated[MaybeText, _setting(CAPTION, "prompt.language", "--language -l")]
Style = Annotated[MaybeText, _setting(CAPTION, "prompt.style", "--style")]
Prompt = Annotated[MaybeText, _setting(CAPTION, "prompt.text", "--prompt TEXT")]
ForcePrompt = Annotated[bool | None, _setting(CAPTION, "prompt.force", "--force-prompt")]
Segment = Annotated[MaybeText, _setting(CAPTION, "audio.segment", "--segment pauses|SECONDS|FILE")]
Start = Annotated[MaybeText, _setting(CAPTION, "audio.start_s", "--start TIME")]
End = Annotated[MaybeText, _setting(CAPTION, "audio.end_s", "--end TIME")]
Strict = Annotated[bool | None, _setting(CAPTION, "audio.strict", "--strict/--no-strict")]
Channel = Annotated[MaybeText, _setting(CAPTION, "audio.channel", "--channel mix|each|N")]
Track = Annotated[MaybeText, _setting(CAPTION, "audio.track", "--track N")]
Labels = Annotated[bool, _option(CAPTION, "--labels", "Show which classes each caption names.")]
_LEXICON: Final = "Words for classes, in place of the shipped ones"
LexiconFile = Annotated[MaybePath, _option(CAPTION, "--lexicon FILE", f"{_LEXICON}; implies --labels.")]
CalibrationFile = Annotated[
    MaybePath, _option(CAPTION, "--calibration FILE", "Calibration by `specdec calibrate`; implies --labels.")
]
Measure = Annotated[bool, _option(CAPTION, "--measure", "Measure F0, level, rate and pauses (docs/acoustics.md).")]

# Decoding
DecodingMode = Annotated[MaybeText, _setting(DECODING, "decoding.mode", "--mode MODE")]
BlockSize = Annotated[MaybeText, _setting(DECODING, "decoding.k", "-k auto|N")]
GateOption = Annotated[MaybeText, _setting(DECODING, "gate.name", "--gate")]
Threshold = Annotated[MaybeText, _setting(DECODING, "gate.threshold", "--threshold X")]
Defer = Annotated[bool | None, _setting(DECODING, "decoding.defer", "--defer/--no-defer")]
Accept = Annotated[MaybeText, _setting(DECODING, "acceptance.rule", "--accept")]
MaxNewTokens = Annotated[MaybeText, _setting(DECODING, "decoding.max_new_tokens", "--max-new-tokens")]
LookupFile = Annotated[MaybePath, _option(DECODING, "--lookup JSONL", "Guess from these transcripts, too.")]
Degrade = Annotated[bool | None, _setting(DECODING, "decoding.degrade", "--degrade/--no-degrade")]
EdgeFailed = Annotated[MaybeText, _setting(DECODING, "decoding.edge_failed", "--edge-failed")]

# Input
_PATHS: Final = "Audio or video files, folders, patterns; - for stdin: a recording, or a list."
_LISTED: Final = "Audio or video files, folders, patterns; - for a list of them on stdin."
_SAMPLES: Final = "A recording, or a folder; left out: the shipped samples."
_JSONL: Final = "Transcripts that caption, batch or compare wrote with --output."
Paths = Annotated[list[str], typer.Argument(help=_PATHS, metavar="PATH")]
MorePaths = Annotated[list[str] | None, typer.Argument(help=_PATHS, metavar="PATH")]
ListedPaths = Annotated[list[str], typer.Argument(help=_LISTED, metavar="PATH")]
OnePath = Annotated[MaybeText, typer.Argument(help=_SAMPLES, metavar="PATH")]
TranscriptFile = Annotated[Path, typer.Argument(help=_JSONL, metavar="JSONL")]
TranscriptFiles = Annotated[list[Path], typer.Argument(help=_JSONL, metavar="JSONL")]
OfMode = Annotated[MaybeText, _option(INPUT, "--mode MODE", "Take the captions of this mode alone.")]
Recursive = Annotated[bool, _option(INPUT, "--recursive -r", "Search folders at every depth.")]
Pattern = Annotated[
    MaybeText, _option(INPUT, "--glob PATTERN", "Files to take from folders, e.g. '*.wav'; left out: audio suffixes.")
]
_MANIFEST: Final = "Table with a column file (.tsv, .csv, .json, .jsonl), or data of Kaldi, NeMo, Lhotse."
ManifestFile = Annotated[MaybePath, _option(INPUT, "--manifest FILE|FOLDER", _MANIFEST)]
Limit = Annotated[int | None, _option(INPUT, "--limit N", "Take the first N alone.", min=1)]
RetryFailed = Annotated[
    bool,
    _option(INPUT, "--retry-failed", "Take only what failed or was degraded in a .jsonl output; needs no PATH."),
]
Microphone = Annotated[MaybeText, _option(INPUT, "--device DEVICE", "Microphone: its number, or a part of its name.")]
ListDevices = Annotated[bool, _option(INPUT, "--list-devices", "List the microphones and exit.")]

# What is run
Modes = Annotated[str, _option(STUDY, "--modes MODE,MODE", "Modes to compare, two or more.")]
Repeat = Annotated[int, _option(STUDY, "--repeat N", "Time everything N times over.", min=1)]
_GATES: Final = f"Gates that compete; left out: {', '.join(TUNED_GATES)}."
Gates = Annotated[MaybeText, _option(STUDY, "--gates GATE,GATE", _GATES)]
BlockSizes = Annotated[str, _option(STUDY, "--ks K,K", "Block sizes to try, tokens.")]
_BUDGET: Final = (
    "Largest share, 0 to 1, of clips that call the cloud (0.5 or clips=0.5; default without --risk), of cloud-only's "
    "time (time=0.4), or of escalated blocks (blocks=0.2)."
)
Budget = Annotated[MaybeText, _option(STUDY, "--budget SHARE|COST=SHARE", _BUDGET)]
_RISK: Final = "Certify that at most this share of captions names other classes than the cloud's."
Risk = Annotated[float | None, _option(STUDY, "--risk SHARE", _RISK, min=0.001, max=0.999)]

# How captions are judged
EvalSeed = Annotated[int, _option(JUDGING, "--eval-seed N", "Seed of whatever is drawn at random.", min=0)]
_TABLE: Final = "Captions or classes by people, a row per recording (.tsv, .csv, .json, .jsonl)."
ReferenceTable = Annotated[MaybePath, _option(JUDGING, "--references TABLE", _TABLE)]
FileColumn = Annotated[MaybeText, _option(JUDGING, "--file-column COLUMN", "Column that names the recording.")]
_TEXTS: Final = "Column that holds a caption. Repeatable."
TextColumns = Annotated[list[str] | None, _option(JUDGING, "--text-column COLUMN", _TEXTS)]
_CLASSES: Final = "Column of an attribute's class, e.g. emotion=mood. Repeatable."
LabelColumns = Annotated[list[str] | None, _option(JUDGING, "--label-column NAME=COLUMN", _CLASSES)]
_UNKNOWN: Final = "What an unknown label costs: itself (ignore), or the table (refuse)."
UnknownLabel = Annotated[str, _option(JUDGING, "--unknown-label ignore|refuse", _UNKNOWN)]
_CODES: Final = "Corpus that the labels are codes of: MSP-Podcast, EMO-DB, RAVDESS or SAVEE; left out: found by them."
LabelCodes = Annotated[MaybeText, _option(JUDGING, "--label-codes CORPUS", _CODES)]
JudgingLexicon = Annotated[MaybePath, _option(JUDGING, "--lexicon FILE", f"{_LEXICON}.")]
Attribute = Annotated[str, _option(OUTPUT, "--attribute NAME", "Attribute whose classes are drawn.")]
_WHEELS: Final = "Folder of emotion wheels by which the captions' emotion words are scored, too (OV-MERD's tables)."
Wheels = Annotated[MaybePath, _option(JUDGING, "--wheels FOLDER", _WHEELS)]
Bertscore = Annotated[bool, _option(JUDGING, "--bertscore", "Compute BERTScore too; needs the extra bertscore.")]

# Work
BatchSize = Annotated[str, _option(WORK, "--batch-size auto|N", "Clips decoded together.")]
_FLIGHT: Final = "Clips under way where both models are servers; auto: as many as pay."
InFlight = Annotated[str, _option(WORK, "--in-flight auto|N", _FLIGHT)]
_WORKERS: Final = "Threads that read ahead; left out: one per core, at most 4."
Workers = Annotated[int | None, _option(WORK, "--workers N", _WORKERS, min=1, max=256)]
Ray = Annotated[bool, _option(WORK, "--ray", "Run on the Ray cluster at --ray-address or RAY_ADDRESS, or here.")]
RayAddress = Annotated[MaybeText, _option(WORK, "--ray-address ADDRESS", "Address of the cluster; implies --ray.")]
FailFast = Annotated[bool, _option(WORK, "--fail-fast", "Stop at the first failure.")]
Quick = Annotated[bool, _option(WORK, "--quick", "Do not load the models.")]

# Output: --output is what the command is for
_APPEND: Final = "Append transcripts to this file."
TranscriptsOut = Annotated[MaybePath, _option(OUTPUT, "--output -o JSONL", _APPEND)]
_CAPTIONS: Final = (
    "Transcripts (.jsonl), from which the same command goes on; or an export of them, made in one go (.srt, .vtt, "
    ".TextGrid, .eaf, .txt, .csv, .rttm)."
)
CaptionsOut = Annotated[MaybePath, _option(OUTPUT, "--output -o FILE", _CAPTIONS)]
BatchOut = Annotated[Path, _option(OUTPUT, "--output -o FILE", _CAPTIONS)]
_EXPORT: Final = "Folder, or one file by its ending; - for stdout; left out: named after JSONL."
ExportOut = Annotated[MaybePath, _option(OUTPUT, "--output -o FOLDER|FILE", _EXPORT)]
_PICTURE: Final = "Picture (.svg, .png, .pdf), or a folder for several; left out: named after JSONL."
PictureOut = Annotated[MaybePath, _option(OUTPUT, "--output -o FILE|FOLDER", _PICTURE)]
PageOut = Annotated[Path, _option(OUTPUT, "--output -o FILE", "Write the page to this file (.html).")]
CalibrationOut = Annotated[MaybePath, _option(OUTPUT, "--output -o FILE", "Write the calibration here (.json).")]
GateOut = Annotated[MaybePath, _option(OUTPUT, "--output -o FILE", "Write the recommended gate here (.json).")]
_OVERWRITE: Final = "Drop what --output holds, or do only what it lacks."
Overwrite = Annotated[bool, _option(OUTPUT, "--overwrite/--resume", _OVERWRITE)]
_RECORDED: Final = "Append what is recorded; what the file holds is not done again."
Recordings = Annotated[MaybePath, _option(OUTPUT, "--recordings JSONL", _RECORDED)]
_AFTER: Final = f"Write what --output holds in these formats too: {_FORMATS}."
ExportsAfter = Annotated[MaybeText, _option(OUTPUT, "--export FORMAT,FORMAT", _AFTER)]
ExportFolder = Annotated[MaybePath, _option(OUTPUT, "--export-dir FOLDER", "Folder of --export.")]
_TO: Final = f"Formats to write: {_FORMATS}; left out: the ending of --output."
To = Annotated[MaybeText, _option(OUTPUT, "--to FORMAT,FORMAT", _TO)]
_TURNS: Final = "What names the turns in RTTM; `unknown` where it is not known."
RttmName = Annotated[str, _option(OUTPUT, "--rttm-name speaker|ATTRIBUTE", _TURNS)]
_KIND: Final = "Format of pictures; left out: as --output ends, or svg."
PictureFormat = Annotated[MaybeText, _option(OUTPUT, "--picture svg|png|pdf", _KIND)]
HtmlOut = Annotated[MaybePath, _option(OUTPUT, "--html FILE", "Write a page with every clip into this file.")]
_PLOT: Final = "Draw quality against cost: .svg, .png or .pdf."
PlotOut = Annotated[MaybePath, _option(OUTPUT, "--plot FILE", _PLOT)]
_RELIABLE: Final = "Draw how often each probability was right: .svg, .png or .pdf."
ReliabilityOut = Annotated[MaybePath, _option(OUTPUT, "--plot FILE", _RELIABLE)]
AudioMb = Annotated[float, _option(OUTPUT, "--audio-mb N", "Most audio in the page, MB; 64: about two hours.", min=0)]
Captions = Annotated[int, _option(OUTPUT, "--captions N", "Show N clips whose captions differ, side by side.", min=0)]
Save = Annotated[MaybePath, _option(OUTPUT, "--save FOLDER", "Keep each utterance as a FLAC file in this folder.")]
Json = Annotated[bool, _option(OUTPUT, "--json", "Print JSON on stdout in place of text.")]
_EVERYTHING: Final = "Also settings that are at their defaults."
Everything = Annotated[bool, _option(OUTPUT, "--all", _EVERYTHING)]
ConfigSection = Annotated[MaybeText, typer.Argument(help="Section to explain, e.g. gate.", metavar="SECTION")]
Yaml = Annotated[bool, _option(OUTPUT, "--yaml", "Print a configuration file that loads back.")]
Quiet = Annotated[bool, _option(OUTPUT, "--quiet -q", "Show no progress; print results and errors only.")]
NoLive = Annotated[bool, _option(OUTPUT, "--no-live", "Print rounds as plain lines; nothing is redrawn.")]
Debug = Annotated[bool, _option(None, "--debug", "Show tracebacks and log messages.", callback=_log_everything)]

# Server
Host = Annotated[str, _option(NETWORK, "--host ADDRESS", "Address to listen at.")]
Port = Annotated[int, _option(NETWORK, "--port N", "Port to listen at; 0: any that is free.", min=0, max=65535)]
_TOKEN: Final = "Variable that holds the clients' token, 16 characters or more; required beyond loopback."
TokenVariable = Annotated[MaybeText, _option(NETWORK, "--token-env NAME", _TOKEN)]
TlsCert = Annotated[MaybePath, _option(NETWORK, "--tls-cert PEM", "Certificate, for HTTPS.")]
TlsKey = Annotated[MaybePath, _option(NETWORK, "--tls-key PEM", "Private key of the certificate.")]
MaxSessions = Annotated[int, _option(LIMITS, "--max-sessions N", "Clips held at a time.", min=1)]
MemoryMb = Annotated[int, _option(LIMITS, "--memory-mb N", "Memory of their caches, MiB.", min=1)]
_LONGEST: Final = "Longest clip, s; left out: what the model takes."
MaxClipSeconds = Annotated[float | None, _option(LIMITS, "--max-clip-seconds S", _LONGEST, min=0.1)]
IdleSeconds = Annotated[float, _option(LIMITS, "--idle-s S", "Time until an unused clip is forgotten, s.", min=0.1)]

FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their options too
_NOTHING: Final[Mapping[str, Any]] = {}


def resolve(
    context: typer.Context, fixed: Mapping[str, object] = _NOTHING, spelled: Mapping[str, str] = _NOTHING
) -> ResolvedConfig:
    """The configuration in force in a command, from its options, the environment and a file; --set wins over options.

    `fixed` are settings that the command itself decides, and `spelled` its own options for them, for messages.
    ConfigError: anything in any layer is wrong.
    """
    given = {parameter.opts[0]: context.params.get(str(parameter.name)) for parameter in context.command.params}
    values = {name: given[flag] for name, flag in FLAG_NAMES.items() if given.get(flag) is not None}
    flags: dict[str, object] = {
        name: parse_value(name, value) if isinstance(value, str) and not takes_text(name) else value
        for name, value in values.items()
    }
    flags |= fixed
    for sentence in misspelt_variables(os.environ):
        warn(sentence)
    names = FLAG_NAMES | {name: off for name, off in _OFF_NAMES.items() if flags.get(name) is False} | dict(spelled)
    for assignment in given.get("--set") or ():
        name, value = parse_setting(assignment)
        flags[name], names[name] = value, "--set"
    return load_config(context.params.get("source"), flags=flags, flag_names=names)
