"""What a token costs outside of the models' forwards: `python -m tools.overhead`.

The loop, its sessions and their reading of scores run as they do for the mini pair, but a forward only hands out rows
that were made before: random scores over a published vocabulary, raised at the token that is to be written. The edge's
differ from the cloud's in one token of five. Figures are of the process's CPU time on one thread, the stubs' own
subtracted: the median and the least of several clips.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated, Any, Final

import torch
import typer
from transformers.cache_utils import Cache

from specdec_cli.captioner import Captioner
from specdec_cli.config import load_config
from specdec_cli.decoding.pair import Pair
from specdec_cli.models.audio_lm import AudioLM
from specdec_cli.models.processor import test_sound
from specdec_cli.types import Finished
from tools.report import print_table

MODES: Final = ("edge", "lossless", "cloud")
_RAISED: Final = 20.0  # by how much the written token's score exceeds the others, which are of a standard deviation
_WRONG: Final = 5  # every such token of the edge is not the cloud's


class _NoCache:
    """A cache of nothing."""

    layers = ()
    is_croppable = True

    def crop(self, tokens: int) -> None:
        """Nothing is held."""


class StubLM(AudioLM):
    """A loaded model whose forward hands out prepared scores.

    Attributes:
        spent_s: CPU time of its own, to be subtracted.
    """

    def __init__(self, model: AudioLM, text: Sequence[int], vocab_size: int) -> None:
        vars(self).update(vars(model))
        self.spent_s = 0.0
        self._scores = torch.randn(len(text) + 1, vocab_size)  # the last row is never chosen from
        self._scores[range(len(text)), text] = _RAISED
        self.prompt_tokens = 0

    def new_cache(self, length: int) -> Any:  # noqa: ARG002
        return _NoCache()

    def forward(
        self,
        ids: Sequence[int] | torch.Tensor,
        positions: torch.Tensor,
        cache: Cache,  # noqa: ARG002
        rows: int | torch.Tensor,
        audio: Mapping[str, torch.Tensor] | None = None,
        mask: torch.Tensor | None = None,  # noqa: ARG002
    ) -> tuple[torch.Tensor, float, int]:
        started = time.process_time()
        assert isinstance(rows, int)
        end = int(positions[0]) + len(ids) - self.prompt_tokens + 1  # rows are after 0 and more tokens of text
        made = self._scores[end - rows : end].clone()
        self.spent_s += time.process_time() - started
        return made, 0.0, int(audio is not None)


def measure(
    mode: Annotated[list[str], typer.Option(help="Modes, each by itself.")] = list(MODES),  # noqa: B006
    vocabulary: Annotated[int, typer.Option(help="Scores of a row.")] = 152_000,
    tokens: Annotated[int, typer.Option(help="Of a caption.")] = 40,
    repeat: Annotated[int, typer.Option(help="Captions of each mode.")] = 40,
    k: Annotated[int, typer.Option(help="Drafted tokens of a block.")] = 5,
) -> None:
    """Prints milliseconds a token, outside of the forwards."""
    torch.set_num_threads(1)
    flags = {"decoding.k": k, "decoding.guess_tokens": 0, "runtime.threads": 1}
    flags |= {"decoding.max_new_tokens": tokens, "decoding.loop_period": 0}
    loaded = Captioner.load("mini", {"decoding.mode": "hybrid", "runtime.threads": 1}).pair
    text = [1000 + at for at in range(tokens)]
    edge_text = [id_ + 500 * (at % _WRONG == _WRONG - 1) for at, id_ in enumerate(text)]
    edge, cloud = (StubLM(model, own, vocabulary) for model, own in zip(loaded.loaded, (edge_text, text), strict=True))
    table = []
    for name in mode:
        pair = Pair(edge if name != "cloud" else None, cloud if name != "edge" else None, vocabulary)
        config = load_config("mini", flags=flags | {"decoding.mode": name}).config
        captioner = Captioner(config, pair)
        run = captioner.run_samples(test_sound(1.0, 16_000), 16_000, name="tone")
        assert run.prompts is not None
        prompt, made = run.prompts
        edge.prompt_tokens = 0 if prompt is None else len(prompt.ids)
        cloud.prompt_tokens = 0 if made is None else len(made().ids)
        taken = list[float]()
        for _ in range(repeat):
            loop = pair.loop(config, run.prompts, captioner.gate, synonyms=captioner.synonyms)
            edge.spent_s = cloud.spent_s = 0.0
            started = time.process_time()
            *_, finished = loop.events()
            taken.append((time.process_time() - started - edge.spent_s - cloud.spent_s) * 1e3 / tokens)
            assert isinstance(finished, Finished)
            if list(finished.token_ids) != (edge_text if name == "edge" else text):
                raise RuntimeError(f"{name} wrote {finished.token_ids}")
        table.append((name, f"{median(taken):.3f}", f"{min(taken):.3f}"))
    print_table(f"ms a token outside of forwards, vocabulary of {vocabulary:,}", ("mode", "median", "least"), table)


if __name__ == "__main__":
    typer.run(measure)
