"""Batches that a hostile producer could send: mutated anywhere, under right CRCs."""

from random import Random
from typing import Final

from barnabas.wire.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, read_header, set_crc
from barnabas.wire.records.compression import Codec, compress
from barnabas.wire.records.records import Record, build_batch, write_varint

NOW: Final = 1_700_000_000_000
_NUMBERS: Final = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 63, 64, 8_192, 2**31 - 1, 2**31, 2**63 - 1)
_FIELDS: Final = {
    "attributes": 16,
    "last_offset_delta": 32,
    "base_timestamp": 64,
    "max_timestamp": 64,
    "producer_id": 64,
    "producer_epoch": 16,
    "base_sequence": 32,
    "record_count": 32,
}


def with_records(batch: bytearray, records: bytes, codec: Codec = Codec.NONE) -> bytearray:
    """The batch with other bytes for its records, compressed by `codec`."""
    return with_payload(batch, compress(codec, records), codec)


def with_payload(batch: bytearray, payload: bytes, codec: int = 0, **fields: int) -> bytearray:
    """The batch with these bytes behind its header, header fields, and the right CRC."""
    header = read_header(batch)
    fields.setdefault("attributes", header.attributes & ~0x07 | codec)
    changed = bytearray(HEADER_SIZE) + payload
    length = len(changed) - LOG_OVERHEAD
    HEADER.pack_into(changed, 0, *header._replace(batch_length=length, **fields))
    set_crc(changed)
    return changed


def mutated(random: Random) -> bytearray:
    """One batch of up to six records, mutated in its records, its compression or its header."""
    batch = build_batch(_records(random))
    records = bytes(batch[HEADER_SIZE:])
    codec = random.choice(tuple(Codec))
    where = random.randrange(8)
    if where < 5:
        for _ in range(random.choice((1, 1, 2, 5))):
            records = _mutate(random, records)
    payload = compress(codec, records)
    if 4 <= where < 6:
        payload = _mutate(random, payload)
    changed = with_payload(batch, payload, codec)
    if where >= 6:
        name = random.choice(tuple(_FIELDS))
        field = {name: _fitting(random, _FIELDS[name], getattr(read_header(changed), name))}
        changed = with_payload(changed, payload, codec, **field)
    return changed


def _records(random: Random) -> list[Record]:
    def field() -> bytes | None:
        return random.choice((None, b"", random.randbytes(random.choice((1, 5, 70)))))

    return [
        Record(
            offset,
            NOW + random.randrange(-100, 100),
            field(),
            field(),
            tuple((f"h{n}", field()) for n in range(random.choice((0, 0, 0, 1, 3)))),
        )
        for offset in range(random.randint(1, 6))
    ]


def _mutate(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    upto = min(len(data), at + random.choice((0, 1, 1, 2, 8, 100)))
    number = bytearray()
    write_varint(number, random.choice(_NUMBERS))
    put = random.choice(
        (
            bytes(number),
            random.randbytes(upto - at),
            bytes(byte ^ 1 << random.randrange(8) for byte in data[at:upto]),
            data[random.randrange(len(data) + 1) :][: upto - at],
            b"",
            data[at:upto] * 2,
        )
    )
    return data[:at] + put + data[upto:]


def _fitting(random: Random, bits: int, value: int) -> int:
    value = random.choice((*_NUMBERS, value + 1, value - 1, value ^ 1 << random.randrange(bits)))
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half
