"""Which answers of a verify server count."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from specdec_cli.cloud.connection import Reply, Request, UnsoundError, plain
from specdec_cli.cloud.http import MisconfiguredError, RefusedError
from specdec_cli.cloud.protocol import (
    Code,
    Judgement,
    MalformedError,
    Problem,
    Question,
    content_digest,
    digest,
    parse,
)
from specdec_cli.errors import CloudError, ConfigError

HINTS: Final[dict[Code, str]] = {
    "unauthorized": "Set the variable that cloud.token_env names to the server's token.",
    "other_model": "Start anew: the server runs another model now.",
    "too_large": "Lower audio.segment_s or decoding.max_new_tokens, or raise the server's limits.",
}


def checked(url: str, request: Request, reply: Reply) -> bytes:
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


def require_possible(
    judgement: Judgement | None,
    question: Question,
    vocab_size: int,
    stop_ids: Collection[int],
    never: Collection[int],
    name: str,
) -> Judgement:
    """The judgement, if it can be one of that question. Raises CloudError if not."""
    if judgement is None:
        raise CloudError(f"the cloud at {name} answers nonsense: no judgement")
    tokens, wrong = (judgement.token, *judgement.more), None
    if judgement.accepted > len(question.draft) or len(judgement.more) > question.more:
        wrong = (
            f"{judgement.accepted} of {len(question.draft)} drafted tokens accepted, and "
            f"{len(judgement.more)} more where at most {question.more} were requested"
        )
    elif max(tokens) >= vocab_size:
        wrong = f"token {max(tokens)} of {vocab_size}"
    elif placeholders := set(never).intersection(tokens):
        wrong = f"token {min(placeholders)}, which stands for audio"
    elif set(stop_ids).intersection(tokens[:-1]):
        wrong = "tokens after the end of the text"
    elif (judgement.near_ties or 0) > judgement.accepted + 1:
        wrong = f"{judgement.near_ties} near ties in {judgement.accepted + 1} positions"
    if wrong:
        raise CloudError(f"the cloud at {name} answers nonsense: {wrong}")
    return judgement
