"""Messages between `specdec serve` and its clients, version 10: JSON, followed by tensors as safetensors has them.

| request                        | body                                       | answer   |
|--------------------------------|--------------------------------------------|----------|
| GET /v1/info                   |                                            | `Info`   |
| PUT /v1/sessions/{id}          | `ClipRequest`, with its tensors and draft's | `Answer` |
| POST /v1/sessions/{id}/verify  | `BlockRequest`, with its draft's tensors   | `Answer` |
| DELETE /v1/sessions/{id}       |                                            | 204      |

A body is four bytes (length of the JSON, little-endian, at most 1 MiB), the JSON, and the tensors, if any: those of the
clip, by the names of arguments of the module's forward; under the rule `sampling` also the draft's distributions. Every
request may be repeated: the client names the session by a random UUID, and a block comes with the whole text before it,
so the server needs no memory of earlier blocks. A refusal has a status, and its reason in
`{"error": {"message": ...}}`. A reason with `http.FORGOTTEN` means: send the clip again; 5xx: try again later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Annotated, Final

import torch
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from safetensors.torch import load, save

from specdec_cli.cloud.http import M, MalformedError, parse
from specdec_cli.config.decoding_schema import AcceptanceRules, ScoringConfig
from specdec_cli.decoding.block import Verdict
from specdec_cli.decoding.remote import ClipGrounding
from specdec_cli.prompts import Language
from specdec_cli.types import Measured, ModelWork

PROTOCOL: Final = 10  # both ends must use the same
MAX_JSON_BYTES: Final = 1 << 20  # of the JSON part of a body
MOST_LISTED: Final = 20  # most likely tokens of a position that an answer may list
DISTRIBUTIONS: Final = ("distributions.places", "distributions.probabilities")
"""Tensors of a draft's distributions [m, vocab]: flat places above zero, int32 [n], and their values, float32 [n]."""

_LENGTH: Final = 4  # bytes of the length of the JSON
_HEADER_BYTES: Final = 1 << 14  # of the tensors' own header
_LARGEST_COUNT: Final = 1 << 53
_LARGEST: Final = 65504.0  # largest number of float16; features are far below

_MOST_GROUPED: Final = 20_000  # tokens of the rule class


def _few_grouped(given: object) -> object:
    """Refuses too many before each wrong one becomes an error, which takes a kB."""
    if isinstance(given, dict) and len(given) > _MOST_GROUPED:
        raise ValueError(f"may have {_MOST_GROUPED} tokens")
    return given


TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
Count = Annotated[int, Field(ge=0, lt=_LARGEST_COUNT)]
Positive = Annotated[int, Field(gt=0, lt=1 << 31)]
Name = Annotated[str, Field(max_length=500, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]
Ids = Annotated[list[TokenId], Field(fail_fast=True, max_length=1 << 18)]  # a MiB of JSON holds twice as many
Tensors = dict[str, torch.Tensor]


class Message(BaseModel):
    """Base of all messages: frozen, strict, nothing unknown, no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Info(Message):
    """The server and its model: enough to check that ids, tensors and prompts mean the same at both ends."""

    protocol: int
    server: Name  # version of specdec
    model: Name  # as the server's configuration names it
    dtype: Name
    device: Name
    weights: Name | None = None  # their fingerprint; null: unknown
    tokenizer: Name  # fingerprint of its pieces and their ids
    prompts: Name  # fingerprint of prompts and tensors that its processor makes
    identity: Name  # fingerprint of the model and its processor; a clip names the one that it was made for
    lexicon: Name  # digest of the lexicon by which the sound bans tokens
    vocab_size: Positive  # leading token ids that may be used
    eos_ids: Ids = Field(min_length=1, max_length=1000)


class BlockRequest(Message):
    """A draft to verify after a text."""

    text: Ids  # all committed token ids
    draft: Ids  # drafted ids, possibly none
    run_on: Count = 0  # tokens to generate after the cloud's own token


class ClipFigures(Message):
    """The figures of a clip and what they decide: numbers, never the waveform."""

    measured: Measured
    language: Language  # of the caption
    attributes: list[Name] = Field(min_length=1, max_length=100)  # whose classes they decide, by the server's lexicon

    @classmethod
    def of(cls, grounding: ClipGrounding) -> ClipFigures:
        """The message about a clip's sound."""
        return cls(measured=grounding.measured, language=grounding.language, attributes=sorted(grounding.attributes))


class ClipRequest(Message):
    """A clip to open a session for, and the first block to verify."""

    identity: Name  # `Info.identity` of the server that the clip was made for
    prompt_ids: Ids = Field(min_length=1)  # one placeholder per audio token
    samples: Positive  # length of the clip, at the model's sampling rate
    capacity: Positive  # most tokens after the prompt at any time
    longest: Positive  # most tokens of the text: none are generated past it
    vocab_size: Positive  # ids from here on are never scored
    stop_ids: Ids = Field(max_length=1000)  # nothing is generated after any of these
    scoring: ScoringConfig  # of the run; null: as the server's checkpoint suggests
    acceptance: AcceptanceRules
    guess_tokens: int = Field(default=0, ge=0, le=64)  # most to guess from the captions that the server has finished
    top_n: int | None = Field(default=None, ge=1, le=MOST_LISTED)  # most likely tokens to list; null: none
    synonyms: (
        Annotated[dict[Annotated[int, Field(strict=False, ge=0, lt=1 << 31)], Count], BeforeValidator(_few_grouped)]
        | None
    ) = None  # rule class: token id -> group; null: none
    sound: ClipFigures | None = None  # null: it bans nothing
    block: BlockRequest | None = None  # null: only encode the clip


def _plausible(work: ModelWork) -> ModelWork:
    """Refuses figures that are negative, not finite, or larger than any run makes them."""
    if not all(0 <= figure < _LARGEST_COUNT for figure in astuple(work)):
        raise ValueError("a figure is impossible")
    return work


class Answer(Message):
    """The verdict on a block, and the model's work for the session so far."""

    verdict: Verdict | None = None  # null: the request had no block
    work: Annotated[ModelWork, AfterValidator(_plausible)]
    cloud_ms: Annotated[float, Field(ge=0, le=1e9)]  # from the whole request to the answer, waiting included


def pack(message: Message, tensors: Tensors) -> bytes:
    """A body: the message, and the tensors after it."""
    text = message.model_dump_json(exclude_none=True).encode()
    return b"".join((len(text).to_bytes(_LENGTH, "little"), text, save(tensors) if tensors else b""))


def unpack(kind: type[M], body: bytes) -> tuple[M, Tensors]:
    """The message at the head of a body, and the tensors after it, as they were sent. Raises MalformedError."""
    end = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    if not _LENGTH <= end <= min(_LENGTH + MAX_JSON_BYTES, len(body)):
        raise MalformedError(f"the JSON of a body may have {MAX_JSON_BYTES} bytes, and no more than the body")
    message, data = parse(kind, body[_LENGTH:end]), body[end:]
    if int.from_bytes(data[:8], "little") > _HEADER_BYTES:  # as safetensors begins
        raise MalformedError(f"the header of the tensors may have {_HEADER_BYTES} bytes")
    try:
        return message, load(data) if data else {}
    except Exception as error:  # its own, and whatever PyTorch raises over an absurd shape
        raise MalformedError(f"its tensors cannot be read: {type(error).__name__}") from error


def as_sent(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    """A clip's tensors as they are sent: floats in float16, exact to a thousandth; integers below 256 as bytes."""
    sent = {name: values.detach().cpu().contiguous() for name, values in tensors.items()}
    for name, values in sent.items():
        if values.is_floating_point():
            sent[name] = values.half()
        elif values.dtype != torch.bool and int(values.min()) >= 0 and int(values.max()) < 1 << 8:
            sent[name] = values.to(torch.uint8)
    return sent


def widened(sent: Tensors) -> Tensors:
    """Tensors for a forward from those that were sent: floats as float32, integers as int64.

    Raises MalformedError for floats that are not finite, or beyond the range of float16.
    """
    wide = dict(sent)
    for name, values in sent.items():
        if values.is_floating_point():
            wide[name] = values.float()
            if not bool((wide[name].abs() <= _LARGEST).all()):
                raise MalformedError("a tensor is not finite, or holds values that no features have")
        elif values.dtype != torch.bool:
            wide[name] = values.long()
    return wide


def pack_distributions(rows: torch.Tensor) -> Tensors:
    """`DISTRIBUTIONS` of probabilities [m, vocab], unrounded: the rule divides by them and subtracts them."""
    values = rows.detach().to("cpu", torch.float32).flatten()
    places = values.nonzero()[:, 0]
    return dict(zip(DISTRIBUTIONS, (places.int(), values[places]), strict=True))


def unpack_distributions(tensors: Tensors, draft: Sequence[int], vocab_size: int) -> torch.Tensor:
    """The distributions [m, vocab] from which the tokens of a draft were drawn.

    Raises MalformedError if they do not add up to 1, or give a drafted token no chance.
    """
    rows = torch.zeros(len(draft) * vocab_size)
    places, values = (tensors[name] for name in DISTRIBUTIONS)
    fits = (places.dtype, values.dtype, places.shape) == (torch.int32, torch.float32, values.shape)
    if fits and bool(((places >= 0) & (places < len(rows)) & (values > 0)).all()):
        rows[places.long()] = values
    rows = rows.view(len(draft), vocab_size)
    if not bool(((rows.sum(dim=-1) - 1).abs() < 0.01).all() and rows[torch.arange(len(draft)), list(draft)].all()):
        raise MalformedError("the draft's distributions are none, or give a drafted token no chance")
    return rows
