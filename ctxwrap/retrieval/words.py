"""Words: what a text is found by, in any script, and in time that grows with its length only."""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

READ = 20_000
"""So many characters of a text are read; longer ones come in passages."""

_LONGEST = 32
"""A word is known by so many of its characters."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts that do not part their words, or glue endings to them."""

_MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u1000-\u109f\u1780-\u17ff"
"""What belongs to a word and is no letter: accents, and the vowels of many scripts."""

_WORD = re.compile(rf"[\w{_MARKS}'’]+")
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_START = re.compile(f"[{_UNSPACED}]")
_SENTENCE_END = re.compile(r"[.!?…。！？\n:]\W*$")

_STOP = frozenset(
    [
        "a",
        "about",
        "after",
        "again",
        "all",
        "also",
        "always",
        "am",
        "an",
        "and",
        "any",
        "anything",
        "are",
        "aren",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "both",
        "but",
        "by",
        "can",
        "cannot",
        "cause",
        "come",
        "could",
        "couldn",
        "d",
        "did",
        "didn",
        "do",
        "does",
        "doesn",
        "doing",
        "don",
        "done",
        "down",
        "each",
        "else",
        "ever",
        "every",
        "few",
        "for",
        "from",
        "get",
        "gets",
        "getting",
        "give",
        "go",
        "goes",
        "going",
        "gonna",
        "got",
        "gotta",
        "had",
        "hadn",
        "has",
        "hasn",
        "have",
        "haven",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "herself",
        "hey",
        "hi",
        "him",
        "himself",
        "his",
        "how",
        "however",
        "i",
        "if",
        "in",
        "into",
        "is",
        "isn",
        "it",
        "its",
        "itself",
        "just",
        "keep",
        "know",
        "last",
        "let",
        "like",
        "likely",
        "ll",
        "look",
        "lot",
        "m",
        "make",
        "many",
        "may",
        "maybe",
        "me",
        "might",
        "mine",
        "more",
        "most",
        "much",
        "must",
        "my",
        "myself",
        "need",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "oh",
        "ok",
        "okay",
        "on",
        "once",
        "one",
        "only",
        "or",
        "other",
        "our",
        "ours",
        "ourselves",
        "out",
        "over",
        "own",
        "quite",
        "re",
        "really",
        "s",
        "same",
        "say",
        "see",
        "shall",
        "she",
        "should",
        "shouldn",
        "so",
        "some",
        "something",
        "still",
        "such",
        "t",
        "take",
        "than",
        "thank",
        "that",
        "the",
        "their",
        "theirs",
        "them",
        "themselves",
        "then",
        "there",
        "these",
        "they",
        "thing",
        "think",
        "this",
        "those",
        "though",
        "through",
        "to",
        "too",
        "try",
        "um",
        "under",
        "until",
        "up",
        "us",
        "use",
        "ve",
        "very",
        "want",
        "was",
        "wasn",
        "way",
        "we",
        "well",
        "were",
        "weren",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "within",
        "without",
        "won",
        "would",
        "wouldn",
        "wow",
        "yeah",
        "yep",
        "yes",
        "yet",
        "you",
        "your",
        "yours",
        "yourself",
        "der",
        "das",
        "dem",
        "den",
        "des",
        "ein",
        "eine",
        "einen",
        "einem",
        "einer",
        "eines",
        "und",
        "oder",
        "aber",
        "nicht",
        "ist",
        "sind",
        "bin",
        "bist",
        "war",
        "waren",
        "hat",
        "habe",
        "haben",
        "ich",
        "du",
        "er",
        "sie",
        "es",
        "wir",
        "ihr",
        "mich",
        "dich",
        "mir",
        "dir",
        "sich",
        "mein",
        "meine",
        "dein",
        "deine",
        "auf",
        "aus",
        "bei",
        "mit",
        "nach",
        "von",
        "vor",
        "zu",
        "zum",
        "zur",
        "für",
        "über",
        "auch",
        "noch",
        "nur",
        "schon",
        "wie",
        "wer",
        "wann",
        "warum",
        "dass",
        "wenn",
        "le",
        "la",
        "les",
        "un",
        "une",
        "des",
        "du",
        "de",
        "et",
        "ou",
        "mais",
        "ne",
        "pas",
        "est",
        "sont",
        "suis",
        "été",
        "avoir",
        "ai",
        "as",
        "avons",
        "avez",
        "ont",
        "je",
        "tu",
        "il",
        "elle",
        "nous",
        "vous",
        "ils",
        "elles",
        "mon",
        "ma",
        "mes",
        "ton",
        "ta",
        "tes",
        "ce",
        "cet",
        "cette",
        "ces",
        "dans",
        "sur",
        "par",
        "pour",
        "avec",
        "sans",
        "que",
        "qui",
        "quoi",
        "quand",
        "où",
        "comment",
        "pourquoi",
        "au",
        "aux",
        "el",
        "los",
        "las",
        "una",
        "unos",
        "unas",
        "y",
        "o",
        "pero",
        "es",
        "son",
        "soy",
        "ser",
        "estar",
        "está",
        "están",
        "fue",
        "yo",
        "él",
        "ella",
        "nosotros",
        "ellos",
        "mi",
        "mis",
        "su",
        "sus",
        "lo",
        "se",
        "del",
        "al",
        "en",
        "por",
        "para",
        "con",
        "sin",
        "que",
        "quién",
        "cuándo",
        "dónde",
        "cómo",
        "qué",
        "gli",
        "uno",
        "di",
        "che",
        "chi",
        "non",
        "sono",
        "sei",
        "siamo",
        "ho",
        "hai",
        "ha",
        "io",
        "lui",
        "lei",
        "noi",
        "voi",
        "loro",
        "mio",
        "mia",
        "nel",
        "nella",
        "sul",
        "sulla",
        "per",
        "tra",
        "os",
        "uma",
        "e",
        "do",
        "da",
        "dos",
        "das",
        "no",
        "na",
        "nos",
        "nas",
        "em",
        "eu",
        "ele",
        "ela",
        "eles",
        "elas",
        "meu",
        "minha",
        "seu",
        "sua",
        "não",
        "mais",
        "foi",
        "são",
        "het",
        "een",
        "en",
        "van",
        "ik",
        "jij",
        "zij",
        "wij",
        "jullie",
        "niet",
        "maar",
        "ook",
        "naar",
        "voor",
        "zijn",
        "was",
        "heeft",
        "hebben",
        "mijn",
        "jouw",
        "и",
        "в",
        "на",
        "не",
        "что",
        "я",
        "ты",
        "он",
        "она",
        "мы",
        "вы",
        "они",
        "это",
        "как",
        "с",
        "по",
        "из",
        "за",
        "у",
        "к",
        "о",
        "а",
        "но",
        "да",
    ]
)

