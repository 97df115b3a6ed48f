"""The phrases by which kinds of sentences are recognised, in Chinese and English.

`TURN` and `OFFERS` are searched in sentences that may still grow, so none of their patterns depends on what could yet
follow; all others are searched in whole sentences.
"""

from __future__ import annotations

import re
from typing import Final


def _one_of(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE | re.DOTALL)


_SAID_ZH: Final = (
    "语[气调速]|音[调量]|口气|听起来|听上去|说话[人者]|高兴|开心|快乐|兴奋|激动|愤怒|生气|担心|无奈|失望|难过|伤心|悲|害怕|恐惧"
    "|紧张|平静|坚定|困惑|焦虑|委屈|痛苦|犹豫|自信|着急|疑惑"
)
_FELT_ZH: Final = "情绪|心情|情感|声音|喜悦|愉[快悦]|积极|不满|怀疑|愧疚|急躁|期待|烦"

OFFERS: Final = _one_of(
    r"随时(?:都)?(?:可以|能|欢迎)?(?:再)?(?:告诉|问|跟我|和我|找我|提|联系|来找|来问|说|欢迎|向我|可以)",
    r"[跟和向对与](?:我|大家)(?:再|详细|多|继续|好好)*(?:说|讲|聊|分享|交流|提|讨论)",
    r"告诉我|尽管[说问提]|(?:尽管|直接|可以|再来|来|继续)[问找]我|[说讲](?:出来|来)?(?:给我)?听听",
    r"欢迎.{0,8}(?:问|找|分享|交流|讨论|联系|留言|告诉|补充)",
    r"我(?:会|可以|能|来|再|很乐意|很愿意|乐意|愿意|很高兴|将)(?:再|尽力|继续|努力|进一步|更好地)*"
    r"(?:帮|为你|为您|给你|听你|和你|跟你|回答|解答)",
    r"(?:咱们|咱|我们)(?:可以)?(?:一起|再|继续)",
    r"^[\W嗯哦]*(?:那|所以|对了，?)*[你您](?:怎么|觉得|要是|还有|有没有|有什么|想|知道)",
    # at the start of a sentence: wishes, thanks, requests, what may be open
    r"^[\W嗯]*期待(?:着)?(?:下次|再次|与|和|你|您|更多)",
    r"^\W*(?:加油|别灰心|别担心|祝|谢谢|感谢|再见|拜拜|thanks\b|thank you\b)",
    r"^[\W嗯]*(?:如果|要是|若)(?:还)?(?:有|需要)(?:什么|啥|其他|其它|别的|更多|任何|进一步)",
    r"^[\W嗯]*(?:还)?有(?:什么|啥)(?:想|问题|疑问|需要|其他|别的|不)",
    r"^\W*请(?:提供|上传|告诉|说|问|再|随时|您|你|注意|分享|描述|确保|稍后)",
    r"\b(?:let me know|let's|feel free|tell me|how about|i can help|hear your|your (?:thoughts|opinion|take))\b",
    r"^\W*(?:so,? |and |but )?(?:do|would|could|can|did|have|are|will) you\b",
    r"^\W*(?:so,? |well,? |and |but )?(?:what|how|why|which)(?:'s| is| are| do| would| else| about)\b[^.]{0,40}\byou",
    r"\bany (?:other|more|further) (?:thoughts|questions|audio|ideas|clues|samples|details|insights)\b",
    r"\bplease (?:let|feel|share|provide|tell|give|upload|ask|note|clarify|go|don't|describe|try|send)\b",
    r"\bi hope (?:this|that|it) help",
)

WISHES: Final = _one_of(
    r"^\W*希望(?:一切|能|这|对|可以|以上|下次|我|大家)(?!.{0,4}(?:自己|他|她))",
    r"\bi(?:'d| would|'ll| will|'m| am) (?:be )?(?:also )?(?:happy|glad|love|like|interested|curious|eager|here)\b"
    r"(?! to say)",
)

TURN: Final = _one_of(r"^\W*(?:human|user|assistant|system|用户|人类|助手)\s*[:：]", r"^\W*<\|")
BARE_TURN: Final = _one_of(r"^\W*(?:human(?: resources?)?|user|assistant|用户|人类|助手)\W*\Z")

