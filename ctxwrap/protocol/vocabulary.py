"""The snapshot's keys, their other spellings, and its limits."""

import re
import unicodedata

from ctxwrap.language.patterns import lazy_pattern

TIERS = ("core", "working", "ephemeral")
ROOT_KEYS = ("version", "runtime", "memory", "capabilities", "active_task")
ID_LISTS = ("dropped", "unchanged")
OPTIONAL_KEYS = (*ID_LISTS, "working_set", "missing")
RUNTIME_KEYS = ("round", "datetime", "startup_at")
ITEM_KEYS = ("id", "type", "decay", "round", "tags", "content")
CAPABILITY_KEYS = ("name", "scope")

MAX_ITEMS = 1000
MAX_CONTENT = 16_384
MAX_WORD = 200
MAX_TAGS = 64
MAX_DEPTH = 32
MAX_QUESTIONS = 8
MAX_QUESTION = 300
MAX_CAPABILITIES = 64
MAX_CAPABILITY = 2000
"""Maximum length of a capability as JSON."""

MAX_ADDED = 64 * 1024
"""Maximum characters of JSON that one reply may add to memory."""
MAX_FAULTS = 50
"""Maximum violations listed per reply."""

_LONGEST_KEY = 60
KNOWN_KEYS = frozenset((*ROOT_KEYS, *OPTIONAL_KEYS, *RUNTIME_KEYS, *TIERS, *ITEM_KEYS, *CAPABILITY_KEYS))

_OTHER_WORDS = {
    "version": "версия versión versao 版本 バージョン 버전",
    "runtime": "运行时 運行時 ランタイム 런타임",
    "memory": "memories memoria memoire gedachtnis speicher память pamiec geheugen memória 记忆 記憶 "
    "メモリ 메모리 기억",
    "capabilities": "capability capacidades capacites fahigkeiten возможности 能力 機能 능력",
    "active_task": "task current_task tarea_activa tache_active aktive_aufgabe активная_задача 当前任务 "
    "當前任務 アクティブタスク 現在のタスク 활성_작업 현재_작업",
    "id": "identifier uid 编号 編號 標識 标识 ид 아이디 識別子",
    "type": "tipo typ тип 类型 類型 種類 タイプ 유형 kind",
    "decay": "衰减 衰減 decaimiento verfall затухание 감쇠 減衰",
    "round": "轮次 輪次 回合 ronda runde раунд ラウンド 라운드 tour",
    "tags": "tag labels etiquetas etiquettes schlagworter теги метки 标签 標籤 タグ 태그",
    "content": "text contenido contenu inhalt содержание содержимое conteudo contenuto tresc 内容 內容 내용 コンテンツ",
    "dropped": "removed forgotten deleted",
}
_OTHER_TIERS = {
    "core": "long_term longterm permanent persistent identity 核心 核 长期 長期 永久 コア 中核 핵심 "
    "코어 장기 nucleo central noyau coeur principal kern langfristig dauerhaft основная "
    "основной основное ядро долговременная jadro rdzen glowna cekirdek temel أساسي أساسية "
    "النواة जड़ मूल karna ydin karnan kjerne kerne inti cot_loi jádro mag ליבה πυρηνας",
    "working": "task tasks active work medium_term short_term shortterm 工作 任务 任務 作業 ワーキング "
    "작업 워킹 trabajo de_trabajo travail de_travail arbeit arbeits arbeitsgedachtnis "
    "arbeitsspeicher рабочая рабочий рабочее работа trabalho de_trabalho lavoro di_lavoro "
    "praca robocza robocze werk werkend calisma عمل العمل عاملة कार्य arbete arbets arbeid "
    "arbejde tyo pracovni munka kerja lam_viec עבודה εργασια",
    "ephemeral": "temporary temp transient 临时 臨時 暂时 暫時 短暂 短暫 瞬时 瞬態 一時 一時的 "
    "エフェメラル 임시 일시적 휘발성 efimero efimera temporal ephemere temporaire fluchtig "
    "fluechtig fluchtiges temporar временная временный временное эфемерная мимолетная efemero "
    "efemera temporario effimero effimera temporaneo ulotna ulotne tymczasowa vluchtig "
    "tijdelijk gecici مؤقت مؤقتة عابر अस्थायी flyktig tillfallig midlertidig flygtig "
    "ohimeneva docasna docasne atmeneti sementara tam_thoi זמני εφημερη προσωρινη",
}
_TIER_AFFIX = lazy_pattern(
    r"(?:_?(?:memory|memories|memoria|memória|memoire|gedachtnis|speicher|память|pamiec|geheugen|tier|items|level))\Z"
    r"|(?:的)?(?:记忆|記憶|メモリ|기억|메모리|层|層)\Z|\A(?:memory|memoria|memoire|mémoire|память|pamiec|memory_tier|tier)_"
)
"""Affixes of tier names."""


def _folded(name: str) -> str:
    """Remove accents, case and character width."""
    if name.isascii():
        return name.lower()
    letters = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", name).casefold())
    return (
        "".join(letter for letter in letters if not unicodedata.combining(letter)).replace("ı", "i").replace("ł", "l")
    )


def _by_word(words: dict[str, str]) -> dict[str, str]:
    return {_folded(word): key for key, others in words.items() for word in others.split()}


_ALIASES = _by_word(_OTHER_WORDS)
_TIER_ALIASES = _by_word(_OTHER_TIERS)


def normalise_key(key: str) -> str:
    """Normalise a key: lower case, underscores between words, no surrounding marks."""
    key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key[:_LONGEST_KEY].strip(" \t\r\n{}[],:\"'"))
    return _folded(re.sub(r"[\s-]+", "_", key))


def canonical_key(key: str) -> str:
    """Return the canonical key, or the key itself if it is unknown."""
    if key in KNOWN_KEYS:
        return key
    name = normalise_key(key)
    if name in KNOWN_KEYS:
        return name
    name = _ALIASES.get(name, name)
    return name if name in KNOWN_KEYS else key


_ELLIPSIS = lazy_pattern(
    r"\W{0,8}(?:\.\.\.|…"
    r"|(?:(?:no (?:changes?|updates?|new)|same as|nothing new|unchanged|etc|omitted|truncated|remaining)\b"
    r"|(?:and so on|as before|see above|(?:and )?\d{1,4} (?:more|others?|items?))\b)[^.:]{0,60}\W{0,4}\Z)",
    re.IGNORECASE,
)


def is_ellipsis(value: object) -> bool:
    """Whether the model wrote "and so on" or "as before"."""
    return isinstance(value, str) and _ELLIPSIS.match(value) is not None


def canonical_tier(key: str) -> str:
    """Return the canonical tier, or ""."""
    name = normalise_key(key)
    for each in (name, _TIER_AFFIX.sub("", name, count=1)):
        if each in TIERS:
            return each
        if each in _TIER_ALIASES:
            return _TIER_ALIASES[each]
    return ""
