"""`specdec tune`: which gate, threshold and block size to take, by measurement on one's own recordings."""

# no postponed annotations: see `specdec_cli.cli.options`

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from specdec_cli.cli import options
from specdec_cli.cli.outputs import by_ending
from specdec_cli.cli.set_up import display, load_captioner
from specdec_cli.cli.study import emit, identified, read_references, unopened
from specdec_cli.console.pages import tuning_page
from specdec_cli.console.plain import print_error
from specdec_cli.console.view import View
from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.inputs.find import find_recordings
from specdec_cli.inputs.recording import InputFile
from specdec_cli.targets import CONFIG, PICTURE, RECORDINGS, Targets
from specdec_cli.text import chosen
from specdec_cli.tune.tuning_plan import TuningPlan, require_tunable
from specdec_cli.types import COSTS, Cost, GateName

if TYPE_CHECKING:
    from specdec_cli.tune.outcomes import Tuning

_TUNED: Final[tuple[GateName, ...]] = ("entropy", "class-entropy", "margin", "logprob")
_GATES: Final = f"Gates that compete. Default: {', '.join(_TUNED)}."
_BUDGET: Final = (
    "Largest share, 0 to 1, of clips that call the cloud (clips=0.5), of cloud-only's time "
    "(time=0.4), or of escalated blocks (blocks=0.2)."
)
_TRACES: Final = "File of the measured forward passes, which a later run reuses."
_OUTPUT: Final = "The recommended configuration (.yaml), or quality against cost (.svg, .png, .pdf). Repeatable."


@dataclass(frozen=True, kw_only=True)
class TuneCommand(options.StudyOptions):
    """Runs every clip once with both models, replays all gates and thresholds on one half of the clips, and runs the
    best of them on the other half. Without references, quality is agreement with the cloud's caption. Use the result:
    specdec caption --config FILE.
    """

    name: ClassVar[str] = "tune"

    gates: Annotated[str | None, options.of_study("--gate", metavar="GATE,GATE", help=_GATES)] = None
    ks: Annotated[str, options.of_study("-k", metavar="N,N", help="Block sizes to try, tokens.")] = "2,3,5"
    budget: Annotated[str, options.of_study("--budget", metavar="COST=SHARE", help=_BUDGET)] = "clips=0.5"
    traces: Annotated[Path | None, options.of_output("--traces", metavar="JSONL", help=_TRACES)] = None
    output: Annotated[list[Path] | None, options.out(metavar="FILE", help=_OUTPUT)] = None

    def run(self) -> int:
        """See `Command.run`."""
        cost, share = parse_budget(self.budget)
        resolved = self.resolved({"decoding.mode": "hybrid"})
        plan = TuningPlan(parse_gates(self.gates), parse_ks(self.ks), share, resolved.config.judging.seed, cost)
        files = find_recordings(self.paths, recursive=self.recursive, limit=self.limit)
        words, table = read_references(self, resolved.config, files)
        targets = Targets([*files, self.references, self.lexicon, *resolved.reads], overwrite=self.overwrite)
        targets.refuse("--traces", self.traces, RECORDINGS)
        config, plot = by_ending(self.output, (CONFIG, PICTURE), targets)
        again = f"interrupted; run it again to resume from {self.traces}" if self.traces else "interrupted"
        with display(self, resolved=resolved, references=table, interruption=again) as view:
            recordings = identified(view, files)
            clips = _clips(view, recordings)
            if not clips:
                return unopened(recordings)
            require_tunable(resolved.config, len(clips))
            captioner = load_captioner(resolved.config, view, words, degrades=False)
            from specdec_cli.tune.recording import StoredRecordings, setup_of
            from specdec_cli.tune.tuning import config_file
            from specdec_cli.tune.tuning import tune as tuned

            find = None if table is None else table.find
            with captioner, StoredRecordings(setup_of(captioner), self.traces, overwrite=self.overwrite) as journal:
                found = tuned(captioner, plan, clips, find, words, journal, view)
        if table is not None:
            found = found.model_copy(update={"reference_columns": dict(table.columns)})
        if config is not None and found.recommended is not None:
            targets.write(config, config_file(resolved.config, found, captioner.shared.models.weights))
            found = found.model_copy(update={"output": str(config)})
        if plot is not None:
            targets.write(plot, _picture(found, resolved.config.prompt.language, plot))
        emit(found, tuning_page, json=self.json)
        if config is not None and found.recommended is None:
            problem = SpecdecError(f"{config} was not written: no setting can be recommended.", hint=found.reason)
            print_error(problem, debug=self.debug)
            return 1
        return 1 if view.failures else 0


def _clips(view: View, recordings: Sequence[InputFile]) -> dict[str, str]:
    """Hash -> path of each recording that can be read; the others are shown as failed."""
    clips: dict[str, str] = {}
    for recording in recordings:
        if recording.error is not None:
            view.failed(recording.path, recording.error)
        elif recording.sha256 is not None:
            clips[recording.sha256] = recording.path
    return clips


def _picture(found: "Tuning", language: str, path: Path) -> bytes:
    """The frontier, in the format that a file's name ends in."""
    from specdec_cli.tune.frontier_plot import frontier

    advice = f"Recommended: {found.recommended.label}" if found.recommended else "Nothing is recommended"
    if found.recommended is None and found.clips_needed is not None:
        advice += f"; some {found.clips_needed:,} recordings would decide it"
    title = f"{advice} ({found.confirmed_on} clips, {language})"
    return frontier(found.confirmed, found.gap, what=found.of, title=title, kind=path.suffix.lower().lstrip("."))


def parse_gates(text: str | None) -> tuple[GateName, ...]:
    """The gates in `entropy,margin`, and `random` as their control; None: all.

    ConfigError: one is unknown, or there is nothing in it to tune.
    """
    if text is None:
        return (*_TUNED, "random")
    asked = chosen(text, (*_TUNED, "random"), "--gate", "gate to tune")
    if asked == ["random"]:
        hint = f"Name another one beside it: {', '.join(_TUNED)}."
        raise ConfigError("--gate: random is the control, and there is nothing in it to tune.", hint=hint)
    return (*(gate for gate in _TUNED if gate in asked), "random")


def parse_budget(text: str) -> tuple[Cost, float]:
    """Cost and share of a budget: `0.5` and `clips=0.5`, `blocks=0.2`, `time=0.4`; ConfigError if it is none."""
    name, _, value = text.rpartition("=")
    cost = next((known for known in COSTS if known == (name.strip() or "clips")), None)
    with suppress(ValueError):
        if cost is not None and 0 <= float(value) <= 1:
            return cost, float(value)
    hint = f"For example: --budget clips=0.5. Costs: {', '.join(COSTS)}."
    raise ConfigError(f"--budget: {text!r} does not name a cost and a share from 0 to 1.", hint=hint)


def parse_ks(text: str) -> tuple[int, ...]:
    """The block sizes in `2,3,5`; ConfigError if one is not a whole number from 1 to 64."""
    words = [word.strip() for word in text.split(",")]
    if wrong := [word for word in words if not word.isdecimal() or not 1 <= int(word) <= 64]:
        raise ConfigError(f"-k: {wrong[0]!r} is not a whole number from 1 to 64.", hint="For example: -k 2,3,5")
    return tuple(sorted({int(word) for word in words}))
