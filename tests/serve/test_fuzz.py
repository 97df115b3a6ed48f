"""Requests made from the server's own OpenAPI document, good and bad ones: none makes it fail.

SPECDEC_FUZZ_S is how long it goes on, seconds.
"""

import os
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.mini_pair import voice
from tests.serve.messages import encoded
from tests.support.servers import TOKEN, captioning

SECONDS = float(os.environ.get("SPECDEC_FUZZ_S", "60"))
SOUND = encoded(voice(1, 0.4))
SETTINGS: tuple[dict[str, Any], ...] = (
    {"decoding.k": "auto", "language": "zh"},
    {"gate.name": "entropy", "gate.threshold": 0.0},
    {"decoding.k": "whole", "audio.segment": "pauses"},
    {"decoding.top_k": 10**9, "decoding.acceptance": "typical", "decoding.temperature": 1e-9},
    {"decoding.no_repeat_ngram": 1, "decoding.repetition_penalty": 100, "decoding.loop_period": 64},
    {"audio.start_s": "00:01", "audio.channel": "each"},
    {"decoding.min_new_tokens": 10**30},
)


def _with_sound(value: Any) -> Any:
    """The same, with a recording in place of every text that stands for one."""
    if isinstance(value, dict):
        url = f"data:audio/wav;base64,{SOUND}"
        put = {"data": SOUND, "url": url}
        return {name: put.get(name, _with_sound(part)) for name, part in value.items()}
    return [_with_sound(part) for part in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_no_request_makes_the_server_fail():
    schemathesis = pytest.importorskip("schemathesis")
    import hypothesis
    from hypothesis import strategies as st
    from schemathesis import GenerationMode
    from schemathesis.core import NOT_SET
    from schemathesis.core.errors import InvalidSchema

    statuses = Counter[int]()
    head = {"Authorization": f"Bearer {TOKEN}"}
    with captioning(room=8) as served, httpx.Client(base_url=served.url, headers=head, timeout=600) as client:
        schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
        chat = schema["/v1/chat/completions"]["POST"]
        strategy = st.one_of(*(chat.as_strategy(generation_mode=mode) for mode in modes))

        rules = hypothesis.settings(
            max_examples=100,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )

        @rules
        @hypothesis.given(case=strategy, choices=st.tuples(st.booleans(), st.booleans(), st.sampled_from(SETTINGS)))
        def ask(case: Any, choices: tuple[bool, bool, dict[str, Any]]) -> None:
            heard, set_, settings = choices
            body = case.body
            if heard and isinstance(body, dict):
                part = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
                asked = {"model": "specdec/hybrid", "messages": [{"role": "user", "content": [part]}], "max_tokens": 12}
                body = _with_sound(asked | {name: body[name] for name in body if name not in ("model", "messages")})
                body |= {"specdec": settings} if set_ else {}
            sent: Any = {} if body is NOT_SET else {"content": body} if isinstance(body, bytes) else {"json": body}
            answer = client.post("/v1/chat/completions", **sent)
            statuses[answer.status_code] += 1
            assert answer.status_code < 500, (body, answer.text)
            if answer.headers["content-type"] == "application/json":
                chat.validate_response(answer)

        ends, seed = time.monotonic() + SECONDS, 0
        while time.monotonic() < ends:
            # now and then schemathesis makes a wrong schema of the document's which nothing fits, and stops there
            with suppress(InvalidSchema):
                hypothesis.seed(seed)(ask)()
            seed += 1
        assert served.becomes_idle()
    print(dict(statuses))
    assert statuses[200] > 0
    assert statuses[400] > 0
