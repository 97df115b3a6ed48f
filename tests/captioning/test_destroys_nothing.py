"""Any options of `batch` among any files: what was there before is there afterwards, but for specdec's own."""

import json
import os
import random
import shutil
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from specdec_cli.captioning.output_file import Task
from specdec_cli.captioning.tasks import Outcome, Stopped
from specdec_cli.cli.app import command_named
from specdec_cli.config import load_config
from specdec_cli.errors import SpecdecError
from specdec_cli.labels import Lexicon
from specdec_cli.transcript.records import ModelInfo, Models, Transcript
from specdec_cli.transcript.shared import recorded_settings
from specdec_cli.types import ExportFormat
from tests.captioning.lines import good_line
from tests.mini_pair import write_voice
from tests.tiers import slow

CONFIG = load_config("mini", flags={"decoding.mode": "edge"}, environ={}).config
MADE = {
    "mode": "edge",
    "language": CONFIG.prompt.language,
    "prompt": CONFIG.instruction(),
    "settings": recorded_settings(CONFIG, Lexicon.shipped()),
    "duration_s": 0.2,
    "models": Models(edge=ModelInfo(name=CONFIG.edge.model, dtype="float32", device="cpu"), cloud=None),
}


class Stub:
    """Captions everything in no time."""

    shared = SimpleNamespace(models=MADE["models"], settings={})

    def outcomes(self, tasks: Iterable[Task], _: Stopped) -> Iterator[Outcome]:
        return (Outcome(task.item, line(task.item.path, task.item.id)) for task in tasks)


def line(path: str | Path, id_: str | None = None) -> Transcript:
    return good_line(path, **{**MADE, "id": id_})


@pytest.fixture
def stubbed(monkeypatch) -> None:
    monkeypatch.setattr("specdec_cli.cli.batch._Together", lambda *_: nullcontext(Stub()))
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


def sandbox(folder: Path, voices: list[Path]) -> None:
    """Recordings, lists, notes, and files that specdec wrote, of this batch and of others."""
    for name, voice in zip(("d/a.flac", "d/b.wav", "d/deep/c.wav", "x.wav"), voices, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(voice, folder / name)
    texts = {
        "m.csv": "file;id\nx.wav;1\nd/b.wav;2\n",
        "m.jsonl": '{"file": "x.wav", "id": "1"}\n',
        "o.jsonl": line(folder / "x.wav").to_json() + "\n",
        "other.jsonl": line("/data/1.wav").to_json() + "\n" + line("/data/2.wav").to_json() + "\n",
        "changed.jsonl": good_line(folder / "x.wav").to_json() + "\n",
        "t.csv": "name,id,file\n1.wav,,/data/1.wav\n2.wav,,/data/2.wav\n",
        "empty": "",
        "blank.jsonl": " " * 18_000,
        "zero.img": "\0" * 18_000 + "data",
        "late.jsonl": "\n" * 17_000 + line("/data/1.wav").to_json() + "\n",
        "mine.jsonl": '{"schema":1,"file":"/data/1.wav","text":"mine"}\n',
        "passes.jsonl": '{"recording":1,"file":"x.wav","sha256":"0","setup":{},"edge":{},"cloud":{}}\n',
        "mine.svg": "<svg><desc>Drawn after one of specdec's</desc></svg>\n",
        "lexicon.yaml": "attributes: {}\n",
        "texts/a.flac.txt": "笔记",
        "d/a.flac.txt": "mine",
        "a.srt": "mine",
        "d/x.TextGrid": "mine",
        "o.csv": "mine",
        ".o.jsonl.new": "mine",
        ".o.jsonl.lock": "mine",
        ".t.csv.1": "mine",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text.encode("gbk" if name.endswith(".txt") else "utf-8"))
    (folder / "link.jsonl").symlink_to("m.jsonl")
    os.link(folder / "x.wav", folder / "hard.csv")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(rng: random.Random) -> None:
    """One command line, in the working directory."""
    files = [*contents(Path()), "new.jsonl", "new.csv", "-", "d", "no/where"]
    likely = ("o.jsonl", "new.jsonl", "other.jsonl")
    output = Path(rng.choice([*files, *likely * 8]))
    given = rng.choice([["d"], ["."], ["x.wav"], ["d/*"], ["x.wav", "d"], ["m.csv"], []])
    manifest = Path(rng.choice(["m.csv", "m.jsonl", "o.jsonl", "t.csv"])) if not given else None
    retry = rng.random() < 0.1
    recursive, exports = rng.random() < 0.5, rng.random() < 0.8
    options = {
        "--output": output,
        "--manifest": manifest,
        "--limit": rng.choice([None, 1]),
        "--export": ",".join(rng.sample(get_args(ExportFormat), 3)) if exports else None,
    }
    flags = ["--recursive"] * recursive + ["--retry-failed"] * retry + []
    valued = [f"{name}={value}" for name, value in options.items() if value is not None]
    command_named("batch").main(["--mode=edge", "-q", *flags, *valued, "--", *given], standalone_mode=False).run()


@pytest.mark.parametrize("cases", [range(40), slow(range(40, 1000))], ids=str)
def test_nothing_is_destroyed(cases, tmp_path, monkeypatch, stubbed, capsys):
    voices = [write_voice(tmp_path / f"{seed}.wav", seed, 0.2) for seed in range(4)]
    written = refused = 0
    for case in cases:
        folder = tmp_path / "box"
        folder.mkdir()
        sandbox(folder, voices)
        monkeypatch.chdir(folder)
        rng, before = random.Random(case), contents(folder)
        try:
            run(rng)
            written += 1
        except SpecdecError:
            refused += 1
        after = contents(folder)
        for name, content in before.items():
            if after.get(name) == content or not content:
                continue
            assert name in {"o.jsonl", "other.jsonl", "changed.jsonl"}, f"case {case}: {name} was destroyed"
            assert name in after, f"case {case}: {name} is gone"
            assert all(json.loads(row)["schema"] == 1 for row in after[name].splitlines()), f"case {case}: {name}"
        assert "-" not in after
        assert not [name for name in after if name.startswith(".specdec-") and "/" not in name]
        shutil.rmtree(folder)
    assert written > len(cases) // 8
    assert refused > len(cases) // 8
