"""Keys that are known by their own shape: tokens with a prefix of their issuer's, JWTs, private keys in PEM."""

from collections.abc import Iterator

from ctxwrap.patterns import lazy_pattern
from ctxwrap.redacting.places import FREE, Span, is_free

_W, _A, _H = "[A-Za-z0-9_-]", "[A-Za-z0-9]", "[0-9a-f]"
_END = r"(?![A-Za-z0-9])"
_UUID = f"{_H}{{8}}-(?:{_H}{{4}}-){{3}}{_H}{{12}}"
_ANY_DIGIT = "(?=[A-Za-z_-]{0,64}[0-9])"

_TOKENS = (
    # models
    rf"sk-{_ANY_DIGIT}{_W}{{16,}}+",
    rf"(?:hf|gsk|r8|fw|ntn)_{_ANY_DIGIT}{_A}{{20,}}+",
    rf"(?:xai|pplx|tvly|fc)-{_ANY_DIGIT}(?:dev-|prod-)?{_A}{{20,}}+",
    rf"nvapi-{_ANY_DIGIT}{_W}{{20,}}+",
    rf"lsv2_(?:pt|sk)_{_H}{{32}}_{_H}{{10}}{_END}",
    # clouds
    rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}",
    rf"AIza{_W}{{30,}}+",
    r"ya29\.(?:[A-Za-z0-9._-]){20,}+",
    rf"GOCSPX-{_W}{{20,}}+",
    r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}+",
    rf"do[opr]_v1_{_H}{{32,}}+",
    rf"LTAI{_ANY_DIGIT}{_A}{{16,20}}{_END}",
    rf"dapi{_H}{{32}}(?:-[0-9])?{_END}",
    rf"hv[sbr]\.{_ANY_DIGIT}{_W}{{20,}}+",
    rf"{_A}{{14}}\.atlasv1\.{_W}{{40,}}+",
    rf"pul-{_H}{{40}}{_END}",
    rf"(?:HRKU-|heroku_){_ANY_DIGIT}{_W}{{30,}}+",
    rf"(?:fo1|fm[12][ar]?|nfp|rnd|sbp|sgp|vcp|vck)_{_ANY_DIGIT}{_W}{{20,}}+",
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}+",
    rf"tskey-(?:auth|api|client|scim|webhook)-{_ANY_DIGIT}[A-Za-z0-9-]{{16,}}+",
    rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:{_W}{{1,40}}\.)?{_A}{{40,}}+",
    rf"dt0[a-z][0-9]{{2}}\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}{_END}",
    # code and packages
    rf"gh[pousr]_{_A}{{20,}}+",
    r"github_pat_[A-Za-z0-9_]{22,}+",
    rf"gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas|ffct)-{_ANY_DIGIT}{_W}{{16,}}+",
    rf"npm_{_ANY_DIGIT}{_A}{{20,}}+",
    rf"pypi-AgE{_W}{{12,}}+",
    rf"rubygems_{_H}{{48}}{_END}",
    rf"dckr_(?:pat|oat)_{_W}{{20,}}+",
    rf"(?:ATATT3|ATCTT3){_W}{{20,}}+",
    rf"ATBB{_ANY_DIGIT}{_A}{{28,}}+",
    rf"CCIPAT_{_A}{{16,}}+_{_H}{{40}}{_END}",
    rf"bkua_{_H}{{40}}{_END}",
    rf"PMAK-{_H}{{24}}-{_H}{{34}}{_END}",
    rf"(?:NRAK|NRJS|NRII)-{_W}{{19,}}+",
    rf"gl(?:sa|c)_{_ANY_DIGIT}[A-Za-z0-9_+/=]{{32,}}+",
    rf"sntry[su]_{_ANY_DIGIT}[A-Za-z0-9_+/=]{{32,}}+",
    rf"lin_(?:api|oauth)_{_A}{{32,}}+",
    # mail, chat, shops, payment
    rf"xox[a-z](?:[.-][a-z])?-{_ANY_DIGIT}[A-Za-z0-9-]{{10,}}+",
    rf"xapp-{_ANY_DIGIT}[A-Za-z0-9-]{{16,}}+",
    rf"[0-9]{{8,10}}:AA{_W}{{30,38}}+{_END}",
    rf"[MNO]{_W}{{22,27}}\.{_W}{{6}}\.{_W}{{27,}}+",
    rf"SG\.{_W}{{16,32}}\.{_W}{{32,}}+",
    rf"SK{_H}{{32}}{_END}",
    rf"key-[0-9a-z]{{32}}{_END}",
    rf"{_H}{{32}}-us[0-9]{{1,2}}{_END}",
    rf"xkeysib-{_H}{{64}}-{_A}{{16}}{_END}",
    rf"[sr]k_(?:live|test|prod)_{_A}{{16,}}+",
    rf"rzp_(?:live|test)_{_A}{{14,}}+",
    rf"whsec_{_ANY_DIGIT}[A-Za-z0-9+/=_-]{{20,}}+",
    rf"shp(?:at|ca|pa|ss|tka)_{_H}{{32}}{_END}",
    rf"sq0[a-z]{{3}}-{_W}{{22,}}+",
    rf"FLWSECK(?:_TEST)?-{_A}{{12,}}+(?:-X)?",
    rf"secret_{_ANY_DIGIT}{_A}{{40,50}}+{_END}",
    rf"pat-(?:na|eu|ap)[0-9]-{_UUID}{_END}",
    rf"pat{_A}{{14}}\.{_H}{{64}}{_END}",
    rf"fig[dou]_{_ANY_DIGIT}{_W}{{32,}}+",
    rf"CFPAT-{_W}{{40,}}+",
    rf"EAA[A-Z]{_ANY_DIGIT}{_A}{{60,}}+",
    rf"sk\.eyJ{_W}{{20,}}+\.{_W}{{16,}}+",
    rf"ops_eyJ{_W}{{40,}}+",
    rf"sl\.{_ANY_DIGIT}{_W}{{100,}}+",
    r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+",
)
"""A run without a limit ends a token, or cannot hold the prefix again: no character is tried more than a few times."""

