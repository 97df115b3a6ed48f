"""The utterances of a recording made of labelled clips, in silence and in noise."""

import re

import pytest

from training import long_recording


@pytest.mark.data
@pytest.mark.slow
def test_utterances_of_many_speakers_are_found(data, capsys):
    long_recording.main(data)
    lines = capsys.readouterr().out.splitlines()[2:]
    for line, name, least in zip(lines, ("silence", "whole", "white", "pink"), (97, 95, 90, 90), strict=True):
        share, cut, _ = line.split()[-3:]
        assert line.startswith(name)
        assert float(share.rstrip("%")) >= least, name
        assert cut == "0", name


@pytest.mark.data
@pytest.mark.slow
def test_utterances_are_captioned_alone_and_in_their_recording(data, capsys):
    long_recording.main(data, clips=6, captions=True)
    assert re.fullmatch(
        r"emotion right in \S+% of [1-6] clips alone, in \S+% .*", capsys.readouterr().out.splitlines()[-1]
    )
