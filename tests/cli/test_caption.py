"""`specdec caption`: what goes where, and how it ends."""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import soundfile

from specdec_cli.captioner import Captioner
from specdec_cli.cloud.verify_client import VerifyClient
from specdec_cli.errors import CheckpointError
from specdec_cli.journal import Journal
from specdec_cli.labels import Lexicon
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.run import Run
from specdec_cli.targets import writing
from specdec_cli.transcript import Transcript, json_schema
from tests.cli.harness import QUICK
from tests.mini_pair import RATE, captioner, mini_pair, voice
from tests.support.machine import NOBODY
from tests.support.transcripts import read_transcripts
from tests.tiers import few

FIGURES = {"f0_median_hz", "f0_range_st", "level_dbfs", "level_relative_db", "rate_per_s", "pause_share"}


def test_in_a_pipe_stdout_is_the_caption_alone(specdec, recordings):
    outcome = specdec("caption", recordings[0])
    assert (outcome.code, outcome.out) == (0, captioner().caption(recordings[0]).caption + "\n")
    assert recordings[0] in outcome.err
    assert "tokens" in outcome.err
    assert "\x1b" not in outcome.err
    rows = specdec("caption", "--no-live", recordings[0])
    assert rows.out == outcome.out
    assert len(rows.err.splitlines()) > len(outcome.err.splitlines())
    assert "\x1b" not in rows.err


def test_in_a_pipe_flags_follow_the_caption(specdec):
    tone = 0.2 * np.sin(2 * np.pi * 440 / RATE * np.arange(2 * RATE))
    soundfile.write("tone.wav", tone, RATE)
    for cut in ([], ["--segment", "1"]):
        outcome = specdec("caption", "tone.wav", "-q", "--set", "decoding.max_new_tokens=4", *cut)
        pieces = 2 if cut else 1
        assert [line[-12:] for line in outcome.lines] == [" [no_speech]"] * pieces
        (told,) = (line for line in outcome.err.splitlines() if line.startswith("warning: "))
        assert told.endswith(": tone.wav (0.00 to 1.00 s, 1.00 to 2.00 s)" if cut else ": tone.wav")


@pytest.mark.parametrize(
    ("language", "mode"), few([("zh", "hybrid"), ("en", "lossless"), ("zh", "edge"), ("en", "cloud")], 2)
)
def test_json_is_one_valid_transcript_a_line_as_in_the_output_and_nothing_else(specdec, recordings, mode, language):
    outcome = specdec("caption", "--json", "--mode", mode, "-l", language, *recordings[:2], "-o", "out.jsonl")
    assert Path("out.jsonl").read_text("utf-8") == outcome.out
    assert outcome.code == 0
    values = [json.loads(line) for line in outcome.lines]
    assert [value["file"] for value in values] == recordings[:2]
    for value in values:
        jsonschema.Draft202012Validator(json_schema()).validate(value)
        assert (value["mode"], value["language"]) == (mode, language)
        assert value["labels"] == Lexicon.read().labels(value["caption"], language)
        assert value["measured"].keys() == FIGURES
        assert 80 < value["measured"]["f0_median_hz"] < 420
        assert value["measured"]["level_relative_db"] is None
        assert value["agrees"].keys() == {"rate", "pitch", "range", "volume", "pauses"}
        assert {value["labels"][name] for name, fits in value["agrees"].items() if fits is None} <= {None}
    free = specdec("caption", "--json", "--mode", mode, "--set", "decoding.sound=[]", recordings[0])
    assert json.loads(free.out)["measured"] == values[0]["measured"]
    if language == "zh":
        assert values[0]["caption"] in outcome.out
        assert "\\u" not in outcome.out


def test_names_that_cannot_be_opened_are_lines_of_json_and_no_lines_of_the_output(specdec):
    assert specdec("caption", "missing.wav", ".", loads=False).err.count("error: ") == 1
    for names in (["missing.wav", "gone.wav"], ["n" * 300], ["missing.wav"] * 2, [""]):
        outcome = specdec("caption", "--json", *names, "-o", "out.jsonl", loads=False)
        lines = [json.loads(line) for line in outcome.lines]
        assert (outcome.code, outcome.err.count("error: ")) == (2, len(set(names)))
        assert [line["file"] for line in lines] == list(dict.fromkeys(names))
        assert {line["error"]["type"] for line in lines} == {"AudioNotFoundError"}
        assert not Path("out.jsonl").exists()


def test_an_output_that_fills_up_ends_the_run_with_one_error(specdec, recordings, monkeypatch):
    def full(self: Journal[object], _lines: object) -> None:
        with writing(self.path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Journal, "append", full)
    outcome = specdec("caption", "-q", *recordings, "-o", "full.jsonl", ends=3)
    assert len(outcome.lines) == 1  # the caption that could not be recorded is not lost
    assert outcome.err.count("error: ") == 1
    assert "No space left" in outcome.err


