"""Every option and argument of the command line, once: how it is spelled, where it stands in a help, what it means.

A command names the ones it takes in its signature; `command` looks them up here by parameter. An option that gives a
setting has the setting's own meaning, and takes what the setting takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, get_args

from specdec_cli.config import SETTINGS, Setting, shipped_configs
from specdec_cli.errors import FLAGS
from specdec_cli.types import COSTS, ExportFormat, GateName, Mode

CONFIGURATION, CAPTION, DECODING = "Configuration", "Caption", "Decoding"
INPUT, STUDY, JUDGING, WORK, OUTPUT = "Input", "What is run", "How captions are judged", "Work", "Output"
NETWORK, LIMITS = "Network", "Limits"

TUNED_GATES: Final[tuple[GateName, ...]] = ("entropy", "margin", "logprob", "learned")
"""The gates that `tune` can fit."""

Values = Callable[[str], list[str]]
"""What has been typed of a value -> what it may become."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or an argument if it has no flags.

    Attributes:
        flags: its spellings, the usual one first; "--on/--off" for a switch with an opposite.
        panel: heading in the help.
        help: what it does; None: what the setting's description says.
        metavar: what stands for its value in the help.
        setting: dotted name of the setting that it gives, or None.
        values: completes a value; None: a file, or nothing.
        least, most: bounds of a number.
        default: what leaving it out means, where the default itself does not say it.
    """

    flags: tuple[str, ...]
    panel: str | None = None
    help: str | None = None
    metavar: str | None = None
    setting: str | None = None
    values: Values | None = None
    least: float | None = None
    most: float | None = None
    default: str | None = None

    @property
    def of_setting(self) -> Setting | None:
        """The setting that it gives."""
        return None if self.setting is None else SETTINGS[self.setting]


def one_of(*words: str) -> Values:
    """Completes one word."""
    return lambda typed: [word for word in words if word.startswith(typed)]


def list_of(*words: str) -> Values:
    """Completes the last of several words with commas between them."""

    def complete(typed: str) -> list[str]:
        head, comma, last = typed.rpartition(",")
        taken = head.split(",")
        return [head + comma + word for word in words if word.startswith(last) and word not in taken]

    return complete


def configurations(typed: str) -> list[str]:
    """Completes the bare name of a shipped configuration."""
    return one_of(*shipped_configs())(typed)


def assignments(typed: str) -> list[str]:
    """Completes the NAME=VALUE of a setting."""
    name, equals, value = typed.partition("=")
    if not equals:
        return [f"{known}=" for known in SETTINGS if known.startswith(name)]
    return [f"{name}={word}" for word in one_of(*_words(SETTINGS[name]))(value)] if name in SETTINGS else []


def _words(setting: Setting) -> tuple[str, ...]:
    return ("true", "false") if isinstance(setting.default, bool) else setting.choices


def _of(setting: str, *flags: str, panel: str, metavar: str | None = None) -> Option:
    """The option of a setting."""
    words = _words(SETTINGS[setting])
    metavar = metavar or "|".join(words) or "N"
    return Option(flags, panel, None, metavar, setting, one_of(*words) if words else None)


_CONFIG: Final = Option(
    ("--config", "-c"),
    CONFIGURATION,
    "Name of a shipped configuration, or a YAML file.",
    "NAME|FILE",
    values=configurations,
    default="SPECDEC_CONFIG, or else mini",
)

OPTIONS: Final[Mapping[str, Option]] = {
    "language": _of("prompt.language", "--language", "-l", panel=CAPTION),
    "style": _of("prompt.style", "--style", panel=CAPTION, metavar="STYLE"),
    "prompt": _of("prompt.text", "--prompt", panel=CAPTION, metavar="TEXT"),
    "segment": _of("audio.segment", "--segment", panel=CAPTION, metavar="pauses|silero|SECONDS|FILE"),
    "start": _of("audio.start_s", "--start", panel=CAPTION, metavar="TIME"),
    "end": _of("audio.end_s", "--end", panel=CAPTION, metavar="TIME"),
    "refuse_no_speech": _of("audio.refuse_no_speech", "--refuse-no-speech/--no-refuse-no-speech", panel=CAPTION),
    "labels": Option(("--labels",), CAPTION, "Show which classes each caption names, in transcripts, totals, exports."),
    "lexicon": Option(
        ("--lexicon",),
        CAPTION,
        "Words for classes, in place of the shipped ones; turns --labels on where there is one.",
        "FILE",
    ),
    "calibration": Option(
        ("--calibration",),
        CAPTION,
        "Calibration of their probabilities, by `specdec calibrate`; turns --labels on.",
        "FILE",
        default="the mini pair's, for its models",
    ),
    "measure": Option(("--measure",), CAPTION, "Measure F0, level, rate and pauses of each clip (docs/measured.md)."),
    "mode": _of("decoding.mode", "--mode", panel=DECODING, metavar="MODE"),
    "k": _of("decoding.k", "-k", panel=DECODING, metavar="auto|N"),
    "gate": _of("gate.name", "--gate", panel=DECODING, metavar="GATE"),
    "threshold": _of("gate.threshold", "--threshold", panel=DECODING, metavar="X"),
    "defer": _of("decoding.defer", "--defer/--no-defer", panel=DECODING),
    "wake": _of("gate.wake", "--wake", panel=DECODING, metavar="X"),
    "stop_drafting": _of("gate.stop_drafting", "--stop-drafting/--no-stop-drafting", panel=DECODING),
    "accept": _of("acceptance.rule", "--accept", panel=DECODING, metavar="RULE"),
    "max_new_tokens": _of("decoding.max_new_tokens", "--max-new-tokens", panel=DECODING),
    "min_new_tokens": _of("decoding.min_new_tokens", "--min-new-tokens", panel=DECODING),
    "sentences": _of("decoding.sentences", "--sentences", panel=DECODING),
    "stop": _of("decoding.stop_strings", "--stop", panel=DECODING, metavar="TEXT"),
    "temperature": _of("decoding.temperature", "--temperature", panel=DECODING, metavar="T"),
    "top_p": _of("decoding.top_p", "--top-p", panel=DECODING, metavar="P"),
    "top_k": _of("decoding.top_k", "--top-k", panel=DECODING),
    "seed": _of("decoding.seed", "--seed", panel=DECODING),
    "repetition_penalty": _of("decoding.repetition_penalty", "--repetition-penalty", panel=DECODING, metavar="P"),
    "no_repeat_ngram": _of("decoding.no_repeat_ngram", "--no-repeat-ngram", panel=DECODING),
    "draft_ahead": _of("decoding.draft_ahead", "--draft-ahead", panel=DECODING),
    "run_on": _of("decoding.run_on", "--run-on", panel=DECODING),
    "require_cloud": _of("decoding.require_cloud", "--require-cloud/--no-require-cloud", panel=DECODING),
    "config": _CONFIG,
    "settings": Option(
        ("--set",),
        CONFIGURATION,
        "Any setting, e.g. decoding.loop_period=0; `specdec config show` lists them. Repeatable.",
        "NAME=VALUE",
        values=assignments,
    ),
    "source": replace(_CONFIG, flags=(), panel=None),
    "debug": Option(("--debug",), None, "Show tracebacks and log messages."),
    "paths": Option((), None, "Audio or video files, folders, patterns; - for stdin: a recording, or a list.", "PATH"),
    "transcripts": Option((), None, "Transcripts that caption, batch or compare wrote with --output.", "JSONL"),
    "of_mode": Option(
        ("--mode",), INPUT, "Take the captions of this mode alone.", "MODE", values=one_of(*get_args(Mode))
    ),
    "recursive": Option(("--recursive", "-r"), INPUT, "Search folders at every depth."),
    "pattern": Option(
        ("--glob",), INPUT, "Take what matches from folders, e.g. '*.wav'.", "PATTERN", default="known audio suffixes"
    ),
    "manifest": Option(
        ("--manifest",),
        INPUT,
        "List of recordings: a table with a column file (.tsv, .csv, .json, .jsonl), or one of Kaldi, NeMo, Lhotse, "
        "Hugging Face datasets.",
        "FILE|FOLDER",
    ),
    "limit": Option(("--limit",), INPUT, "Take N recordings at most.", "N", least=1),
    "retry_failed": Option(("--retry-failed",), INPUT, "Take only what failed before; needs no PATH."),
    "modes": Option(
        ("--modes",), STUDY, "Modes to compare, two or more.", "MODE,MODE", values=list_of(*get_args(Mode))
    ),
    "repeat": Option(("--repeat",), STUDY, "Time everything N times over.", "N", least=1),
    "gates": Option(
        ("--gates",),
        STUDY,
        "Gates that compete.",
        "GATE,GATE",
        values=list_of(*TUNED_GATES),
        default=",".join(TUNED_GATES),
    ),
    "ks": Option(("--ks",), STUDY, "Block sizes to try, tokens.", "K,K"),
    "budget": Option(
        ("--budget",),
        STUDY,
        "Largest share of clips that wake the cloud (clips=0.5), of cloud-only's time in the cloud (time=0.4), or of "
        "blocks to escalate (0.2 or blocks=0.2), 0 to 1.",
        "SHARE|COST=SHARE",
        values=one_of(*(f"{cost}=" for cost in COSTS)),
        default="clips=0.5; with --risk none",
    ),
    "risk": Option(
        ("--risk",),
        STUDY,
        "Certify that at most this share of captions names other classes than the cloud's.",
        "SHARE",
        least=0.001,
        most=0.999,
    ),
    "eval_seed": Option(
        ("--eval-seed",),
        JUDGING,
        "Seed of the evaluation: the bootstrap, and in tune the split and the random gate.",
        "N",
        least=0,
    ),
    "references": Option(
        ("--references",),
        JUDGING,
        "Captions or classes by people, one row a recording (.tsv, .csv, .json, .jsonl).",
        "TABLE",
    ),
    "file_column": Option(("--file-column",), JUDGING, "Column that names the recording.", "COLUMN"),
    "text_column": Option(("--text-column",), JUDGING, "Column that holds a caption. Repeatable.", "COLUMN"),
    "label_column": Option(
        ("--label-column",),
        JUDGING,
        "Column that holds the class of an attribute, e.g. emotion=mood. Repeatable.",
        "NAME=COLUMN",
    ),
    "attribute": Option(
        ("--attribute",), JUDGING, "Attribute whose classes are drawn.", "NAME", values=one_of("emotion")
    ),
    "bertscore": Option(("--bertscore",), JUDGING, "Compute BERTScore too; needs the extra bertscore."),
    "batch_size": Option(("--batch-size",), WORK, "Clips decoded together.", "auto|N", values=one_of("auto")),
    "workers": Option(
        ("--workers",),
        WORK,
        "Threads that read recordings ahead.",
        "N",
        least=1,
        default="one per core, at most 4",
    ),
    "ray": Option(("--ray",), WORK, "Run on the Ray cluster at --ray-address or RAY_ADDRESS, or else locally."),
    "ray_address": Option(("--ray-address",), WORK, "Address of the cluster; implies --ray.", "ADDRESS"),
    "fail_fast": Option(("--fail-fast",), WORK, "Stop at the first failure."),
    "output": Option(("--output", "-o"), OUTPUT, "Append transcripts to this file.", "JSONL"),
    "overwrite": Option(
        ("--overwrite/--resume",), OUTPUT, "Drop the transcripts that --output holds, or do only what it lacks."
    ),
    "recordings": Option(
        ("--recordings",), OUTPUT, "Append what is recorded to this file; what it holds is not done again.", "JSONL"
    ),
    "csv": Option(("--csv",), OUTPUT, "Write the captions as a table too.", "FILE"),
    "exports": Option(
        ("--export",),
        OUTPUT,
        "Write all that --output holds in these formats too: textgrid, eaf, srt, vtt, rttm, csv, audformat, txt.",
        "FORMAT,FORMAT",
        values=list_of(*get_args(ExportFormat)),
    ),
    "export_dir": Option(("--export-dir",), OUTPUT, "Folder of --export.", "FOLDER", default="named after --output"),
    "to": Option(
        ("--to",),
        OUTPUT,
        "Formats to write: textgrid, eaf, srt, vtt, rttm, csv, audformat, txt.",
        "FORMAT,FORMAT",
        values=list_of(*get_args(ExportFormat)),
        default="the ending of --output",
    ),
    "export_to": Option(
        ("--output", "-o"),
        OUTPUT,
        "Folder to write to, or one file by its ending; - for stdout.",
        "FOLDER|FILE",
        default="a folder named after the transcripts",
    ),
    "rttm_name": Option(
        ("--rttm-name",),
        OUTPUT,
        "What turns in RTTM are named by.",
        "speaker|ATTRIBUTE",
        values=one_of("speaker", "emotion"),
        default="speakers where any is known, else emotions",
    ),
    "plot_kind": Option(
        ("--to",),
        OUTPUT,
        "Kind of picture.",
        "svg|png",
        values=one_of("svg", "png"),
        default="as --output ends, or svg",
    ),
    "plot_to": Option(
        ("--output", "-o"),
        OUTPUT,
        "Picture to write (.svg, .png), or a folder for a picture per recording.",
        "FILE|FOLDER",
        default="a folder named after the transcripts",
    ),
    "html": Option(("--html",), OUTPUT, "Write a page with every clip into this file (.html).", "FILE"),
    "plot": Option(("--plot",), OUTPUT, "Draw the frontier or the reliability diagram into this file (.svg).", "FILE"),
    "save_gate": Option(("--save-gate",), OUTPUT, "Write the recommended gate to this file (.json).", "FILE"),
    "most": Option(("--limit",), INPUT, "Take the N most doubtful pieces at most.", "N", least=1),
    "audio_mb": Option(("--audio-mb",), OUTPUT, "Most audio in the page, MB; 64 MB are about two hours.", "N", least=0),
    "page": Option(("--output", "-o"), OUTPUT, "Write the page to this file (.html).", "FILE"),
    "save_calibration": Option(("--output", "-o"), OUTPUT, "Write the calibration to this file (.json).", "FILE"),
    "captions": Option(("--captions",), OUTPUT, "Show N clips whose captions differ, side by side.", "N", least=0),
    "json": Option(("--json",), OUTPUT, "Print JSON on stdout in place of text."),
    "yaml": Option(("--yaml",), OUTPUT, "Print a configuration file that loads back."),
    "quiet": Option(("--quiet", "-q"), OUTPUT, "Show no progress; print results and errors only."),
    "no_live": Option(("--no-live",), OUTPUT, "Print rounds as plain lines; nothing is redrawn."),
    "device": Option(
        ("--device",), INPUT, "Microphone: its number, or a part of its name.", "DEVICE", default="the system's"
    ),
    "list_devices": Option(("--list-devices",), INPUT, "List the microphones and exit."),
    "save": Option(("--save",), OUTPUT, "Keep each utterance as a FLAC file in this folder.", "FOLDER"),
    "quick": Option(("--quick",), WORK, "Do not load the models."),
    "host": Option(("--host",), NETWORK, "Address to listen at.", "ADDRESS"),
    "port": Option(("--port",), NETWORK, "Port to listen at; 0: any that is free.", "N", least=0, most=65535),
    "token_env": Option(
        ("--token-env",),
        NETWORK,
        "Variable with the clients' token, 16 characters or more; required unless the host is loopback.",
        "NAME",
    ),
    "tls_cert": Option(("--tls-cert",), NETWORK, "Certificate, for HTTPS.", "PEM"),
    "tls_key": Option(("--tls-key",), NETWORK, "Private key of the certificate.", "PEM"),
    "max_sessions": Option(("--max-sessions",), LIMITS, "Clips held at a time.", "N", least=1),
    "memory_mb": Option(("--memory-mb",), LIMITS, "Memory of their caches, MiB.", "N", least=1),
    "max_clip_seconds": Option(
        ("--max-clip-seconds",), LIMITS, "Longest clip, s.", "S", least=0.1, default="what the model takes"
    ),
    "idle_s": Option(("--idle-s",), LIMITS, "Time until an unused clip is forgotten, s.", "S", least=0.1),
    "max_rate": Option(("--max-rate",), LIMITS, "Requests of one address per second.", "N", least=1),
    "clips": Option(("--clips",), STUDY, "A recording, or a folder of them.", "PATH", default="the shipped samples"),
    "rounds": Option(("--rounds",), STUDY, "Times through all clips.", "N", least=1),
}
"""Parameter of a command -> its option."""

FLAG_NAMES: Final[Mapping[str, str]] = {
    option.setting: option.flags[0].partition("/")[0] for option in OPTIONS.values() if option.setting is not None
}
"""Setting -> the flag that gives it."""

OFF_NAMES: Final[Mapping[str, str]] = {
    option.setting: off for option in OPTIONS.values() if option.setting and (off := option.flags[0].partition("/")[2])
}
"""Setting -> the flag that switches it off."""

FLAGS.update(FLAG_NAMES)  # hints of errors name settings, and here their flags too

SETTING_OPTIONS: Final = tuple(name for name, option in OPTIONS.items() if option.setting is not None)
"""Parameters of the options that give settings, in the order of a help."""
