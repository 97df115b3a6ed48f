"""Command lines that cannot work: one error and a hint, before anything is loaded, and no file is changed."""

import os
import shlex
from pathlib import Path

import pytest

from tests.evaluate.fabricate import made
from tests.mini_pair import write_voice
from tests.support.machine import NOBODY
from tests.support.transcripts import good_line, piece

Row = tuple[str, str | tuple[str, ...]]

MISUSED: list[Row] = [
    ("caption", "No recordings are named."),
    ("caption --gate", "--gate"),
    ("captions a.wav", "caption"),
    ("config shows", "show"),
    ("--nothing", "--nothing"),
]
SETTINGS: list[Row] = [
    ("caption a.wav -k 0", ("-k", "decoding.k", "0")),
    ("caption a.wav --mode hybird", ("--mode", "hybrid")),
    ("caption a.wav --mode edge --threshold 2", ("--threshold", "edge", "--mode")),
    ("caption a.wav --mode lossless --gate margin", ("margin", "--gate", "lossless", "--mode", "specdec compare")),
    ("caption a.wav --mode cloud --set decoding.fallback=on", ("decoding.fallback", "cloud", "--mode")),
    ("caption a.wav --style concise --prompt mine", "prompt.instruction is given by --style and --prompt"),
    ("caption a.wav --mode edge --set decoding.mode=cloud", "decoding.mode is given by --mode and --set"),
    ("caption a.wav --set decoding.k=2 --set decoding.k=3", "decoding.k is given by --set twice"),
    ("caption a.wav --set serve.idle_s=3", "serve.idle_s has no effect in specdec caption"),
    ("caption a.wav --style detaild", ("--style", "Did you mean detailed?")),
    ("caption a.wav --set decoding.kk=3", ("decoding.kk", "decoding.k")),
    ("caption a.wav --prompt 'How old are they?'", ("prompt.instruction", "package:mini/edge", "prompt.force")),
    ("caption a.wav --prompt \udcff", ("--prompt", "unicode")),
    ("caption a.wav --start 3 --end 2", "audio.end_s is 2"),
    ("caption a.wav --set decoding.sound=[mood]", "for which the lexicon has no limits"),
    ("caption a.wav --start soon", "seconds, or HH:MM:SS"),
    ("config show -c range.yaml", ("range.yaml", "decoding.k")),
]
RECORDINGS: list[Row] = [
    ("caption missing.wav none.wav nested", "--recursive"),
    ("caption https://example.org/a.wav", ("example.org/a.wav' is an address, not a file.", "Download it")),
    ("caption a.wav --lexicon words.yaml", "words.yaml: attributes: emotoin has no class"),
    ("caption a.wav --lexicon missing.yaml", "cannot be read"),
    ("batch -o o.jsonl", "No recordings are named"),
    ("batch a.wav --manifest list.tsv -o o.jsonl", ("in two ways", "not both")),
    ("batch --manifest none.tsv -o o.jsonl", "cannot be read"),
    ("batch nested -o o.jsonl", "--recursive"),
    ("batch a.wav --batch-size 0 -o o.jsonl", "--batch-size"),
    ("batch a.wav --limit 0 -o o.jsonl", "--limit"),
    ("batch --retry-failed -o o.jsonl", "there is no file"),
    ("batch --retry-failed --overwrite -o o.jsonl", "--overwrite"),
    ("caption a.wav --overwrite", "--overwrite needs --output"),
]
TABLES: list[Row] = [
    *((f"{command} {name} -o o.jsonl", ("is not a recording", hint))
      for command, name, hint in (
          ("caption", "truth.tsv", "--manifest truth.tsv"), ("batch", "list.TSV", "--manifest list.TSV"),
          ("caption", "m.jsonl", "--manifest m.jsonl"), ("batch", "captions.jsonl", "specdec export captions.jsonl"),
          ("caption", "x.srt", "--segment x.srt"), ("batch", "x.TextGrid", "--segment x.TextGrid"))),
    *((f"{command} --segment empty.srt --strict", "it has no length")
      for command in ("caption a.wav", "batch a.wav -o o.jsonl", "compare a.wav -o o.jsonl")),
    *((f"{command} --segment x.srt", "x.srt does not say which of the 2 recordings its cuts are of")
      for command in ("caption a.wav b.wav", "batch a.wav b.wav -o o.jsonl", "compare a.wav b.wav")),
]  # fmt: skip
SERVERS: list[Row] = [
    *((f"serve --host {host}", "without an access token") for host in ("0.0.0.0", "::", "cloud.example.org")),
    ("serve --token-env NOT_SET_ANYWHERE", "is not set"),
    ("serve --token-env SHORT_TOKEN", ("holds no token of at least 16 ASCII characters", "openssl rand -hex 32")),
    ("serve --set serve.tls_cert=x.pem", "Give both PEM files"),
    ("serve --set serve.tls_cert=x.pem --set serve.tls_key=y.pem", "the certificate cannot be used"),
    ("serve --batch-size 0", "greater than or equal to 1"),
]
OUTPUTS: list[Row] = [
    ("batch a.wav -o own.jsonl -k 7", ("made with other settings", "k was 5 and is 7", "--overwrite")),
    ("batch a.wav -o own.jsonl --set decoding.sound=[pitch]", ("made with other settings", "is ['pitch']")),
    ("caption a.wav b.wav -o y.srt", "-o FILE.jsonl --export srt"),
    ("batch a.wav -o x.csv --retry-failed", "there is no file x.jsonl to resume"),
    ("caption a.wav -o none/x.csv", "cannot be written"),
    ("caption a.wav -o a.wav", "is one of the files that are read"),
    ("caption a.wav -o -", "--json"),
    ("caption a.wav -o new", "has no ending of a format that is written"),
    ("batch a.wav -o new.xlsx", "Name it new.jsonl for transcripts, or after an export: .csv, .TextGrid, .eaf, .srt"),
    ("compare a.wav -o new.xlsx", "specdec export"),
    ("caption a.wav -o mine.csv", "mine.csv exists, and specdec did not write it"),
    ("caption a.wav --segment cuts.csv -o cuts.csv", "is one of the files that are read"),
    ("batch a.wav b.wav -o b.wav --overwrite", "is one of the files that are read"),
    ("batch --manifest m.jsonl -o m.jsonl --overwrite", "is one of the files that are read"),
    ("batch --manifest own.jsonl -o own.jsonl --overwrite", "is one of the files that are read"),
    ("caption a.wav --export srt", "--export reads transcripts"),
    ("caption a.wav -o a.jsonl --export-dir tables", "--export-dir needs --export"),
    ("listen --set audio.segment=5", "audio.segment has no effect"),
    ("tune many --gate random", "random is the control"),
    ("compare none.wav --references other.tsv", "none.wav does not exist"),
    ("tune none.wav --references other.tsv", "none.wav does not exist"),
    ("tune none.wav", "none.wav does not exist"),
    ("batch a.wav -o o.jsonl --set runtime.workers=100000", "runtime.workers takes"),
    (f"batch a.wav -o o.jsonl --batch-size {'9' * 5000}", "from 1 to 1024"),
    ("caption a.wav --set decoding.stop_strings=5", "decoding.stop_strings takes a list of texts, not 5"),
    ("caption a.wav -o o.jsonl --export praat", "--export: there is no format 'praat'"),
    ("export captions.jsonl", "Neither --to nor the ending of --output names a format"),
    ("export captions.jsonl --to srt,vtt -o x.srt", "is one file, and --to srt,vtt is more"),
    ("export captions.jsonl --to srt -o captions.jsonl", "captions.jsonl is not a folder"),
    ("export captions.jsonl --to srt --only-mode cloud", "no captions"),
    ("export two.jsonl -o x.srt", "two.jsonl has 2 recordings"),
]
STUDIES: list[Row] = [
    ("compare a.wav -o runs.jsonl", ("made with other settings", "threshold was 0.6 and is", "--overwrite")),
    ("compare a.wav --mode edge", "leaves nothing to compare"),
    ("compare a.wav --mode edge,clout", "no mode 'clout'"),
    ("compare a.wav --set decoding.mode=edge", "--mode"),
    ("compare a.wav --mode edge,cloud --threshold 0.5", "--mode"),
    ("compare a.wav --column emotion=mood", "--references"),
    ("compare a.wav --references truth.tsv --column mood=mood", "emotion"),
    ("review two.jsonl --references truth.tsv --column text=note", "--column text has no effect in specdec review"),
    ("compare a.wav b.wav --references other.tsv", ("0 of 2 recordings were found in", "somewhere/else.wav")),
    ("compare a.wav -o report.pdf", ".html"),
    ("compare a.wav --set decoding.acceptance=sampling", "temperature"),
    ("tune many --gate always", "no gate to tune 'always'"),
    ("tune many -k 2,x", "'x' is not a whole number from 1 to 64"),
    ("tune many --set decoding.temperature=0.7", "Tuning compares texts, and sampling leaves no one text"),
    ("tune many --set audio.segment=pauses", "Tuning takes whole recordings"),
    ("tune many -o frontier.jpg", "does not end in .yaml or .yml or .svg or .png or .pdf"),
    ("tune many --limit 3", "Tuning needs at least 8 clips, and 3 can be recorded"),
    ("tune many --budget clips=2", "--budget: 'clips=2' does not name a cost and a share"),
    ("tune many --budget calls=0.5", "Costs: blocks, clips, time"),
    ("tune many --set cloud.model=http://127.0.0.1:9", "returns verdicts only"),
]
FILES: list[tuple[str, str, int]] = [
    ("caption a.wav --segment 0.1", "takes a number of at least 0.2", 2),
    ("caption a.wav --segment pause.txt", "pause.txt cannot be read as cuts", 2),
    ("caption a.wav --segment b.wav", "b.wav cannot be read as cuts", 2),
    ("caption a.wav -o .", "cannot be written", 2),
    ("caption a.wav -o no/out.jsonl", "cannot be written", 2),
    ("caption a.wav -o b.wav", "something other than transcripts", 2),
    ("batch a.wav -o settings.json --overwrite", "settings.json does not end in .jsonl", 2),
    ("export a.wav", "a.wav is a recording, and transcripts are read here", 2),
    ("review a.wav", "a.wav is a recording, and transcripts are read here", 2),
    ("export settings.json --to png", "Name a file of transcripts (.jsonl)", 2),
    ("export captions.jsonl -o talk.png", "A picture shows the sound", 1),
    ("export captions.jsonl -o mine.srt", "specdec did not write it", 2),
    ("export captions.jsonl -o mine.csv", "or replace it: --overwrite", 2),
    ("export none.jsonl --to srt", "none.jsonl cannot be read", 2),
    ("review none.jsonl", "none.jsonl cannot be read", 2),
    ("review captions.jsonl -o mine.html", "specdec did not write it", 2),
    ("review captions.jsonl -o captions.jsonl", "captions.jsonl", 2),
]
PIPES = [  # a pipe is not waited for: opening one would wait for its other end
    "caption a.wav --lexicon pipe.yaml",
    "caption a.wav --config pipe.yaml",
    "caption a.wav --output pipe.jsonl",
    "batch --manifest pipe.jsonl --output o.jsonl",
    "compare a.wav --references pipe.tsv",
    "export pipe.jsonl --to srt",
]
ALL = [
    *((line, said, 2) for line, said in (*MISUSED, *SETTINGS, *RECORDINGS, *TABLES, *SERVERS, *OUTPUTS, *STUDIES)),
    *FILES,
    *((line, "regular file", 2) for line in PIPES),
]


