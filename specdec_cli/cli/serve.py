"""`specdec serve`: the configured models behind HTTP: captions for programs, verification for remote edges."""

from __future__ import annotations

import typer

from specdec_cli.cli import options
from specdec_cli.errors import ConfigError, install

_TOKEN_LENGTH = 16


@options.taking(options.ModelOptions, options.PromptOptions, options.DecodingOptions, options.VerifyOptions)
def serve(
    context: typer.Context,
    host: options.Host = "127.0.0.1",
    port: options.Port = 8765,
    token_env: options.TokenVariable = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    audio_host: options.AudioHosts = None,
    batch_size: options.ServedAtATime = 16,
    max_sessions: options.MaxSessions = 64,
    memory_mb: options.MemoryMb = 4096,
    max_clip_seconds: options.MaxClipSeconds = None,
    idle_s: options.IdleSeconds = 120.0,
    debug: options.Debug = False,
) -> None:
    """Serve captions at an OpenAI-compatible endpoint, and the cloud model to remote edges.

    Programs send recordings to /v1/chat/completions (docs/api.md). Edges name this server in `cloud.url`
    (docs/remote.md), if it loads a cloud. Logs are JSON lines on stderr, without audio or text. SIGTERM and SIGINT let
    it finish what it is answering.
    """
    resolved = options.resolve(context)
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together.", hint="Give both PEM files, or neither.")
    try:
        from specdec_cli.cloud.http import read_token
        from specdec_cli.serve.fetch import hosts
        from specdec_cli.serve.limits import ServeLimits
        from specdec_cli.serve.server import Place, serve_configured
    except ImportError as error:
        message = f"specdec serve needs a package that is not installed: {error.name}"
        raise ConfigError(message, hint=f"Install it: {install('serve')}") from error
    token = read_token(token_env, "--token-env", least=_TOKEN_LENGTH)
    place = Place(host, port, str(tls_cert) if tls_cert else None, str(tls_key) if tls_key else None)
    limits = ServeLimits(
        sessions=max_sessions,
        memory_bytes=memory_mb << 20,
        clip_s=max_clip_seconds,
        idle_s=idle_s,
        audio_hosts=hosts(audio_host or ()),
    )
    serve_configured(resolved, place, token, limits, room=batch_size, debug=debug)
