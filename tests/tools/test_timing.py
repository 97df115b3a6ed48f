"""What is run and timed: our modes and transformers' generate."""

from pathlib import Path

from tests.mini_pair import captioner
from tests.tools.clip import K
from tools.timing import caption, generate, read_clips


def test_generate_and_our_modes_write_the_same(lossless, clip):
    _, cloud = lossless.pair.loaded
    ours, alone = caption(lossless, clip), generate(cloud, clip.cloud, lossless.config.decoding)
    assert ours.ids == alone.ids
    assert 0 < ours.work.reading_ms < ours.wall_ms


def test_scores_are_never_those_of_a_whole_prompt(lossless, clip):
    rows: list[int] = []
    _, cloud = lossless.pair.loaded
    head = cloud.module.get_output_embeddings()
    counting = head.register_forward_hook(lambda _module, _inputs, scores: rows.append(scores.shape[1]))
    try:
        caption(lossless, clip)
    finally:
        counting.remove()
    assert len(clip.cloud.ids) > K + 1
    assert max(rows) == K + 1


def test_the_sound_bans_what_it_bans_in_a_batch():
    both = captioner(gate__threshold=1.0, prompt__language="en")  # certain of everything
    path = str(Path(__file__).parents[2] / "samples/en_male_fast_loud.flac")
    (clip,) = read_clips(both, [path])
    (run,) = both.runs(path)
    timed = [token.instead for block in caption(both, clip).rounds for token in block.tokens]
    sound = [pair for round_ in run.finish().rounds for pair in round_.sound]
    assert sum(each is not None for each in timed) == len(sound) > 0
