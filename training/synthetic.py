"""Synthetic speech from espeak-ng, for training: its rate, pitch, range, pauses and level are set, then measured.

Real Mandarin speech with a usable licence was not found, so these clips teach the pair that the rate
of Chinese is counted in characters a second, and what silence and very even or very wide intonation sound like.
"""

from __future__ import annotations

import io
import re
import subprocess
from dataclasses import dataclass
from typing import Final

import numpy as np
import soundfile
import soxr

from specdec_cli.audio.prosody import f0_contour, f0_median_and_range, speech_activity
from training.corpus import SAMPLE_RATE, Waveform
from training.labels import Measures
from training.timbre import alpha_ratio_db

SENTENCES: Final[dict[str, tuple[str, ...]]] = {
    "cmn": (
        "昨天晚上，我们一起去河边散步。",
        "请把桌子上的蓝色杯子递给我。",
        "这本书，我已经读了三遍，还是觉得很有意思。",
        "火车马上就要开了，你快一点。",
        "他每天早上都会喝一杯热牛奶。",
        "如果明天下雨，比赛就改到星期天。",
        "老师说，这道题目其实并不难。",
        "超市门口，有一只很小的白猫。",
        "我忘记带钥匙了，只好在门外等着。",
        "山上的空气，比城里好得多。",
        "你听说了吗，他们下个月要搬家。",
        "这个菜有点咸，下次少放一些盐。",
        "窗户外面，传来了一阵奇怪的声音。",
        "爸爸在厨房里做饭，妈妈在客厅看报纸。",
        "公园里的花都开了。",
        "谢谢你的帮助，我一定会记住的。",
        "电脑突然坏了，文件还没有保存。",
        "我们坐在树下，慢慢地聊着从前的事情。",
        "医生让他多休息，少吃油腻的东西。",
        "到了路口以后，往左边走两百米。",
        "没有人知道他去了哪里。",
        "孩子们在操场上，高兴地跑来跑去。",
        "这件衣服颜色不错，就是太大了。",
        "会议从下午两点，一直开到晚上七点。",
    ),
    "en": (
        "The ferry leaves the harbour at half past nine.",
        "She wrapped the bread in paper, and put it on the shelf.",
        "Nobody told me that the library was closed today.",
        "If you turn left at the bridge, you will see a yellow house.",
        "My neighbour grows tomatoes on his balcony.",
        "We waited for the rain to stop, but it never did.",
        "Please write your name on the first page.",
        "The children built a small boat out of branches.",
        "After dinner, they walked along the river and talked.",
        "He forgot his umbrella on the train again.",
        "There are seven apples in the basket.",
        "I have never seen such a quiet street.",
        "The meeting was moved to Thursday, because the room was taken.",
        "Someone has painted the gate green.",
        "Could you hold this ladder for a moment?",
        "The soup is still hot, so be careful.",
        "A letter arrived this morning, without a stamp.",
        "They planted an old oak beside the church.",
        "Our teacher speaks four languages.",
        "It snowed all night, and the roads are white.",
    ),
    "de": (
        "Der Zug nach Hamburg hat heute zwanzig Minuten Verspätung.",
        "Meine Schwester wohnt in einem kleinen Dorf, nahe an der Grenze.",
        "Kannst du mir bitte das Salz geben?",
        "Am Abend sitzen wir oft im Garten, und hören Musik.",
        "Der Hund schläft unter dem Tisch.",
        "Wenn es morgen regnet, bleiben wir zu Hause.",
    ),
    "pl": (
        "Wczoraj wieczorem poszliśmy nad rzekę.",
        "Mój brat kupił nowy rower, ale nie umie na nim jeździć.",
        "Proszę zamknąć okno, bo jest zimno.",
        "W sobotę pojedziemy do lasu na grzyby.",
        "Ta książka leży na stole.",
        "Kiedy przyjedzie pociąg, zadzwonię do ciebie.",
    ),
}
SHARES: Final = {"cmn": 0.46, "en": 0.30, "de": 0.12, "pl": 0.12}
VARIANTS: Final = {"m": ("", "+m1", "+m2", "+m3", "+m4", "+m6", "+m7"), "f": ("+f1", "+f2", "+f3", "+f4", "+f5")}
VOICES: Final = {"cmn": "cmn-latn-pinyin"}
"""The plain Mandarin voice of espeak-ng 1.51 spells pinyin out in English, tone numbers included."""
SPEEDS: Final = {"cmn": (85, 430)}
"""espeak-ng counts words a minute by its own measure: the same figure is slower in Mandarin."""
_VOWELS: Final = re.compile(r"[aeiouyøœɐɑɒæəɚɛɜɝɪɔʊʌɨʉɯɤɵɶʏ]+|[nlmr]̩")
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True)
class Recipe:
    """How one clip is spoken. `speed` in espeak words a minute, `pitch` 0-99, `range_percent` of intonation."""

    language: str
    gender: str
    variant: str
    text: str
    speed: int
    pitch: int
    range_percent: int
    pause_ms: int


