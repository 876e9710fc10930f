"""A statement of users about themselves: the rules that find one, and in whose voice it is."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ctxwrap.language.lexicon import OFTEN, PAST
from ctxwrap.language.patterns import lazy_pattern

StatementTier = Literal["core", "working"]

LONGEST = 200
"""So many characters has the content of a statement at most."""


class Statement(NamedTuple):
    """One thing worth remembering, as a memory item has it."""

    type: str
    tier: StatementTier
    decay: float
    content: str
    """A sentence in the third person, in the language of the user."""


class Sort(NamedTuple):
    """What kind of item a rule makes."""

    type: str
    tier: StatementTier
    decay: float

    def of(self, content: str) -> Statement | None:
        """The statement, or None if it would be too long to be one."""
        return Statement(*self, content) if len(content) <= LONGEST else None


NAME = Sort("identity", "core", 0.05)
HEALTH = Sort("fact", "core", 0.05)
LIFE = Sort("fact", "core", 0.1)
"""Home, work, family, and what the user asks to be remembered."""
INSTRUCTION = Sort("instruction", "core", 0.1)
LIKING = Sort("preference", "core", 0.2)
DECISION = Sort("decision", "working", 0.3)
BUDGET = Sort("fact", "working", 0.3)
DEADLINE = Sort("deadline", "working", 0.3)
TASK = Sort("task", "working", 0.3)
PROJECT = Sort("fact", "working", 0.3)
"""What occupies the user for some weeks: a trip, a course, a book."""

RuleMatch = re.Match[str]
Tell = Callable[[RuleMatch], Statement | None]
RuleTable = tuple[tuple[re.Pattern[str], Tell], ...]


def rules(*pairs: tuple[str, Tell]) -> RuleTable:
    """Patterns, each with what it tells if it matches the start of a clause."""
    return tuple((lazy_pattern(pattern), tell) for pattern, tell in pairs)


def first_told(clause: str, known: RuleTable) -> Statement | None:
    """What the first rule that fits the clause makes of it."""
    for pattern, tell in known:
        if (found := pattern.match(clause)) and (told := tell(found)):
            return told
    return None


READ = 4_000
"""So many characters of a message are read."""

_LONG_MESSAGE, _LONG_PARAGRAPH = 2_500, 700
"""What is longer was pasted: of such a message only the first paragraph counts, such a paragraph never does."""

MASK = "\ufffc"
"""It stands for what was quoted."""

_FENCE = lazy_pattern(r"^ {0,3}(?:```|~~~)")
_QUOTED_LINE = lazy_pattern(r"^\s{0,8}(?:>|\|| {4}|\t)")
_MARK = lazy_pattern(r"^\s{0,12}(?:[-*+•–]\s|\(?\d{1,2}[.)]\s|#{1,6}\s)")
_CODE = lazy_pattern(r"`[^`\n]*+`?")
_QUOTES = lazy_pattern(
    r"(?<!\d)\"[^\"\n]*+\"?|“[^”\n]*+”?|„[^“”\n]*+[“”]?|«[^»\n]*+»?|「[^」\n]*+」?|『[^』\n]*+』?"
    r"|(?<!\w)'(?:[^'\n]|'(?=\w)){1,300}+'(?!\w)"
)
_LABEL = lazy_pattern(r"^\s{0,4}\*{0,2}(?P<label>[^\W\d_][\w.]{0,19}(?: [\w.]{1,19}){0,2})\*{0,2}\s?[:：]")
_OWN_LABEL = lazy_pattern(
    r"(?i:note|fyi|btw|ps|p\.s\.?|context|background|update|reminder|about me|info|important|task"
    r"|todo|decision"
    r"|name|location|remember|preferences?|correction|(?:please |always |never |my |our |the |for "
    r"|i |we ).*"
    r"|.*(?:budget|deadline|remember|mind|decided|record|know)"
    r"|.*(?:预算|截止日期|截止时间|记住|提醒|备注|背景|补充|决定|更新|注意|要求|记一下|说明|ddl).*"
    r"|[我请].*)"
)
_REWORK = lazy_pattern(
    r"\b(?:translat(?:e|ion|ing)|proof-?read|paraphras\w{1,4}|re-?write|re-?phrase|re-?word"
    r"|spell-?check|conjugate)\b"
    r"|\b(?:check|fix|correct|improve|polish|edit|review|shorten|summari[sz]e|simplify|analy[sz]e"
    r"|explain|parse|diagram)"
    r" (?:this|these|the following|the grammar|grammar|the sentence|the text|my grammar|my english"
    r"|the passage|the quote)"
    r"|翻译|翻成|译成|译为|润色|改写|校对|续写|造句|仿写|改成英文|语法|病句|概括(?:一下)?(?:下面"
    r"|以下|这)|总结(?:一下)?(?:下面|以下|这)",
    re.I,
)
_FICTION = lazy_pattern(
    r"\b(?:role-?play\w{0,3}|pretend(?:ing)?|in character|fictional|screenplay|monologue|haiku"
    r"|limerick|sonnet"
    r"|act as|acting as|play the (?:role|part)|you are (?:now )?(?:a|an|the) |lyrics|song lyric"
    r"|just kidding|only joking)\b"
    r"|\bjk\b"
    r"|角色扮演|扮演|假装|虚构|剧本|台词|歌词|开玩笑的",
    re.I,
)
_LETTER = lazy_pattern(
    r"^\s{0,4}(?:dear [a-z]|subject:|from: |to: |(?:best|kind|warm) regards|sincerely|yours "
    r"(?:truly|faithfully|sincerely)"
    r"|cheers,$|尊敬的|亲爱的|此致|敬礼|主题[:：]|发件人)",
    re.I | re.M,
)
_REST_IS_INVENTED = lazy_pattern(
    r"\b(?:suppos(?:e|ing)|imagin(?:e|ing)|hypothetically|let's say|lets say|let us say|assum(?:e"
    r"|ing) (?:that )?(?:i|my|we)\b"
    r"|(?:write|draft|compose|create|generate|make up|invent|tell|continue|finish)"
    r"\b[^.!?\n]{0,60}\b(?:poems?|story|stories|song|tale|novel|dialog(?:ue)?|scene|script|persona"
    r"|character|joke"
    r"|sentences?|testimonial|review|diary|rap|verse|fable|speech|quotes?|tweets?|examples?|blog"
    r"|post|article|essay)\b"
    r"|(?:write|draft|compose|create|generate|text|reply|email|message|prompt|say|print|echo"
    r"|repeat|type|sentence|paragraph"
    r"|passage|poem|story|letter|quote|example|line|lyric|dialogue|essay|script|caption|tweet"
    r"|review|transcript|log"
    r"|excerpt|chapter|statement|follows|following|below|bio|goes|reads|output|input|string"
    r"|variable|test|phrase)s?"
    r"\b[^.!?\n:]{0,60}:(?!\d))"
    r"|假设|想象|假如|假定|设想"
    r"|写[^。！？\n]{0,20}(?:诗|故事|小说|对话|作文|段子|笑话|散文|日记|歌|例句|句子|文案|短文"
    r"|剧情|开头)"
    r"|(?:写|句子|例句|原文|文字|文章|段落|短信|邮件|消息|信|内容|如下|以下|下面|回复|输出|输入|念"
    r"|读|例子|测试)[^。！？\n：:]{0,12}[:：]",
    re.I,
)
_SENTENCE_END = lazy_pattern(
    r"(?<=[.…])(?!(?<=\d\.)\s(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b)"
    r"(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St|Jr|vs)\.)(?<!\b(?:Mrs|Inc|Ltd|e\.g|i\.e"
    r"|etc)\.)[)\]]?\s+"
    r"|(?<=[!?。！？])[)\]）]?\s*|\s*[;；]\s*|\n"
)


class AssertedSentence(NamedTuple):
    text: str
    asks: bool
    """Whether it ends as a question."""


def asserted_in(message: str) -> list[AssertedSentence]:
    """What the author says as themselves: no quote, no code, no draft, no fiction and nothing pasted."""
    text = _own_words(message)
    if _FICTION.search(text) or _REWORK.search(text) or _LETTER.search(text):
        return []
    if invented := _REST_IS_INVENTED.search(text):
        text = text[: text.rfind("\n", 0, invented.start()) + 1] + _before(text, invented.start())
    return [sentence for line in _lines(text) for sentence in _sentences(line)]


def _before(text: str, end: int) -> str:
    """The whole sentences of the line before a place."""
    line = text[text.rfind("\n", 0, end) + 1 : end]
    ends = [found.start() for found in _SENTENCE_END.finditer(line)]
    return line[: ends[-1]] if ends else ""


def _own_words(message: str) -> str:
    """The message without code and quotes, and without what is too long to be more than pasted."""
    kept: list[str] = []
    fenced = False
    for line in message[:READ].replace("’", "'").replace("‘", "'").splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if not fenced and not _QUOTED_LINE.match(line):
            kept.append(_QUOTES.sub(MASK, _CODE.sub(MASK, line)))
    text = "\n".join(kept)
    heading = _HEADING.search(text)  # from there on it is a document
    paragraphs = (text[: heading.start()] if heading else text).split("\n\n")
    paragraphs = paragraphs[:1] if len(message) > _LONG_MESSAGE else paragraphs
    return "\n".join(paragraph for paragraph in paragraphs if len(paragraph) <= _LONG_PARAGRAPH)


_HEADING = lazy_pattern(r"^ {0,3}#{1,6} \S", re.M)


def _lines(text: str) -> list[str]:
    """The lines, without their marks and without those that a label gives to somebody else."""
    lines = [_MARK.sub("", line) for line in text.split("\n")]
    return [line for line in lines if not (found := _LABEL.match(line)) or _OWN_LABEL.fullmatch(found["label"])]


def _sentences(line: str) -> list[AssertedSentence]:
    pieces = [" ".join(piece.split()) for piece in _SENTENCE_END.split(line)]
    return [AssertedSentence(piece.rstrip(" .!?…。！？"), piece.endswith(("?", "？"))) for piece in pieces if piece]


_TOKEN = lazy_pattern(r"[\w'\-]+|[^\w'\-]+")
_WORDS = {
    "i": "they",
    "me": "them",
    "my": "their",
    "mine": "theirs",
    "myself": "themselves",
    "we": "they",
    "us": "them",
    "our": "their",
    "ours": "theirs",
    "ourselves": "themselves",
    "i'm": "they are",
    "i've": "they have",
    "i'll": "they will",
    "we're": "they are",
    "we've": "they have",
    "we'll": "they will",
    "am": "are",
}
_THIRD = {
    "have": "has",
    "am": "is",
    "do": "does",
    "go": "goes",
    "don't": "does not",
    "haven't": "has not",
    "was": "was",
    "were": "was",
    "can": "can",
    "can't": "cannot",
    "cannot": "cannot",
    "will": "will",
    "won't": "will not",
    "must": "must",
    "should": "should",
    "never": "never",
}
_PAST, _ADVERBS = frozenset(PAST.split()), frozenset(OFTEN.split())


def others(text: str) -> str:
    """The text with its speaker as `they`."""
    told: list[str] = []
    before = ""
    for token in _TOKEN.findall(text):
        small = token.lower()
        clock = small == "am" and before != "i"
        spelled = len(token) > 1 and token.isupper()  # the US is no pronoun
        told.append(token if clock or spelled else _WORDS.get(small, token))
        before = small if token.strip() else before
    return "".join(told)


def about_user(predicate: str) -> str:
    """`The user` with what stood behind `I`, its verb in the third person."""
    words = predicate.split(" ")
    at = next((at for at, word in enumerate(words[:3]) if word.lower() not in _ADVERBS), 0)
    words[at] = _third(words[at])
    return f"The user {' '.join(words[: at + 1])} {others(' '.join(words[at + 1 :]))}".rstrip()


def _third(verb: str) -> str:
    small = verb.lower()
    if small in _THIRD:
        return _THIRD[small]
    if small in _PAST or small.endswith("ed"):
        return small
    if small.endswith(("s", "sh", "ch", "x", "z")):
        return f"{small}es"
    return f"{small[:-1]}ies" if small.endswith("y") and small[-2:-1] not in "aeiou" else f"{small}s"
