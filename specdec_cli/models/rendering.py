"""Chat templates of checkpoints, rendered in a process of their own with little time and memory.

A template is somebody else's program: it can loop without end, or multiply strings until the memory is full. Its
result depends on instruction and system prompt alone, so one process serves all clips of a command. Run as a script,
this module is that process; it imports jinja2 and nothing of specdec.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

LIMIT_S: Final = 2  # of CPU time
_WAIT_S: Final = 60  # by the clock, on a machine that is busy
_MEMORY: Final = 512 << 20  # bytes
_LONGEST: Final = 1 << 20  # characters of a prompt


class TemplateError(ValueError):
    """A chat template that fails, takes too much, or does not make the prompt that it has to make."""


def rendered(template: str, turns: list[dict[str, Any]], tokens: dict[str, Any]) -> str:
    """The prompt that a template makes of a conversation, with a place for the answer.

    `tokens` are the tokenizer's special tokens by name. Raises TemplateError: it fails, or takes more than its limits.
    """
    return _rendered(json.dumps({"template": template, "messages": turns, "tokens": tokens}))


@lru_cache(maxsize=256)
def _rendered(task: str) -> str:
    # -P: the folder of this module is no place to import from
    way = [sys.executable, "-P", __file__]
    try:
        done = subprocess.run(way, input=task.encode(), capture_output=True, timeout=_WAIT_S, check=False)
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):  # killed before it could answer
        limits = f"{LIMIT_S} s and {_MEMORY >> 20} MB"
        raise TemplateError(f"it takes more than {limits}, the most that a template gets") from None
    if "error" in answer:
        raise TemplateError(answer["error"])
    text: str = answer["text"]
    return text


def _render(task: dict[str, Any]) -> dict[str, str]:
    """Renders as `transformers.utils.chat_template_utils` does: {"text": ...} or {"error": ...}."""
    from jinja2.exceptions import TemplateError as JinjaError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %}, which marks answers for training, and changes no prompt."""

        tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise JinjaError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **how)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    given = {"messages": task["messages"], "tools": None, "documents": None, "add_generation_prompt": True}
    try:
        parts, length = [], 0
        for part in environment.from_string(task["template"]).generate(**given, **task["tokens"]):
            parts.append(part)
            length += len(part)
            if length > _LONGEST:
                return {"error": f"it makes a prompt of more than {_LONGEST:,} characters"}
    except MemoryError:
        return {"error": f"it takes more than {_MEMORY >> 20} MB, the most that a template gets"}
    except Exception as error:  # a template is a program, and may raise anything
        return {"error": f"{type(error).__name__}: {str(error)[:500]}"}
    return {"text": "".join(parts)}


def _main() -> None:
    task = json.loads(sys.stdin.buffer.read())
    _limit()
    sys.stdout.write(json.dumps(_render(task)))


def _limit() -> None:
    """Limits time and memory of this process; Windows knows no such limits, and `_WAIT_S` alone holds there."""
    try:
        import resource
    except ImportError:
        return
    for kind, most in ((resource.RLIMIT_CPU, LIMIT_S), (resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # a stricter one is set already, or the system knows none
            resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    _main()
