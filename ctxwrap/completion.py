"""`completion` and `acompletion`: litellm's, with context."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litellm import CustomStreamWrapper, ModelResponse


def completion(*args: Any, **kwargs: Any) -> "ModelResponse | CustomStreamWrapper":
    """`litellm.completion` with its own parameters, and `session=` and `context_mode=`."""
    return _litellm().completion(*args, **kwargs)


async def acompletion(*args: Any, **kwargs: Any) -> "ModelResponse | CustomStreamWrapper":
    """`litellm.acompletion` with its own parameters, and `session=` and `context_mode=`."""
    return await _litellm().acompletion(*args, **kwargs)


@cache
def _litellm() -> Any:
    from ctxwrap.clients.litellm import load_litellm
    from ctxwrap.wrap import wrap

    return wrap(load_litellm())