_TOKEN = lazy_pattern(f"{FREE}(?:{'|'.join(_TOKENS)})")
_RUN = lazy_pattern(r"[A-Za-z0-9_.:~+/=-]{19,}+")
"""What may hold a token; most texts have few such runs."""


def tokens(text: str) -> Iterator[Span]:
    for run in _RUN.finditer(text):
        for found in _TOKEN.finditer(text, run.start(), run.end()):
            yield found.span()


def json_web_tokens(text: str) -> Iterator[Span]:
    at = text.find("eyJ")
    while at >= 0:
        goes_on = at + 1
        if is_free(text, at):
            run = _BASE64URL.match(text, at)
            goes_on = end = run.end() if run else at + 1
            if end - at >= 10 and (rest := _SIGNED.match(text, end)):
                yield at, rest.end()
                goes_on = rest.end()
        at = text.find("eyJ", goes_on)


_BASE64URL = lazy_pattern(f"{_W}++")
_SIGNED = lazy_pattern(rf"\.{_W}{{4,}}+(?:\.{_W}*+){{0,3}}+")


def private_keys(text: str) -> Iterator[Span]:
    """A key in PEM to its end, or as far as a key may go if that was cut off."""
    done = 0
    for begin in _PEM.finditer(text) if "PRIVATE KEY" in text else ():
        if begin.start() >= done:
            limit = min(len(text), begin.end() + _LONGEST_KEY)
            end = _PEM_END.search(text, begin.end(), limit)
            done = end.end() if end else limit
            yield begin.start(), done


_LONGEST_KEY = 16_384
_PEM = lazy_pattern(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?=(?:\s|\\[nr]){0,8}(?:[A-Za-z0-9+/=]{8}|[A-Z][A-Za-z-]{2,20}: |\Z))"
)
_PEM_END = lazy_pattern(r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