_ASKING = frozenset(
    [
        "ask",
        "answer",
        "become",
        "consider",
        "current",
        "did",
        "different",
        "does",
        "during",
        "happen",
        "happened",
        "involve",
        "kind",
        "long",
        "mention",
        "name",
        "often",
        "old",
        "person",
        "recent",
        "recently",
        "sort",
        "specific",
        "specifically",
        "start",
        "time",
        "times",
        "type",
        "types",
        "visit",
        "various",
    ]
)
"""Words of questions that say what is asked for and are seldom in what answers it."""

_IRREGULAR = {
    form: base
    for base, *forms in (
        line.split()
        for line in """
        be-born born
        begin began begun
        bite bit bitten
        blow blew blown
        break broke broken
        bring brought
        build built
        buy bought
        catch caught
        choose chose chosen choice
        deal dealt
        die died dying dead death
        draw drew drawn
        dream dreamt
        drink drank drunk
        drive drove driven
        eat ate eaten
        fall fell fallen
        feed fed
        feel felt
        fight fought
        find found
        fly flew flown flight
        forget forgot forgotten
        forgive forgave forgiven
        freeze froze frozen
        give gave given
        grow grew grown growth
        hang hung
        hear heard
        hide hid hidden
        hold held
        lead led
        learn learnt
        leave left
        lend lent
        lose lost loss
        marry married marriage
        mean meant
        meet met
        pay paid
        ride rode ridden
        rise rose risen
        run ran
        sell sold sale
        send sent
        shake shook shaken
        shine shone
        shoot shot
        show shown
        shrink shrank
        sing sang sung song
        sink sank sunk
        sit sat
        sleep slept asleep
        speak spoke spoken speech
        spend spent
        stand stood
        steal stole stolen
        stick stuck
        strike struck
        swear swore sworn
        sweep swept
        swim swam swum
        teach taught
        tear tore torn
        tell told
        think thought
        throw threw thrown
        understand understood
        wake woke woken awake
        wear wore worn
        weigh weight
        win won
        write wrote written

        child children kid kids kiddo
        foot feet
        life lives
        man men
        mouse mice
        person people
        tooth teeth
        wife wives
        woman women
        mother mom mum mommy mama
        father dad daddy papa
        grandmother grandma granny
        grandfather grandpa
        family fam
        photo photograph photography photographer pic picture
        television tv
        bicycle bike
        vacation holiday
        business biz
        favorite favourite fave
        color colour
        movie film
        """.splitlines()
        if line.strip()
    )
    for form in (base, *forms)
}

