"""What a token costs outside of the forwards: the stubs write the text that they were made for."""

from tools.overhead import MODES, measure


def test_every_mode_writes_the_prepared_text_in_its_own_time(capsys):
    measure([*MODES], vocabulary=40_000, tokens=8, repeat=2)  # which raises if it does not
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [name for name, *_ in rows] == [*MODES]
    assert all(0.0 < float(least) <= float(median) for _, median, least in rows)