@pytest.mark.parametrize("debug", [False, True])
def test_a_traceback_comes_with_debug_only(specdec, recordings, debug):
    for arguments in (["missing.wav", recordings[0]], ["-k", "0", recordings[0]]):
        outcome = specdec("caption", *["--debug"] * debug, *arguments)
        assert outcome.code in (1, 2)
        assert ("Traceback (most recent call last)" in outcome.err) == debug


def test_what_nobody_foresaw_is_an_error_line_and_costs_no_other_file(specdec, recordings, monkeypatch):
    updates = Run.updates

    def break_on_second(self: Run, *given: object):
        if self.started.file == recordings[1]:
            raise RuntimeError("CUDA out of memory.\nTried to allocate 2 GiB")
        return updates(self, *given)

    monkeypatch.setattr(Run, "updates", break_on_second)
    outcome = specdec("caption", "-q", *recordings, "-o", "out.jsonl", ends=1)
    assert [t.error and t.error.type for t in read_transcripts(Path("out.jsonl"))] == [None, "UnexpectedError", None]
    assert "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB" in outcome.err
    assert "--segment" in outcome.err
    assert "Traceback" not in outcome.err
    assert "RuntimeError" in specdec("caption", "-q", "--debug", *recordings).err.split("Traceback")[1]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "error: OSError"),
        (KeyError("x"), "error: KeyError"),
        (CheckpointError("x holds no weights", hint="Download it."), "error: x holds no weights\nhint: Download it.\n"),
    ],
    ids=repr,
)
def test_what_goes_wrong_outside_a_file_is_an_error_without_traceback(specdec, recordings, monkeypatch, error, said):
    def load(*_: object, **__: object) -> Captioner:
        raise error

    monkeypatch.setattr(Captioner, "load", load)
    outcome = specdec("caption", recordings[0])
    assert (outcome.code, outcome.out) == (3, "")
    assert said in outcome.err
    assert "\nhint: " in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("variables", "flags", "language", "because"),
    few(
        [
            ({}, [], "en", "default, without a locale"),
            ({"LANG": "en_US.UTF-8", "SPECDEC_PROMPT__LANGUAGE": "zh"}, [], "zh", "SPECDEC_PROMPT__LANGUAGE"),
            ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "C"}, [], "en", "LC_MESSAGES is C"),
            ({"LANG": "zh_CN.UTF-8"}, ["--language", "en"], "en", "--language"),
        ],
        2,
    ),
)
def test_the_language_is_that_of_the_locale_unless_somebody_names_one(
    specdec, recordings, monkeypatch, variables, flags, language, because
):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    outcome = specdec("caption", *flags, recordings[0], ends=0)
    assert outcome.out.isascii() == (language == "en")
    name = "English" if language == "en" else "Chinese"
    assert outcome.err.splitlines().count(f"Captions are in {name} ({because}).") == 1
    assert specdec("caption", *flags, "-q", recordings[0]).err == ""


def test_the_same_command_again_prints_what_the_output_holds(specdec, recordings):
    first = specdec("caption", recordings[0], "-o", "out.jsonl")
    again = specdec("caption", *recordings[:2], "-o", "out.jsonl")
    assert again.lines[0] == f"{recordings[0]}\t{first.lines[0]}"  # printed, not decoded
    assert "1 captioned  1 done before" in again.err
    whole = specdec("caption", *recordings[:2], "-o", "out.jsonl", loads=False)
    assert (whole.code, whole.out) == (0, again.out)


def test_pieces_keep_their_times_in_a_pipe(specdec):
    silence = np.zeros(RATE, dtype=np.float32)
    soundfile.write("talk.wav", np.concatenate([voice(5, 1.0), silence, voice(5, 1.0)]), RATE)
    turn = "SPEAKER talk 1 {0}.0 1.0 <NA> <NA> {1} <NA> <NA>\n"
    Path("turns.rttm").write_text("".join(turn.format(n, who) for n, who in enumerate(("ann", "bob", "<NA>"))))
    outcome = specdec("caption", "talk.wav", "--segment", "turns.rttm", "-l", "en", ends=1)
    ann, nobody = (line.split("\t") for line in outcome.lines)
    assert (ann[:2], nobody[:2]) == (["0.00", "1.00"], ["2.00", "3.00"])
    assert ann[2].startswith("ann: ")
    assert not nobody[2].startswith("<NA>")
    told = outcome.err.splitlines()
    assert "talk.wav, piece 3 of 3: 2.00 to 3.00 s" in told
    assert any(line.startswith("piece 3 of 3: ") for line in told)
    assert any(line.startswith("1 captioned (2 pieces)  1 failed") for line in told)
    Path("one.rttm").write_text(turn.format(2, "ann"))
    outcome = specdec("caption", "talk.wav", "--segment", "one.rttm", "-l", "en", "-q")
    assert outcome.out.startswith("2.00\t3.00\tann: "), "a recording of one cut has the columns of others"


UNREACHABLE = ("-l", "zh", "--set", f"cloud.model={NOBODY}")


