"""Tables of references that no sense can be made of, and what the refusal has to name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple


class Malformed(NamedTuple):
    """A file that must be refused, what the message or its hint must hold, and more arguments of `References.read`."""

    name: str
    content: str | bytes
    names: tuple[str, ...]
    options: Mapping[str, Any] = MappingProxyType({})


GOOD: Final = "file\tcaption\temotion\na.wav\tA voice.\thappy\n"

MALFORMED: Final = [
    Malformed("empty.tsv", "", ("no rows",)),
    Malformed("header.tsv", "file\tcaption\n", ("no rows",)),
    Malformed("list.json", "[]", ("no rows",)),
    Malformed("table.xlsx", GOOD, (".xlsx", ".tsv")),
    Malformed("latin.tsv", "file\tcaption\na.wav\tvoix \xe9lev\xe9e\n".encode("latin-1"), ("line 2", "UTF-8")),
    Malformed("utf16.tsv", GOOD.encode("utf-16")[:-1], ("not UTF-8",)),
    Malformed("short.tsv", "file\tcaption\nx.wav\tGood.\na.wav\n", ("line 3", "1 cells", "2 columns")),
    Malformed("short.csv", "file,caption,emotion\na.wav,A\n", ("line 2", "2 cells", "3 columns")),
    Malformed("comma.csv", "file,caption\na.wav,A voice, high\n", ("line 2", "3 cells")),
    Malformed("quote.csv", 'file,caption\na.wav,"A voice\nb.wav,B\n', ("line 2",)),
    Malformed("quote.tsv", 'file\tcaption\na.wav\t"A\tB\nb.wav\tB\n', ("line 2",)),
    Malformed("twice.tsv", "file\tcaption\tcaption\na.wav\tA\tB\n", ("line 1", "caption")),
    Malformed("unnamed.csv", "file,,caption\na.wav,1,A\n", ("line 1", "no name")),
    Malformed("nofile.tsv", "who\tcaption\nme\tA\n", ("names the clip", "--file-column", "who, caption")),
    Malformed("nothing.tsv", "file\tduration\na.wav\t3\n", ("neither", "--text-column", "--label")),
    Malformed("noname.tsv", "file\tcaption\n\tA\n", ("line 2", "file", "empty")),
    Malformed("double.tsv", "file\tcaption\na.wav\tA\na.wav\tB\n", ("line 3", "a.wav", "line 2")),
    Malformed("same.csv", "file,caption\nx/a.wav,A\n./x/a.wav,B\n", ("line 3", "line 2")),
    Malformed("words.tsv", "file\tc_emotion\na.wav\thapy\nb.wav\tsad\n", ("line 2", "c_emotion", "hapy", "happy")),
    Malformed("number.tsv", "file\tc_rate\na.wav\t5.2\nb.wav\t6.1\n", ("line 2", "5.2", "6.1", "ignored")),
    Malformed(
        "many.csv", "file,emotion\n" + "".join(f"{i}.wav,x{i}\n" for i in range(20)) + "a.wav,sad\n", ("12 more",)
    ),
    Malformed("col1.tsv", GOOD, ("fil", "Did you mean file?"), {"file_column": "fil"}),
    Malformed("col2.tsv", GOOD, ("captoin", "Did you mean caption?"), {"text_columns": ["captoin"]}),
    Malformed("named.tsv", GOOD, ("A voice.", "rate"), {"label_columns": {"rate": "caption"}}),
    Malformed("open.json", '[{"file": "a.wav"', ("line 1", "JSON")),
    Malformed("text.json", '"a.wav"', ("an object was expected",)),
    Malformed("names.json", '["a.wav", "b.wav"]', ("item 1", "a.wav", "an object was expected")),
    Malformed("files.json", '[{"file": ["a.wav", "b.wav"], "caption": "A"}]', ("item 1", "file", "one value")),
    Malformed("deep2.json", "[" * 100_000, ("recursion",)),
    Malformed("nokey.json", '[{"file": null, "caption": "A"}]', ("item 1", "file", "empty")),
    Malformed("half.jsonl", '{"file": "a.wav", "caption": "A"}\n{"file": "b.w', ("line 2", "JSON")),
    Malformed("list.jsonl", '["a.wav"]\n', ("item 1", "an object was expected")),
]
