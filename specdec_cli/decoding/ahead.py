"""The cloud beside the edge: it reads the clip while the edge drafts, and verifies a block while the edge drafts on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from specdec_cli.decoding.block import AnyDrafter, AnyVerifier, Draft, Verdict
from specdec_cli.decoding.costs import Costs
from specdec_cli.decoding.length import most_drafted

if TYPE_CHECKING:
    from specdec_cli.config.decoding_schema import DecodingConfig
    from specdec_cli.decoding.draft import Drafter
    from specdec_cli.decoding.gate import Gate
    from specdec_cli.decoding.stop import LoopRule

# With `auto` the edge drafts ahead only if a verification lasts at least two of its steps: the first one is spent on
# guessing the cloud's own token, so that a shorter verification would hide nothing.
_STEP_AHEAD: Final = 0.5


@dataclass(eq=False)
class CloudCalls:
    """Calls the cloud for one clip: in the clip's own thread, or in another one beside the edge.

    Attributes:
        begun: whether the cloud has read the clip, or reads it now, so that a further call costs little.
    """

    settings: DecodingConfig
    costs: Costs
    drafter: AnyDrafter | None
    gate: Gate
    cloud_is_parallel: bool = False  # on another device, or remote: it takes no time from the edge
    step_aside: Callable[[], AbstractContextManager[None]] = nullcontext  # around waits that are not for a forward
    begun: bool = field(default=False, init=False)
    _executor: ThreadPoolExecutor | None = field(default=None, init=False)

    @property
    def _ahead(self) -> Drafter | None:
        """The edge, if it may draft on during verifications; else None."""
        wanted = self.settings.draft_ahead == "on" or (self.settings.draft_ahead == "auto" and self.cloud_is_parallel)
        return self.drafter if wanted and self.drafter is not None and not self.drafter.is_remote else None

    @property
    def in_thread(self) -> bool:
        """Whether the cloud works in a thread beside the edge."""
        return self.settings.cloud_prefill == "overlap" or self._ahead is not None

    @property
    def hides(self) -> bool:
        """Whether drafting may have been hidden behind a verification by now."""
        return self._executor is not None and self._ahead is not None

    def prefill(self, cloud: AnyVerifier) -> None:
        """Lets the cloud read the clip beside the edge or before it, if the settings say so.

        Beside the edge, a failure shows at the next call.
        """
        if self.settings.cloud_prefill == "overlap":
            self.submit(cloud.prefill)
        elif self.settings.cloud_prefill == "early":
            with self.waits_for(cloud):
                cloud.prefill()
        self.begun = self.settings.cloud_prefill != "lazy"

    def waits_for(self, model: AnyDrafter | AnyVerifier) -> AbstractContextManager[None]:
        """Around a call of a model. While a remote one answers, forwards of other clips do not wait for this clip."""
        return self.step_aside() if model.is_remote else nullcontext()

    def verify(
        self, cloud: AnyVerifier, text: Sequence[int], draft: Draft, run_on: int, loop_rule: LoopRule
    ) -> Verdict:
        """The cloud's verdict. Meanwhile the edge drafts on after the block, if it may and if that pays."""
        if not self.in_thread:
            with self.waits_for(cloud):
                verdict = cloud.verify(text, draft, run_on)
        else:
            verdict = self._verify_beside(cloud, text, draft, run_on, loop_rule)
        self.begun = True
        return verdict

    def _verify_beside(
        self, cloud: AnyVerifier, text: Sequence[int], draft: Draft, run_on: int, loop_rule: LoopRule
    ) -> Verdict:
        verdict: Future[Verdict] = self.submit(cloud.verify, text, draft, run_on)
        pays = self.settings.draft_ahead == "on" or self.costs.ratio <= _STEP_AHEAD
        if pays and (drafter := self._ahead) is not None:
            most = self.settings.max_new_tokens
            drafter.draft_ahead(self.gate, most_drafted(self.settings), most, (*text, *draft.ids), verdict, loop_rule)
        with self.step_aside():
            return verdict.result()

    def submit(self, call: Callable[..., Any], *args: object) -> Future[Any]:
        """Calls in the other thread, where one call comes after another."""
        if self._executor is None:
            torch = sys.modules.get("torch")  # its number of threads holds only in the thread that sets it
            threads = (torch.set_num_threads, (torch.get_num_threads(),)) if torch else ()
            self._executor = ThreadPoolExecutor(1, "cloud", *threads)
        return self._executor.submit(call, *args)

    def close(self) -> None:
        """Waits for the running call, and ends the thread."""
        if self._executor is not None:
            with self.step_aside():  # a running verification may wait until no clip is at work
                self._executor.shutdown(wait=True, cancel_futures=True)