@pytest.fixture
def edge_here(really_loading, monkeypatch) -> None:
    """The mini edge is loaded as ever, and a cloud is called, after pauses of milliseconds."""
    monkeypatch.setattr("specdec_cli.pairs.load_model", lambda *_, **__: mini_pair().edge)
    monkeypatch.setattr("specdec_cli.cloud.remote.PAUSE_S", 0.001)


@pytest.mark.parametrize(
    "given",
    [["--gate", "never"], ["--gate", "always"], ["--mode", "lossless", "--set", "decoding.fallback=on"]],
    ids=repr,
)
def test_where_the_edge_may_write_alone_an_unreachable_cloud_is_a_warning(specdec, edge_here, recordings, given):
    outcome = specdec("caption", recordings[0], *UNREACHABLE, *given, "--json", ends=0 if "never" in given else 3)
    found = Transcript.from_json(outcome.out)
    assert found.warnings == (f"no answer at the start: {NOBODY}: All connection attempts failed",)
    assert (found.degraded is not None) == ("never" not in given)


def test_quiet_does_not_hide_that_the_cloud_was_never_reached(specdec, edge_here, recordings):
    given = ("--mode", "lossless", "--set", "decoding.fallback=on")
    first, second = specdec("caption", recordings[0], "-q", *UNREACHABLE, *given, ends=3).err.splitlines()
    assert first.startswith(f"warning: no answer at the start: {NOBODY}: ")
    assert second.startswith(f"warning: {recordings[0]}: degraded: ")
    assert NOBODY in second


@pytest.mark.parametrize("command", few(["caption", "batch", "compare"]))
def test_a_command_closes_its_connections(specdec, edge_here, recordings, monkeypatch, command):
    closed = list[str]()
    monkeypatch.setattr(VerifyClient, "close", lambda self: closed.append(self.name))
    given = ("--mode", "edge,hybrid") if command == "compare" else ("--gate", "never")
    specdec(command, recordings[0], *UNREACHABLE, *given, "-o", "o.jsonl", "-q")
    assert set(closed) == {NOBODY}


@pytest.mark.parametrize("command", ["caption", "batch"])
@pytest.mark.parametrize(("answered", "code"), [(True, 4), (False, 3)])
def test_degraded_captions_have_an_exit_code_of_their_own_unless_the_cloud_never_answered(
    specdec, recordings, monkeypatch, command, answered, code
):
    finish = Run.finish

    def failing(self: Run, *given: object) -> Transcript:
        made = finish(self, *given)
        first = "voice 0" in made.file
        rounds = tuple(
            each.model_copy(update={"verify_ms": 1.0 if answered and first else None}) for each in made.rounds
        )
        return made.model_copy(update={"degraded": None if first else "the cloud failed", "rounds": rounds})

    monkeypatch.setattr(Run, "finish", failing)
    outcome = specdec(command, *recordings[:2], "-o", "o.jsonl", "-q", *QUICK)
    assert outcome.code == code, outcome.err


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("caption", ["--mode", "lossless"]),
        ("caption", ["--mode", "cloud"]),
        ("caption", ["--mode", "hybrid", "--set", "decoding.fallback=off"]),
        ("batch", ["--mode", "lossless"]),
        ("compare", ["--mode", "edge,lossless"]),
    ],
    ids=str,
)
def test_without_its_cloud_a_mode_that_needs_it_is_refused_before_the_first_clip(
    specdec, edge_here, recordings, command, given
):
    output = Path("out.jsonl")
    outcome = specdec(command, recordings[0], *UNREACHABLE, *given, "-o", output)
    assert (outcome.code, outcome.out) == (3, ""), outcome.err
    assert f"error: The cloud does not answer: {NOBODY}: All connection attempts failed.\n" in outcome.err
    assert ("decoding.fallback" in outcome.err) == ("lossless" in given)
    assert not output.exists() or output.read_bytes() == b""


def test_the_way_to_the_first_forward_is_the_one_that_is_drawn(specdec, recordings, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    drawn = page.partition("## From the command to the first forward\n")[2].split("```\n")[1].splitlines()
    made = [line.split()[0] for line in drawn if line.startswith(" ")]
    called, stack, forward = list[str](), list[str](), AudioLM.forward

    def first(model: AudioLM, *given: Any, **how: Any) -> Any:
        if not stack:
            sys.setprofile(None)
            frame = sys._getframe(1)
            while frame is not None:
                if "specdec_cli" in frame.f_globals.get("__name__", ""):
                    stack.insert(0, frame.f_code.co_qualname)
                frame = frame.f_back
        return forward(model, *given, **how)

    monkeypatch.setattr(AudioLM, "forward", first)
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        specdec("caption", recordings[0], "-q", ends=0)
    finally:
        sys.setprofile(None)
    assert [*stack, "AudioLM.forward"] == [line.split()[0] for line in drawn if not line.startswith(" ")]
    assert [name for name in made if name not in called] == []
