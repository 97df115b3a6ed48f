"""A verify server as its clients see it: whether it fits, and which of its answers count."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Final

from specdec_cli.cloud.connection import Reply, Request, UnsoundError
from specdec_cli.cloud.http import Caller, Http, MisconfiguredError, RefusedError, plain
from specdec_cli.cloud.protocol import (
    MAX_ANSWER_BYTES,
    PROTOCOL,
    Code,
    Info,
    MalformedError,
    Problem,
    content_digest,
    digest,
    parse,
)
from specdec_cli.config import CloudConfig
from specdec_cli.errors import CloudError, ConfigError, TokenizerMismatchError
from specdec_cli.models.processor import Processor

INFO: Final = Request("GET", "/v1/info")
HINTS: Final[dict[Code, str]] = {
    "unauthorized": "Set the variable that cloud.token_env names to the server's token.",
    "other_model": "Start anew: the server runs another model now.",
    "too_large": "Use shorter pieces (--segment) or a smaller --max-new-tokens, or raise the server's limits.",
}


class VerifyServer:
    """A verify server at an address.

    Args:
        config: with a `url`.
        processor: makes the prompts.
        own: whether it was loaded for this server; otherwise it is the edge's, whose tokenizer the server must share.

    Attributes:
        name: its address.
        info: what it tells of itself; None as long as it was not reached.

    Raises:
        ConfigError: the token or the certificates are not there.
    """

    def __init__(self, config: CloudConfig, processor: Processor, *, own: bool) -> None:
        assert config.url is not None
        self.name = config.url
        self.processor = processor
        self.http = Http(config, "application/octet-stream", MAX_ANSWER_BYTES, partial(_checked, config.url))
        self.info: Info | None = None
        self._own = own

    def connected(self, caller: Caller) -> Info:
        """What the server tells of itself; requested once.

        Raises:
            CloudError: not reached, or it does not fit.
        """
        if self.info is None:
            info = self.told(caller)
            self._require_fit(info)
            self.info = info
        return self.info

    def told(self, caller: Caller) -> Info:
        """What the server tells of itself, requested again."""
        return caller.fetch(INFO, lambda body: parse(Info, body))

    @cached_property
    def _ours(self) -> dict[str, str]:
        return self.processor.fingerprints()

    def _require_fit(self, info: Info) -> None:
        """Raises CloudError if the server cannot be used with this processor."""
        mine, theirs = self.processor, f"cloud {info.model} at {self.name}"
        role = "cloud.processor" if self._own else "edge"
        hint = "Name the checkpoint that the server runs in cloud.processor, and use one release of transformers."
        if info.protocol != PROTOCOL:
            raise _misfit(
                f"the server at {self.name} (specdec {info.server}) uses protocol {info.protocol}, and this client "
                f"{PROTOCOL}",
                "Install the same version of specdec on both sides.",
            )
        if not self._own and info.tokenizer != self._ours["tokenizer"]:
            refusal = TokenizerMismatchError(
                f"edge {mine.name} and {theirs} have different tokenizers ({self._ours['tokenizer']} and "
                f"{info.tokenizer})",
                hint=f"Drafted ids would mean other words to the cloud. {hint}",
            )
            raise MisconfiguredError(refusal)
        if info.prompts != self._ours["prompts"]:
            made = f"{self._ours['prompts']} and {info.prompts}"
            raise _misfit(f"{role} {mine.name} and {theirs} make different features or prompts ({made})", hint)
        if info.vocab_size < mine.vocab_size or 2 * len(set(info.eos_ids)) > info.vocab_size:
            raise CloudError(
                f"the cloud at {self.name} answers nonsense: {info.vocab_size} token ids, {len(info.eos_ids)} of which "
                f"end a text, where {mine.name} has {mine.vocab_size}"
            )
        if set(info.eos_ids) != set(mine.eos_ids):
            ends = f"{list(mine.eos_ids[:8])} and {info.eos_ids[:8]}"
            raise _misfit(f"{role} {mine.name} and {theirs} end a text with different ids ({ends})", hint)


def _misfit(message: str, hint: str) -> MisconfiguredError:
    return MisconfiguredError(ConfigError(message, hint=hint))


def _checked(url: str, request: Request, reply: Reply) -> bytes:
    """The body, if it is that of a good answer; see `http.Check`."""
    if reply.digest != content_digest(reply.body):
        raise UnsoundError(
            f"what answers with status {reply.status} is no verify server, or its answer was altered on the way"
        )
    if 200 <= reply.status < 300:
        return reply.body
    try:
        problem = parse(Problem, reply.body)
    except MalformedError:
        raise UnsoundError(f"status {reply.status} came without a reason") from None
    if problem.code in ("busy", "too_many_requests"):
        raise UnsoundError(plain(problem.message), patience=True)
    if problem.code == "malformed" and problem.request != digest(request.body):
        raise UnsoundError("the request was altered on the way")
    if problem.code == "model_failed":
        raise UnsoundError(plain(problem.message))
    message, hint = f"the cloud refuses: {plain(problem.message)}", HINTS.get(problem.code)
    if problem.code == "unauthorized":
        raise MisconfiguredError(ConfigError(f"{url}: {message}", hint=hint))
    raise RefusedError(message, hint=hint, code=problem.code, about_clip=problem.code in ("malformed", "too_large"))
