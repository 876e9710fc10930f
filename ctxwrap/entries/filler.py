"""Filler: greetings, thanks, praise and openers, which say nothing that anybody would look for later."""

import re

from ctxwrap.entries.sentences import sentences_in, words_of
from ctxwrap.entries.vocabulary import FILLER, FILLER_UNSPACED, FUNCTION_WORDS, GREETING, OPENERS, PRAISE, YES_OR_NO
from ctxwrap.language.vocabulary import TIME

_FILLER, _PRAISE, _FUNCTION = (frozenset(each.split()) for each in (FILLER, PRAISE, FUNCTION_WORDS))
_KNOWN = _FILLER | _PRAISE | _FUNCTION
_YES_OR_NO, _TIME = frozenset(YES_OR_NO.split()), frozenset(TIME.split())
_LONGEST = 80
_UNSPACED = re.compile(rf"(?:{'|'.join(FILLER_UNSPACED)}|[，、！!。～~ ])+")
_POLITE = re.compile(
    r"(?:please )?(?:let me know if|feel free to|don't hesitate|(?:i )?hope (?:this|that) helps|(?:i )?hope you"
    r"|is there anything else|i'm happy to help|happy to help|glad to help|i'd be happy to|looking forward to"
    r"|great question|good question|what a great|sag bescheid|melde dich, wenn|don't worry|no worries|never mind"
    r"|(?:so )?sorry for the (?:late|delayed|slow) |(?:good|nice|great|lovely) to (?:see|meet|hear from) you"
    r"|(?:i'm )?(?:so |very )?sorry to hear|(?:i )?apologi[sz]e for|how (?:have|are) you"
    r"|have a (?:great|good|nice|lovely) "
    r"|n'hésite[sz]? pas|no dudes en|si necesitas algo|me alegro)\b"
)
_THANKS = re.compile(r"(?:many |big |and )?(?:thanks|thank you|thx|danke|merci|gracias)\b(?! to\b)[^:;]{0,70}$")
_GREAT = re.compile(
    r"that(?:'s| is) (?:a |so |such a |really )?(?:great|good|awesome|amazing|nice|wonderful)(?: \w+)?[.! ]*$"
)
_CALLS = frozenset(
    [
        "thanks",
        "thank",
        "thx",
        "hi",
        "hey",
        "hello",
        "wow",
        "bye",
        "goodbye",
        "congrats",
        "congratulations",
        "happy",
        "that's",
        "danke",
    ]
)
_NEGATION = re.compile(r"\b(?:not|never|nicht|kein\w*|pas)\b|n't\b")

_GREETING = "|".join(GREETING.split())
_GREETED = re.compile(
    rf"\s{{0,20}}(?i:{_GREETING})"
    r"(?: (?i:there|all|everyone|team|morning|afternoon|evening|morgen|tag|abend|zusammen|días|tardes)){0,2}"
    r"(?P<name>(?: [A-Z][\w'’\-]{1,20}){1,2})?\s?[,!.:;–\-\n]{1,3}\s{1,5}(?=\S)"
)
_OPENER = re.compile(
    rf"(?i:{'|'.join(each.strip() for each in OPENERS.split('|'))})\s?[,:–!.]\s{{1,3}}(?=\S)"
    r"|(?i:hi|hey|hello),? (?=(?i:can|could|would|will|i|i'm|im|we|what|how|where|when|who|is|are|do|please)\b)"
    r"|(?i:actually,?|(?:please )?(?:remember|note|keep in mind|be aware)(?: that|,)|just so you know,?) (?=\w)"
)


def informative_in(text: str) -> list[str]:
    """The sentences that say something, each once, without greetings and openers."""
    _, rest = greeted(text)
    bare = (without_opener(sentence) for sentence in sentences_in(rest))
    return list(dict.fromkeys(sentence for sentence in bare if not is_filler(sentence)))


def is_filler(sentence: str) -> bool:
    """Whether it is a greeting, a thank you, praise or the like, and nothing else."""
    if len(sentence) > _LONGEST:
        return False
    words = words_of(sentence)
    if not words or _UNSPACED.fullmatch(sentence):
        return True
    small = sentence.lower().replace("’", "'")
    if any(map(str.isdigit, sentence)) or (len(words) < 3 and not _YES_OR_NO.isdisjoint(words)):
        return False
    names = _names_in(sentence)
    if (_POLITE.match(small) or _THANKS.match(small) or _GREAT.match(small)) and not names:
        return True
    unknown = [word for word in words if word not in _KNOWN and word not in names]
    said = not (_FILLER | _PRAISE).isdisjoint(words) and (not _NEGATION.search(small) or words == ["not", "bad"])
    return said and not unknown and len(names) <= (words[0] in _CALLS)


def _names_in(sentence: str) -> set[str]:
    """The words behind the first one that have a capital and may be names, in lower case."""
    found = {word.strip(".,!?;:\"'()").rstrip("’") for word in sentence.split()[1:]}
    return {
        word.lower() for word in found if word[:1].isupper() and word.lower() not in _KNOWN | {"i'll", "i'd", "i've"}
    }


def greeted(text: str) -> tuple[str, str]:
    """Whom a message greets by name, if anybody, and the message without the greeting."""
    found = _GREETED.match(text[:200])
    if not found:
        return "", text
    return (found["name"] or "").strip(), capitalised(text[found.end() :])


def without_opener(sentence: str) -> str:
    """The sentence without a first word that only leads to it."""
    found = _OPENER.match(sentence[:60])
    rest = sentence[found.end() :] if found else ""
    return capitalised(rest) if len(rest.split()) > 2 or len(rest) > 20 else sentence


def capitalised(text: str) -> str:
    """The text with a capital at its start, of the same length; an address or a name such as iPhone stays."""
    first = text.partition(" ")[0]
    is_word = first.isalpha() and first.islower() and len(text[:1].upper()) == 1
    return text[:1].upper() + text[1:] if is_word else text
