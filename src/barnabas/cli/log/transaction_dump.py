"""Records of `__transaction_state`, decoded for `barnabas log dump --records`."""

from barnabas.base.errors import BarnabasError
from barnabas.transactions.transaction_records import decode, decode_id
from barnabas.wire.records.records import Record


def transaction_fields(record: Record) -> dict[str, object]:
    """The state of a transactional id; the raw record, if it cannot be read."""
    fields: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp}
    try:
        transactional_id = decode_id(record.key or b"")
        if transactional_id is None:
            return fields | {"key": record.key, "value": record.value}
        fields["transactional_id"] = transactional_id
        if record.value is None:
            return fields | {"value": None}
        state = decode(transactional_id, record.value)
    except BarnabasError as error:
        return fields | {"unreadable": str(error), "key": record.key, "value": record.value}
    return fields | {
        "state": state.state.value,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "timeout_ms": state.timeout_ms,
        "partitions": ",".join(f"{at.topic}-{at.partition}" for at in sorted(state.partitions)),
        "last_update_timestamp": state.last_update_ms,
        "start_timestamp": None if state.start_ms < 0 else state.start_ms,
    }
