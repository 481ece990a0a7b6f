"""Sentences that give a model orders, or do what the tool's name and schema do not ask for: rules over structure.

A rule is a pattern in English, or a set of concepts that stand close together in one sentence, each with its words in
several languages: in German a verb stands last, in Chinese there are no spaces. A sentence that only tells of an order
(quoted after a word such as *detects*, or shown as *sample output:*) is a mention, and no order.

The rules see words. They do not see what a tool does, an order told as a story, or a language that is not listed here.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Span = tuple[int, int]
"""Begin and end of what a rule found, in a sentence."""

_FLAGS = re.IGNORECASE | re.VERBOSE | re.DOTALL


def _compile(*parts: str) -> re.Pattern[str]:
    """Alternatives, one a language."""
    return re.compile("|".join(parts), _FLAGS)


_IGNORE = _compile(
    r"\b(?:ignorier\w*|missacht\w*|vergiss|vergessen\s+sie|übergeh\w*)\b",
    r"\b(?:ignore[rz]?|ignorez|oublie[rz]?|faites?\s+abstraction|fais\s+abstraction|outrepasse[rz]?)\b",
    r"\b(?:ignor[ae]n?|olvid[ae]n?|haz\s+caso\s+omiso|ignori|dimentica(?:re)?|trascura|esque[cç]a|desconsidere)\b",
    r"(?:игнорир|забудь|пренебре)\w*",
    "忽略|忽视|无视|無視|不要理会|不理会|忘记|忘掉|抛开|무시|잊어",
)
_EARLIER = _compile(
    r"\b(?:bisherig|vorherig|vorig|vorangegangen|vorangehend|früher|obig|sämtlich|alle|dein|deine|ihre)\w{0,2}\b",
    r"\b(?:précédent|antérieur|ci-dessus|tou[st]e?s?|vos|tes)\w{0,2}\b",
    r"\b(?:anterior|previ[ao]|tod[ao]|tus|sus|precedent|tutt|tue|sue|anterior|suas)\w{0,3}\b",
    r"(?:предыдущ|прежн|все|свои|ваши)\w*",
    "之前|以前|先前|此前|前面|上述|以上|上面|所有|一切|全部|原有|你的|您的|系统|これまで|以前|前の|上記|すべて|이전|앞의|모든",
)
_INSTRUCTIONS = _compile(
    r"\b(?:anweisung|vorgabe|richtlinie|instruktion|regel|befehl|anordnung)\w{0,2}\b",
    r"\b(?:consigne|instruction|directive|règle)s?\b",
    r"\b(?:instrucci[oó]n|instrucciones|regla|directri[zc]|orden|istruzion|regol|direttiv|instruç|instruc"
    r"|regra)\w{0,4}\b",
    r"(?:инструкци|правил|указани)\w*",
    "指令|指示|规则|規則|提示词|说明|规定|要求|命令|准则|ルール|지시|지침|규칙|명령",
)
_NOT = _compile(
    r"\b(?:nichts?|kein\w*|niemals|nie|ohne|keinesfalls)\b",
    r"\b(?:ne|n['’]|jamais|sans|pas)\b",
    r"\b(?:no|nunca|sin|jamás|non|mai|senza|não|sem)\b",
    r"\b(?:не|без|никогда)\b",
    "不要|请勿|不得|不可|不能|不必|无需|别|切勿|禁止|ないで|せずに|말고|마세요|않고",
)
_TELL = _compile(
    r"\b(?:sag|mitteil|mitzuteil|mitgeteil|teil|informier|erwähn|verrat|benachrichtig|erzähl|zeig|wissen)\w*\b",
    r"\b(?:di(?:s|re|tes)|inform|mention|révél|prévien|prévenir|averti|signal|montr)\w*\b",
    r"\b(?:digas?|decir|inform|mencion|revel|avis|notifi|dire|dica|riveli|avvis|diga|mencione)\w*\b",
    r"(?:сообща|говори|упомина|расска|уведом|показыва)\w*",
    "告诉|告知|通知|提及|提到|透露|告訴|知道|伝え|知らせ|教え|알리|말하",
)
_USER = _compile(
    r"\b(?:be)?nutzer\w*\b|\banwender\w*\b",
    r"\butilisat\w+\b|\bl['’]usager\b",
    r"\busuari[oa]s?\b|\butent[ei]\b|\busuário\w*\b",
    r"(?:пользовател)\w*",
    "用户|使用者|用戶|ユーザー|利用者|사용자",
)
_SEND = _compile(
    r"\b(?:send|post|upload|forward|transmit|leak|e-?mail|relay|exfiltrat|deliver|cop(?:y|ie)|ship)(?:e?s|e)?\b",
    r"\b(?:send|schick|übermittl?|überträg|übertrag|leit|lad)(?:e|en|et|est|n|t)?\b",
    r"\b(?:envoie|envoye|transmet|téléverse|expédie)\w*\b",
    r"\b(?:env[ií]|mand|sub[ei]|transmit|invi|spedi|carica)\w*\b",
    r"(?:отправ|перешл|загруз|переда)\w*",
    "发送|发给|发到|上传|上傳|传送|传到|传给|转发|提交|泄露|發送|送信|転送|アップロード|전송|보내|업로드",
)
KEY_FILES = r"""(?: ~?/?\.ssh\b | \bid_(?:rsa|ed25519|ecdsa)\b | ~?/?\.aws/ | /etc/(?:passwd|shadow)\b | ~/\.netrc
    | \.gnupg\b | \.kube/config | (?:\.cursor|claude_desktop_config|mcp)(?:/mcp)?\.json\b | (?<![\w.])\.env\b )"""
_SECRET = _compile(
    KEY_FILES,
    r"""\b(?:credential|password|passphrase|secret|api[\s_-]?key|private\s+key|access[\s_-]token|session[\s_-]token
      |cookie
    |system\s+prompt|chat\s+history|conversation)s?\b""",
    r"\b(?:zugangsdaten|passw[oö]rt\w*|kennw[oö]rt\w*|geheim\w*|schlüssel\w*|gesprächsverlauf)\b",
    r"\b(?:mots?\s+de\s+passe|identifiants?|clés?|secrets?)\b",
    r"\b(?:contraseñas?|credencial\w*|claves?|secretos?|credenziali|chiav[ei]|segret\w+|senhas?|chaves?)\b",
    r"(?:парол|секрет|ключ|учётн)\w*",
    "密码|密碼|密钥|密鑰|凭证|凭据|令牌|私钥|对话|聊天记录|パスワード|秘密鍵|認証情報|비밀번호|자격 증명|키를",
)
_ELSEWHERE = _compile(
    r"""\b(?:to|into|with)\s+(?:[\w'’-]+\s+){0,3}?(?:external|remote|third[\s-]part(?:y|ies)|attacker|outside)\b
    | \b(?:our|my)\s+(?:[\w-]+\s+){0,3}(?:server|endpoint|host|collector|site|inbox)\b
    | \bto\s+(?:[\w'’-]+\s+){0,5}(?:https?://|[\w.+-]+@[\w-]+\.\w)""",
    r"\b(?:extern|entfernt|fremd)\w*\b",
    r"\b(?:externe|distant|tiers)\w*\b",
    r"\b(?:externo|externa|remoto|remota|esterno|remoti)\b",
    r"(?:внешн|удалённ|удаленн|сторонн)\w*",
    "外部|远程|遠端|第三方|攻击者|服务器|伺服器|外部|リモート|외부|원격",
)
_READ = _compile(
    r"\b(?:lies|lese|lesen|öffne|öffnen|übergib|hänge|füge|kopiere)\b",
    r"\b(?:lis|lisez|lire|ouvre|ouvrez|joins|joignez|copie[rz]?)\b",
    r"\b(?:lee|lea|leer|abre|abra|adjunta|copia|leggi|apri|leia|abra)\b",
    r"(?:прочита|прочти|открой|скопируй)\w*",
    "读取|读|讀取|打开|查看|附上|复制|読み|開いて|読んで|읽|열어",
)
_KEY_FILE = _compile(KEY_FILES)
_REVEAL = _compile(
    r"\b(?:zeig|verrat|gib|geben|nenn|offenbar)\w*\b",
    r"\b(?:révèl|affiche|montre|donne|divulgu)\w*\b",
    r"\b(?:revel|muestr|imprim|mostr|rivel)\w*\b",
    r"(?:покажи|раскрой|выведи)\w*",
    "透露|输出|显示|泄露|公开|告诉|打印|表示|出力|공개|출력",
)
_SYSTEM_PROMPT = _compile(
    r"\bsystem-?prompt\w*\b|\bsystemanweisung\w*\b",
    r"\b(?:prompt|invite|instructions)\s+(?:du\s+)?système\b",
    r"\bprompt\s+de(?:l|\s+)?\s*sistema\b|\binstrucciones\s+del?\s+sistema\b|\bprompt\s+di\s+sistema\b",
    r"системн\w+\s+(?:промпт|инструкци)\w*",
    "系统提示|系統提示|システムプロンプト|시스템 프롬프트",
)


class Rule(NamedTuple):
    """`reason` is what a person reads before the words that it found.

    `words`: of each group one stands, in small letters, in every text that fits. Few texts have them, and the others
    are not searched. `parts`: one pattern, or concepts that all stand within `within` characters, in any order; with
    `gaps` in this order, each at most so many characters behind the one before.
    `asides`: a sentence that begins a text says what the tool is for; the rule holds for those behind it.
    `clause`: no comma stands between the concepts. `marks`: it finds a token or label, which orders nothing by itself.
    """

    reason: str
    words: tuple[tuple[str, ...], ...]
    parts: tuple[re.Pattern[str], ...]
    within: int = 0
    asides: bool = False
    clause: bool = False
    gaps: tuple[int, ...] = ()
    marks: bool = False

    def may_fit(self, small: str) -> bool:
        return has_all(self.words, small)

    def find(self, sentence: str) -> Iterator[Span]:
        if len(self.parts) == 1:
            yield from (match.span() for match in self.parts[0].finditer(sentence))
        elif self.gaps:
            yield from _in_order(sentence, self.parts, self.gaps)
        else:
            for start, end in _near(sentence, self.parts, self.within):
                if not (self.clause and _COMMA.search(sentence, start, end)):
                    yield start, end


_COMMA = re.compile("[,;:，；：]")


def has_one(words: Collection[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a loop, since this is asked of every text many times
        if word in text:
            return True
    return False


def has_all(groups: Iterable[Collection[str]], text: str) -> bool:
    """Whether it has a word of each group."""
    for group in groups:  # noqa: SIM110 - as above
        if not has_one(group, text):
            return False
    return True


def _near(sentence: str, concepts: Sequence[re.Pattern[str]], within: int) -> Iterator[Span]:
    """Stretches of at most `within` characters that hold one word of each concept."""
    if not all(each.search(sentence) for each in concepts):
        return
    words = sorted((*match.span(), which) for which, each in enumerate(concepts) for match in each.finditer(sentence))
    last: dict[int, Span] = {}
    for start, end, which in words:
        last[which] = start, end
        begin, finish = min(at for at, _ in last.values()), max(at for _, at in last.values())
        if len(last) == len(concepts) and finish - begin <= within:
            yield begin, finish
            last.clear()


def _in_order(sentence: str, concepts: Sequence[re.Pattern[str]], gaps: Sequence[int]) -> Iterator[Span]:
    """Stretches with one word of each concept in this order. One pattern with `.{0,80}?` between them would take the
    product of the gaps for each word that begins one.
    """
    stretches = [match.span() for match in concepts[0].finditer(sentence)]
    for concept, gap in zip(concepts[1:], gaps, strict=True):
        ends, longer = [end for _, end in stretches], list[Span]()
        for match in concept.finditer(sentence):
            at = bisect_left(ends, match.start() - gap)
            if at < len(ends) and ends[at] <= match.start():
                longer.append((stretches[at][0], match.end()))
        stretches = longer
    yield from stretches


def _rule(
    reason: str,
    words: Collection[str],
    *patterns: str,
    gaps: tuple[int, ...] = (),
    asides: bool = False,
    marks: bool = False,
) -> Rule:
    """A group of words is written in one text."""
    groups = tuple(tuple(group.split(", ")) for group in words)
    parts = tuple(re.compile(pattern, _FLAGS) for pattern in patterns)
    return Rule(reason, groups, parts, gaps=gaps, asides=asides, marks=marks)


def _concepts(reason: str, words: str, within: int, *concepts: re.Pattern[str], clause: bool = False) -> Rule:
    """`words`: what an ASCII text has that may fit; others are searched anyway."""
    return Rule(reason, (tuple(words.split(", ")),), concepts, within, clause=clause)


_IGNORES = "tells the model to ignore its instructions"
_HIDES = "tells the model to keep something from the user"
_MARKS = "marks a part as orders for the model"
_ROLE = "gives the model a new role or new orders"
_READS = "asks for a file with secrets"
_SENDS = "sends something along to an address"
_SENDS_SECRETS = "sends secrets to another place"
_REVEALS = "asks for the model's own instructions"
_DISARMS = "tells the model to drop its safeguards"
RULES = (
    _rule(
        _IGNORES,
        (
            "ignore, disregard, forget, override, bypass",
            "previous, prior, above, earlier, preceding, former, system, safety, original, other",
        ),
        r"""\b(?:ignore|disregard|forget|override|bypass)\s+(?:(?:all|any|every|of|the|your|my|these|those)\s+){0,4}
        (?:previous|prior|above|earlier|preceding|former|system|safety|original|other)\s+(?:\w+\s+){0,2}
        (?:instruction|prompt|rule|message|direction|guideline|guardrail|restriction|polic(?:y|ie))s?\b
        | \b(?:ignore|disregard|forget)\s+(?:(?:all|everything|anything|the|of|that|what|was|is|said|written)\s+){0,4}
          (?:above|previous|preceding|foregoing|prior)\s*(?:$|[,.;:!]|[-—]|(?:and|then|instead)\b)""",
    ),
    _rule(
        _IGNORES,
        (
            "ignor, disregard, forget, neglect, attention, follow, obey, set aside",
            "previous, prior, above, earlier, preceding, former, safety, your, you ",
            "instruction, prompt, guideline, guardrail, directive, restriction, rule",
        ),
        r"""\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|neglect|set\s+aside|pay\s+no\s+attention\s+to
          |stop\s+following
        | (?:do\s+not|don['’]?t|not|never|without|instead\s+of)\s+(?:follow|obey)(?:ing)?)\s+
        (?:(?:all|any|every|each|of|the|those|these|such|what|whatever)\s+){0,4}
        (?: (?:previous|prior|above|earlier|preceding|former|safety|your)\s+(?:[\w-]+\s+){0,3}?
            (?:instruction|prompt|guideline|guardrail|directive|restriction|rule)s?\b
          | (?:\w+\s+){0,2}?(?:instruction|prompt|guideline|guardrail|directive|restriction|rule)s?\s+(?:that\s+
            |which\s+)?
            (?:above|earlier|previously|you\s+(?:were|have|had|are|got|received|follow)) )\b""",
    ),
    _concepts(
        _IGNORES,
        "ignor, miss, vergi, verge, oubli, abstraction, outrepass, olvid, omiso, dimentica, trascura, esque, desconsid",
        70, _IGNORE, _EARLIER, _INSTRUCTIONS,
    ),
    _rule(
        _HIDES,
        (
            "user, human",
            "not, n't, n’t, dont, never, without, avoid, hide, conceal, keep, refrain, no need",
            "tell, inform, notify, alert, warn, mention, reveal, disclos, expos, report, know, see, notice, from",
        ),
        r"""\b(?:do\s+not|don['’]?t|never|without|must\s+not|should\s+not|need\s+not|no\s+need\s+to|not\s+to|would\s+not
          |avoid|refrain\s+from)\s+(?:ever\s+)?
        (?: (?:tell|inform|notify|alert|warn)(?:ing)?\s+(?:this\s+to\s+|it\s+to\s+)?(?:the\s+)?(?:user|human)s?\b
          | (?:mention|reveal|disclos|expos|report)(?:e|ing)?\s+(?:(?:this|that|it|any|of|the|about)\s+){0,3}
            (?:\w+\s+){0,3}?to\s+(?:the\s+)?(?:user|human)s?\b
          | let(?:ting)?\s+(?:the\s+)?(?:user|human)\s+(?:know|see|notice)\b )
        | \b(?:hide|conceal|keep)\s+(?:(?:this|that|it|these|all)\s+)(?:\w+\s+){0,3}?(?:secret\s+|hidden\s+)?
          from\s+(?:the\s+)?(?:user|human)s?\b""",
    ),
    _concepts(_HIDES, "nutzer, anwender, utilisat, usager, usuari, utent", 70, _NOT, _TELL, _USER, clause=True),
    _rule(
        _MARKS,
        ("important, secret, hidden, critical, admin, im_start, im_end, endoftext, inst, sys", "<, ["),
        r"""<\s*/?\s*(?:important|system|system[-_ ]?(?:prompt|reminder|message)|secret|hidden|critical|admin)\s*>
        | <\|(?:im_start|im_end|system|endoftext)\|> | \[\s*/?\s*(?:INST|SYSTEM)\s*\] | <<\s*/?\s*SYS\s*>>""",
        marks=True,
    ),
    _rule(
        _MARKS,
        ("directive, override, instruction, command, prompt, message, notice, act as", ":, ]"),
        r"""(?-i: \[\s*(?:[A-Z]+\s+)?(?:SYSTEM|ADMIN(?:ISTRATOR)?|DEVELOPER|ROLE|CONFIGURATION|SECURITY|ROOT|AI|MODEL
          |ASSISTANT
          |AGENT|HIDDEN|PRIORITY)[\s_-]+(?:DIRECTIVE|OVERRIDE|INSTRUCTIONS?|COMMAND|PROMPT|MESSAGE|NOTICE)\s*\]
        | \b(?:SYSTEM|ADMIN|INSTRUCTION|SAFETY|SECURITY|PROMPT|ASSISTANT|MODEL)\s+(?:OVERRIDE|DIRECTIVE|COMMAND)\s*:
        | \bACT\s+AS\s*: )""",
        marks=True,
    ),
    _rule(
        _ROLE,
        ("instruction, system", ":"),
        r"\bnew\s+(?:system\s+)?instructions?\s*: | \bsystem\s+(?:prompt|message|override)\s*:",
        marks=True,
    ),
    _rule(
        _ROLE,
        ("you are now, from now on, act as, pretend", "now, as , be "),
        r"""\byou\s+are\s+now\s+(?:in\s+|an?\s+|the\s+)?(?:\w+\s+)?(?:developer|admin|root|god|debug|jailbroken
          |unrestricted|DAN)\b
        | \bfrom\s+now\s+on,?\s+you\b
        | \b(?:act\s+as|pretend\s+to\s+be)\s+(?:an?\s+|the\s+|if\s+you\s+(?:are|were)\s+)?(?:\w+\s+)?
          (?:unrestricted|jailbroken|root|administrator|DAN)\b""",
    ),
    _rule(
        _READS,
        (
            "ssh, id_, aws, /etc/, netrc, gnupg, .json, .env, .kube, private key",
            "must, first, before, always, please, need, make sure, kindly, could you, would you, helpful, appreciate",
        ),
        r"""\b(?:you\s+must|must\s+first|first|before\s+(?:using|calling|you|invoking|every)|always|please|need\s+to
          |make\s+sure|kindly|(?:could|would)\s+you|helpful\s+(?:if|to)|appreciate)\b""",
        r"\b(?:read|open|cat|load|copy|send|upload|pass|include|attach|access|provide|paste|quote)\b",
        rf"(?: {KEY_FILES} | \bprivate\ key )",
        gaps=(120, 80),
    ),
    _concepts(
        _READS,
          "lies, lese, ffne, bergib, lis, lire, ouvre, joi, copi, kopi, lee, lea, abr, adjunta, leggi, apri, leia",
        80, _READ, _KEY_FILE,
    ),
    _rule(
        _SENDS,
        (
            "@, http",
            "always, also, must, secretly, silently, quietly, instead",
            "cc, forward, copy, send, redirect, post, upload",
        ),
        r"\b(?:always|also|must|secretly|silently|quietly|instead)\b",
        r"\b(?:bcc|cc|forward|copy|send|redirect|post|upload)\b",
        r"(?<![\w.+-])[\w.+-]{1,128}@[\w-]+\.\w+|https?://",
        gaps=(80, 80),
    ),
    _rule(
        _REVEALS,
        ("prompt", "reveal, disclose, print, output, repeat, leak, expose, show, return, dump, tell"),
        r"""\b(?:reveal|disclose|leak|expose)\s+(?:\w+\s+){0,3}?(?:system|hidden|initial)\s+prompt\b
        | \b(?:print|output|repeat|show|return|dump|tell)\s+(?:\w+\s+){0,3}?your\s+(?:\w+\s+){0,3}?prompt\b""",
    ),
    _concepts(_REVEALS, "system, sistema", 60, _REVEAL, _SYSTEM_PROMPT),
    _rule(
        _DISARMS,
        ("disable, bypass, turn off, switch off, skip, suspend, drop",
          "safety, ethic, content filter, guardrail, safeguard"),
        r"""\b(?:disable|bypass|turn\s+off|switch\s+off|skip|suspend|drop)\s+(?:\w+\s+){0,3}?(?:guardrail|safeguard
        |content\s+filter|(?:safety|ethical)\s+(?:\w+\s+)?(?:guideline|restriction|filter|rule|protocol|measure|check
          |polic))""",
        asides=True,
    ),
)  # fmt: skip
_WORDS = tuple(dict.fromkeys(rule.words for rule in RULES))

_SENDS_WORDS = (
    "send, post, upload, forward, transmit, leak, mail, relay, exfiltrat, deliver, copy, copies, ship, schick, "
    "leit, lad, "
    "envoie, envoye, transmet, expédie, envi, mand, sube, subi, invi, carica"
).split(", ")
_ELSEWHERE_WORDS = (
    "extern", "remot", "third", "estern", "distant", "entfernt", "attacker", "outside", "http", "@", "our ", "my ",
)  # fmt: skip
_FILE_WORDS = ("ssh", "id_", ".aws", "/etc/", "netrc", "gnupg", ".kube")


_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n(?=[^a-z\s])")
_SPECIMEN = re.compile(
    r"""\b(?:sample|expected|mock|example|training|canned|illustrative|test|dummy|fake|fixture|returns?|quotes?)\b
    [^.:]{0,40}\b(?:responses?|outputs?|texts?|repl(?:y|ies)|strings?|answers?|inputs?|prompts?|messages?|transcripts?)
    \s*:""",
    _FLAGS,
)
"""The label of something that is shown: `Sample response:`."""
_TELLS_OF = re.compile(
    r"""\b(?:detect|identif|flag|block|prevent|filter|explain|describ|document|analy[sz]|classif|check|test|scan
      |catch|recogni[sz]
    |report|search|guard|protect|illustrat|demonstrat|monitor|inspect|audit|defend|evaluat|benchmark|erkenn|prüf
      |détect|analys
    |detecta|analiz)\w*\b.{0,80}?
    \b(?:prompt|inject|jailbreak|attack|attempt|whether|when|tools?|texts?|inputs?|phrases?|patterns?|malicious
      |suspicious
    |content|messages?|descriptions?|instructions?|such\s+as|like)\w*\b""",
    _FLAGS,
)
_TELLS_OF_CJK = re.compile("检测|識別|识别|防止|拦截|分析|解释|说明如何|検出|分析|감지|탐지")
_BREAK = re.compile(r"[,;:—]|\b(?:and|then|but|also|instead|und|dann|et|puis|y|luego)\b|，|：|然后|并", re.IGNORECASE)
_QUOTES = (("'", "'"), ('"', '"'), ("“", "”"), ("‘", "’"), ("`", "`"), ("«", "»"), ("„", "“"), ("「", "」"), ("‹", "›"))
_QUOTED_CHARS = 1_000
"""So far from the words a quotation begins and ends: what is longer is no example."""
MAX_MENTIONS = 50
"""Of one rule in one text. A crowd of them would hide the one that is an order."""
_WORD = re.compile(r"\w")


def sentences(text: str) -> Iterator[str]:
    """In their order. An empty text has none."""
    return (part for each in _END.split(text) if (part := each.strip()))


def _is_mention(sentence: str, span: Span) -> bool:
    """Whether the words are told of, and not said: after a verb of looking, quoted or in one clause; or a specimen."""
    lead = sentence[max(0, span[0] - 300) : span[0]]
    if _SPECIMEN.search(lead):
        return True
    verb = _TELLS_OF.search(lead) or _TELLS_OF_CJK.search(lead)
    return bool(verb) and (_is_quoted(sentence, span) or not _BREAK.search(lead[verb.end() if verb else 0 :]))


def _is_quoted(sentence: str, span: Span) -> bool:
    before, after = sentence[max(0, span[0] - _QUOTED_CHARS) : span[0]], sentence[span[1] : span[1] + _QUOTED_CHARS]
    for opens, closes in _QUOTES:
        at = before.rfind(opens)
        within_word = opens == "'" and at > 0 and _WORD.match(before[at - 1])
        if at >= 0 and not within_word and closes not in before[at + 1 :] and closes in after:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a tool says that it is for, found once in its name and its parameters' names."""

    sends: bool
    keeps_secrets: bool
    takes_place: bool
    """Whether a parameter names the place that something is sent to."""


def purpose_of(name: str, parameters: Iterable[str] = ()) -> Purpose:
    small = "\n".join(parameters).lower()  # no word that is looked for holds a line break
    words = f"{name.lower()}\n{small}"
    return Purpose(has_one(_SENDING_TOPICS, words), has_one(_SECRET_TOPICS, words), has_one(_SINKS, small))


_SINKS = (
    "url",
    "uri",
    "endpoint",
    "host",
    "server",
    "recipient",
    "destination",
    "webhook",
    "address",
    "target",
    "email",
    "to",
)
_SENDING_TOPICS = (
    "send", "post", "upload", "forward", "transmit", "mail", "relay", "exfil", "deliver", "copy", "ship", "sync",
    "share", "publish", "push", "notify", "webhook",
)  # fmt: skip
_SECRET_TOPICS = (
    "backup", "credential", "cred", "password", "secret", "key", "token", "cookie", "ssh", "aws", "env", "kube",
    "netrc", "gpg", "vault", "login", "auth", "passwd", "shadow", "steal", "dump",
)  # fmt: skip
_BESIDES = _compile(
    r"\b(?:also|additionally|then|secretly|silently|quietly|moreover|and)\b|\ba\s+copy\b|同时|并且|并将|außerdem|zudem"
    r"|également"
)
_OUTSIDE = _compile(
    r"\b(?:external|third[\s-]party|attacker\w*|outside)\s+(?:\w+\s+){0,2}(?:host|server|endpoint|service|address"
    r"|site|collector|url)\b",
    "外部(?:服务器|主机|地址|接口)",
)
_FILE_ACCESS = re.compile(
    r"""\b(?:read|open|cat|load|cop(?:y|ie)|includ|attach|pass|append|fetch|get|collect|access|exfiltrat|quot)(?:e?s
      |e|ing)?\b
    .{0,60}?(?: \.ssh\b | \bid_(?:rsa|ed25519|ecdsa)\b | \.aws/ | /etc/(?:passwd|shadow)\b | \.netrc\b | \.gnupg\b
      | \.kube/config )""",
    _FLAGS,
)
_CONDITION = re.compile(
    r"\b(?:unless|default\w*|e\.g|such\s+as|if\s+not|never|not|without|falls?\s+back)\b", re.IGNORECASE
)


def _beyond_purpose(sentence: str, at: int, purpose: Purpose) -> Iterator[tuple[str, Span]]:
    """What the sentence does that nothing in the tool's name and parameters asks for. `at`: its place, from 0."""
    small = sentence.lower()
    if not sentence.isascii() or has_one(_SENDS_WORDS, small):
        first = at == 0 and (purpose.sends or purpose.keeps_secrets)
        own_sink = purpose.takes_place and "attacker" not in small
        if not first and not own_sink:
            yield from ((_SENDS_SECRETS, span) for span in _near(sentence, (_SEND, _SECRET, _ELSEWHERE), 140))
            if not purpose.sends:
                yield from (
                    ("sends along what nobody asked for", span)
                    for span in _near(sentence, (_SEND, _BESIDES, _OUTSIDE), 90)
                )
    if has_one(_FILE_WORDS, small) and not _CONDITION.search(sentence) and not purpose.keeps_secrets:
        for match in _FILE_ACCESS.finditer(sentence):
            if at or match.start() > len(sentence) // 4 or "exfiltrat" in small:
                yield "reads a file with secrets that nothing of its parameters asks for", match.span()


def orders(text: str, purpose: Purpose, *, is_data: bool = False) -> Iterator[tuple[str, str]]:
    """(reason, words) of each rule that the text meets, once a reason; the text is as a model reads it.

    `is_data`: it is a value and addresses nobody, so that a mark in it is what the value is.
    """
    small = text.lower()
    rules = [rule for rule in RULES if not (is_data and rule.marks) and (not text.isascii() or rule.may_fit(small))]
    reasons, mentions = set[str](), Counter[str]()
    for at, sentence in enumerate(sentences(text)):
        spans = [(rule.reason, span) for rule in rules if at or not rule.asides for span in rule.find(sentence)]
        for reason, span in (*spans, *_beyond_purpose(sentence, at, purpose)):
            if reason in reasons:
                continue
            mentions[reason] += 1
            if mentions[reason] > MAX_MENTIONS or not _is_mention(sentence, span):
                reasons.add(reason)
                yield reason, sentence[span[0] : span[1]]


def may_order(small: str) -> bool:
    """False for most ASCII texts, in which no rule can find anything. `small`: the text in small letters."""
    return (
        any(has_all(groups, small) for groups in _WORDS)
        or has_one(_FILE_WORDS, small)
        or (has_one(_SENDS_WORDS[:10], small) and has_one(_ELSEWHERE_WORDS, small))
    )


_HARM = re.compile(
    r"""\b(?: steals?|stolen|exfiltrat\w+|malicious|malware|backdoors?|keylog\w*|ransomware|rootkits?|botnets?
      |reverse\s+shell
    | brute[\s-]?forc\w+|(?:dump|harvest|crack)\w*\s+(?:\w+\s+){0,3}(?:credential|password|hash|secret|token|key)\w*
    | privilege\s+escalation|escalat\w+\s+privileges?|(?:evad|bypass)\w*\s+(?:\w+\s+){0,2}(?:detection|antivirus|edr
      |authentication)
    | exploit(?:s|ation)?|hijack\w*|(?:arp|dns|cache|llmnr)\s+poison\w*|spoof\w*|shellcode|deserialization\s+attack
      |\w+\s+injection\s+(?:attack|in|technique)
    | covert\s+channel|persistence\s+mechanism|c2\s+server|pass-the-(?:hash|ticket)|phish\w* )\b""",
    _FLAGS,
)
_DEFENDS = re.compile(
    r"""\b(?:detect|prevent|block|protect|scan|monitor|alert|remediat|mitigat|defen[dcs]|report|search|check
      |analy[sz]|list|lookup|look
    \s+up|find|identif|stop|quarantin|remov|investigat|threat\s+intelligence)\w*\b""",
    _FLAGS,
)
_HARM_WORDS = (
    "steal", "stolen", "exfil", "malicious", "malware", "backdoor", "keylog", "ransom", "rootkit", "botnet",
    "reverse", "brute",
    "dump", "harvest", "crack", "escalat", "evad", "bypass", "exploit", "hijack", "poison", "spoof", "shellcode",
    "attack",
    "injection", "covert", "persistence", "c2", "pass-the", "phish",
)  # fmt: skip


def harm(text: str) -> str:
    """The words by which a text says that its tool does harm; empty if it says none, or defends against it."""
    if not has_one(_HARM_WORDS, text.lower()):
        return ""
    for sentence in sentences(text):
        match = _HARM.search(sentence)
        if match and not _DEFENDS.search(sentence):
            return match.group()
    return ""
