"""Config files that are wrong in every way we could think of, generated from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from specdec_cli.config import SETTINGS

Settings = dict[str, dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class MalformedConfig:
    """A path that must be refused.

    Attributes:
        path: what to load; it need not exist.
        kind: what is wrong with it.
        names: dotted settings that the refusal must name; empty where the file as a whole is wrong.
    """

    path: Path
    kind: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Draft:
    kind: str
    content: bytes
    names: tuple[str, ...] = ()


_HEAD: Final = "edge:\n  model: owner/edge\ncloud:\n  model: owner/cloud\n"

_SYNTAX: Final = {
    "open bracket": "decoding: {k: [1, 2\n",
    "open brace": "decoding: {k: 1\n",
    "stray brace": "decoding: }\n",
    "open quote": "prompt: {text: 'so on\n",
    "open double quote": 'prompt: {text: "so on}\n',
    "bad escape": 'prompt: {text: "\\q"}\n',
    "tab": "decoding:\n\tk: 3\n",
    "indentation": "decoding:\n  k: 3\n mode: edge\n",
    "two colons": "decoding: k: 3\n",
    "no colon": "decoding\n",
    "directive": "%WRONG 1\ndecoding: {}\n",
    "at sign": "decoding: {mode: @edge}\n",
    "backquote": "decoding: {mode: `edge`}\n",
    "two documents": "---\nedge: {model: a/b}\n---\nedge: {model: a/b}\n",
    "unknown alias": "decoding: *nothing\n",
    "alias": "runtime: &a {threads: 1}\ndecoding: *a\n",
    "alias to itself": "decoding: &a {k: *a}\n",
    "alias bomb": "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}' if i else 'lol'] * 9)}]\n" for i in range(12)),
    "merge key": "runtime: &a {threads: 1}\ndecoding: {<<: *a}\n",
    "python tag": "decoding: !!python/object/apply:os.getcwd []\n",
    "bad int tag": "decoding: {k: !!int many}\n",
    "binary tag": "prompt: {text: !!binary '===='}\n",
    "too deep": "decoding: " + "[" * 5000 + "\n",
    "deep mappings": "".join(f"{'  ' * i}a:\n" for i in range(300)),
    "bell": "prompt: {text: \x07}\n",
    "escape sequence": "prompt: {text: \x1b[31mred}\n",
    "null character": "decoding: {k: \x00}\n",
    "undefined tag handle": "decoding: !x!y {k: 3}\n",
    "key of a mapping": "? {a: b}\n: c\n",
    "key of a list": "decoding: {[a]: 3}\n",
    "json with a comment": '{"decoding": {"k": 3} // three\n}\n',
    "json, then more": '{"decoding": {"k": 3}} and more\n',
    "conflict markers": "<<<<<<< HEAD\ndecoding: {k: 3}\n=======\n",
    "toml": "[decoding]\nk = 3\n",
    "ini": "[decoding]\nk: 3\nmode: edge\n",
    "python": "decoding = dict(k=3)\n",
    "html": "<!doctype html><title>404</title>\n",
}

_WHOLE: Final = {
    "empty": b"",
    "byte order mark only": b"\xef\xbb\xbf",
    "blank": b" \n\n  \n",
    "comments only": b"# edge:\n#   model: x\n",
    "document mark only": b"---\n",
    "null": b"null\n",
    "scalar": b"qwen\n",
    "number": b"42\n",
    "list": b"- edge\n- cloud\n",
    "empty list": b"[]\n",
    "empty mapping": b"{}\n",
    "utf-16": _HEAD.encode("utf-16"),
    "utf-32": _HEAD.encode("utf-32"),
    "latin-1": _HEAD.encode() + "prompt: {text: Grüße}\n".encode("latin-1"),
    "gbk": _HEAD.encode() + "prompt: {text: 说话人}\n".encode("gbk"),
    "wav": b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "too large": _HEAD.encode() + b"# padding\n" * 120_000,
    "no edge": b"decoding: {k: 3}\n",
    "null edge": b"edge:\ndecoding: {k: 3}\n",
}

_CLASHES: Final[dict[str, dict[str, Any]]] = {
    "hybrid without a cloud": {"cloud": None, "decoding.mode": "hybrid"},
    "lossless without a cloud": {"cloud": None, "decoding.mode": "lossless"},
    "cloud without a cloud": {"cloud": None, "decoding.mode": "cloud"},
    "lossless and rank": {"decoding.mode": "lossless", "acceptance.rule": "rank"},
    "lossless and prob": {"decoding.mode": "lossless", "acceptance.rule": "prob"},
    "lossless and typical": {"decoding.mode": "lossless", "acceptance.rule": "typical"},
    "sampling rule, greedy": {"acceptance.rule": "sampling", "decoding.temperature": 0},
    "greedy rule, sampling": {"acceptance.rule": "greedy", "decoding.temperature": 0.7},
    "min above max": {"decoding.min_new_tokens": 9, "decoding.max_new_tokens": 8},
    "top_p without temperature": {"decoding.top_p": 0.9},
    "top_k without temperature": {"decoding.top_k": 5},
    "entropy below 0": {"gate.name": "entropy", "gate.threshold": -1.0},
    "margin above 1": {"gate.name": "margin", "gate.threshold": 1.5},
    "margin below 0": {"gate.name": "margin", "gate.threshold": -0.5},
    "logprob above 0": {"gate.name": "logprob", "gate.threshold": 1},
    "device and map": {"edge.device": "cuda", "edge.device_map": "auto"},
}

_OUT_OF_RANGE: Final[dict[str, tuple[Any, ...]]] = {
    "runtime.threads": (0, -4),
    "edge.model": ("", "  ", "package:mini", "package:", "a\nb", "a\x00b"),
    "edge.revision": ("",),
    "edge.device": ("gpu", "cuda:", "cuda:x", "CPU", "cpu ", "cuda:1\n"),
    "decoding.k": (0, -1, 65, 10**9, 10**30),
    "decoding.max_new_tokens": (0, -5),
    "decoding.min_new_tokens": (-1,),
    "decoding.sentences": (0,),
    "decoding.stop_strings": ([""], ["a", ""]),
    "decoding.temperature": (-0.1, float("inf"), float("nan")),
    "decoding.top_p": (0, 1.01, -1.0),
    "decoding.top_k": (0,),
    "decoding.seed": (-1, 2**64),
    "decoding.repetition_penalty": (0, -1.2),
    "decoding.no_repeat_ngram": (-1,),
    "decoding.loop_period": (-1, 65),
    "decoding.loop_repeats": (1,),
    "decoding.loop_top_k": (1,),
    "decoding.run_on": (-1, 65, "few", "auto", 2.5),
    "edge.graphs": ("never", "reduce-overhead", True, None),
    "decoding.draft_ahead": ("maybe",),
    "gate.threshold": (float("nan"), float("-inf")),
    "acceptance.rank": (0,),
    "acceptance.prob": (-0.1, 1.1),
    "acceptance.typical_epsilon": (0, 2),
    "acceptance.typical_delta": (0, -0.3),
    "prompt.text": ("", " \n", "<|AUDIO|>", "a<|im_end|>b", "<|im_start|>system", "<|\n|>"),
    "prompt.system": ("", "<|audio_bos|>"),
    "audio.segment": (0, 0.09, -1),
}

_WRONG_TYPES: Final = (True, 3, 2.5, "a word", [1, [2]], [{"a": 1}], {"a": 1}, [None])


def malformed_configs(folder: Path, seed: int) -> list[MalformedConfig]:
    """Write malformed configs into `folder`; the same seed gives the same files.

    Args:
        folder: where to write; made if missing.
        seed: of the misspellings, wrong types and places of truncation.

    Returns:
        One entry for each, more than 200.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    configs = []
    for number, draft in enumerate(_drafts(rng)):
        path = folder / f"{number:03}-{''.join(c if c.isalnum() else '_' for c in draft.kind)}.yaml"
        path.write_bytes(draft.content)
        configs.append(MalformedConfig(path, draft.kind, draft.names))
    return configs + _not_files(folder)