# What a person says or does to a second one ("他让你") describes, and so do figures of speech ("you can hear").
SECOND: Final = _one_of(
    r"^(?:(?!他|她|说话[人者]|对方|讲话|讲述|音频|[女男](?:人|士|性|声)|语[气调速]|音[调量]|声音).)*?"
    r"(?<![让给问说对跟和叫请劝骂怪到诉过意心])[你您妳](?!的?(?:语[气调速]|声音|音[调量]|话)|(?:刚刚|刚才|所)?(?:提供|提到|给|说)的"
    r"|[会能可]以?(?:从[^，。]{0,12})?(?:听|感|注意|发现))",
    r"^[\W嗯]*咱们",
    r"^\W*(?:(?:so|and|but|well|also|maybe|now|then|oh|hmm|okay|ok|as|since|because|i think|i guess|it seems(?: like)?"
    r"|it sounds like|sounds like|seems like|perhaps)\b\W*)*\b(?:you|your)\b"
    r"(?! (?:can|could|might|may|would|'d)(?: (?:really|almost|clearly|also|just|even|easily|definitely|still|often))*"
    r" (?:hear|tell|feel|sense|see|notice|imagine|say|expect|detect|think of|describe)\b| know\b|'ve got\b"
    r"|'d (?:expect|hear|think|say)| (?:often|usually|sometimes|get|hear|see|feel|find|listen)\b)",
    r"(?<!as )(?<!like )\bif you\b(?!(?:'re| are) (?:talking|asking|just)| (?:listen|hear|think|consider|look)\b)",
)
SPOKEN_TO: Final = _one_of(
    rf"^(?!\W*(?:如果|要是|假如|希望|祝)|.*[你您]是不是).*[你您妳](?:(?!别|要|想|可以|(?<!可)能|会|得|不妨|试|也|在哪|怎么|有什么)[^，。；]){{0,16}}?"
    rf"(?:{_SAID_ZH}|{_FELT_ZH})",
    r"(?:听起来|听上去|感觉)[你您妳](?!(?:想|要|可以|能))",
    r"\byou (?:(?:really|also|just|still|do|may|might|must|could) )*(?:sound|seem|appear|speak|spoke|come across"
    r"|are speaking|are talking|are feeling|be feeling)\b(?! (?:like you )?(?:want|need))",
    r"\byour (?:\w+ )?(?:voice|tone|speech|pitch|volume|pace|rate|intonation|delivery)\b",
)
"""A description of the listener, who is taken for the speaker."""

ASKS: Final = _one_of(r"[?？]")
PONDERS: Final = _one_of(
    r"^\W*(?:maybe|perhaps|possibly)\b(?!.*\b(?:you|i|we)\b)", r"^[^你您]*(?:可能|也许|吧\W*\Z|不知道[他她])"
)
"""A rhetorical question."""

FILLER: Final = re.compile(
    r"(?:[\W_嗯哦啊哈呀呃额好的]|hmm+|well|sure|ok|okay|of course|certainly|yes|so)*\Z", re.IGNORECASE
)
"""A sentence without content."""

DESCRIBES: Final = _one_of(
    _SAID_ZH,
    r"\b(?:voice|tone|speak\w*|sounds? like|seems?|laugh\w*|cry\w*|calm|angry|anger|sad|happy|surpris\w*|excite\w*"
    r"|afraid|fear\w*|nervous|frustrat\w*)\b",
)
"""Words of a description, by which a first sentence that addresses the reader is kept."""

STATES: Final = _one_of(
    r"高兴|开心|快乐|喜悦|愉[快悦]|兴奋|激[动昂]|愤怒|生气|恼|不满|担[心忧]|无奈|失[望落]|难过|伤心|悲|害怕|恐惧|紧张|平[静稳缓淡和]|冷静|中性"
    r"|坚定|焦[虑急]|委屈|痛苦|犹豫|自信|着急|急[促切躁]|惊[讶喜]|厌恶|低沉|高[亢昂]|轻[快柔松]|缓慢|尖锐|哽咽|哭|笑|[男女][声性士人]"
    r"|说话[^，。]{0,4}[轻快慢]|(?:语速|音[调量高]|声音|嗓音).{0,6}(?:快|慢|高|低|大|小|轻|适中|正常|清晰|颤|哑)",
    r"\b(?:calm\w*|ang(?:ry|er|rily)|annoy\w*|irritat\w*|sad\w*|happ[yi]\w*|joy\w*|surpris\w*|shock\w*|excit\w*|afraid|fear\w*"
    r"|nervous\w*|anxi\w*|worr\w*|frustrat\w*|neutral|confus\w*|hesita\w*|sorry|steady|flat|even|loud\w*|soft\w*|quiet\w*"
    r"|slow\w*|fast|quick\w*|moderate|laugh\w*|cry\w*|sob\w*|sigh\w*|harsh|stern|gentle|male|female|deep|tense|tired"
    r"|doubt\w*|s[ck]eptic\w*|upset|concern\w*|urgen\w*|nostalgi\w*|melanchol\w*|longing|regret\w*|guilt\w*|disappoint\w*"
    r"|(?:low|high|clear)(?:er)?[ -](?:pitch\w*|voice|volume|tone|energy))\b",
    r"\b(?:tone|voice|pitch|pace|speed|volume)\b[^.,;]{0,15}\b(?:is|are|was|sounds?|seems?) (?:\w+ )?\w{4,}",
)
"""Words that state how somebody speaks."""
DENIED: Final = _one_of(
    r"没有[^。]*?(?:比如|例如|像)[^。]*",
    r"(?:没有|没|无)[^，。,.]*",
    r"\b(?:no|not|any|without)\b[^.,;，。]*|n't\b[^.,;，。]*",
)
"""Sentences that state nothing about the speaker."""

