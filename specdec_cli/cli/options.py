"""The options of the commands, in groups of typed fields; a command is a dataclass that has the groups it takes.

Typer reads the fields as it reads the parameters of a function, and makes an object of what the command line says.
"""

# no postponed annotations: typer evaluates those of a group in the module of the command

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, get_args

from typer import Argument, Option

from specdec_cli.config import ResolvedConfig, load_config, parse_setting
from specdec_cli.config.layers import misspelt_variables, parse_value
from specdec_cli.config.settings import FLAGS, choices, takes_text
from specdec_cli.console.plain import warn
from specdec_cli.errors import ConfigError
from specdec_cli.text import nearest, show
from specdec_cli.types import ExportFormat

PANELS: Final = (
    *("Models and settings", "Captions", "Input", "What is run", "How captions are judged"),
    *("Output", "Work", "Network"),
)
"""The parts of a command's help, in their order."""
of_models, of_captions, of_input, of_study, of_judging, of_output, of_work, of_network = (
    partial(Option, rich_help_panel=panel) for panel in PANELS
)

_ALONE: Final[Mapping[str, tuple[str, ...]]] = {
    "serve": ("serve",),
    "judging": ("compare", "tune", "review"),
    "judging.seed": ("compare", "tune"),
    "judging.temperatures": ("caption", "batch", "listen", "serve", "compare"),
    "runtime.fail_fast": ("batch",),
}
"""Section or setting -> the commands in which alone it has an effect."""
_CONFIG_SHOW: Final = "config show"  # which explains the settings of every command

Path_ = Path | None
Text = str | None
Texts = list[str] | None


def _completed(setting: str) -> Callable[[str], list[str]]:
    """Completes the words that a setting takes in the shell."""
    words = choices(setting)
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def _words(metavar: str, setting: str) -> dict[str, Any]:
    """How an option is shown and completed that takes the words of a setting."""
    return {"metavar": metavar, "autocompletion": _completed(setting)}


def _log_everything(debug: bool) -> bool:
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("specdec_cli").setLevel(logging.DEBUG)
    return debug


