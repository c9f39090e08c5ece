"""The error of a fenced producer, which old versions of requests do not know."""

from barnabas.base.errors import ErrorCode


def fenced_error(code: ErrorCode, knows_fenced: bool) -> ErrorCode:
    """PRODUCER_FENCED, or what clients got before it."""
    if code is ErrorCode.producer_fenced and not knows_fenced:
        return ErrorCode.invalid_producer_epoch
    return code
