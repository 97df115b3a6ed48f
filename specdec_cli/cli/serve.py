"""`specdec serve`: the configured models behind HTTP: captions for programs, verification for remote edges."""

# no postponed annotations: see `specdec_cli.cli.options`

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from specdec_cli.cli import options
from specdec_cli.errors import ConfigError, install

_TOKEN_LENGTH: Final = 16
_PORT: Final = "Port to listen at; 0: any that is free."
_TOKEN: Final = "Variable that holds the clients' token, 16 characters or more; required beyond loopback."
_TOGETHER: Final = "Recordings captioned together."


@dataclass(frozen=True, kw_only=True)
class ServeCommand(options.RunOptions):
    """Programs send recordings to /v1/chat/completions, as to OpenAI; edges name this server with --cloud. Logs are
    JSON lines on stderr, without audio or text. After SIGTERM or Ctrl-C it finishes what it is answering. Certificate
    and limits are settings: specdec config show serve.
    """

    name: ClassVar[str] = "serve"

    host: Annotated[str, options.of_network("--host", metavar="ADDRESS", help="Address to listen at.")] = "127.0.0.1"
    port: Annotated[int, options.of_network("--port", metavar="N", help=_PORT, min=0, max=65535)] = 8765
    token_env: Annotated[str | None, options.of_network("--token-env", metavar="NAME", help=_TOKEN)] = None
    batch_size: Annotated[int, options.of_work("--batch-size", metavar="N", help=_TOGETHER, min=1, max=256)] = 16

    def run(self) -> int:
        """See `Command.run`."""
        resolved = self.resolved()
        try:
            from specdec_cli.cloud.http import read_token
            from specdec_cli.serve.limits import ServeLimits
            from specdec_cli.serve.server import ServerAddress, serve_configured
        except ImportError as error:
            message = f"specdec serve needs a package that is not installed: {error.name}"
            raise ConfigError(message, hint=f"Install it: {install('serve')}") from error
        token = read_token(self.token_env, "--token-env", least=_TOKEN_LENGTH)
        given = resolved.config.serve
        place = ServerAddress(self.host, self.port, given.tls_cert, given.tls_key)
        limits = ServeLimits(
            sessions=given.sessions,
            memory_bytes=given.memory_mb << 20,
            clip_s=given.clip_s,
            idle_s=given.idle_s,
            origins=frozenset(given.origins),
        )
        serve_configured(resolved, place, token, limits, room=self.batch_size, debug=self.debug)
        return 0
