"""Sets of emotion words over wheels: the layout of OV-MERD's tables, its figures, and what is refused."""

import csv
from pathlib import Path

import pytest

from specdec_cli.errors import ReferencesError
from specdec_cli.evaluate.comparison import comparison
from specdec_cli.evaluate.wheels import Wheels
from specdec_cli.labels import Lexicon
from specdec_cli.labels.references import References
from specdec_cli.stats import Resampler
from tests.evaluate.fabricate import made, quality_of

FORMAT = """name,format
glad,"['gladly', 'gladness']"
happy,"['happily', 'happiness']"
sad,"['sadly']"
angry,"['anger', 'angrily']"
furious,"['furiously']"
upset,"[]"
"""
SYNONYM = """word_run1,synonym_run1,word_run2,synonym_run2
joyful,"['happy']",joyful,"['glad', 'happy']"
sad,"['upset']",sad,"[]"
angry,"['upset']",angry,"['furious']"
"""
WHEELS = (
    "level1,level2,level3\nbad,angry,furious\nhappy,joyful,\nsad,lonely,\n",
    "level1,level2,level3\npleasant,joyful,\nunpleasant,sad,\n,angry,\n",  # an empty cell is that above it
)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Tables of two wheels."""
    made = tmp_path / "wheels"
    made.mkdir()
    tables = {"format": FORMAT, "synonym": SYNONYM, **{f"wheel{n}": text for n, text in enumerate(WHEELS, 1)}}
    for name, text in tables.items():
        (made / f"{name}.csv").write_text(text, encoding="utf-8")
    return made


def sheets(folder: Path) -> None:
    """The tables as workbooks, as they are published, but for `format`."""
    openpyxl = pytest.importorskip("openpyxl")
    for path in [path for path in folder.glob("*.csv") if path.stem != "format"]:
        book = openpyxl.Workbook()
        for row in csv.reader(path.read_text().splitlines()):
            book.active.append([cell or None for cell in row])
        book.save(path.with_suffix(".xlsx"))
        path.unlink()


@pytest.mark.parametrize("as_sheets", [False, True])
def test_words_lead_to_base_words_by_form_and_meaning(folder, as_sheets):
    if as_sheets:
        sheets(folder)
    first, second = Wheels.read(folder).bases
    assert first["gladness"] == "happy"  # gladness -> glad -> joyful -> happy
    assert first["furiously"] == "bad"
    assert first["upset"] == "bad"  # angry and sad: the first by the alphabet that is on the wheel
    assert (second["happily"], second["sadly"], second["anger"]) == ("pleasant", "unpleasant", "unpleasant")
    assert "calm" not in first


def test_figures_by_hand(folder):
    wheels = Wheels.read(folder)
    said = [["happy", "angry"], ["calm"], ["sad"], ["glad"]]
    wanted = [["glad"], ["sad"], ["calm"], ["joyful", "sad"]]  # the third has no word of the tables
    found = wheels.score(said, wanted, Resampler(4, resamples=50))
    assert (found.clips, found.wheels, found.words_known) == (3, 2, pytest.approx(4 / 5))
    p, r = (0.5 + 0 + 1) / 3, (1 + 0 + 0.5) / 3
    assert (found.precision.value, found.recall.value) == (pytest.approx(p), pytest.approx(r))
    assert found.f1.value == pytest.approx(2 * p * r / (p + r))
    assert found.f1.low is not None
    assert found.f1.low <= found.f1.value <= (found.f1.high or 0)
    assert wheels.score([["happy"]], [["calm"]], Resampler(1)) is None


def test_references_name_words_in_lists_descriptions_or_classes(folder, tmp_path):
    table = tmp_path / "truth.csv"
    table.write_text(
        'file,caption,emotion\na.wav,"[glad, furious]",\nb.wav,He sounds sad and lonely.,\nc.wav,,sad\n',
        encoding="utf-8",
    )
    lexicon = Lexicon.load()
    runs = [made(f"{name}.wav", mode, "He sounds sad.") for name in "abc" for mode in ("edge", "cloud")]
    found = comparison(runs, lexicon, references=References.read(table, lexicon=lexicon), wheels=Wheels.read(folder))
    wheels = quality_of(found, "edge").wheels
    assert wheels.clips == 3
    # sad is unpleasant on the second wheel, as furious is; on the first it is its own base word
    assert wheels.recall.value == pytest.approx(((0 + 1 + 1) / 3 + (1 / 2 + 1 + 1) / 3) / 2)
    without = comparison(runs, lexicon, references=References.read(table, lexicon=lexicon))
    assert quality_of(without, "edge").wheels is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wheel1.csv": None, "wheel2.csv": None}, "has no table wheel1"),
        ({"format.csv": None}, "has no table format"),
        ({"synonym.csv": "a,b\n1,2\n"}, "has no column word_run1"),
        ({"wheel2.csv": "level1,level2\na,b\n"}, "has no column level3"),
        ({"synonym.csv": None, "synonym.xlsx": "no archive"}, "synonym.xlsx"),
    ],
)
def test_what_is_no_such_folder_is_refused_with_what_to_do(folder, change, message):
    for name, text in change.items():
        (folder / name).unlink(missing_ok=True)
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(ReferencesError, match=message) as refused:
        Wheels.read(folder)
    assert refused.value.advice
