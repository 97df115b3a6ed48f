"""What is run and timed: our modes and transformers' generate."""

from specdec_cli.bench.timing import caption, generate
from tests.bench.clip import K


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