def _not_files(folder: Path) -> list[MalformedConfig]:
    """Paths with no readable file behind them."""
    directory, dangling, loop = folder / "folder.yaml", folder / "dangling.yaml", folder / "loop.yaml"
    directory.mkdir(exist_ok=True)
    for link, target in ((dangling, folder / "gone"), (loop, loop)):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    return [
        MalformedConfig(directory, "a folder"),
        MalformedConfig(dangling, "dangling link"),
        MalformedConfig(loop, "link to itself"),
        MalformedConfig(folder / "missing.yaml", "missing"),
        MalformedConfig(folder / "no" / "such" / "folder.yaml", "missing folder"),
        MalformedConfig(folder / ("long" * 100 + ".yaml"), "name too long"),
    ]


def _drafts(rng: random.Random) -> Iterator[_Draft]:
    for kind, text in _SYNTAX.items():
        yield _Draft(f"syntax: {kind}", (text if kind == "two documents" else _HEAD + text).encode())
    for kind, content in _WHOLE.items():
        yield _Draft(f"file: {kind}", content)
    yield from _truncated(rng)
    for name in SETTINGS:
        yield _misspelt(name, rng)
        yield _wrong_type(name, rng)
        yield _twice(name)
    for name, values in _OUT_OF_RANGE.items():
        for value in values:
            yield _Draft(f"value: {name}", _written({name: value}), (name,))
    for section in dict.fromkeys(name.partition(".")[0] for name in SETTINGS):
        value = rng.choice((5, ["a"], True))
        yield _Draft(f"section: {section}", yaml.safe_dump({section: value}).encode(), (section,))
    for kind, settings in _CLASHES.items():
        names = tuple(name for name in settings if "." in name)
        yield _Draft(f"clash: {kind}", _written(settings), names)


