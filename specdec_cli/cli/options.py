"""The options and arguments of the commands, each once, as `Annotated` types, and the configuration that they give.

A command is an ordinary typer function. An option of a setting takes what the setting takes and has its meaning;
`resolve` reads those of the running command, with --config and --set. Settings without an option are given with --set.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from specdec_cli.config import SETTINGS, ResolvedConfig, Setting, load_config, parse_setting, shipped_configs
from specdec_cli.config.layers import parse_value
from specdec_cli.errors import FLAGS
from specdec_cli.types import COSTS, ExportFormat, GateName, Mode

MODELS, CAPTION, DECODING = "Models and settings", "Caption", "Decoding"
INPUT, STUDY, JUDGING, WORK, OUTPUT = "Input", "What is run", "How captions are judged", "Work", "Output"
NETWORK, LIMITS = "Network", "Limits"

TUNED_GATES: Final[tuple[GateName, ...]] = ("entropy", "class-entropy", "margin", "logprob", "learned")
"""The gates that `tune` can fit."""

FLAG_NAMES: Final[dict[str, str]] = {}
"""Setting -> the option that gives it."""

_OFF_NAMES: Final[dict[str, str]] = {}  # setting -> the option that switches it off
_STARTS_WITH_A_VALUE: Final = re.compile(r"[\w-]+(, [\w-]+)*:")


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Completes one word."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def list_of(*words: str) -> Callable[[str], list[str]]:
    """Completes the last of several words with commas between them."""

    def complete(incomplete: str) -> list[str]:
        head, comma, last = incomplete.rpartition(",")
        taken = head.split(",")
        return [head + comma + word for word in words if word.startswith(last) and word not in taken]

    return complete


def _configurations(incomplete: str) -> list[str]:
    return one_of(*shipped_configs())(incomplete)


def _assignments(incomplete: str) -> list[str]:
    name, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{known}=" for known in SETTINGS if known.startswith(name)]
    return [f"{name}={word}" for word in one_of(*_words(SETTINGS[name]))(value)] if name in SETTINGS else []


def _words(setting: Setting) -> tuple[str, ...]:
    return ("true", "false") if isinstance(setting.default, bool) else setting.choices


def _option(panel: str | None, spelled: str, text: str, **more: Any) -> Any:
    """An option that is spelled like "--config -c NAME|FILE", in a panel of the help."""
    flags = [word for word in spelled.split() if word.startswith("-")]
    metavar = spelled.removeprefix(" ".join(flags)).strip() or None
    return typer.Option(*flags, help=text, metavar=metavar, rich_help_panel=panel, **more)


def _setting(panel: str, name: str, spelled: str, text: str | None = None) -> Any:
    """The option of a setting; without a metavar in `spelled`, that is the words that the setting takes."""
    setting = SETTINGS[name]
    flag, _, off = spelled.split()[0].partition("/")
    FLAG_NAMES[name] = flag
    if off:
        _OFF_NAMES[name] = off
    elif spelled.split()[-1].startswith("-"):
        spelled += f" {'|'.join(_words(setting)) or 'N'}"
    return _option(panel, spelled, text or _sentence(setting), autocompletion=one_of(*_words(setting)))


def _sentence(setting: Setting) -> str:
    """What the option of a setting does."""
    text = setting.description.replace("null:", "left out:")
    if setting.expected.startswith("true or false"):
        text = re.sub("; false: [^;]*", "", text.removeprefix("true: "))
    return (text if _STARTS_WITH_A_VALUE.match(text) else text[0].upper() + text[1:]) + "."


def _log_everything(debug: bool) -> bool:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    return debug


_FORMATS: Final = ", ".join(get_args(ExportFormat))
_CONFIG_HELP: Final = "Name of a shipped configuration, or a YAML file; left out: SPECDEC_CONFIG, or else mini."

# Models and settings
EdgeModel = Annotated[str | None, _setting(MODELS, "edge.model", "--edge NAME", "Edge model: a folder or a hub id.")]
CloudModel = Annotated[
    str | None,
    _setting(MODELS, "cloud.model", "--cloud NAME", "Cloud model, likewise; one model alone makes the mode."),
]
ConfigFile = Annotated[
    str | None, _option(MODELS, "--config -c NAME|FILE", _CONFIG_HELP, autocompletion=_configurations)
]
Settings = Annotated[
    list[str] | None,
    _option(
        MODELS,
        "--set NAME=VALUE",
        "Any setting, e.g. decoding.seed=1; `specdec config show` lists them. Repeatable.",
        autocompletion=_assignments,
    ),
]
ConfigArgument = Annotated[
    str | None, typer.Argument(help=_CONFIG_HELP, metavar="NAME|FILE", autocompletion=_configurations)
]

# Caption
Language = Annotated[str | None, _setting(CAPTION, "prompt.language", "--language -l")]
Style = Annotated[str | None, _setting(CAPTION, "prompt.style", "--style")]
Prompt = Annotated[str | None, _setting(CAPTION, "prompt.text", "--prompt TEXT")]
ForcePrompt = Annotated[bool | None, _setting(CAPTION, "prompt.force", "--force-prompt")]
Segment = Annotated[str | None, _setting(CAPTION, "audio.segment", "--segment pauses|SECONDS|FILE")]
Start = Annotated[str | None, _setting(CAPTION, "audio.start_s", "--start TIME")]
End = Annotated[str | None, _setting(CAPTION, "audio.end_s", "--end TIME")]
Labels = Annotated[bool, _option(CAPTION, "--labels", "Show which classes each caption names.")]
LexiconFile = Annotated[
    Path | None,
    _option(
        CAPTION, "--lexicon FILE", "Words for classes, in place of the shipped ones; implies --labels where it exists."
    ),
]
CalibrationFile = Annotated[
    Path | None,
    _option(
        CAPTION, "--calibration FILE", "Calibration of class probabilities, by `specdec calibrate`; implies --labels."
    ),
]
Measure = Annotated[
    bool, _option(CAPTION, "--measure", "Measure F0, level, rate and pauses of each clip (docs/acoustics.md).")
]

# Decoding
DecodingMode = Annotated[str | None, _setting(DECODING, "decoding.mode", "--mode MODE")]
BlockSize = Annotated[str | None, _setting(DECODING, "decoding.k", "-k auto|N")]
GateOption = Annotated[str | None, _setting(DECODING, "gate.name", "--gate GATE")]
Threshold = Annotated[str | None, _setting(DECODING, "gate.threshold", "--threshold X")]
Defer = Annotated[bool | None, _setting(DECODING, "decoding.defer", "--defer/--no-defer")]
Accept = Annotated[str | None, _setting(DECODING, "acceptance.rule", "--accept RULE")]
MaxNewTokens = Annotated[str | None, _setting(DECODING, "decoding.max_new_tokens", "--max-new-tokens")]
LookupFile = Annotated[
    Path | None, _option(DECODING, "--lookup JSONL", "Guess from these transcripts, too: the same captions sooner.")
]
Degrade = Annotated[bool | None, _setting(DECODING, "decoding.degrade", "--degrade/--no-degrade")]
EdgeFailed = Annotated[str | None, _setting(DECODING, "decoding.edge_failed", "--edge-failed")]

# Input
_PATHS: Final[Any] = typer.Argument(
    help="Audio or video files, folders, patterns; - for a list of them on stdin.", metavar="PATH"
)
Paths = Annotated[list[str], _PATHS]
MorePaths = Annotated[list[str] | None, _PATHS]
OnePath = Annotated[
    str | None, typer.Argument(help="A recording, or a folder; left out: the shipped samples.", metavar="PATH")
]
_TRANSCRIPTS: Final[Any] = typer.Argument(
    help="Transcripts that caption, batch or compare wrote with --output.", metavar="JSONL"
)
TranscriptFile = Annotated[Path, _TRANSCRIPTS]
TranscriptFiles = Annotated[list[Path], _TRANSCRIPTS]
OfMode = Annotated[
    str | None,
    _option(INPUT, "--mode MODE", "Take the captions of this mode alone.", autocompletion=one_of(*get_args(Mode))),
]
Recursive = Annotated[bool, _option(INPUT, "--recursive -r", "Search folders at every depth.")]
Pattern = Annotated[
    str | None,
    _option(INPUT, "--glob PATTERN", "Files to take from folders, e.g. '*.wav'; left out: known audio suffixes."),
]
ManifestFile = Annotated[
    Path | None,
    _option(
        INPUT,
        "--manifest FILE|FOLDER",
        "Table with a column file (.tsv, .csv, .json, .jsonl), or data of Kaldi, NeMo, Lhotse.",
    ),
]
Limit = Annotated[int | None, _option(INPUT, "--limit N", "Take N at most.", min=1)]
RetryFailed = Annotated[bool, _option(INPUT, "--retry-failed", "Take only what failed before; needs no PATH.")]
Microphone = Annotated[
    str | None,
    _option(INPUT, "--device DEVICE", "Microphone: its number, or a part of its name; left out: the system's."),
]
ListDevices = Annotated[bool, _option(INPUT, "--list-devices", "List the microphones and exit.")]

# What is run
Modes = Annotated[
    str, _option(STUDY, "--modes MODE,MODE", "Modes to compare, two or more.", autocompletion=list_of(*get_args(Mode)))
]
Repeat = Annotated[int, _option(STUDY, "--repeat N", "Time everything N times over.", min=1)]
Gates = Annotated[
    str | None,
    _option(
        STUDY,
        "--gates GATE,GATE",
        f"Gates that compete; left out: {', '.join(TUNED_GATES)}.",
        autocompletion=list_of(*TUNED_GATES),
    ),
]
BlockSizes = Annotated[str, _option(STUDY, "--ks K,K", "Block sizes to try, tokens.")]
Budget = Annotated[
    str | None,
    _option(
        STUDY,
        "--budget SHARE|COST=SHARE",
        "Largest share, 0 to 1, of clips that call the cloud (0.5 or clips=0.5; the default without --risk), of "
        "cloud-only's time (time=0.4), or of escalated blocks (blocks=0.2).",
        autocompletion=one_of(*(f"{cost}=" for cost in COSTS)),
    ),
]
Risk = Annotated[
    float | None,
    _option(
        STUDY,
        "--risk SHARE",
        "Certify that at most this share of captions names other classes than the cloud's.",
        min=0.001,
        max=0.999,
    ),
]

# How captions are judged
EvalSeed = Annotated[
    int, _option(JUDGING, "--eval-seed N", "Seed of the bootstrap, and of tune's split and random gate.", min=0)
]
ReferenceTable = Annotated[
    Path | None,
    _option(
        JUDGING, "--references TABLE", "Captions or classes by people, a row per recording (.tsv, .csv, .json, .jsonl)."
    ),
]
FileColumn = Annotated[str | None, _option(JUDGING, "--file-column COLUMN", "Column that names the recording.")]
TextColumns = Annotated[
    list[str] | None, _option(JUDGING, "--text-column COLUMN", "Column that holds a caption. Repeatable.")
]
LabelColumns = Annotated[
    list[str] | None,
    _option(JUDGING, "--label-column NAME=COLUMN", "Column of an attribute's class, e.g. emotion=mood. Repeatable."),
]
Attribute = Annotated[
    str, _option(JUDGING, "--attribute NAME", "Attribute whose classes are drawn.", autocompletion=one_of("emotion"))
]
Bertscore = Annotated[bool, _option(JUDGING, "--bertscore", "Compute BERTScore too; needs the extra bertscore.")]

# Work
BatchSize = Annotated[
    str, _option(WORK, "--batch-size auto|N", "Clips decoded together.", autocompletion=one_of("auto"))
]
InFlight = Annotated[
    str,
    _option(
        WORK,
        "--in-flight auto|N",
        "Clips under way where both models are servers; auto: as many as pay.",
        autocompletion=one_of("auto"),
    ),
]
Workers = Annotated[
    int | None, _option(WORK, "--workers N", "Threads that read ahead; left out: one per core, at most 4.", min=1)
]
Ray = Annotated[
    bool, _option(WORK, "--ray", "Run on the Ray cluster at --ray-address or RAY_ADDRESS, or on this machine.")
]
RayAddress = Annotated[str | None, _option(WORK, "--ray-address ADDRESS", "Address of the cluster; implies --ray.")]
FailFast = Annotated[bool, _option(WORK, "--fail-fast", "Stop at the first failure.")]
Quick = Annotated[bool, _option(WORK, "--quick", "Do not load the models.")]

# Output: --output is what the command is for
_TRANSCRIPTS_OUT: Final[Any] = _option(OUTPUT, "--output -o JSONL", "Append transcripts to this file.")
TranscriptsOut = Annotated[Path | None, _TRANSCRIPTS_OUT]
BatchOut = Annotated[Path, _TRANSCRIPTS_OUT]
ExportOut = Annotated[
    Path | None,
    _option(
        OUTPUT,
        "--output -o FOLDER|FILE",
        "Folder, or one file by its ending; - for stdout; left out: named after JSONL.",
    ),
]
PictureOut = Annotated[
    Path | None,
    _option(
        OUTPUT,
        "--output -o FILE|FOLDER",
        "Picture (.svg, .png, .pdf), or a folder for several; left out: named after JSONL.",
    ),
]
PageOut = Annotated[Path, _option(OUTPUT, "--output -o FILE", "Write the page to this file (.html).")]
CalibrationOut = Annotated[
    Path | None, _option(OUTPUT, "--output -o FILE", "Write the calibration to this file (.json).")
]
GateOut = Annotated[
    Path | None, _option(OUTPUT, "--output -o FILE", "Write the recommended gate to this file (.json).")
]
Overwrite = Annotated[
    bool, _option(OUTPUT, "--overwrite/--resume", "Drop what --output holds, or do only what it lacks.")
]
Recordings = Annotated[
    Path | None,
    _option(OUTPUT, "--recordings JSONL", "Append what is recorded; what the file holds is not done again."),
]
ExportsAfter = Annotated[
    str | None,
    _option(
        OUTPUT,
        "--export FORMAT,FORMAT",
        f"Write what --output holds in these formats too: {_FORMATS}.",
        autocompletion=list_of(*get_args(ExportFormat)),
    ),
]
ExportFolder = Annotated[
    Path | None, _option(OUTPUT, "--export-dir FOLDER", "Folder of --export; left out: named after --output.")
]
To = Annotated[
    str | None,
    _option(
        OUTPUT,
        "--to FORMAT,FORMAT",
        f"Formats to write: {_FORMATS}; left out: the ending of --output.",
        autocompletion=list_of(*get_args(ExportFormat)),
    ),
]
RttmName = Annotated[
    str,
    _option(
        OUTPUT,
        "--rttm-name speaker|ATTRIBUTE",
        "What names the turns in RTTM; `unknown` where it is not known.",
        autocompletion=one_of("speaker", "emotion"),
    ),
]
PictureFormat = Annotated[
    str | None,
    _option(
        OUTPUT,
        "--picture svg|png|pdf",
        "Format of pictures; left out: as --output ends, or svg.",
        autocompletion=one_of("svg", "png", "pdf"),
    ),
]
HtmlOut = Annotated[Path | None, _option(OUTPUT, "--html FILE", "Write a page with every clip into this file.")]
PlotOut = Annotated[
    Path | None, _option(OUTPUT, "--plot FILE", "Draw the frontier or the reliability diagram: .svg, .png or .pdf.")
]
AudioMb = Annotated[
    float, _option(OUTPUT, "--audio-mb N", "Most audio in the page, MB; 64 MB are about two hours.", min=0)
]
Captions = Annotated[int, _option(OUTPUT, "--captions N", "Show N clips whose captions differ, side by side.", min=0)]
Save = Annotated[Path | None, _option(OUTPUT, "--save FOLDER", "Keep each utterance as a FLAC file in this folder.")]
Json = Annotated[bool, _option(OUTPUT, "--json", "Print JSON on stdout in place of text.")]
Yaml = Annotated[bool, _option(OUTPUT, "--yaml", "Print a configuration file that loads back.")]
Quiet = Annotated[bool, _option(OUTPUT, "--quiet -q", "Show no progress; print results and errors only.")]
NoLive = Annotated[bool, _option(OUTPUT, "--no-live", "Print rounds as plain lines; nothing is redrawn.")]
Debug = Annotated[bool, _option(None, "--debug", "Show tracebacks and log messages.", callback=_log_everything)]

# Server
Host = Annotated[str, _option(NETWORK, "--host ADDRESS", "Address to listen at.")]
Port = Annotated[int, _option(NETWORK, "--port N", "Port to listen at; 0: any that is free.", min=0, max=65535)]
TokenVariable = Annotated[
    str | None,
    _option(
        NETWORK,
        "--token-env NAME",
        "Variable that holds the clients' token, 16 characters or more; required beyond loopback.",
    ),
]
TlsCert = Annotated[Path | None, _option(NETWORK, "--tls-cert PEM", "Certificate, for HTTPS.")]
TlsKey = Annotated[Path | None, _option(NETWORK, "--tls-key PEM", "Private key of the certificate.")]
MaxSessions = Annotated[int, _option(LIMITS, "--max-sessions N", "Clips held at a time.", min=1)]
MemoryMb = Annotated[int, _option(LIMITS, "--memory-mb N", "Memory of their caches, MiB.", min=1)]
MaxClipSeconds = Annotated[
    float | None, _option(LIMITS, "--max-clip-seconds S", "Longest clip, s; left out: what the model takes.", min=0.1)
]
IdleSeconds = Annotated[float, _option(LIMITS, "--idle-s S", "Time until an unused clip is forgotten, s.", min=0.1)]

FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their options too
_NOTHING: Final[Mapping[str, Any]] = {}


def resolve(
    context: typer.Context, fixed: Mapping[str, object] = _NOTHING, spelled: Mapping[str, str] = _NOTHING
) -> ResolvedConfig:
    """The configuration in force in a command, from its options, the environment and a file; --set wins over options.

    Args:
        context: of the running command.
        fixed: settings that the command itself decides.
        spelled: setting -> the command's own option for it, for messages.

    Raises:
        ConfigError: anything in any layer is wrong.
    """
    given = {parameter.opts[0]: context.params.get(str(parameter.name)) for parameter in context.command.params}
    flags: dict[str, object] = {}
    for name, flag in FLAG_NAMES.items():
        if (value := given.get(flag)) is not None:
            text = isinstance(value, str) and not SETTINGS[name].takes_text
            flags[name] = parse_value(name, str(value)) if text else value
    flags |= fixed
    names = FLAG_NAMES | {name: off for name, off in _OFF_NAMES.items() if flags.get(name) is False} | dict(spelled)
    for assignment in given.get("--set") or ():
        name, value = parse_setting(assignment)
        flags[name], names[name] = value, "--set"
    return load_config(context.params.get("source"), flags=flags, flag_names=names)
