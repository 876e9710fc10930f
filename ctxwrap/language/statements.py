"""What a user's message states about its author, found by rules without a model."""

import re

from ctxwrap.language.chinese import clauses as chinese
from ctxwrap.language.english import clauses as english
from ctxwrap.language.patterns import folded, has_any, lazy_pattern, shortest_hints
from ctxwrap.language.rules import MASK, AssertedSentence, Statement
from ctxwrap.language.vocabulary import split_phrases
from ctxwrap.language.words import WordHints

__all__ = ["MAX_STATEMENTS", "AssertedSentence", "Statement", "asserted_sentences", "statements_in", "statements_of"]

MAX_STATEMENTS = 8
"""Maximum statements per message."""

_HAN = lazy_pattern("[\u4e00-\u9fff]")
MAX_READ = 4_000
"""Maximum characters read from a message."""

_LONG_MESSAGE, _LONG_PARAGRAPH = 2_500, 700
"""Longer text was probably pasted: of such a message only the first paragraph counts; such a paragraph is skipped."""

_FENCE = lazy_pattern(r"^ {0,3}(?:```|~~~)")
_QUOTED_LINE = lazy_pattern(r"^\s{0,8}(?:>|\|| {4}|\t)")
_MARK = lazy_pattern(r"^\s{0,12}(?:[-*+•–]\s|\(?\d{1,2}[.)]\s|#{1,6}\s)")
_CODE = lazy_pattern(r"`[^`\n]*+`?")
_QUOTES = lazy_pattern(
    r"(?<!\d)\"[^\"\n]*+\"?|“[^”\n]*+”?|„[^“”\n]*+[“”]?|«[^»\n]*+»?|「[^」\n]*+」?|『[^』\n]*+』?"
    r"|(?<!\w)'(?:[^'\n]|'(?=\w)){1,300}+'(?!\w)"
)
_QUOTE_MARKS = "\"'“„«「『"
_HEADING = lazy_pattern(r"^ {0,3}#{1,6} \S", re.M)
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
_REWORK_HINTS = split_phrases(
    "translat|proof|paraphras|write|phrase|word|spell|conjugate|check|fix|correct|improve|polish|edit|review|shorten"
    "|summari|simplify|analy|explain|parse|diagram|翻译|翻成|译成|译为|润色|改写|校对|续写|造句|仿写|改成英文|语法|病句"
    "|概括|总结"
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
_FICTION_HINTS = split_phrases(
    "role|pretend|in character|fictional|screenplay|monologue|haiku|limerick|sonnet|act as|acting as|play the"
    "|you are|lyric|just kidding|only joking|jk|扮演|假装|虚构|剧本|台词|歌词|开玩笑的"
)
_LETTER = lazy_pattern(
    r"^\s{0,4}(?:dear [a-z]|subject:|from: |to: |(?:best|kind|warm) regards|sincerely|yours "
    r"(?:truly|faithfully|sincerely)"
    r"|cheers,$|尊敬的|亲爱的|此致|敬礼|主题[:：]|发件人)",
    re.I | re.M,
)
_INVENTED = lazy_pattern(
    r"\b(?:suppos(?:e|ing)|imagin(?:e|ing)|hypothetically|let's say|lets say|let us say|assum(?:e"
    r"|ing) (?:that )?(?:i|my|we)\b"
    r"|(?:write|draft|compose|create|generate|make up|invent|tell|continue|finish)"
    r"\b[^.!?\n]{0,60}\b(?:poems?|story|stories|song|tale|novel|dialog(?:ue)?|scene|script|persona"
    r"|character|joke"
    r"|sentences?|testimonial|review|diary|rap|verse|fable|speech|quotes?|tweets?|examples?|blog"
    r"|post|article|essay)\b)"
    r"|假设|想象|假如|假定|设想"
    r"|写[^。！？\n]{0,20}(?:诗|故事|小说|对话|作文|段子|笑话|散文|日记|歌|例句|句子|文案|短文"
    r"|剧情|开头)",
    re.I,
)
_INVENTED_HINTS = split_phrases(
    "suppos|imagin|hypothetically|let's say|lets say|let us say|assum|write|draft|compose|create|generate|make up"
    "|invent|tell|continue|finish|假设|想象|假如|假定|设想|写"
)
_INTRODUCED_HINTS = split_phrases(
    "write|draft|compose|create|generate|text|reply|email|message|prompt|say|print|echo|repeat|type|sentence|paragraph"
    "|passage|poem|story|letter|quote|example|line|lyric|dialogue|essay|script|caption|tweet|review|log|excerpt|chapter"
    "|statement|follow|below|bio|goes|reads|output|input|string|variable|test|phrase|写|句|原文|文字|文章|段落|短信|邮件"
    "|消息|信|内容|如下|以下|下面|回复|输出|输入|念|读|例子|测试"
)
_FICTION_BIT, _REWORK_BIT, _INVENTED_BIT, _INTRODUCED_BIT = _BITS = 1, 2, 4, 8
_WORDS = tuple(
    shortest_hints(max(phrase.split(), key=len) for phrase in hints)
    for hints in (_FICTION_HINTS, _REWORK_HINTS, _INVENTED_HINTS, _INTRODUCED_HINTS)
)
"""The longest word of each hint."""
_ALL_WORDS = shortest_hints(word for words in _WORDS for word in words)


def _hints_of(word: str) -> int:
    small = folded(word)
    if not has_any(small, _ALL_WORDS):  # as most
        return 0
    return sum(bit for bit, words in zip(_BITS, _WORDS, strict=True) if has_any(small, words))


_HINTS = WordHints(_hints_of)
"""What the words of a text hint at; few texts need a look for whole phrases."""

_COLON = lazy_pattern("[:：]")
_INTRODUCED = lazy_pattern(
    r"\b(?:write|draft|compose|create|generate|text|reply|email|message|prompt|say|print|echo"
    r"|repeat|type|sentence|paragraph"
    r"|passage|poem|story|letter|quote|example|line|lyric|dialogue|essay|script|caption|tweet"
    r"|review|transcript|log"
    r"|excerpt|chapter|statement|follows|following|below|bio|goes|reads|output|input|string"
    r"|variable|test|phrase)s?"
    r"\b[^.!?\n:]{0,60}:(?!\d)"
    r"|(?:写|句子|例句|原文|文字|文章|段落|短信|邮件|消息|信|内容|如下|以下|下面|回复|输出|输入|念"
    r"|读|例子|测试)[^。！？\n：:]{0,12}[:：]",
    re.I,
)
_LONGEST_INTRODUCTION = 80
"""No introduction is longer, up to its colon."""

_SENTENCE_END = lazy_pattern(
    r"(?<=[.…])(?!(?<=\d\.)\s(?:Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b)"
    r"(?<!\b[A-Z]\.)(?<!\b(?:Mr|Ms|Dr|St|Jr|vs)\.)(?<!\b(?:Mrs|Inc|Ltd|e\.g|i\.e"
    r"|etc)\.)[)\]]?\s+"
    r"|(?<=[!?。！？])[)\]）]?\s*|\s*[;；]\s*|\n"
)


def statements_in(text: str) -> tuple[Statement, ...]:
    """Return what the message states about its author, in order; doubtful statements are left out."""
    found: dict[str, Statement] = {}
    for sentence in asserted_sentences(text):
        for statement in statements_of(sentence):
            found.setdefault(statement.content, statement)
        if len(found) >= MAX_STATEMENTS:
            break
    return tuple(found.values())[:MAX_STATEMENTS]


def statements_of(sentence: AssertedSentence) -> list[Statement]:
    """Return what one sentence states about its author."""
    rules = chinese if _HAN.search(sentence.text) else english
    found: list[Statement] = rules.statements_of(sentence)
    return found


def asserted_sentences(message: str) -> list[AssertedSentence]:
    """Return the sentences that the author asserts: no quotes, code, drafts, fiction or pasted text."""
    text = _own_words(message)
    hints = _HINTS.of(text)
    small = folded(text) if hints else ""
    is_fiction = hints & _FICTION_BIT and has_any(small, _FICTION_HINTS) and _FICTION.search(text)
    is_rework = hints & _REWORK_BIT and has_any(small, _REWORK_HINTS) and _REWORK.search(text)
    is_letter = _LETTER.search(text) if "\n" in text else _LETTER.match(text)  # a search looks at every character
    if is_fiction or is_rework or is_letter:
        return []
    if hints and (invented := _start_of_invention(text, small, hints)) is not None:
        text = text[: text.rfind("\n", 0, invented) + 1] + _sentences_before(text, invented)
    return [sentence for line in _lines(text) for sentence in _sentences(line)]


def _start_of_invention(text: str, small: str, hints: int) -> int | None:
    """Return where the author makes something up, or introduces a text by a colon.

    `small` is the folded text; `hints` are those of its words.
    """
    found = [_INVENTED.search(text) if hints & _INVENTED_BIT and has_any(small, _INVENTED_HINTS) else None]
    if hints & _INTRODUCED_BIT and (first := _COLON.search(text)):
        last = max(text.rfind(":"), text.rfind("："))
        found.append(_INTRODUCED.search(text, max(0, first.start() - _LONGEST_INTRODUCTION), last + 2))
    return min((each.start() for each in found if each), default=None)


def _sentences_before(text: str, end: int) -> str:
    """Return the complete sentences of the line before `end`."""
    line = text[text.rfind("\n", 0, end) + 1 : end]
    ends = [found.start() for found in _SENTENCE_END.finditer(line)]
    return line[: ends[-1]] if ends else ""


def _own_words(message: str) -> str:
    """Remove code, quotes and pasted text."""
    kept: list[str] = []
    fenced = False
    for line in message[:MAX_READ].replace("’", "'").replace("‘", "'").splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if not fenced and not _QUOTED_LINE.match(line):
            line = _CODE.sub(MASK, line) if "`" in line else line
            kept.append(_QUOTES.sub(MASK, line) if has_any(line, _QUOTE_MARKS) else line)
    text = "\n".join(kept)
    heading = _HEADING.search(text) if "#" in text else None  # a document starts here
    paragraphs = (text[: heading.start()] if heading else text).split("\n\n")
    paragraphs = paragraphs[:1] if len(message) > _LONG_MESSAGE else paragraphs
    return "\n".join(paragraph for paragraph in paragraphs if len(paragraph) <= _LONG_PARAGRAPH)


def _lines(text: str) -> list[str]:
    """Strip list marks and drop lines labelled as somebody else's."""
    lines = [_MARK.sub("", line) for line in text.split("\n")]
    return [line for line in lines if not (found := _LABEL.match(line)) or _OWN_LABEL.fullmatch(found["label"])]


def _sentences(line: str) -> list[AssertedSentence]:
    pieces = [" ".join(piece.split()) for piece in _SENTENCE_END.split(line)]
    return [AssertedSentence(piece.rstrip(" .!?…。！？"), piece.endswith(("?", "？"))) for piece in pieces if piece]
