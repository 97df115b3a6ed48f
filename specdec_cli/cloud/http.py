"""Tokens, certificates and answers of calls to a server, and the errors that their failures become."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from specdec_cli.config import Server
from specdec_cli.errors import CloudError, ConfigError, SpecdecError, first_line
from specdec_cli.text import paragraph

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

MOST_REASON_BYTES: Final = 1 << 16  # of an answer that says why a request is refused
_MOST_NAMED: Final = 100  # errors of a message; if it has more, none is named
FORGOTTEN: Final = "cache miss"  # part of the reason if a server has dropped a clip, as vLLM writes it
_HINTS: Final = {
    401: "Set the variable that {role}.token_env names to the server's token (of a vLLM, its --api-key).",
    403: "A vLLM needs --enable-scale-out, and its --api-key in the variable that {role}.token_env names.",
    404: "Check {role}.model; a vLLM needs --enable-scale-out.",
    409: "Start anew: the server runs another model now.",
    413: "Lower audio.segment or decoding.max_new_tokens, or raise serve.clip_s or serve.memory_mb of the server.",
}
"""HTTP status of a refused request -> what to do."""
_CERTIFICATE_HINTS: Final = {
    "mismatch": "Write the host in {role}.model as the certificate has it, or make one for this host (docs/remote.md).",
    "expired": "Give the server a new certificate (docs/remote.md).",
    "": "Copy the file of its serve.tls_cert here and name it in remote.ca_file (docs/remote.md).",
}
"""Word of the reason why a certificate is refused -> what to do; the first that fits."""


class MalformedError(ValueError):
    """A malformed body, or an answer worth another try; the message never quotes it."""


class RefusedError(CloudError):
    """The server refuses a request for good, or does not fit. When models are loaded it becomes an error of `kind`."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        about_clip: bool = False,
        kind: type[SpecdecError] = ConfigError,
    ) -> None:
        super().__init__(message, hint=hint)
        self.about_clip, self.kind = about_clip, kind


class ForgottenError(RefusedError):
    """The server has dropped the clip; it can be sent again."""


def refusal(status: int, body: bytes, role: str, url: str) -> Exception:
    """The error for an answer of another status than 2xx. A MalformedError leads to another try."""
    reason, hint = "no reason given", _HINTS.get(status)
    try:
        found = json.loads(body)
        reason = paragraph(str(found["error"]["message"] if "error" in found else found["detail"]))[:300]
    except (ValueError, TypeError, KeyError, RecursionError):
        if status <= 400:  # so web servers answer that expect TLS, or redirect to it
            hint = "Check {role}.model: is it the address of the server itself, with https:// if that uses TLS?"
    if status == 429 or status >= 500:
        return MalformedError(f"status {status}: {reason}")
    message = f"the {role} at {url} answers status {status}: {reason}"
    if FORGOTTEN in reason.lower():
        return ForgottenError(message)
    return RefusedError(message, hint and hint.format(role=role), about_clip=status in (400, 413, 422))


def failure_of(error: Exception, config: Server, role: str) -> str:
    """Why a try failed. Raises RefusedError if the configuration prevents a TLS connection."""
    reason = first_line(error)
    if "[SSL:" not in reason or "EOF" in reason:  # a connection that ended is the network's fault
        cut = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) and config.url.startswith("http:")
        return f"{reason} (if it uses TLS, write https:// in {role}.model)" if cut else reason
    what, hint = "it does not use TLS", "Write http:// in {role}.model, or serve with serve.tls_cert and serve.tls_key."
    if refused := re.search(r"certificate verify failed: (.+?)\.? \(_ssl", reason):
        trusting = config.ca_file or "the public authorities"
        what = f"its certificate is not trusted by {trusting} ({refused[1]})"
        hint = next(hint for word, hint in _CERTIFICATE_HINTS.items() if word in refused[1])
    elif "ALERT" in reason:  # sent by the server's own TLS
        what, hint = reason, "Does it, or a proxy before it, ask for a client's certificate, or another version of TLS?"
    raise RefusedError(f"{config.url} cannot be connected to: {what}", hint.format(role=role)) from error


def trusted(config: Server) -> ssl.SSLContext | bool:
    """The certificates to trust: a file's, or the public ones (True); False if the address uses no TLS."""
    if config.ca_file is None:
        return not config.url.startswith("http:")  # reading the public ones takes 30 ms
    try:
        return ssl.create_default_context(cafile=config.ca_file)
    except OSError as error:
        message = f"remote.ca_file {config.ca_file} cannot be read: {error}"
        raise ConfigError(message, hint="Give a PEM file.") from error


def read_token(variable: str | None, asked_by: str, least: int = 1) -> str | None:
    """The token in an environment variable, so that neither files nor lists of processes show it.

    Raises ConfigError, which names the setting or flag `asked_by`, if it has fewer than `least` visible characters.
    """
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if re.fullmatch(rf"[!-~]{{{least},}}", token) is None:
        what = f"holds no token of at least {least} ASCII characters without blanks" if token else "is not set"
        hint = f"export {variable}={'$(openssl rand -hex 32)' if least > 1 else '...'}"
        raise ConfigError(f"{asked_by} is {variable}, but that variable {what}.", hint=hint)
    return token


def require_few(text: bytes | bytearray, most: int) -> None:
    """Raises MalformedError if a JSON text has more than `most` commas and brackets.

    Parsing takes a kB for an empty list, which is two bytes of text.
    """
    if sum(text.count(sign) for sign in b",[{") > most:
        raise MalformedError(f"may have {most} commas and brackets")


def parse(kind: type[M], text: bytes) -> M:
    """The message in a JSON text. Raises MalformedError, which names the first wrong field, and no value.

    A message has to bound its lists and let them fail at their first wrong item: one error for each item would take a
    hundred times the memory of the text.
    """
    return checked(kind.__name__.strip("_"), kind.model_validate_json, text)


def checked(name: str, validate: Callable[[Any], T], value: object) -> T:
    """The result of `validate` on a value. Raises MalformedError as `parse` does; `name` says of what."""
    try:
        return validate(value)
    except ValidationError as error:
        if error.error_count() > _MOST_NAMED:
            raise MalformedError(f"{name}: wrong in {error.error_count()} places") from None
        detail = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part)[:40] for part in detail["loc"][:6])
        raise MalformedError(f"{name} {place or 'as a whole'}: {detail['msg'][:200]}") from None
