"""The options of the commands, each once, and the configuration that they give.

A command is a typer function; `takes` makes options of its parameters, by their names, and adds groups of others whose
values it gets as further keyword arguments. `resolve` reads those of settings, with --config and --set. Settings
without an option are given with --set.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer
from typer.core import TyperCommand

from specdec_cli.config import SETTINGS, ResolvedConfig, load_config, parse_setting
from specdec_cli.config.resolve import parse_value
from specdec_cli.config.settings import choices, takes_text
from specdec_cli.errors import FLAGS
from specdec_cli.types import ExportFormat, GateName

TUNED_GATES: Final[tuple[GateName, ...]] = ("entropy", "class-entropy", "margin", "logprob", "learned")
"""The gates that `tune` can fit."""

_OTHER: Final = "Other"
_STARTS_WITH_A_VALUE: Final = re.compile(r"[\w-]+(, [\w-]+)*:")
_FORMATS: Final = ", ".join(get_args(ExportFormat))
_CONFIG: Final = "Name of a shipped configuration, or a YAML file; left out: SPECDEC_CONFIG, or else mini."
_PATHS: Final = "Audio or video files, folders, patterns; - for stdin: a recording, or a list."
_BUDGET: Final = (
    "Largest share, 0 to 1, of clips that call the cloud (0.5 or clips=0.5; default without --risk), of cloud-only's "
    "time (time=0.4), or of escalated blocks (blocks=0.2)."
)


def _log_everything(debug: bool) -> bool:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    return debug


_AT_LEAST_0: Final = {"min": 0}
_AT_LEAST_1: Final = {"min": 1}
_TENTH: Final = {"min": 0.1}
_SHARE: Final = {"min": 0.001, "max": 0.999}

PANELS: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "Arguments": {
        "caption.paths": ("PATH", _PATHS),
        "batch.paths": ("PATH", _PATHS),
        "paths": ("PATH", "Audio or video files, folders, patterns; - for a list of them on stdin."),
        "path": ("PATH", "A recording, or a folder; left out: the shipped samples."),
        "transcripts": ("JSONL", "Transcripts that caption, batch or compare wrote with --output."),
        "validate.config": ("NAME|FILE", _CONFIG),
    },
    "Models and settings": {
        "edge.model": ("--edge NAME", "Edge model: a folder or a hub id."),
        "cloud.model": ("--cloud NAME", "Cloud model, likewise; one model alone makes the mode."),
        "config": ("--config -c NAME|FILE", _CONFIG),
        "set": ("--set NAME=VALUE", "Any setting, e.g. decoding.seed=1; `specdec config show` lists them. Repeatable."),
    },
    "What is run": {
        "modes": ("--modes MODE,MODE", "Modes to compare, two or more."),
        "gates": ("--gates GATE,GATE", f"Gates that compete; left out: {', '.join(TUNED_GATES)}."),
        "ks": ("--ks K,K", "Block sizes to try, tokens."),
        "budget": ("--budget SHARE|COST=SHARE", _BUDGET),
        "risk": (
            "--risk SHARE",
            "Certify that at most this share of captions names other classes than the cloud's.",
            _SHARE,
        ),
        "repeat": ("--repeat N", "Time everything N times over.", _AT_LEAST_1),
    },
    "Caption": {
        "prompt.language": ("--language -l",),
        "prompt.style": ("--style",),
        "prompt.text": ("--prompt TEXT",),
        "prompt.force": ("--force-prompt",),
        "audio.segment": ("--segment pauses|SECONDS|FILE",),
        "audio.start_s": ("--start TIME",),
        "audio.end_s": ("--end TIME",),
        "labels": ("--labels", "Show which classes each caption names."),
        "lexicon": ("--lexicon FILE", "Words for classes, in place of the shipped ones; implies --labels."),
        "calibration": ("--calibration FILE", "Calibration by `specdec calibrate`; implies --labels."),
        "measure": ("--measure", "Measure F0, level, rate and pauses (docs/acoustics.md)."),
    },
    "Input": {
        "recursive": ("--recursive -r", "Search folders at every depth."),
        "pattern": ("--glob PATTERN", "Files to take from folders, e.g. '*.wav'; left out: audio suffixes."),
        "manifest": (
            "--manifest FILE|FOLDER",
            "Table with a column file (.tsv, .csv, .json, .jsonl), or data of Kaldi, NeMo, Lhotse.",
        ),
        "of_mode": ("--mode MODE", "Take the captions of this mode alone."),
        "limit": ("--limit N", "Take N at most.", _AT_LEAST_1),
        "retry_failed": ("--retry-failed", "Take only what failed before; needs no PATH."),
        "device": ("--device DEVICE", "Microphone: its number, or a part of its name."),
        "list_devices": ("--list-devices", "List the microphones and exit."),
    },
    "How captions are judged": {
        "references": (
            "--references TABLE",
            "Captions or classes by people, a row per recording (.tsv, .csv, .json, .jsonl).",
        ),
        "file_column": ("--file-column COLUMN", "Column that names the recording."),
        "text_columns": ("--text-column COLUMN", "Column that holds a caption. Repeatable."),
        "label_columns": (
            "--label-column NAME=COLUMN",
            "Column of a class, e.g. emotion=mood. Repeatable.",
        ),
        "bertscore": ("--bertscore", "Compute BERTScore too; needs the extra bertscore."),
        "eval_seed": ("--eval-seed N", "Seed of bootstraps, splits and the random gate.", _AT_LEAST_0),
        "attribute": ("--attribute NAME", "Attribute whose classes are drawn."),
    },
    "Output": {
        "output": ("--output -o JSONL", "Append transcripts to this file."),
        "export.output": (
            "--output -o FOLDER|FILE",
            "Folder, or one file by its ending; - for stdout; left out: named after JSONL.",
        ),
        "plot.output": (
            "--output -o FILE|FOLDER",
            "Picture (.svg, .png, .pdf), or a folder for several; left out: named after JSONL.",
        ),
        "review.output": ("--output -o FILE", "Write the page to this file (.html)."),
        "calibrate.output": ("--output -o FILE", "Write the calibration here (.json)."),
        "tune.output": ("--output -o FILE", "Write the recommended gate here (.json)."),
        "overwrite": ("--overwrite/--resume", "Drop what --output holds, or do only what it lacks."),
        "recordings": ("--recordings JSONL", "Append what is recorded; what the file holds is not done again."),
        "exports": ("--export FORMAT,FORMAT", f"Write what --output holds in these formats too: {_FORMATS}."),
        "export_dir": ("--export-dir FOLDER", "Folder of --export."),
        "to": ("--to FORMAT,FORMAT", f"Formats to write: {_FORMATS}; left out: the ending of --output."),
        "rttm_name": (
            "--rttm-name speaker|ATTRIBUTE",
            "What names turns in RTTM; `unknown` where it is not known.",
        ),
        "picture": ("--picture svg|png|pdf", "Format of pictures; left out: as --output ends, or svg."),
        "html": ("--html FILE", "Write a page with every clip into this file."),
        "plot": ("--plot FILE", "Draw the frontier or the reliability diagram: .svg, .png or .pdf."),
        "audio_mb": ("--audio-mb N", "Most audio in the page, MB; 64: about two hours.", _AT_LEAST_0),
        "captions": ("--captions N", "Show N clips whose captions differ, side by side.", _AT_LEAST_0),
        "save": ("--save FOLDER", "Keep each utterance as a FLAC file in this folder."),
        "json": ("--json", "Print JSON on stdout in place of text."),
        "yaml": ("--yaml", "Print a configuration file that loads back."),
        "quiet": ("--quiet -q", "Show no progress; print results and errors only."),
        "no_live": ("--no-live", "Print rounds as plain lines; nothing is redrawn."),
    },
    "Work": {
        "batch_size": ("--batch-size auto|N", "Clips decoded together."),
        "in_flight": ("--in-flight auto|N", "Clips under way where both models are servers; auto: as many as pay."),
        "workers": ("--workers N", "Threads that read ahead; left out: one per core, at most 4.", _AT_LEAST_1),
        "ray": ("--ray", "Run on the Ray cluster at --ray-address or RAY_ADDRESS, or here."),
        "ray_address": ("--ray-address ADDRESS", "Address of the cluster; implies --ray."),
        "fail_fast": ("--fail-fast", "Stop at the first failure."),
        "quick": ("--quick", "Do not load the models."),
    },
    "Decoding": {
        "decoding.mode": ("--mode MODE",),
        "decoding.k": ("-k auto|N",),
        "gate.name": ("--gate",),
        "gate.threshold": ("--threshold X",),
        "decoding.defer": ("--defer/--no-defer",),
        "acceptance.rule": ("--accept",),
        "decoding.max_new_tokens": ("--max-new-tokens",),
        "lookup": ("--lookup JSONL", "Guess from these transcripts, too."),
        "decoding.degrade": ("--degrade/--no-degrade",),
        "decoding.edge_failed": ("--edge-failed",),
    },
    "Network": {
        "host": ("--host ADDRESS", "Address to listen at."),
        "port": ("--port N", "Port to listen at; 0: any that is free.", {"min": 0, "max": 65535}),
        "token_env": (
            "--token-env NAME",
            "Variable that holds the clients' token, 16 characters or more; required beyond loopback.",
        ),
        "tls_cert": ("--tls-cert PEM", "Certificate, for HTTPS."),
        "tls_key": ("--tls-key PEM", "Private key of the certificate."),
    },
    "Limits": {
        "max_sessions": ("--max-sessions N", "Clips held at a time.", _AT_LEAST_1),
        "memory_mb": ("--memory-mb N", "Memory of their caches, MiB.", _AT_LEAST_1),
        "max_clip_seconds": ("--max-clip-seconds S", "Longest clip, s; left out: what the model takes.", _TENTH),
        "idle_s": ("--idle-s S", "Time until an unused clip is forgotten, s.", _TENTH),
    },
    _OTHER: {
        "debug": ("--debug", "Show tracebacks and log messages.", {"callback": _log_everything}),
    },
}
"""Section of the help -> parameter or setting -> its option: how it is spelled, with what it takes; what it does (of a
setting: its description in the schema); what typer takes besides. `COMMAND.NAME` is that of one command alone."""

_OPTIONS: Final = {name: (panel, *row) for panel, rows in PANELS.items() for name, row in rows.items()}
_PLACES: Final = {name: place for place, name in enumerate(_OPTIONS, 1)}
FLAG_NAMES: Final = {name: row[1].split()[0].partition("/")[0] for name, row in _OPTIONS.items() if name in SETTINGS}
"""Setting -> the option that gives it."""
FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their options too

Group = Mapping[str, Any]
"""Parameters or settings that a command takes together, and the type of each; left out, they are None or False."""

PROMPT: Final = ("prompt.language", "prompt.style", "prompt.text", "prompt.force")
CUTS: Final = ("audio.segment", "audio.start_s", "audio.end_s")
BLOCKS: Final = ("decoding.k", "gate.name", "gate.threshold", "decoding.defer", "decoding.max_new_tokens")
DECODED: Final = (*BLOCKS, "acceptance.rule", "decoding.degrade")
LABELS: Final[Group] = {"labels": bool, "lexicon": Path | None, "calibration": Path | None, "measure": bool}
CLASSES: Final[Group] = {
    "references": Path | None,
    "file_column": str | None,
    "label_columns": list[str] | None,
    "lexicon": Path | None,
}
QUIET: Final[Group] = {"quiet": bool}
CLIPS: Final[Group] = {"json": bool, "quiet": bool, "no_live": bool}
INPUTS: Final[Group] = {"recursive": bool, "pattern": str | None, "manifest": Path | None}
TEXTS: Final[Group] = {"text_columns": list[str] | None}


def settings(*names: str) -> Group:
    """The models, these settings, --config and --set: all that `resolve` reads."""
    kinds: dict[str, Any] = {name: bool | None if _is_switch(name) else str | None for name in names}
    return {"edge.model": str | None, "cloud.model": str | None, "config": str | None, "set": list[str] | None} | kinds


def takes(*groups: Group) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes options of a command's parameters, of `groups` and of --debug; they stand in the order of the help."""

    def command(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD]
        taken: dict[str, tuple[Any, Any]] = {"debug": (bool, False)}
        for group in groups:
            taken |= {name: (kind, False if kind is bool else None) for name, kind in group.items()}
        taken |= {each.name: (each.annotation, each.default) for each in own}
        placed: list[tuple[int, inspect.Parameter]] = []
        for name, (kind, default) in taken.items():
            special = f"{function.__name__}.{name}"
            row = special if special in _OPTIONS else name
            annotation = Annotated[kind, _option(row)] if row in _OPTIONS else kind
            parameter = inspect.Parameter(
                _parameter(name), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            placed.append((_PLACES.get(row, 0), parameter))
        parameters = [parameter for _, parameter in sorted(placed, key=itemgetter(0))]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return command


def _parameter(name: str) -> str:
    return name.replace(".", "__")


def _option(name: str) -> Any:
    """The argument or option in a row of `PANELS`."""
    panel, spelled, *more = _OPTIONS[name]
    if panel == "Arguments":
        return typer.Argument(help=more[0], metavar=spelled)
    flags = [word for word in spelled.split() if word.startswith("-")]
    metavar = spelled.removeprefix(" ".join(flags)).strip()
    words = choices(name) if name in SETTINGS else ()
    if name in SETTINGS and not (metavar or _is_switch(name)):
        metavar = "|".join(words) or "N"

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    text = more[0] if more else _sentence(name)
    extra = {"autocompletion": complete} if words else more[1] if len(more) > 1 else {}
    return typer.Option(*flags, help=text, metavar=metavar or None, rich_help_panel=panel, **extra)


def _is_switch(setting: str) -> bool:
    return "/" in _OPTIONS[setting][1] or isinstance(SETTINGS[setting].default, bool)


def _sentence(name: str) -> str:
    """What the option of a setting does."""
    text = str(SETTINGS[name].description).replace("null:", "left out:")
    if text.startswith("true: "):
        text = re.sub("; false: [^;]*", "", text.removeprefix("true: "))
    return (text if _STARTS_WITH_A_VALUE.match(text) else text[0].upper() + text[1:]) + "."


class Command(TyperCommand):
    """A command whose help has a section for each panel of its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the sections."""
        for panel, parameters in groupby(self.get_params(ctx), _panel):
            records = ((parameter, parameter.get_help_record(ctx)) for parameter in parameters)
            rows = [(each.metavar if panel == "Arguments" else row[0], row[1]) for each, row in records if row]
            with formatter.section(panel):
                formatter.write_dl(rows)


def _panel(parameter: Any) -> str:
    return "Arguments" if parameter.param_type_name == "argument" else parameter.rich_help_panel or _OTHER


_NOTHING: Final[Mapping[str, Any]] = {}


def resolve(
    given: Mapping[str, Any], fixed: Mapping[str, object] = _NOTHING, spelled: Mapping[str, str] = _NOTHING
) -> ResolvedConfig:
    """The configuration in force in a command, from its options, the environment and a file; --set wins over options.

    `given` are the values of a group `settings`, `fixed` the settings that the command itself decides, and `spelled`
    its own options for them, for messages. ConfigError: anything in any layer is wrong.
    """
    values = {name: given.get(_parameter(name)) for name in FLAG_NAMES}
    flags: dict[str, object] = {
        name: parse_value(name, value) if isinstance(value, str) and not takes_text(name) else value
        for name, value in values.items()
        if value is not None
    }
    flags |= fixed
    off = {name: _OPTIONS[name][1].rpartition("/")[2] for name, value in values.items() if value is False}
    names = FLAG_NAMES | off | dict(spelled)
    for assignment in given.get("set") or ():
        name, value = parse_setting(assignment)
        flags[name], names[name] = value, "--set"
    return load_config(given.get("config"), flags=flags, flag_names=names)
