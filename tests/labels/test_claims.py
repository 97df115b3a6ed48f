"""Classes beside measured figures: what fits, what does not, and what cannot be told."""

import re
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.audio.prosody import measure
from specdec_cli.errors import LexiconError
from specdec_cli.labels import Lexicon
from specdec_cli.types import Measured
from tests.audio.encode import load_audio
from training.labels import CLASSES, dev_rows, read_rows

FIGURES = Measured(f0_median_hz=140.0, f0_range_st=4.0, level_dbfs=-15.0, rate_per_s=2.0, pause_share=0.3)


def agrees(lexicon: Lexicon, measured: Measured, **labels: str | None) -> dict[str, bool | None]:
    return {claim.attribute: claim.agrees for claim in lexicon.claims(labels, measured)}


def test_a_class_fits_or_does_not_or_cannot_be_told():
    shipped = Lexicon.read()
    said = {"rate": "fast", "volume": "loud", "range": None, "pauses": "many"}
    found = agrees(shipped, FIGURES, **said)
    assert found == {"rate": False, "pitch": None, "range": None, "volume": True, "pauses": True}
    assert set(agrees(shipped, Measured(), rate="fast", pitch="high").values()) == {None}


@pytest.mark.parametrize(("voice", "fits"), [("male", "low medium"), ("female", "low"), (None, "medium low")])
def test_a_high_pitch_depends_on_the_voice(voice, fits):
    found = {name: agrees(Lexicon.read(), FIGURES, voice=voice, pitch=name)["pitch"] for name in CLASSES["pitch"]}
    assert found == {name: name in fits.split() for name in found}


def test_the_page_has_the_limits_of_the_lexicon():
    page = (Path(__file__).parents[2] / "docs" / "acoustics.md").read_text("utf-8").split("| fits |")[1]
    number, lexicon = r"-?\d[\d.]*", Lexicon.read()
    for attribute, voice, figure, fits in re.findall(
        r"^\| (\w+)(?:, (\w+))? \| `(\w+)` \| (.*?) \|", page, re.MULTILINE
    ):
        said = {"voice": {"men": "male", "women": "female"}.get(voice)}
        values = [float(each) + step for each in re.findall(number, fits) for step in (-0.004, 0.004)]
        for class_, limits in (each.split(" ", 1) for each in fits.split(", ")):
            ends = [float(each) for each in re.findall(number, limits)]
            least = -np.inf if limits.startswith("up to") else ends[0]
            most = np.inf if limits.startswith("from") else ends[-1]
            for value in values:
                found = agrees(lexicon, Measured(**{figure: value}), **said, **{attribute: class_})
                assert found[attribute] == (least <= value <= most), (attribute, voice, class_, value)


def test_between_two_classes_both_fit():
    figures = Measured(level_dbfs=-20.5)
    assert [agrees(Lexicon.read(), figures, volume=name)["volume"] for name in CLASSES["volume"]] == [False, True, True]


@pytest.mark.parametrize("borders", ["[3]", "[3, 2]", "[1, 2, 3]"])
def test_borders_lie_between_the_classes(tmp_path, borders):
    words = tmp_path / "words.yaml"
    words.write_text(
        "schema: 1\nattributes:\n  size: {classes: [a, b, c], measured: [{figure: level_dbfs, classes: "
        f"{{a: {{most: 3}}, b: {{least: 1}}, c: {{least: 2}}}}, borders: {borders}}}]}}\n"
    )
    with pytest.raises(LexiconError, match="3 classes have 2 borders, in rising order"):
        Lexicon.read(words)


def test_a_file_of_ones_own_adds_limits(tmp_path):
    words = tmp_path / "words.yaml"
    words.write_text(
        "schema: 1\nextends: default\nattributes:\n"
        "  rate: {measured: [{figure: rate_per_s, classes: {fast: {least: 1.5}}}]}\n"
        "  size: {classes: [big], en: {alone: {big: [big]}},\n"
        "         measured: [{figure: level_dbfs, where: {voice: male}, classes: {big: {least: -10}}}]}\n"
    )
    own = Lexicon.read(words)
    assert agrees(own, FIGURES, rate="fast")["rate"] is True
    assert agrees(own, FIGURES, rate="moderate")["rate"] is False  # by the shipped limits
    assert "size" not in agrees(own, FIGURES, size="big")
    assert agrees(own, FIGURES, size="big", voice="male")["size"] is False


@pytest.mark.slow
@pytest.mark.data
def test_right_captions_are_hardly_ever_contradicted(data):
    """Held-out speakers: the class of the labels, and every other class, beside what is measured."""
    lexicon, right, wrong = Lexicon.read(), [], []
    for row in dev_rows(read_rows(data))[::3]:
        figures = measure(load_audio(data / row.file, 16_000)[0], 16_000)
        for name in ("rate", "pitch", "range", "volume", "pauses"):
            for said in CLASSES[name] if name in row.classes else ():
                fits = agrees(lexicon, figures, **{"voice": row.classes["voice"], name: said})[name]
                if fits is not None:
                    (right if said == row.classes[name] else wrong).append((name, fits is False))
    for name in ("rate", "pitch", "range", "volume", "pauses"):
        of_right, of_wrong = (np.mean([false for other, false in found if other == name]) for found in (right, wrong))
        print(f"{name}: {of_right:.1%} of right classes contradicted, {of_wrong:.1%} of wrong ones")
        assert of_right < 0.05
        assert of_wrong > 0.2  # rate, the roughest: 0.24; the others 0.8 and more
