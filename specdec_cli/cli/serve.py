"""`specdec serve`: the configured models behind HTTP: captions for programs, verification for remote edges."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from specdec_cli.cli import options
from specdec_cli.errors import ConfigError, install

_TOKEN_LENGTH: Final = 16
_PORT: Final = "Port to listen at; 0: any that is free."
_TOKEN: Final = "Variable that holds the clients' token, 16 characters or more; required beyond loopback."
_TOGETHER: Final = "Recordings captioned together."


@options.taking(options.ModelOptions, options.PromptOptions, options.DecodingOptions)
def serve(
    context: typer.Context,
    host: Annotated[str, options.of_network("--host", metavar="ADDRESS", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, options.of_network("--port", metavar="N", help=_PORT, min=0, max=65535)] = 8765,
    token_env: Annotated[str | None, options.of_network("--token-env", metavar="NAME", help=_TOKEN)] = None,
    batch_size: Annotated[int, options.of_work("--batch-size", metavar="N", help=_TOGETHER, min=1, max=256)] = 16,
    debug: options.Debug = False,
) -> None:
    """Serve captions at an OpenAI-compatible endpoint, and the cloud model to remote edges.

    Programs send recordings to /v1/chat/completions (docs/api.md). Edges name this server in `cloud.model`
    (docs/remote.md), if it loads a cloud. Logs are JSON lines on stderr, without audio or text. After SIGTERM
    or SIGINT it finishes what it is answering. Certificate and limits are settings: `specdec config show serve`.
    """
    resolved = options.resolve(context)
    try:
        from specdec_cli.cloud.http import read_token
        from specdec_cli.serve.limits import ServeLimits
        from specdec_cli.serve.server import Place, serve_configured
    except ImportError as error:
        message = f"specdec serve needs a package that is not installed: {error.name}"
        raise ConfigError(message, hint=f"Install it: {install('serve')}") from error
    token = read_token(token_env, "--token-env", least=_TOKEN_LENGTH)
    given = resolved.config.serve
    place = Place(host, port, given.tls_cert, given.tls_key)
    limits = ServeLimits(
        sessions=given.sessions,
        memory_bytes=given.memory_mb << 20,
        clip_s=given.clip_s,
        idle_s=given.idle_s,
        origins=frozenset(given.origins),
    )
    serve_configured(resolved, place, token, limits, room=batch_size, debug=debug)
