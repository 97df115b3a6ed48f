"""`specdec tune`: which gate, threshold and block size to take, by measurement on one's own recordings."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from specdec_cli.cli import options
from specdec_cli.cli.startup import load_captioner, read_references, require_cloud
from specdec_cli.config.problems import chosen
from specdec_cli.errors import ConfigError, SpecdecError
from specdec_cli.types import COSTS, Cost, GateName


def tune(
    context: typer.Context,
    paths: options.Paths,
    edge: options.EdgeModel = None,
    cloud: options.CloudModel = None,
    source: options.ConfigFile = None,
    settings: options.Settings = None,
    gates: options.Gates = None,
    ks: options.BlockSizes = "2,3,5",
    budget: options.Budget = None,
    risk: options.Risk = None,
    recursive: options.Recursive = False,
    limit: options.Limit = None,
    language: options.Language = None,
    style: options.Style = None,
    prompt: options.Prompt = None,
    force_prompt: options.ForcePrompt = None,
    references: options.ReferenceTable = None,
    file_column: options.FileColumn = None,
    text_column: options.TextColumns = None,
    label_column: options.LabelColumns = None,
    lexicon: options.LexiconFile = None,
    eval_seed: options.EvalSeed = 0,
    recordings: options.Recordings = None,
    output: options.GateOut = None,
    plot: options.PlotOut = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    accept: options.Accept = None,
    max_new_tokens: options.MaxNewTokens = None,
    debug: options.Debug = False,
) -> int:
    """Find a gate for your own recordings that closes most of the quality gap with the fewest escalations.

    Records every clip once with both models, replays all settings on one half of the clips, and runs the best of
    them on the other half. Needs no references: without them quality is agreement with the cloud's caption. Use the
    gate with --gate FILE.
    """
    from specdec_cli.cli.command_run import FAILED, CommandRun, emit
    from specdec_cli.inputs.find import find_recordings
    from specdec_cli.targets import GATE, PICTURE, RECORDINGS, refuse, write
    from specdec_cli.tune.tuning_plan import require_tunable

    competing, sizes = parse_gates(gates), parse_ks(ks)
    cost, share = parse_budget(budget or ("clips=0.5" if risk is None else "clips=1"))
    resolved = options.resolve(context, {"decoding.mode": "hybrid"})
    words, table = read_references(references, file_column, text_column, label_column, lexicon)
    files = find_recordings(paths, recursive=recursive, limit=limit)
    if table is not None:
        table.require_some(files)
    targets = {"--recordings": (recordings, RECORDINGS), "--output": (output, GATE), "--plot": (plot, PICTURE)}
    refuse(targets, [*files, references, lexicon, *resolved.reads])
    again = f"interrupted; run it again to go on from {recordings}" if recordings else "interrupted"
    with CommandRun(quiet=quiet, debug=debug, interruption=again) as work:
        for note in resolved.notes:
            work.view.say(note)
        clips: dict[str, str] = {}
        for recording in work.identified(files):
            if recording.error is not None:
                work.failed(recording.path, recording.error)
            elif recording.sha256 is not None:
                clips[recording.sha256] = recording.path
        if not clips:
            return FAILED
        require_tunable(resolved.config, competing, len(clips), risk)
        with work.libraries():
            from specdec_cli.tune.recording import setup_of
            from specdec_cli.tune.stored_recordings import StoredRecordings
            from specdec_cli.tune.tuning import tune as tuned
            from specdec_cli.tune.tuning_plan import TuningPlan
        captioner = load_captioner(resolved.config, work.view)
        require_cloud(captioner.setup, degrades=False)
        plan = TuningPlan(competing, sizes, share, eval_seed, cost, risk)
        find = table.find if table is not None else lambda _: None
        with StoredRecordings(setup_of(captioner), recordings) as journal:
            found, file = tuned(captioner, plan, clips, find, words, journal, work)
    if work.interrupted:
        return work.code()
    if output is not None and file is not None:
        write(output, file.to_json(), GATE)
        found = found.model_copy(update={"output": str(output)})
    if plot is not None:
        from specdec_cli.plot.frontier_plot import frontier

        advice = f"recommended: {found.recommended.label}" if found.recommended else "nothing is recommended"
        title = f"{found.confirmed_on} clips, {resolved.config.prompt.language}; {advice}"
        oracles = {curve.cost: curve.points for curve in found.oracles}
        kind = plot.suffix.lower().lstrip(".")
        drawn = frontier([*found.estimated, *found.confirmed], title=title, oracles=oracles, kind=kind)
        write(plot, drawn, PICTURE)
    from specdec_cli.console.fitted_view import print_tuning
    from specdec_cli.console.plain import print_error

    emit(found, print_tuning, json=json)
    if output is not None and file is None:
        print_error(SpecdecError(f"{output} was not written: no setting can be recommended."), debug=debug)
        return FAILED
    return work.code()


def parse_gates(text: str | None) -> tuple[GateName, ...]:
    """Gates out of `entropy,learned`, and the random one as the control; None: all that can be fitted here.

    Raises:
        ConfigError: one is unknown, or there is nothing in it to tune.
    """
    if text is None:
        fitting = find_spec("sklearn") is not None
        return (*(gate for gate in options.TUNED_GATES if fitting or gate != "learned"), "random")
    asked = chosen(text, (*options.TUNED_GATES, "random"), "--gates", "gate to tune")
    return (*(gate for gate in options.TUNED_GATES if gate in asked), "random")


def parse_budget(text: str) -> tuple[Cost, float]:
    """What a budget is of, and the share: `0.5` and `clips=0.5`, `blocks=0.2`, `time=0.4`.

    Raises:
        ConfigError: there is no such cost, or the share is no number from 0 to 1.
    """
    name, _, value = text.rpartition("=")
    cost = next((known for known in COSTS if known == (name.strip() or "clips")), None)
    if cost is None:
        raise ConfigError(f"--budget: there is no cost {name.strip()!r}.", hint=f"Costs: {', '.join(COSTS)}.")
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigError(
            f"--budget: {value.strip()!r} is no share from 0 to 1.", hint="For example: --budget clips=0.5"
        )
    return cost, share


def parse_ks(text: str) -> tuple[int, ...]:
    """Block sizes out of `2,3,5`.

    Raises:
        ConfigError: one is no whole number from 1 to 64.
    """
    sizes = []
    for word in text.split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= 64:
            raise ConfigError(
                f"--ks: {word.strip()!r} is no whole number from 1 to 64.", hint="For example: --ks 2,3,5"
            )
        sizes.append(int(word))
    return tuple(sorted(set(sizes)))
