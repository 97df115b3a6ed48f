"""The options and arguments of the commands, each described once, and the configuration that they give.

A command is a plain function under `@command(...)`: `OPTIONS` has the spelling and the help of each of its parameters.
Options of settings are not among them: `command` adds those that it names, with --config and --set, and `resolve` reads
them. Such an option takes what its setting takes and has its meaning.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, get_args

import typer
from typer.models import OptionInfo

from specdec_cli.config import SETTINGS, ResolvedConfig, Setting, load_config, parse_setting, shipped_configs
from specdec_cli.config.layers import parse_value
from specdec_cli.errors import FLAGS
from specdec_cli.types import COSTS, ExportFormat, GateName, Mode

MODELS, CAPTION, DECODING = "Models and settings", "Caption", "Decoding"
INPUT, STUDY, JUDGING, WORK, OUTPUT = "Input", "What is run", "How captions are judged", "Work", "Output"
NETWORK, LIMITS = "Network", "Limits"
PANELS: Final = (MODELS, CAPTION, INPUT, STUDY, JUDGING, WORK, OUTPUT, NETWORK, LIMITS, DECODING, None)
"""Sections of the help, in their order."""

TUNED_GATES: Final[tuple[GateName, ...]] = ("entropy", "class-entropy", "margin", "logprob", "learned")
"""The gates that `tune` can fit."""

FLAG_NAMES: Final[dict[str, str]] = {}
"""Setting -> the option that gives it."""

_OFF_NAMES: Final[dict[str, str]] = {}  # setting -> the option that switches it off
_SETTING_OPTIONS: Final[dict[str, Any]] = {}  # setting -> its annotated type
_STARTS_WITH_A_VALUE: Final = re.compile(r"[\w-]+(, [\w-]+)*:")
_NOTHING: Final[Mapping[str, Any]] = {}
_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY

Command: TypeAlias = Callable[..., int | None]


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
    """An option that is spelled like "--batch-size auto|N"; words in lower case are completed."""
    flags = [word for word in spelled.split() if word.startswith("-")]
    metavar = spelled.removeprefix(" ".join(flags)).strip()
    words = [word for word in metavar.split("|") if word.islower()]
    more = {"autocompletion": one_of(*words)} | more
    return typer.Option(*flags, help=text, metavar=metavar or None, rich_help_panel=panel, **more)


def written(metavar: str, text: str) -> Any:
    """The option --output of a command that writes no transcripts."""
    return _option(OUTPUT, f"--output -o {metavar}", text)


def _setting(panel: str, name: str, spelled: str, text: str | None = None) -> str:
    """Registers the option of a setting; without a metavar in `spelled`, that is the words that the setting takes."""
    setting = SETTINGS[name]
    flag, _, off = spelled.split()[0].partition("/")
    FLAG_NAMES[name] = flag
    switch = setting.expected.startswith("true or false")
    if off:
        _OFF_NAMES[name] = off
    elif spelled.split()[-1].startswith("-") and not switch:
        spelled += f" {'|'.join(setting.choices) or 'N'}"
    given = _option(panel, spelled, text or _sentence(setting), autocompletion=one_of(*_words(setting)))
    _SETTING_OPTIONS[name] = Annotated[bool | None if switch else str | None, given]
    return name


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


# Options of settings
PAIR: Final = (
    _setting(MODELS, "edge.model", "--edge NAME", "Edge model: a folder or a hub id."),
    _setting(MODELS, "cloud.model", "--cloud NAME", "Cloud model, likewise; one model alone makes the mode."),
)
PROMPT: Final = (
    _setting(CAPTION, "prompt.language", "--language -l"),
    _setting(CAPTION, "prompt.style", "--style"),
    _setting(CAPTION, "prompt.text", "--prompt TEXT"),
    _setting(CAPTION, "prompt.force", "--force-prompt"),
)
CUTS: Final = (
    _setting(CAPTION, "audio.segment", "--segment pauses|SECONDS|FILE"),
    _setting(CAPTION, "audio.start_s", "--start TIME"),
    _setting(CAPTION, "audio.end_s", "--end TIME"),
)
DRAFTS: Final = (
    _setting(DECODING, "decoding.k", "-k auto|N"),
    _setting(DECODING, "gate.name", "--gate GATE"),
    _setting(DECODING, "gate.threshold", "--threshold X"),
    _setting(DECODING, "decoding.defer", "--defer/--no-defer"),
)
WRITES: Final = (
    _setting(DECODING, "acceptance.rule", "--accept RULE"),
    _setting(DECODING, "decoding.max_new_tokens", "--max-new-tokens"),
    _setting(DECODING, "decoding.degrade", "--degrade/--no-degrade"),
)
DECODES: Final = (_setting(DECODING, "decoding.mode", "--mode MODE"), *DRAFTS, *WRITES)
_setting(DECODING, "decoding.edge_failed", "--edge-failed")

_CONFIG_HELP: Final = "Name of a shipped configuration, or a YAML file; left out: SPECDEC_CONFIG, or else mini."
_EXPORT_FORMATS: Final = get_args(ExportFormat)
_FORMATS: Final = ", ".join(_EXPORT_FORMATS)

CONFIG_ARGUMENT: Final[Any] = typer.Argument(help=_CONFIG_HELP, metavar="NAME|FILE", autocompletion=_configurations)
LISTED_PATHS: Final[Any] = typer.Argument(
    help="Audio or video files, folders, patterns; - for a list of them on stdin.", metavar="PATH"
)

OPTIONS: Final[dict[str, Any]] = {
    # Models and settings
    "source": _option(MODELS, "--config -c NAME|FILE", _CONFIG_HELP, autocompletion=_configurations),
    "settings": _option(
        MODELS,
        "--set NAME=VALUE",
        "Any setting, e.g. decoding.seed=1; `specdec config show` lists them. Repeatable.",
        autocompletion=_assignments,
    ),
    # Caption
    "labels": _option(CAPTION, "--labels", "Show which classes each caption names."),
    "lexicon": _option(
        CAPTION, "--lexicon FILE", "Words for classes, in place of the shipped ones; implies --labels where it exists."
    ),
    "calibration": _option(
        CAPTION, "--calibration FILE", "Calibration of class probabilities, by `specdec calibrate`; implies --labels."
    ),
    "measure": _option(CAPTION, "--measure", "Measure F0, level, rate and pauses of each clip (docs/acoustics.md)."),
    # Input
    "paths": typer.Argument(
        help="Audio or video files, folders, patterns; - for stdin: a recording, or a list.", metavar="PATH"
    ),
    "path": typer.Argument(help="A recording, or a folder; left out: the shipped samples.", metavar="PATH"),
    "transcripts": typer.Argument(
        help="Transcripts that caption, batch or compare wrote with --output.", metavar="JSONL"
    ),
    "of_mode": _option(
        INPUT, "--mode MODE", "Take the captions of this mode alone.", autocompletion=one_of(*get_args(Mode))
    ),
    "recursive": _option(INPUT, "--recursive -r", "Search folders at every depth."),
    "pattern": _option(
        INPUT, "--glob PATTERN", "Files to take from folders, e.g. '*.wav'; left out: known audio suffixes."
    ),
    "manifest": _option(
        INPUT,
        "--manifest FILE|FOLDER",
        "Table with a column file (.tsv, .csv, .json, .jsonl), or data of Kaldi, NeMo, Lhotse, Hugging Face.",
    ),
    "limit": _option(INPUT, "--limit N", "Take N at most.", min=1),
    "retry_failed": _option(INPUT, "--retry-failed", "Take only what failed before; needs no PATH."),
    "device": _option(
        INPUT, "--device DEVICE", "Microphone: its number, or a part of its name; left out: the system's."
    ),
    "list_devices": _option(INPUT, "--list-devices", "List the microphones and exit."),
    # What is run
    "modes": _option(
        STUDY, "--modes MODE,MODE", "Modes to compare, two or more.", autocompletion=list_of(*get_args(Mode))
    ),
    "repeat": _option(STUDY, "--repeat N", "Time everything N times over.", min=1),
    "gates": _option(
        STUDY,
        "--gates GATE,GATE",
        f"Gates that compete; left out: {', '.join(TUNED_GATES)}.",
        autocompletion=list_of(*TUNED_GATES),
    ),
    "ks": _option(STUDY, "--ks K,K", "Block sizes to try, tokens."),
    "budget": _option(
        STUDY,
        "--budget SHARE|COST=SHARE",
        "Largest share, 0 to 1, of clips that call the cloud (0.5 or clips=0.5; the default without --risk), of "
        "cloud-only's time (time=0.4), or of escalated blocks (blocks=0.2).",
        autocompletion=one_of(*(f"{cost}=" for cost in COSTS)),
    ),
    "risk": _option(
        STUDY,
        "--risk SHARE",
        "Certify that at most this share of captions names other classes than the cloud's.",
        min=0.001,
        max=0.999,
    ),
    # How captions are judged
    "eval_seed": _option(
        JUDGING, "--eval-seed N", "Seed of the bootstrap, and of tune's split and random gate.", min=0
    ),
    "references": _option(
        JUDGING, "--references TABLE", "Captions or classes by people, a row per recording (.tsv, .csv, .json, .jsonl)."
    ),
    "file_column": _option(JUDGING, "--file-column COLUMN", "Column that names the recording."),
    "text_column": _option(JUDGING, "--text-column COLUMN", "Column that holds a caption. Repeatable."),
    "label_column": _option(
        JUDGING, "--label-column NAME=COLUMN", "Column of an attribute's class, e.g. emotion=mood. Repeatable."
    ),
    "attribute": _option(
        JUDGING, "--attribute NAME", "Attribute whose classes are drawn.", autocompletion=one_of("emotion")
    ),
    "bertscore": _option(JUDGING, "--bertscore", "Compute BERTScore too; needs the extra bertscore."),
    # Work
    "batch_size": _option(WORK, "--batch-size auto|N", "Clips decoded together."),
    "in_flight": _option(
        WORK, "--in-flight auto|N", "Clips under way where both models are servers; auto: as many as pay."
    ),
    "workers": _option(WORK, "--workers N", "Threads that read ahead; left out: one per core, at most 4.", min=1),
    "ray": _option(WORK, "--ray", "Run on the Ray cluster at --ray-address or RAY_ADDRESS, or on this machine."),
    "ray_address": _option(WORK, "--ray-address ADDRESS", "Address of the cluster; implies --ray."),
    "fail_fast": _option(WORK, "--fail-fast", "Stop at the first failure."),
    "quick": _option(WORK, "--quick", "Do not load the models."),
    "lookup": _option(DECODING, "--lookup JSONL", "Guess from these transcripts, too: the same captions sooner."),
    # Output
    "output": _option(OUTPUT, "--output -o JSONL", "Append transcripts to this file."),
    "overwrite": _option(OUTPUT, "--overwrite/--resume", "Drop what --output holds, or do only what it lacks."),
    "recordings": _option(
        OUTPUT, "--recordings JSONL", "Append what is recorded; what the file holds is not done again."
    ),
    "exports": _option(
        OUTPUT,
        "--export FORMAT,FORMAT",
        f"Write what --output holds in these formats too: {_FORMATS}.",
        autocompletion=list_of(*_EXPORT_FORMATS),
    ),
    "export_dir": _option(OUTPUT, "--export-dir FOLDER", "Folder of --export; left out: named after --output."),
    "to": _option(
        OUTPUT,
        "--to FORMAT,FORMAT",
        f"Formats to write: {_FORMATS}; left out: the ending of --output.",
        autocompletion=list_of(*_EXPORT_FORMATS),
    ),
    "rttm_name": _option(
        OUTPUT, "--rttm-name speaker|ATTRIBUTE", "What names the turns in RTTM; `unknown` where it is not known."
    ),
    "picture": _option(OUTPUT, "--picture svg|png|pdf", "Format of pictures; left out: as --output ends, or svg."),
    "html": _option(OUTPUT, "--html FILE", "Write a page with every clip into this file."),
    "plot": _option(OUTPUT, "--plot FILE", "Draw the frontier or the reliability diagram: .svg, .png or .pdf."),
    "audio_mb": _option(OUTPUT, "--audio-mb N", "Most audio in the page, MB; 64 MB are about two hours.", min=0),
    "captions": _option(OUTPUT, "--captions N", "Show N clips whose captions differ, side by side.", min=0),
    "save": _option(OUTPUT, "--save FOLDER", "Keep each utterance as a FLAC file in this folder."),
    "json": _option(OUTPUT, "--json", "Print JSON on stdout in place of text."),
    "yaml": _option(OUTPUT, "--yaml", "Print a configuration file that loads back."),
    "quiet": _option(OUTPUT, "--quiet -q", "Show no progress; print results and errors only."),
    "no_live": _option(OUTPUT, "--no-live", "Print rounds as plain lines; nothing is redrawn."),
    "debug": _option(None, "--debug", "Show tracebacks and log messages.", callback=_log_everything),
    # Server
    "host": _option(NETWORK, "--host ADDRESS", "Address to listen at."),
    "port": _option(NETWORK, "--port N", "Port to listen at; 0: any that is free.", min=0, max=65535),
    "token_env": _option(
        NETWORK,
        "--token-env NAME",
        "Variable that holds the clients' token, 16 characters or more; required beyond loopback.",
    ),
    "tls_cert": _option(NETWORK, "--tls-cert PEM", "Certificate, for HTTPS."),
    "tls_key": _option(NETWORK, "--tls-key PEM", "Private key of the certificate."),
    "max_sessions": _option(LIMITS, "--max-sessions N", "Clips held at a time.", min=1),
    "memory_mb": _option(LIMITS, "--memory-mb N", "Memory of their caches, MiB.", min=1),
    "max_clip_seconds": _option(
        LIMITS, "--max-clip-seconds S", "Longest clip, s; left out: what the model takes.", min=0.1
    ),
    "idle_s": _option(LIMITS, "--idle-s S", "Time until an unused clip is forgotten, s.", min=0.1),
}
"""Parameter of a command -> its option or argument, wherever a command has none of its own."""

FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their options too


def command(*settings: str, **own: Any) -> Callable[[Command], Command]:
    """Describes the parameters of a command to typer, and adds the options of settings, which it does not take.

    Args:
        settings: settings whose options the command has, beside --config and --set; `resolve` reads them.
        own: parameter -> its option, where it is another than that of `OPTIONS`.
    """
    added = {_parameter(name): _SETTING_OPTIONS[name] for name in settings}
    if settings:
        added["source"] = Annotated[str | None, OPTIONS["source"]]
        added["settings"] = Annotated[list[str] | None, OPTIONS["settings"]]

    def decorated(function: Command) -> Command:
        taken = inspect.signature(function, eval_str=True).parameters
        debug = {} if "debug" in taken else {"debug": Annotated[bool, OPTIONS["debug"]]}
        parameters = [
            inspect.Parameter(name, _KEYWORD, default=None, annotation=described)
            for name, described in (added | debug).items()
        ]
        for name, parameter in taken.items():
            type_ = parameter.annotation
            described = type_ if name == "context" else Annotated[type_, own.get(name, OPTIONS.get(name))]
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=described))

        @functools.wraps(function)
        def run(**given: Any) -> int | None:
            return function(**{name: given[name] for name in taken})

        run.__signature__ = inspect.Signature(sorted(parameters, key=_place))  # type: ignore[attr-defined]
        return run

    return decorated


def _parameter(setting: str) -> str:
    """The parameter of a command that holds what the option of a setting was given."""
    return setting.replace(".", "_")


def _place(parameter: inspect.Parameter) -> int:
    """Arguments come first, then options in the order of their panels."""
    (described,) = getattr(parameter.annotation, "__metadata__", (None,))
    return PANELS.index(described.rich_help_panel) if isinstance(described, OptionInfo) else -1


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
    flags: dict[str, object] = {}
    for name in FLAG_NAMES:
        if (value := context.params.get(_parameter(name))) is not None:
            text = isinstance(value, str) and not SETTINGS[name].takes_text
            flags[name] = parse_value(name, str(value)) if text else value
    flags |= fixed
    names = FLAG_NAMES | {name: off for name, off in _OFF_NAMES.items() if flags.get(name) is False} | dict(spelled)
    for assignment in context.params.get("settings") or ():
        name, value = parse_setting(assignment)
        flags[name], names[name] = value, "--set"
    return load_config(context.params.get("source"), flags=flags, flag_names=names)
