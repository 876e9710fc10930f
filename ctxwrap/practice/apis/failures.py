"""How the APIs spell an error."""

from ctxwrap.practice.answer import JSON, Failure

_OPENAI = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "You may not do this."),
    404: ("invalid_request_error", None, "There is nothing here."),
    413: ("invalid_request_error", None, "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached. Please try again later."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", None, "The server is overloaded. Please try again later."),
}
_ANTHROPIC = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "You may not do this."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    500: ("api_error", "Internal server error"),
    529: ("overloaded_error", "Overloaded"),
}


def openai_failure(failure: Failure, request_id: str) -> JSON:
    kind, code, message = _OPENAI.get(failure.status, _OPENAI[400 if failure.status < 500 else 500])
    return {
        "error": {
            "message": failure.message or message,
            "type": kind,
            "param": failure.param,
            "code": failure.code or code,
        }
    }


def anthropic_failure(failure: Failure, request_id: str) -> JSON:
    kind, message = _ANTHROPIC.get(failure.status, _ANTHROPIC[400 if failure.status < 500 else 500])
    error = {"type": kind, "message": failure.message or message}
    return {"type": "error", "error": error, "request_id": request_id}
