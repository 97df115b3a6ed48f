"""From what a microphone delivers to utterances, each with the time at which it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specdec_cli.audio.microphone import Block
from specdec_cli.audio.pauses import PauseCutter
from specdec_cli.audio.samples import Segment
from specdec_cli.errors import DeviceError


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """What was said between two pauses.

    Attributes:
        segment: its samples and its place in the recording.
        ended: when it ended, `time.monotonic` seconds.
        lost: whether sound is missing in it, because a buffer overflowed.
    """

    segment: Segment
    ended: float
    lost: bool


def utterances(blocks: Iterable[Block], sampling_rate: int, longest_s: float) -> Iterator[Utterance]:
    """Cuts blocks at pauses; an utterance comes 0.3 to 0.6 s after its end, the last ones when the blocks end.

    Args:
        blocks: of samples at `sampling_rate`, Hz.
        longest_s: of an utterance, seconds; a longer one is split.

    Raises:
        DeviceError: the blocks raised it; the utterances until then come first.
    """
    cutter = PauseCutter(sampling_rate, longest_s)
    arrived: deque[tuple[int, Block]] = deque()  # with the sample behind each
    count = 0

    def timed(segment: Segment) -> Utterance:
        first, behind = round(segment.start_s * sampling_rate), round(segment.end_s * sampling_rate)
        while arrived and arrived[0][0] <= first:
            arrived.popleft()
        within = [(end, block) for end, block in arrived if end - len(block.samples) < behind]
        end, last = within[-1]
        return Utterance(segment, last.at - (end - behind) / sampling_rate, any(block.lost for _, block in within))

    gone: DeviceError | None = None
    try:
        for block in blocks:
            count += len(block.samples)
            arrived.append((count, block))
            yield from map(timed, cutter.feed(block.samples))
            while len(arrived) > 1 and arrived[0][0] < count - 2 * longest_s * sampling_rate:
                arrived.popleft()
    except DeviceError as error:
        gone = error  # what was said before it is not lost
    yield from map(timed, cutter.finish())
    if gone is not None:
        raise gone
