"""The utterances of a recording made of labelled clips, in silence and in noise."""

import pytest

from tools import long_recording


@pytest.mark.data
@pytest.mark.slow
def test_utterances_of_many_speakers_are_found_and_captioned(data, capsys):
    long_recording.main(data, clips=60, captions=True)
    lines = capsys.readouterr().out.splitlines()
    found = {line[:12]: line[20:].split() for line in lines[2:6]}
    for name, least in (("silence betw", 97), ("whole clips ", 95), ("white noise ", 90), ("pink noise a", 90)):
        share, cut, _ = found[name][-3:]
        assert float(share.rstrip("%")) >= least, name
        assert cut == "0", name
    assert "clips alone" in lines[6]
