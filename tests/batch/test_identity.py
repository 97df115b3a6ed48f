"""The refusal to mix settings in one output."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdec_cli.batch.output_file import Check, Output, accepting
from specdec_cli.errors import ConfigError
from specdec_cli.transcript import Transcript
from specdec_cli.transcript.records import ModelInfo, Models
from specdec_cli.transcript.terms import Terms, loaded_changes
from tests.batch.lines import SETTINGS, failed_line, good_line, write


def terms(**changes: object) -> Check:
    asked = changes.pop("asked", lambda _: ("en", "Describe."))
    made: dict[str, object] = {"mode": "edge", "settings": {**SETTINGS, "stop_strings": ()}, "edge": "edge"}
    known = Terms(**{"language": None, "prompt": None, "cloud": None, "labels": False, **made, **changes})
    return accepting(known, asked)


def opened(tmp_path: Path, accepts: Check, *lines: Transcript) -> Output:
    with Output(write(tmp_path / "o.jsonl", *lines), accepts) as output:
        return output


def test_the_same_settings_are_accepted(tmp_path):
    other_style = good_line("/b.wav", settings={**SETTINGS, "style": None})
    opened(tmp_path, terms(), good_line("/a.wav"), failed_line("/c.wav"), other_style)
    opened(tmp_path, terms(asked=lambda _: None), good_line("/a.wav", language="zh", prompt="别的"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "hybrid"}, "mode was 'edge' and is 'hybrid'"),
        ({"settings": {**SETTINGS, "k": 3, "threshold": 2.0}}, "k was 5 and is 3; threshold was 1.1 and is 2.0"),
        ({"settings": {**SETTINGS, "new": 1}}, "new was null and is 1"),
        ({"settings": {key: SETTINGS[key] for key in SETTINGS if key != "k"}}, "k was 5 and is null"),
        ({"edge": "other"}, "edge.model was 'edge' and is 'other'"),
        ({"cloud": "cloud"}, "cloud.model was null and is 'cloud'"),
        ({"asked": lambda _: ("zh", "描述")}, "language was 'en' and is 'zh'; prompt was 'Describe.' and is '描述'"),
    ],
)
def test_other_settings_are_named_with_both_values(tmp_path, changes, said):
    with pytest.raises(ConfigError) as raised:
        opened(tmp_path, terms(**changes), good_line("/a.wav"))
    assert raised.value.message == f"{tmp_path / 'o.jsonl'}:1 was made with other settings: {said}."
    assert "--overwrite" in (raised.value.hint or "")


KNOWN = {"name": "edge", "dtype": "float32", "device": "cpu", "weights": "sha256:1"}


@pytest.mark.parametrize(
    ("then", "now", "suggested", "told"),
    [
        ("sha256:1", {}, None, None),
        (None, {}, None, None),  # weights that nobody knows are not refused
        ("sha256:1", {"weights": None}, None, None),
        ("sha256:1", {"weights": "sha256:2"}, None, r"edge\.weights was .sha256:1. and is .sha256:2."),
        ("sha256:1", {"dtype": "bfloat16", "device": "cuda:0"}, None, r"edge\.dtype was .float32. and is .bfloat16."),
        ("sha256:1", {}, {"edge": {"repetition_penalty": 1.1}}, "suggested was null and is .*repetition_penalty"),
    ],
)
def test_other_models_are_refused_once_they_are_known(tmp_path, then, now, suggested, told):
    models = Models(edge=ModelInfo(**KNOWN | {"weights": then}), cloud=None)
    failed = failed_line("/b.wav")  # which came to no model, so that none can have suggested anything
    output = opened(tmp_path, terms(), failed, good_line("/a.wav", models=models))
    loaded = Models(edge=ModelInfo(**KNOWN | now), cloud=None)
    here = SimpleNamespace(models=loaded, settings={"suggested": suggested} if suggested else {})
    with nullcontext() if told is None else pytest.raises(ConfigError, match=rf"o\.jsonl:2 .*{told}"):
        output.require(lambda line: loaded_changes(line.head, here, ("dtype", "weights")))