def draw_recipe(rng: np.random.Generator) -> Recipe:
    """A random recipe: one or two sentences, any rate, and for a third of the clips long pauses at commas."""
    language = str(rng.choice(list(SHARES), p=list(SHARES.values())))
    gender = str(rng.choice(["m", "f"]))
    count = int(rng.choice([1, 2], p=[0.75, 0.25]))
    return Recipe(
        language=language,
        gender=gender,
        variant=str(rng.choice(VARIANTS[gender])),
        text=" ".join(str(sentence) for sentence in rng.choice(SENTENCES[language], count, replace=False)),
        speed=int(rng.integers(*SPEEDS.get(language, (85, 270)))),
        pitch=int(rng.integers(10, 100) if gender == "m" else rng.integers(25, 100)),
        range_percent=int(rng.choice([10, 60, 100, 200, 300, 400])),
        pause_ms=int(rng.choice([0, 0, 350, 600, 900])),
    )


def speak(recipe: Recipe) -> Waveform:
    """The clip at 16 kHz, mono float32. Raises `FileNotFoundError` when espeak-ng is not installed."""
    body = recipe.text
    if recipe.pause_ms:
        body = re.sub(r"([,，。.?？!！])(?=.)", rf'\1<break time="{recipe.pause_ms}ms"/>', body)
    markup = f'<prosody range="{recipe.range_percent}%">{body}</prosody>'
    voice = VOICES.get(recipe.language, recipe.language) + recipe.variant
    command = ["espeak-ng", "-m", "-v", voice, "-s", str(recipe.speed)]
    command += ["-p", str(recipe.pitch), "--stdout", markup]
    wave = subprocess.run(command, check=True, capture_output=True).stdout
    samples, rate = soundfile.read(io.BytesIO(wave), dtype="float32")
    return np.asarray(soxr.resample(samples, rate, SAMPLE_RATE), dtype=np.float32)


def syllables(language: str, text: str) -> int:
    """Syllables of `text`: characters in Chinese, else vowel groups and syllabic consonants of espeak-ng's IPA."""
    if language == "cmn":
        return len(_HAN.findall(text))
    command = ["espeak-ng", "-q", "--ipa", "-v", language, text]
    phonemes = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return len(_VOWELS.findall(phonemes))


def measure_clip(waveform: Waveform, gender: str, syllable_count: int) -> Measures:
    """Everything the labels need, measured from a clean waveform."""
    activity = speech_activity(waveform)
    pitch = f0_median_and_range(f0_contour(waveform))
    return Measures(
        gender=gender,
        f0_hz=pitch[0] if pitch else None,
        f0_range_st=pitch[1] if pitch else None,
        level_dbfs=activity.level_dbfs,
        rate_syl_s=syllable_count / activity.speaking_s if activity.speaking_s else None,
        pause_ratio=activity.pause_ratio,
        alpha_ratio_db=alpha_ratio_db(waveform, activity.active),
    )
