"""Every command starts from two names, and nothing of the mini pair's configuration comes along."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec_cli.captioner import Captioner
from specdec_cli.config import CloudConfig, Config, EdgeConfig
from specdec_cli.config.decoding_schema import DecodingConfig
from specdec_cli.config.resolve import ResolvedConfig
from specdec_cli.errors import CheckpointError
from tests.cli.status import exit_code
from tests.mini_pair import write_voice
from tests.support.checkpoints import write_hub
from tests.support.models import tiny_module
from tests.tiers import slow

Run = Callable[..., tuple[int, str]]
SHORT = ("--set", "decoding.max_new_tokens=4")
TOKENS = DecodingConfig(max_new_tokens=4)


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[str, str]:
    """Two checkpoints in the layout of the hub."""
    folder = tmp_path_factory.mktemp("hub")
    return str(write_hub(folder / "edge", tiny_module(1))), str(write_hub(folder / "cloud", tiny_module(2)))


@pytest.fixture
def run(monkeypatch, capfd, tmp_path, loaded) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for seed in range(8):
        write_voice(tmp_path / "in" / f"{seed}.wav", seed, 0.4)

    def command(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["specdec", *arguments])
        code = exit_code()
        out, err = capfd.readouterr()
        return code, out + err

    return command


@pytest.fixture
def loaded(monkeypatch) -> list[Config]:
    """The configurations that models were loaded with."""
    found: list[Config] = []
    load = Captioner.load

    def spy(config: Config, **more: object) -> Captioner:
        found.append(config)
        return load(config, **more)

    monkeypatch.setattr(Captioner, "load", spy)
    monkeypatch.setenv("LC_ALL", "C")
    return found


def defaults(edge: str | None, cloud: str | None, mode: str = "hybrid") -> Config:
    """What published models need, and two names."""
    return Config(
        edge=EdgeConfig(model=edge) if edge else None,
        cloud=CloudConfig(model=cloud) if cloud else None,
        decoding=TOKENS.model_copy(update={"mode": mode}),
    )


@pytest.mark.parametrize(
    "command",
    [
        ("caption", "in/0.wav", *SHORT),
        slow((("tune", "in", "--gate", "entropy", "-k", "2", *SHORT),)),
        slow((("batch", "in", "-o", "o.jsonl", *SHORT),)),
        slow((("compare", "in", "-o", "o.jsonl", *SHORT),)),
    ],
    ids=lambda command: command[0],
)
def test_a_command_needs_two_names_and_inherits_nothing(run, pair, loaded, command):
    code, said = run(*command, "--edge", pair[0], "--cloud", pair[1])
    assert code == 0, said
    expected = defaults(*pair)
    if command[0] != "caption":  # commands that run long compile steps, where a GPU makes them
        expected = expected.model_copy(update={"runtime": expected.runtime.model_copy(update={"compile": "on"})})
    assert [config for config in loaded if config != expected] == []
    assert loaded


def test_listen_and_serve_are_given_the_same(run, pair, monkeypatch, loaded):
    from specdec_cli.serve import server as serving

    def stop(config: Config | ResolvedConfig, *_: object, **__: object) -> None:
        loaded.append(config.config if isinstance(config, ResolvedConfig) else config)
        raise CheckpointError("far enough")

    monkeypatch.setattr(serving, "serve_configured", stop)
    assert run("serve", "--cloud", pair[1], *SHORT)[0] == 3
    assert loaded.pop() == defaults(None, pair[1], "cloud")
    monkeypatch.setattr(Captioner, "load", stop)
    monkeypatch.setattr("specdec_cli.cli.listen.Microphone", lambda _: None)
    assert run("listen", "--edge", pair[0], "--cloud", pair[1], *SHORT)[0] == 3
    assert loaded.pop() == defaults(*pair)


@pytest.mark.parametrize(("option", "mode"), [("--edge", "edge"), ("--cloud", "cloud")])
def test_one_name_is_a_pair_of_one(run, pair, loaded, option, mode):
    code, said = run("caption", "in/0.wav", option, pair[0], "--json", *SHORT)
    assert code == 0, said
    edge, cloud = (pair[0], None) if mode == "edge" else (None, pair[0])
    assert loaded == [defaults(edge, cloud, mode)]
    assert json.loads(said[said.index("{") : said.rindex("}") + 1])["mode"] == mode


def test_every_way_to_name_them_is_the_same(run, pair):
    Path("two.yaml").write_text(f"edge: {pair[0]}\ncloud: {pair[1]}\n", encoding="utf-8")
    names = ["--edge", pair[0], "--cloud", pair[1]]
    sections = ["--set", f"edge={pair[0]}", "--set", f"cloud={pair[1]}"]
    shown, others, file = (run("config", "show", "--yaml", *more) for more in (names, sections, ["-c", "two.yaml"]))
    assert shown[0] == 0
    assert shown == others == file


def test_python_takes_two_names(pair, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    captioner = Captioner.load(edge=pair[0], cloud=pair[1], settings={"decoding.max_new_tokens": 4})
    assert captioner.config == defaults(*pair)
