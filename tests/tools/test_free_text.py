"""Texts of models beside figures, character by character."""

import json
from typing import Any

from tools.free_text import Found, Reader, main


class Characters:
    """A tokenizer of one character a token."""

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(char) for char in text]

    def decode(self, ids: Any) -> str:
        return "".join(map(chr, ids))


def found(text: str) -> Found:
    """What is found in one text."""
    into = Found()
    Reader(Characters()).read(text, "zh", into)
    return into


def test_a_claim_is_reached_where_its_word_can_still_be_changed():
    of = found("说话人是男声，语速缓慢，音量较大，声音低沉。")
    assert of.claims == {"rate": 1, "volume": 1, "pitch": 1}
    assert of.reached == {"rate": 1, "volume": 1}  # 低 may begin a feeling, 低落
    assert [each.split(":")[0] for each in of.missed] == ["pitch low"]
    assert (of.other, of.wrong) == (0, [])


def test_a_pitch_waits_for_the_voice():
    assert found("音调尖细。").reached == {}
    assert found("女声，音调尖细。").reached == {"pitch": 1}


def test_another_class_of_the_same_text_is_told_from_a_wrong_stop():
    of = found("音量较小，音量较小，后来音量较大。")
    assert (of.other, of.wrong) == (1, [])
    assert found("她很高兴。").texts == 0


def test_the_command_prints_a_row_for_each_model_and_language(tmp_path, capsys):
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    symbols = bytes_to_unicode().values()  # a token for each byte, so that none decides a word
    (tmp_path / "vocab.json").write_text(json.dumps({symbol: at for at, symbol in enumerate(symbols)}), "utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\n", "utf-8")
    texts = tmp_path / "texts.jsonl"
    texts.write_text(json.dumps({"model": "one", "asked": "en", "text": "A female voice with a loud volume."}) + "\n")
    main(texts, tmp_path, details=tmp_path / "details.json")
    assert capsys.readouterr().out.splitlines()[2].startswith("| one | en | 1 | 1 | 0% of 1 |")
    assert list(json.loads((tmp_path / "details.json").read_text("utf-8"))) == ["one en"]
