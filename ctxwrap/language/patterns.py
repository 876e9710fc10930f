"""Regular expressions compiled on first use: most calls need few of the hundreds that exist."""

import re
from typing import Any, AnyStr, cast


class _Lazy:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for each in ("match", "search", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, each, getattr(compiled, each))  # later uses skip this method
        return getattr(compiled, name)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but deferred. Compare a match by `re.pattern`: its `re` is not this object."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