CONTRASTS: Final = _one_of(r"但|不过|\b(?:but|though|yet)\b")
"""What may follow a refusal before a description."""

REFUSES: Final = _one_of(
    r"(?:我是|作为)(?:[一个名款])*(?:AI|人工智能|语言模型|虚拟)|没有(?:实际的?|真正的?)?听觉|听不[出清](?:来)?(?:具体|任何|什么)?的?"
    r"(?:情绪|情感|声音|内容)(?!的?(?:变化|波动|起伏))",
    r"(?:抱歉|对不起|不好意思).{0,40}?(?:误会|无法|不能|没法|没有(?:提供|听到|收到|听见|音频|给)|未能|未提供|未收到|没(?:听|给|有给)|误解"
    r"|不太?(?:明确|明白|清楚|理解)|不(?:明确|明白|清楚|理解)|需要听到|无效|没有具体)",
    r"(?:无法|没法|不能|不可)(?:准确|清晰|清楚|正确|明确|直接|具体|真正|给|对|从|地)*(?:判断|确定|识别|分辨|分析|描述|听清|听到"
    r"|听取|听见|感知|提供|回答|获取|给出|提取|进行|理解|访问|处理|播放|准确|直接|直观)",
    r"[你您][并还都]?(?:没有|没|未)(?:提供|给出|给(?:我|任何|具体)|提到|说|上传)",
    r"[你您](?:得|需要|要|先|能)+[再先]?(?:告诉|提供|给)我?.{0,24}?(?:才能|就能|就好|判断)",
    r"(?:没有|未|没)(?:提供|上传|收到|听到)(?:任何|具体的?)?(?:音频|声音|内容|信息)",
    r"我(?:听不到|听不见|没听到|没有听到|打不开)[^，。！？]{0,6}(?:音频|声音|内容|录音|语音|东西)",
    r"没有可听到的?(?:音频|声音|内容)|没有(?:任何|具体的?)(?:语音|音频)",
    r"(?:请|得|需要|要|麻烦)(?:先|再)?[你您]?(?:先|再)?(?:提供|给|上传|发送|发)(?:给我|我)?(?:[一这那][段个些份])?[^，。！？]{0,6}?"
    r"(?:音频|录音|语音|文字内容|文件)",
    r"给我(?:[一这那][段个些份])?[^，。！？]{0,4}(?:音频|录音|内容).{0,4}(?:吧|才|这样)",
    r"没有可(?:以)?听(?:到|见|清)?的|(?:音频|录音|片段)(?:里面?|中)?(?:没有|无)(?:任何)?(?:内容|声音|语音|可听)",
    r"[你您](?:还|好像|似乎)?(?:没有|没)发|不足以(?:进行|判断|做出|支持|确定|描述)|信息(?:太少|不足|不够)",
    r"(?:很难|没办法|难以|无从)(?:只?[凭从]这[^，。！？]{0,8})?(?:准确|确切|直接|具体|清楚)?地?"
    r"(?:辨[识认]|听清|识别|判断|判定|确定|分辨|说清|下结论|听出|得出|给出|做出|知道)(?!(?:出来?|清楚?)?的)",
    r"(?:[仅只光单]凭|[仅只就](?:从|靠|有)这).{0,30}?(?:很难|无法|不能|没法|没办法|听不出|看不出|不好说|不够|不足)",
    r"(?:无法|没法|不能)(?:输出|解析|推测|得知|知道|听懂|辨别|做出|作出|得出)|听不[出到见清](?:任何|什么)?(?:内容|声音|东西)",
    r"对我来说[^，。！？]{0,4}难|这样我[才就也]?(?:能|可以|好)[^，。！？]{0,12}?(?:判断|分析|描述|回答)",
    r"[你您]这?是?[在想]?[说讲问]的?是?(?:什么|啥)|不太?(?:明白|理解|清楚|懂)[你您]|什么意思",
    r"\bi(?:'m| am) (?:really |so |very )?(?:sorry|afraid)\b.{0,50}?\b(?:can(?:'t|not| not)|couldn't|unable|not able"
    r"|haven't|hasn't|don't|didn't|no audio|need)",
    r"\bi(?:'m| am) not (?:really |quite |exactly |entirely |too )?(?:sure|certain) (?:what|which|how)(?: \w+){0,2}?"
    r" (?:you|audio|recording|clip|kind|sort|type|the audio|the acoustic|exactly|this)",
    r"\byou (?:have not|haven't|did not|didn't) (?:\w+ ){0,2}"
    r"(?:provide|give|gave|say|said|share|tell|told|upload|attach|send)",
    r"\b(?:you|could you|please) (?:need to )?(?:tell|give|provide|share) (?:me|us) (?:\w+ ){0,3}"
    r"(?:audio|details|context)",
    r"\bi (?:can(?:'t|not| not)|couldn't|am unable to|am not able to|don't|do not|didn't)"
    r"(?: (?:really|actually|directly|even|currently))* (?:hear|analy[sz]e|access|listen|interpret|process|provide|give"
    r"|determine|understand|have (?:any|access|the ability|enough|an|the audio)|make (?:any|a) (?:pred|anal))",
    r"\bi (?:can(?:'t|not| not)|couldn't)(?: (?:really|quite|actually|possibly|even))* (?:tell|describe|identify|judge"
    r"|discern|predict"
    r"|assess|figure|make out|know|pick up|detect|say (?:much|anything|for sure|what|how|exactly))",
    r"\b(?:it's|it is|that's|that is|it would be|it'd be)(?: \w+){0,3}? (?:hard|difficult|tricky|tough|not easy)"
    r"(?: for me)? to (?:\w+ly )?(?:tell|say|know|determine|judge|describe|give|make|identify|pin|assess|hear|pick"
    r"|figure|draw|discern|predict)",
    r"\b(?:nothing|not much|very little|little)(?: \w+){0,3} (?:can|could|to) (?:be )?"
    r"(?:heard|hear|told|tell|said|say|determined|go on)",
    r"\b(?:could|can|would|will) you (?:please )?(?:provide|share|upload|send|attach|play|give)\b.{0,30}?"
    r"\b(?:audio|recording|clip|file|sound|sample)",
    r"\b(?:please|you(?:'ll)? (?:need|have) to|i(?:'ll|'d| would| will)? need(?: you to)?|go ahead and) "
    r"(?:first )?(?:provide|share|upload|send|attach|play|give)\b.{0,30}?\b(?:audio|recording|clip|file|sound|sample)",
    r"\bi(?:'d| would|'ll| will)? need (?:to (?:hear|listen to) )?(?:\w+ ){0,3}"
    r"(?:audio|recording|clip|sample|context|information)",
    r"\bi(?:'m| am) not (?:currently |yet )?able to (?:hear|listen|access|process|play|analy[sz]e|open)",
    r"\b(?:no audio|(?:what|which) audio (?:do|are|did|file))\b",
    r"\b(?:unable|not possible|impossible) to (?:determine|hear|analy[sz]e|describe|tell|identify|assess)",
    r"\baudio (?:file )?(?:doesn't seem to|does not seem to|wasn't|was not|hasn't|isn't|is not)"
    r" (?:have been |been )?(?:recorded|provided|uploaded|attached|available|clear enough)",
    r"\b(?:as|i'm|i am) an? (?:ai|artificial|language model|virtual|text-based)\b",
    r"\bno (?:\w+ ){0,2}(?:indications?|information|evidence)(?: \w+){0,6}? (?:of|about|on|regarding|as to)"
    r"(?: (?:the|their|his|her|what|how|this|that|speaker's|person's)){1,2}\b.{0,25}?"
    r"\b(?:tone|speed|emotion\w*|feeling|mood|said)",
    r"(?:n't|\bnot\b|\bwithout\b)[^.,]{0,30}\benough (?:\w+ ){0,2}(?:information|details?|context|clues?|data|to)\b",
    r"\b(?:is|isn't|are|not) (?:really |just )?(?:not )?enough (?:for me|information|detail|context)",
)
