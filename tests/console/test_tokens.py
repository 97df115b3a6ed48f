from __future__ import annotations

from specdec_cli.console.theme import ASCII, STYLES, UNICODE
from specdec_cli.console.tokens import CaptionTrail, render_tokens
from specdec_cli.types import EventText, Round
from tests.console.script import CLOUD, CUT, EN, PARTIAL, ZH, Clip


def rounds(clip: Clip) -> list[tuple[Round, EventText]]:
    return [(event, text) for event, text in clip.events if isinstance(event, Round)]


def plain(clip: Clip, index: int) -> str:
    return render_tokens(*rounds(clip)[index], UNICODE).plain


def test_every_fate_has_its_sign_without_colour() -> None:
    assert plain(ZH, 0) == "说话|人|是|女|声"
    assert plain(ZH, 1) == "✓，|语速|较 ✗慢 -， →快"
    assert plain(ZH, 2) == "✓，|音调|偏|高|， +起"
    assert plain(EN, 2) == "✓a ✗slow -pace|, with →fast"
    assert plain(EN, 6) == "✗, -a loud vol|ume →and"


def test_the_end_of_the_text_is_a_sign() -> None:
    assert plain(ZH, 6) == "。|∎"
    assert render_tokens(*rounds(ZH)[6], ASCII).plain == "。|<end>"


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert plain(PARTIAL, 0) == "✓·|· ✗␣ -⏎ →嗓"


def test_a_draft_beyond_a_stop_rule_is_not_called_rejected() -> None:
    assert plain(CUT, 0) == "one|. -Two three"


def test_cloud_mode_shows_its_tokens_once() -> None:
    assert plain(CLOUD, 0) == "说话|人|是|女|声"


def test_every_fate_has_its_colour() -> None:
    text = render_tokens(*rounds(ZH)[1], UNICODE)
    styles = {text.plain[span.start : span.end]: str(span.style) for span in text.spans}
    assert styles["语速"] == STYLES["accepted"]
    assert styles["慢"] == STYLES["rejected"]
    assert styles["快"] == STYLES["corrected"]
    assert len({STYLES[role] for role in ("edge", "accepted", "rejected", "corrected", "bonus")}) == 5


def test_pieces_with_escapes_and_markup_are_only_text() -> None:
    round_ = Round(0, (1, 2), (0.1, 0.1), (0.1, 0.1), False, None, 2, (1, 2), ("edge", "edge"), 1.0, None)
    text = EventText(("[red]", "\x1b[2J"), ("[red]", "\x1b[2J<|audio_eos|>"), "")
    assert render_tokens(round_, text, UNICODE).plain == "[red]|\\x1b[2J<audio_eos>"


def test_the_caption_knows_what_the_cloud_put_in() -> None:
    trail = CaptionTrail()
    for event, text in rounds(EN):
        trail.add(event, text)
    caption = trail.text()
    assert caption.plain == EN.caption
    assert [caption.plain[span.start : span.end] for span in caption.spans] == ["fast", "pitch", "and", "ang"]


def test_a_caption_that_its_pieces_do_not_spell_is_shown_plain() -> None:
    trail = CaptionTrail()
    for event, text in rounds(PARTIAL):
        trail.add(event, text)
    trail.caption = "她的嗓"
    assert trail.text().plain == "她的嗓"
    assert not trail.text().spans
