"""Regular expressions that are compiled when they are first used: most calls need few of the hundreds there are."""

import re
from typing import Any, AnyStr, cast


class _Lazy:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for each in ("match", "search", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, each, getattr(compiled, each))  # the next use comes as directly as to the pattern itself
        return getattr(compiled, name)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, later. It is not the `re` of its matches: compare their `pattern`."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
