"""Errors as the OpenAI API reports them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from starlette.exceptions import HTTPException

from specdec_cli.cloud.http import MalformedError
from specdec_cli.errors import (
    AudioError,
    CloudError,
    ConfigError,
    ContextError,
    EdgeError,
    ScoresError,
    TooLongError,
    as_specdec_error,
)

_log = logging.getLogger("specdec_cli.serve")

_KINDS: Final = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_STATUS: Final = {
    ContextError: 400,
    ScoresError: 400,  # the model passed its self-test, so the request's settings banned all tokens
    TooLongError: 413,
    AudioError: 400,
    ConfigError: 400,
    CloudError: 503,
    EdgeError: 503,
}


class ErrorText(BaseModel):
    """A sentence, its kind, the parameter that is at fault, and a code."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The answer to a request that is refused."""

    error: ErrorText


class ApiError(HTTPException):
    """The API's error: a status, a sentence, the parameter that is at fault, and a code."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message[:2000], headers)
        self.param, self.code = param, code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        kind = _KINDS.get(self.status_code, "invalid_request_error" if self.status_code < 500 else "server_error")
        error = ErrorText(message=self.detail, type=kind, param=self.param, code=self.code)
        return ErrorAnswer(error=error).model_dump()


def event(name: str, **fields: object) -> None:
    """Logs an event. Its fields hold nothing of a clip: no ids, no text, no features."""
    _log.info(name, extra={"fields": fields})


def refusal_of(error: BaseException) -> ApiError:
    """The API's error for an error that ends a request, with specdec's sentence and hint. Logs errors of models."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, error.detail, headers=error.headers)
    if isinstance(error, MalformedError):
        return ApiError(422, str(error))
    known = as_specdec_error(error)
    status = next((code for kind, code in _STATUS.items() if isinstance(known, kind)), 500)
    if status == 500:
        event("model_failed", error=type(error).__name__)
        _log.debug("unexpected error", exc_info=error)
    says = known.message if known.hint is None else f"{known.message.removesuffix('.')}. {known.hint}"
    about = "messages" if isinstance(known, AudioError | ContextError) else None
    code = "context_length_exceeded" if isinstance(known, ContextError) else type(known).__name__
    return ApiError(status, says, about, code)
