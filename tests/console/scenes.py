"""What a terminal, a pipe and a log show of known events: `golden/NAME.WIDTH.txt`.

    python -m tests.console.scenes

writes the files anew. No scene has a time or a figure of this machine. Look at what `git diff` says of the files: each
line is something that a user reads.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from specdec_cli.captioning.tasks import Progress
from specdec_cli.console.pages import comparison_page
from specdec_cli.console.plain import print_error
from specdec_cli.console.progress import show_counts, show_failures, show_totals, show_warnings
from specdec_cli.console.tables import ONE_LINE, config_page, doctor_page, print_page
from specdec_cli.console.view import Form, View
from specdec_cli.errors import AudioContentError, AudioDecodeError, CheckpointError
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.labels import Lexicon
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.records import Started
from specdec_cli.transcript.round import Round
from specdec_cli.transcript.updates import EventText
from specdec_cli.types import Claim, Finished, Measured
from tests.console.screens import ESCAPE, Screen, play
from tests.console.script import EN, EN_STEPS, MODES, WARNINGS, Clip, build, started
from tests.evaluate.fabricate import failed, made

GOLDEN: Final = Path(__file__).with_name("golden")
BRIEF: Final = build(started("samples/brief.wav", "en"), EN_STEPS[:1])
LABELS = {"voice": "female", "rate": "fast", "pitch": "high", "range": None, "volume": "loud", "emotion": "angry"}
FIGURES = Measured(110.4, 6.23, -24.06, None, 3.1, 0.08)
CLAIMS = (
    Claim("rate", "fast", "rate_per_s", 3.1, 3.9, None),
    Claim("pitch", "low", "f0_median_hz", 110.4, None, 122.0),
    Claim("range", None, "f0_range_st", 6.23, None, None),
    Claim("volume", "loud", "level_dbfs", -24.06, -22.0, None),
    Claim("pauses", "few", "pause_share", 0.08, None, 0.15),
)
ROWS: list[tuple[str, object, str]] = [
    ("k", 5, "default"),
    ("threshold", 1.2, "command line"),
    ("edge.path", "/模型/a-rather-long-path/to/the/edge/model/with/more/parts/than/fit", "config file specdec.yaml"),
    ("overlap", False, "default"),
    ("prompt", "[red]markup[/]\x1b[31m", "environment SPECDEC_PROMPT"),
    ("seed", None, "default"),
]
CHECKS = [
    ("python", "ok", "3.11.2"),
    ("麦克风", "warn", "no recording device was found, which matters only for live captions"),
    ("edge model", "fail", "[bold]no such folder[/]: /模型/edge"),
]


def starting(clip: Clip, head: Started | None = None, **change: object) -> Clip:
    return replace(clip, started=(head or clip.started).model_copy(update=change))


def ending(clip: Clip, *, degraded: str | None = None, **text: object) -> Clip:
    *events, (finished, last) = clip.events
    assert isinstance(finished, Finished)
    end = replace(finished, degraded=degraded), replace(last, **text)
    return Clip(clip.started, (*events, end))


def set_against_its_sound(clip: Clip) -> Clip:
    """The clip whose texts are read by a lexicon with limits, round by round."""

    def claims_in(text: str) -> tuple[Claim, ...]:
        rate = "slow" if "slow" in text else "fast" if "fast" in text else None
        return (
            Claim("rate", rate, "rate_per_s", 7.1, *((None, 5.6) if rate == "slow" else (3.3, None))),
            Claim("volume", "loud" if "loud volume" in text else None, "level_dbfs", -40.0, -22.0, None),
        )

    events = list[tuple[object, EventText]]()
    for event, text in clip.events:
        if isinstance(event, Round):
            texts = {"draft_text": "".join(event.draft_pieces), "committed_text": "".join(event.committed_pieces)}
            event = event.model_copy(update=texts)
        events.append((event, replace(text, claims_in=claims_in)))
    return Clip(clip.started, tuple(events))


class Counts(Progress):
    """Counts of a run that has taken 50 s."""

    elapsed_s = 50.0
    left_s = 2634.0


def busy() -> Counts:
    """In the midst of a batch."""
    known = {"total": 5000, "captioned": 90, "failed": 3, "skipped": 7, "done": 100, "audio_s": 144.0}
    return Counts(**known, tokens=2500, rounds=500, escalations=60)


class Clock:
    """Time that passes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


# --- scenes ---


def clips(screen: Screen, form: Form, *shown: Clip) -> None:
    view = View(screen, form)
    for clip in shown:
        play(view, clip)


MEASURED = ending(starting(EN, file=f"{'a/' * 99}b.wav", start_s=61.5, end_s=65.0, measured=FIGURES))
SOUND = ending(set_against_its_sound(MEASURED), labels=LABELS, claims=CLAIMS)
FLAGGED = [
    starting(BRIEF, flags=("no_speech",), warnings=WARNINGS),
    starting(BRIEF, started("samples/other.wav", "en"), warnings=WARNINGS),
    *(ending(BRIEF, flags=("refusal", "no_speech"), degraded=why) for why in (None, "the cloud does not answer")),
    ending(BRIEF, flags=("contradicts",), claims=()),
    ending(BRIEF, flags=("contradicts", "language"), claims=CLAIMS[2:3]),  # names nothing that can be measured
]


