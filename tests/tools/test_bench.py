"""Every mode and transformers' generate write the same where the sound is left out, and are timed side by side."""

from pathlib import Path

import pytest

from tests.mini_pair import captioner
from tools.bench import PLAIN, generated, main, mode

CLIP = str(Path(__file__).parents[2] / "samples" / "en_male_fast_loud.flac")
SHORT = {name.replace(".", "__"): value for name, value in PLAIN.items()} | {"decoding__max_new_tokens": 20}


def test_lossless_decoding_and_generate_write_the_same():
    lossless = captioner(decoding__mode="lossless", decoding__k=3, decoding__sound=[], **SHORT)
    ours, theirs = (take(CLIP) for take in (mode(lossless), generated(lossless, "cloud")))
    assert ours.ids == theirs.ids
    assert ours.escalated
    assert min(ours.wall_ms, theirs.wall_ms) > 0


def test_scores_are_never_those_of_a_whole_prompt():
    lossless, rows = captioner(decoding__mode="lossless", decoding__k=3, **SHORT), list[int]()
    _, cloud = lossless.pair.loaded
    head = cloud.module.get_output_embeddings()
    counting = head.register_forward_hook(lambda _module, _inputs, scores: rows.append(scores.shape[1]))
    try:
        mode(lossless)(CLIP)
    finally:
        counting.remove()
    assert max(rows) == 4


@pytest.mark.slow
@pytest.mark.parametrize("against", [None, "decoding.guess_tokens=0"])
def test_the_command_prints_a_row_for_each_contender(capsys, against):
    main(clips=CLIP, rounds=1, against=against)
    lines = capsys.readouterr().out.splitlines()
    others = [f"{name}, {against}" for name in ("edge", "hybrid", "lossless", "cloud")]
    others = ["generate, edge", "generate, cloud"] if against is None else others
    for line, name in zip(lines[2:], ["edge", "hybrid", "lossless", "cloud", *others], strict=False):
        assert line.startswith(f"{name} ")
    assert against is None or lines[-1].endswith("none")