def _truncated(rng: random.Random) -> Iterator[_Draft]:
    """A JSON file, which is YAML too, cut at any place before its last brace; and with a byte that is not UTF-8."""
    whole = json.dumps(_base({}), indent=1).encode()
    for _ in range(12):
        yield _Draft("truncated", whole[: rng.randrange(1, len(whole))].rstrip(b"} \n") or b"{")
    for _ in range(8):
        place = rng.randrange(len(whole))
        yield _Draft("broken byte", whole[:place] + b"\xff" + whole[place + 1 :])


def _base(settings: dict[str, Any]) -> Settings:
    """A valid configuration with `settings` laid over it."""
    values: Settings = {"edge": {"model": "owner/edge"}, "cloud": {"model": "owner/cloud"}}
    for name, value in settings.items():
        section, _, field = name.partition(".")
        if not field:
            values[section] = value
        else:
            held = values.setdefault(section, {})
            assert held is not None
            held[field] = value
    return values


def _written(settings: dict[str, Any]) -> bytes:
    return yaml.safe_dump(_base(settings), allow_unicode=True, sort_keys=False).encode()


def _misspelt(name: str, rng: random.Random) -> _Draft:
    section, _, field = name.partition(".")
    while True:
        place = rng.randrange(len(field))
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz_-0 A")
        slip = rng.choice((field[:place] + field[place + 1 :], field[:place] + letter + field[place:], field.upper()))
        wrong = f"{section}.{slip.strip()}"
        if slip.strip() and wrong not in SETTINGS:
            return _Draft(f"misspelt: {name}", _written({wrong: 1}), (section,))


def _wrong_type(name: str, rng: random.Random) -> _Draft:
    setting = SETTINGS[name]
    wrong = [value for value in _WRONG_TYPES if not _takes(setting.expected, value)]
    return _Draft(f"type: {name}", _written({name: rng.choice(wrong)}), (name,))


def _takes(expected: str, value: Any) -> bool:
    """Whether a value of this type might be right."""
    if isinstance(value, bool):
        return expected.startswith("true")
    if isinstance(value, str):
        return ("text" in expected and not expected.startswith("a list")) or "a file" in expected
    if isinstance(value, int):
        return "number" in expected or "seconds" in expected
    return isinstance(value, float) and (expected.startswith("a number") or "seconds" in expected)


def _twice(name: str) -> _Draft:
    section, _, field = name.partition(".")
    return _Draft(f"twice: {name}", f"{section}:\n  {field}: 1\n  {field}: 1\n".encode(), (name,))