def batch(screen: Screen, form: Form) -> None:
    """A batch from its first line to its totals."""
    clock = Clock()
    view = View(screen, form, clock=clock)
    with view.loading("edge: acme/omni") as tell:
        tell("downloading weights of acme/omni")
        clock.now += 61
    counts = busy()
    for _ in range(300):
        clock.now += 0.1
        show_counts(view, counts)
    view.failed("a.wav", AudioDecodeError("a.wav is no recording."))
    counts.failures = [("b.wav", "b.wav is broken."), ("\x1b[2J.wav", "odd")]
    show_failures(view, counts, Path("out.jsonl"))
    for index in range(5):
        counts.warn(f"{index}.wav", f"{index}.wav ends {index}.5 s early")
    show_warnings(view, counts)
    counts.degraded, counts.flags = 2, Counter(no_speech=5, language=1)
    counts.silent = {"a.wav": ["0.20 to 0.50 s", "9.10 to 9.40 s"], "b.wav": []}
    show_totals(view, counts, Path("out.jsonl"))
    show_totals(view, Progress(), Path("out.jsonl"))  # without a caption: no tick, no file
    view.begin(100)
    for _ in range(20):
        clock.now += 1
        view.step("edge a.wav")
        view.advance()


def pages(screen: Screen) -> None:
    """Settings and checks."""
    print_page(partial(config_page, ROWS), screen, piped_width=ONE_LINE)
    print_page(partial(doctor_page, CHECKS), screen)
    print_page(partial(doctor_page, CHECKS[:1]), screen)


def errors(screen: Screen) -> None:
    weights = CheckpointError("the weights hold 3 tensors\nand 4 were expected", hint="Download the model again.")
    print_error(weights, file="a.wav", console=screen)
    print_error(AudioContentError("too long", hint="Lower audio.segment or decoding.top_k."), console=screen)


WORDS = {
    "en": ("A man speaks slowly in a low voice. He sounds sad.", "A man speaks quickly in a low voice. He sounds sad."),
    "zh": ("说话人是男声，语速较慢，音调偏低。听起来情绪悲伤。", "说话人是男声，语速较快，音调偏低。听起来情绪悲伤。"),
}


def compared(screen: Screen, language: str, *more: Transcript) -> None:
    """A comparison of twelve clips, in a third of which edge and hybrid name another rate."""
    runs = [*more]
    for index in range(12):
        for mode, ms in (("edge", 100), ("hybrid", 260), ("lossless", 380), ("cloud", 500)):
            text = WORDS[language][mode in ("edge", "hybrid") and index % 3 == 0]
            asked = {"escalations": 1, "drafted": 5, "accepted": 4} if mode in ("hybrid", "lossless") else {}
            name = f"/a/rather/long/path/录音 {index:02d}.wav"
            runs.append(made(name, mode, text, ms=ms + index, language=language, **asked))
    print_page(partial(comparison_page, comparison(runs, Lexicon.read())), screen)


Scene = Callable[[Screen], None]
TERMINAL: Final[dict[str, tuple[tuple[int, ...], Scene]]] = {
    "sound": ((40, 120), lambda screen: clips(screen, "rows", SOUND)),
    "modes": ((80,), lambda screen: clips(screen, "rows", *MODES)),
    "flagged": ((60,), lambda screen: clips(screen, "rows", *FLAGGED)),
    "batch": ((60,), lambda screen: batch(screen, "rows")),
    "pages": ((40, 100), pages),
    "errors": ((40,), errors),
    "compare": ((60, 200), lambda screen: compared(screen, "en", failed("broken [red].wav\x1b[31m", "edge"))),
    "compare-zh": ((100,), lambda screen: compared(screen, "zh")),
}
"""Name -> widths that are kept, and what is shown."""
PIPED: Final[dict[str, tuple[tuple[int, ...], Scene]]] = {
    "flagged-log": ((60,), lambda screen: clips(screen, "lines", *FLAGGED)),
    "flagged-quiet": ((60,), lambda screen: clips(screen, "errors", *FLAGGED)),
    "batch-log": ((60,), lambda screen: batch(screen, "lines")),
    "batch-quiet": ((60,), lambda screen: batch(screen, "errors")),
    "pages-piped": ((40,), pages),
    "errors-piped": ((40,), errors),
}
"""What is shown where no terminal is."""


FILES: Final = [f"{name}.{width}.txt" for name, (widths, _) in (TERMINAL | PIPED).items() for width in widths]


def shown(file: str) -> Screen:
    """The screen that a file keeps."""
    name, width, _ = file.split(".")
    screen = Screen(int(width), terminal=name in TERMINAL)
    (TERMINAL | PIPED)[name][1](screen)
    return screen


def text_of(screen: Screen) -> str:
    """What a user reads."""
    return "".join(f"{line.rstrip()}\n" for line in ESCAPE.sub("", screen.output).rstrip("\n").split("\n"))


def main() -> None:
    for path in GOLDEN.glob("*.txt"):
        path.unlink()
    GOLDEN.mkdir(exist_ok=True)
    for file in FILES:
        (GOLDEN / file).write_text(text_of(shown(file)), "utf-8")


if __name__ == "__main__":
    main()