@pytest.fixture(autouse=True)
def no_log(monkeypatch) -> None:
    """A server leaves the loggers of this process alone."""
    monkeypatch.setattr("specdec_cli.serve.server.log_json", lambda **_: None)


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Path:
    """A folder with files of all kinds."""
    folder = tmp_path_factory.mktemp("scene")
    (folder / "many").mkdir()
    (folder / "nested" / "deep").mkdir(parents=True)
    names = ("a.wav", "b.wav", "nested/deep/c.wav", *(f"many/{number}.wav" for number in range(12)))
    for seed, name in enumerate(names):
        write_voice(folder / name, seed, 0.4)
    calm = piece(0, 2, labels={"emotion": "happy"})
    texts = {
        "captions.jsonl": f"{calm}\n{piece(2.5, 4)}\n",
        "two.jsonl": "".join(
            piece(start, start + 1, file=f"/data/{name}.wav") + "\n" for name in "ab" for start in (0, 1)
        ),
        "m.jsonl": '{"file": "a.wav"}\n',
        "own.jsonl": good_line("a.wav").to_json() + "\n",
        "runs.jsonl": made("a.wav", "hybrid", settings={"threshold": 0.6}).to_json() + "\n",
        "truth.tsv": "file\tmood\na.wav\tsad\n",
        "list.TSV": "file\na.wav\n",
        "x.srt": "1\n00:00:00,000 --> 00:00:01,000\nhi\n",
        "x.TextGrid": 'File type = "ooTextFile"\n',
        "empty.srt": "1\n00:00:01,000 --> 00:00:01,000\nhi\n\n2\n00:00:00,000 --> 00:00:01,000\nhi\n",
        "other.tsv": "file\temotion\nsomewhere/else.wav\tsad\n",
        "cuts.csv": "start,end\n0,0.3\n",
        "words.yaml": "schema: 1\nextends: default\nattributes: {emotoin: {}}\n",
        "range.yaml": "decoding: {k: 0}\n",
        "settings.json": '{"threads": 2}',
        "mine.svg": "<svg/>",
        **dict.fromkeys(("notes.txt", "mine.csv", "mine.html", "mine.srt"), "mine\n"),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    for ending in ("yaml", "json", "jsonl", "tsv") if hasattr(os, "mkfifo") else ():
        os.mkfifo(folder / f"pipe.{ending}")
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("line", "said", "code"), ALL, ids=[ascii(line[:60]) for line, _, _ in ALL])
def test_what_cannot_work_is_one_error_with_a_hint_and_changes_nothing(specdec, scene, monkeypatch, line, said, code):
    if "pipe." in line and not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names here")
    monkeypatch.chdir(scene)
    monkeypatch.setenv("SHORT_TOKEN", "fifteen-letters")
    before = contents(scene)
    outcome = specdec(*shlex.split(line), loads=False)
    told = " ".join(outcome.err.split())
    assert (outcome.code, outcome.out) == (code, ""), told
    assert all(text in told for text in ((said,) if isinstance(said, str) else said)), told
    assert told.count("error: ") == 1
    assert " hint: " in told
    assert "Traceback" not in told
    assert contents(scene) == before


def test_a_server_is_not_started_where_another_one_listens(specdec):
    outcome = specdec("serve", "--port", NOBODY.rpartition(":")[2], ends=2, loads=False)
    assert "cannot listen on" in outcome.err


@pytest.mark.parametrize("size", ["COLUMNS", "LINES"])
def test_errors_are_printed_in_a_container_whose_terminal_has_no_size(specdec, monkeypatch, size):
    monkeypatch.setenv(size, "0")
    outcome = specdec("caption", "missing.wav", loads=False)
    assert (outcome.code, "missing.wav" in outcome.err) == (2, True)