_DEBUG: Final = "Show tracebacks and log messages."


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command with what its command line says; the docstring of a command is the second part of its help."""

    name: ClassVar[str]

    debug: Annotated[bool, Option("--debug", help=_DEBUG, callback=_log_everything)] = False

    def run(self) -> int:
        """Does what the command is for, and returns its exit code; errors are SpecdecErrors."""
        raise NotImplementedError

    def given(self) -> Iterator[tuple[str, str, object]]:
        """Setting, option and value of each option that gives a setting; None: it is not given."""
        yield from ()

    @property
    def configuration(self) -> str | None:
        """What --config names."""
        return None


_SET: Final = "Any other setting; `specdec config show --all` lists them. Repeatable."


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(Command):
    """Every setting."""

    settings: Annotated[Texts, of_models("--set", metavar="NAME=VALUE", help=_SET)] = None

    def resolved(self, fixed: Mapping[str, object] | None = None) -> ResolvedConfig:
        """The configuration in force, from options, environment and a file.

        `fixed` are settings that the command itself decides. Raises ConfigError if anything in any layer is wrong.
        """
        flags: dict[str, object] = {}
        names: dict[str, str] = dict(FLAGS)
        for setting, option, value in self.given():
            if value is not None:
                self._require_first(setting, option, flags, names)
                typed = isinstance(value, str) and not takes_text(setting)
                flags[setting], names[setting] = parse_value(setting, str(value)) if typed else value, option
        for sentence in misspelt_variables(os.environ):
            warn(sentence)
        for assignment in self.settings or ():
            setting, value = parse_setting(assignment)
            self._require_effect(setting)
            self._require_first(setting, "--set", flags, names)
            flags[setting], names[setting] = value, "--set"
        return load_config(self.configuration, flags={**(fixed or {}), **flags}, flag_names=names)

    @staticmethod
    def _require_first(setting: str, option: str, flags: Mapping[str, object], names: Mapping[str, str]) -> None:
        """Raises ConfigError if another option gives the setting, too."""
        if setting in flags:
            both = f"{names[setting]} and {option}" if names[setting] != option else f"{option} twice"
            raise ConfigError(f"{setting} is given by {both}.", hint="Give it once.")

    def _require_effect(self, setting: str) -> None:
        commands = _ALONE.get(setting) or _ALONE.get(setting.partition(".")[0])
        if commands and self.name not in (*commands, _CONFIG_SHOW):
            hint = f"It is a setting of {', '.join(f'specdec {each}' for each in commands)}."
            raise ConfigError(f"{setting} has no effect in specdec {self.name}.", hint=hint)


_EDGE: Final = "Small model, which drafts: a folder or a Hugging Face id."
_CLOUD: Final = "Large model, which verifies: the same, or a server's address."
_CONFIG: Final = "A YAML file, or the name of a shipped configuration."


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Command):
    """Which models."""

    edge: Annotated[Text, of_models("--edge", metavar="NAME", help=_EDGE)] = None
    cloud: Annotated[Text, of_models("--cloud", metavar="NAME|URL", help=_CLOUD)] = None
    source: Annotated[Text, of_models("--config", "-c", metavar="NAME|FILE", help=_CONFIG)] = None

    @property
    def configuration(self) -> str | None:
        """What --config names."""
        return self.source

    def given(self) -> Iterator[tuple[str, str, object]]:
        """See the base class."""
        yield from super().given()
        yield "edge.model", "--edge", self.edge
        yield "cloud.model", "--cloud", self.cloud


_MODE: Final = "hybrid, lossless (the large model verifies all), or edge or cloud alone."
_K: Final = "Tokens drafted per block; auto: as many as pay; whole: the caption."
_GATE: Final = f"The doubt that calls the large model: {', '.join(choices('gate.name'))}."
_THRESHOLD: Final = "How much doubt calls the large model, in the gate's unit."


@dataclass(frozen=True, kw_only=True)
class GateOptions(Command):
    """What is drafted at a time, and when the cloud is called."""

    k: Annotated[Text, of_models("-k", metavar="N|auto|whole", help=_K)] = None
    gate: Annotated[Text, of_models("--gate", help=_GATE, **_words("GATE", "gate.name"))] = None
    threshold: Annotated[Text, of_models("--threshold", metavar="X", help=_THRESHOLD)] = None

    def given(self) -> Iterator[tuple[str, str, object]]:
        """See the base class."""
        yield from super().given()
        yield "decoding.k", "-k", self.k
        yield "gate.name", "--gate", self.gate
        yield "gate.threshold", "--threshold", self.threshold


@dataclass(frozen=True, kw_only=True)
class ModeOptions(Command):
    """Which of the two models writes."""

    mode: Annotated[Text, of_models("--mode", help=_MODE, **_words("MODE", "decoding.mode"))] = None

    def given(self) -> Iterator[tuple[str, str, object]]:
        """See the base class."""
        yield from super().given()
        yield "decoding.mode", "--mode", self.mode


_LANGUAGE: Final = "Language of the captions. Default: that of the locale."
_STYLE: Final = "A shipped instruction: default, detailed (two or three sentences), concise."
_PROMPT: Final = "An instruction of your own."


@dataclass(frozen=True, kw_only=True)
class PromptOptions(Command):
    """The instruction to the models."""

    language: Annotated[Text, of_captions("--language", "-l", help=_LANGUAGE, **_words("zh|en", "prompt.language"))] = (
        None
    )
    style: Annotated[Text, of_captions("--style", help=_STYLE, **_words("STYLE", "prompt.instruction"))] = None
    prompt: Annotated[Text, of_captions("--prompt", metavar="TEXT", help=_PROMPT)] = None

    def given(self) -> Iterator[tuple[str, str, object]]:
        """See the base class. ConfigError: the style does not exist."""
        yield from super().given()
        yield "prompt.language", "--language", self.language
        known = choices("prompt.instruction")
        if self.style is not None and self.style not in known:
            close = nearest(self.style, known)
            hint = f"Did you mean {close}?" if close else "An instruction of your own goes with --prompt."
            raise ConfigError(f"--style takes {', '.join(known)}, not {show(self.style)}.", hint=hint)
        yield "prompt.instruction", "--style", self.style
        yield "prompt.instruction", "--prompt", self.prompt


_STRICT: Final = "Refuse rows of tables and cuts that would be left out."


@dataclass(frozen=True, kw_only=True)
class StrictOptions(Command):
    """What becomes of bad rows of tables and cuts."""

    strict: Annotated[bool | None, of_input("--strict", help=_STRICT)] = None

    def given(self) -> Iterator[tuple[str, str, object]]:
        """See the base class."""
        yield from super().given()
        yield "audio.strict", "--strict", self.strict


_SEGMENT: Final = "Cut at pauses, every so many seconds, or as a file of cuts says."
_CHANNEL: Final = "The mean of all channels, each as a speaker, or one by its number."


@dataclass(frozen=True, kw_only=True)
class CuttingOptions(StrictOptions):
    """Which part of a recording is read, and how it is cut."""

    segment: Annotated[Text, of_captions("--segment", metavar="pauses|SECONDS|FILE", help=_SEGMENT)] = None
    start: Annotated[Text, of_captions("--start", metavar="TIME", help="Begin here: seconds or HH:MM:SS.")] = None
    end: Annotated[Text, of_captions("--end", metavar="TIME", help="End here: seconds or HH:MM:SS.")] = None
    channel: Annotated[Text, of_captions("--channel", metavar="mix|each|N", help=_CHANNEL)] = None

    def given(self) -> Iterator[tuple[str, str, object]]:
        """See the base class."""
        yield from super().given()
        yield "audio.segment", "--segment", self.segment
        yield "audio.start_s", "--start", self.start
        yield "audio.end_s", "--end", self.end
        yield "audio.channel", "--channel", self.channel


_LEXICON: Final = "Words that name classes, in place of the shipped ones (YAML)."


@dataclass(frozen=True, kw_only=True)
class LexiconOptions(Command):
    """Which words name which classes."""

    lexicon: Annotated[Path_, of_captions("--lexicon", metavar="FILE", help=_LEXICON)] = None


_QUIET: Final = "Print results and errors only."


@dataclass(frozen=True, kw_only=True)
class DisplayOptions(Command):
    """What a command shows while it works."""

    quiet: Annotated[bool, of_output("--quiet", "-q", help=_QUIET)] = False


_NO_LIVE: Final = "Print rounds as plain lines; nothing is redrawn."
Json = Annotated[bool, of_output("--json", help="Print JSON on stdout instead of text.")]


@dataclass(frozen=True, kw_only=True)
class WatchingOptions(DisplayOptions):
    """How clips are shown that are captioned one after the other."""

    json: Json = False
    no_live: Annotated[bool, of_output("--no-live", help=_NO_LIVE)] = False


@dataclass(frozen=True, kw_only=True)
class RunOptions(PromptOptions, SettingsOptions, GateOptions, ModeOptions, ModelOptions):
    """Which models caption, and how. The help lists the options of the last base first."""


@dataclass(frozen=True, kw_only=True)
class CaptioningOptions(DisplayOptions, LexiconOptions, RunOptions):
    """The options of `caption`, `batch` and `listen`.

    `labels` asks for classes and figures, which every transcript has: scripts name it.
    """

    labels: Annotated[bool, of_captions("--labels", hidden=True)] = False


FORMATS: Final = ", ".join(get_args(ExportFormat))
_PATHS: Final = "Audio or video files, folders, patterns; - for stdin: a recording, or a list of files."
_LISTED: Final = "Audio or video files, folders, patterns; - for a list of files on stdin."
_MANIFEST: Final = "Table of recordings with a column file (.tsv, .csv, .json, .jsonl)."
_RETRY: Final = "Take the recordings of --output that failed or are degraded; needs no PATH."
_CAPTIONS: Final = "Transcripts (.jsonl), which the same command resumes, or an export (.csv, .srt ...)."
_EXPORT: Final = f"Write exports, too: {FORMATS}."
out = partial(of_output, "--output", "-o")
CaptionsOut = Annotated[Path_, out(metavar="FILE", help=_CAPTIONS)]
RequiredCaptionsOut = Annotated[Path, out(metavar="FILE", help=_CAPTIONS)]
Paths = Annotated[Texts, Argument(help=_PATHS, metavar="PATH")]
ListedPaths = Annotated[list[str], Argument(help=_LISTED, metavar="PATH")]
Limit = Annotated[int | None, of_input("--limit", metavar="N", help="Take only the first N.", min=1)]
Recursive = Annotated[bool, of_input("--recursive", "-r", help="Search folders at every depth.")]
Overwrite = Annotated[bool, of_output("--overwrite", help="Replace what --output names; captions start anew.")]


@dataclass(frozen=True, kw_only=True)
class RecordingOptions(CuttingOptions):
    """What `caption` and `batch` caption, and the exports of it."""

    paths: Paths = None
    recursive: Recursive = False
    manifest: Annotated[Path_, of_input("--manifest", metavar="FILE", help=_MANIFEST)] = None
    limit: Limit = None
    retry_failed: Annotated[bool, of_input("--retry-failed", help=_RETRY)] = False
    overwrite: Overwrite = False
    exports: Annotated[Text, of_output("--export", metavar="FORMAT,FORMAT", help=_EXPORT)] = None
    export_dir: Annotated[Path_, of_output("--export-dir", metavar="FOLDER", help="Folder of --export.")] = None


_JSONL: Final = "Transcripts that caption, batch, listen or compare wrote with --output."
TranscriptFile = Annotated[Path, Argument(help=_JSONL, metavar="JSONL")]
TranscriptFiles = Annotated[list[Path], Argument(help=_JSONL, metavar="JSONL")]
OnlyMode = Annotated[Text, of_input("--only-mode", metavar="MODE", help="Take only captions of this mode.")]
_TABLE: Final = "Table of what is right: texts, or classes in columns such as emotion."
_COLUMN: Final = "Its column of file, text or a class: emotion=mood. Repeatable."


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions(StrictOptions, SettingsOptions):
    """What people say of the recordings, and how captions are judged by it."""

    references: Annotated[Path_, of_judging("--references", metavar="TABLE", help=_TABLE)] = None
    columns: Annotated[Texts, of_judging("--column", metavar="WHAT=COLUMN", help=_COLUMN)] = None
    lexicon: Annotated[Path_, of_judging("--lexicon", metavar="FILE", help=_LEXICON)] = None


@dataclass(frozen=True, kw_only=True)
class StudyOptions(DisplayOptions, ReferenceOptions, PromptOptions, ModelOptions):
    """The options of `compare` and `tune`."""

    paths: ListedPaths
    recursive: Recursive = False
    limit: Limit = None
    overwrite: Overwrite = False
    json: Json = False
