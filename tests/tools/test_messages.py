"""What the package may show is read in one place, and is written in plain English."""

import re

from tools.messages import ROOT, main, messages

_DIALECT = re.compile(r"\bis no [a-z]+ that\b|\bRead are\b|\bthat can be read\b|\bdoes not count\b", re.IGNORECASE)


def test_messages_of_every_kind_are_found(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        'raise ConfigError(f"{name} is wrong.", hint="Name another.")\n'
        'message = f"the {role} is away" if gone else "it is here"\n'
        'skips.note("one was left out")\n'
        'pattern = re.compile("a b")\n'
    )
    said = ["Name another.", "{} is wrong.", "it is here", "the {} is away", "one was left out"]
    assert [text for _, text in messages(path)] == said


def test_no_message_is_in_dialect(capsys):
    main()
    assert "specdec_cli/errors.py:" in capsys.readouterr().out
    found = [(path.name, line, text) for path in ROOT.rglob("*.py") for line, text in messages(path)]
    assert len(found) > 400
    assert [one for one in found if _DIALECT.search(one[2])] == []