_ENDINGS = (
    ("ational", 4),
    ("ization", 4),
    ("isation", 4),
    ("fulness", 3),
    ("iveness", 3),
    ("ousness", 3),
    ("ation", 4),
    ("ative", 4),
    ("ement", 4),
    ("ical", 4),
    ("ator", 4),
    ("ally", 4),
    ("ness", 3),
    ("ment", 4),
    ("able", 4),
    ("ible", 4),
    ("ance", 4),
    ("ence", 4),
    ("ing", 3),
    ("ion", 4),
    ("ful", 3),
    ("ous", 4),
    ("ive", 4),
    ("ity", 4),
    ("ism", 4),
    ("ist", 4),
    ("ize", 4),
    ("ise", 4),
    ("ate", 4),
    ("al", 4),
    ("er", 4),
    ("or", 4),
    ("ic", 4),
    ("ed", 3),
    ("ly", 3),
)
"""Endings, each with how many letters must be left before it; the first that fits goes."""


class Word(NamedTuple):
    """One word of a query."""

    term: str
    """What it is looked up as."""
    capital: bool
    """Written as names are: with a capital that no start of a sentence explains, or with a figure."""


def terms_of(text: str) -> list[str]:
    """What a text is found by, in its order; words that say nothing are left out."""
    found: list[str] = []
    for raw in _WORD.findall(_readable(text)):
        if len(raw) <= _LONGEST and raw.isascii():
            if term := term_of(raw):
                found.append(term)
        else:
            found += _terms_in(raw)
    return found


def query_words(text: str) -> list[Word]:
    """What to look for, each term once."""
    found: dict[str, Word] = {}
    text = _readable(text)
    for match in _WORD.finditer(text):
        raw = match.group()
        capital = raw[0].isdigit() or (raw[0].isupper() and not _starts_sentence(text, match.start()))
        for term in _terms_in(raw):
            if term not in _ASKING_TERMS:
                known = found.get(term)
                found[term] = Word(term, capital or (known is not None and known.capital))
    return list(found.values())


def _readable(text: str) -> str:
    return text[:READ].replace("_", " ")


def _terms_in(raw: str) -> list[str]:
    """The terms of a run of word characters in any mix of scripts."""
    found: list[str] = []
    for run in [raw] if raw.isascii() else _RUN.findall(raw):
        if _UNSPACED_START.match(run):
            found += _pairs(run)
        elif term := term_of(run[:_LONGEST]):
            found.append(term)
    return found


def _starts_sentence(text: str, at: int) -> bool:
    before = text[max(0, at - 4) : at]
    return not before.strip(" \"'“‘(") or _SENTENCE_END.search(before) is not None


@lru_cache(maxsize=65536)
def term_of(raw: str) -> str:
    """The term of one word as written, or nothing if it says nothing."""
    word = plain(raw)
    if word in _STOP or (len(word) == 1 and not word.isdigit()):
        return ""
    return stem(word)


def plain(raw: str) -> str:
    """The word without case, accents, and what an apostrophe ties to it."""
    word = raw.casefold()
    if "'" in word or "’" in word:
        word = max(word.replace("’", "'").split("'"), key=len)
    if not word.isascii():
        parts = unicodedata.normalize("NFKD", word)
        word = unicodedata.normalize("NFC", "".join(each for each in parts if not "\u0300" <= each <= "\u036f"))
    return word[:_LONGEST]


def stem(word: str) -> str:
    """The word without its ending, roughly; the same for most forms of a word."""
    if known := _IRREGULAR.get(word):
        return known
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    return _IRREGULAR.get(single := _singular(word)) or _root(single)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _root(word: str) -> str:
    for _ in range(2):
        for ending, least in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= least:
                word = word[: -len(ending)]
                break
        else:
            break
    return _final(word)


def _final(word: str) -> str:
    """The end of a root made the same however it was spelled: hope, hop(e)ing, happy, happ(i)er."""
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    if len(word) > 2 and word.endswith("y"):
        word = word[:-1] + "i"
    return word


def _pairs(run: str) -> list[str]:
    """A run of characters without spaces, as overlapping pairs."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


_ASKING_TERMS = frozenset(map(term_of, _ASKING))
