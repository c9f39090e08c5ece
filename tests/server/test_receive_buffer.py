"""The receive buffer: the same frames however the bytes arrive, and memory within bounds."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.server.network.receive_buffer import (
    FIRST_BUFFER,
    GRANTED_AHEAD,
    KEPT_BUFFER,
    LARGE,
    READ_AHEAD,
    READ_TOGETHER,
    BadFrameSize,
    ReceiveBuffer,
    bad_size,
)

MOST = 2**20


def framed(payloads: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def read(buffer: ReceiveBuffer, data: memoryview, most: int) -> memoryview:
    """One read of a socket that has `data`; returns what is left in the socket."""
    room = buffer.writable()
    size = min(len(room), len(data), most)
    room[:size] = data[:size]
    buffer.end += size
    return data[size:]


def served(buffer: ReceiveBuffer, repeats: bool = False) -> list[bytes]:
    """All whole frames, and room for more, as a connection does it after a read."""
    was_filled, capacity = buffer.is_full, buffer.capacity
    frames = []
    while (frame := buffer.next_frame(MOST)) is not None:
        frames.append(bytes(frame))
        if repeats:
            buffer.note_repeated(len(frame))
    buffer.release()
    if was_filled and buffer.larger_capacity() > buffer.capacity == capacity:
        buffer.enlarge(buffer.larger_capacity())
    elif buffer.is_full:
        make_room(buffer)
    assert buffer.granted == buffer.capacity or buffer.start == 0
    return frames


def make_room(buffer: ReceiveBuffer) -> None:
    wanted = buffer.wanted()
    assert wanted
    buffer.make_room(wanted)


def frames_of(data: bytes, reads: Sequence[int], repeats: bool = False) -> list[bytes]:
    """The frames of `data`, if the socket gives it in pieces of these sizes, over and over."""
    ahead = READ_TOGETHER + 4 * LARGE if repeats else READ_AHEAD
    buffer, left, frames, turn = ReceiveBuffer(), memoryview(data), list[bytes](), 0
    while left:
        left = read(buffer, left, reads[turn % len(reads)])
        frames += served(buffer, repeats)
        turn += 1
        assert buffer.granted <= max(ahead, buffer.end + GRANTED_AHEAD, buffer.end * 9 // 8)
    assert buffer.start == buffer.end == 0
    return frames


PAYLOADS = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.integers(0, 3 * LARGE).map(lambda size: bytes([size % 251]) * size),
    ),
    max_size=12,
)
READS = st.lists(
    st.one_of(st.integers(1, 9), st.integers(1, 2 * READ_AHEAD)), min_size=1, max_size=8
)


@settings(max_examples=150, deadline=None)
@given(PAYLOADS, READS.filter(lambda reads: max(reads) > 500), st.booleans())
def test_any_split_of_the_bytes_gives_the_same_frames(
    payloads: list[bytes], reads: list[int], repeats: bool
) -> None:
    assert frames_of(framed(payloads), reads, repeats) == payloads


@pytest.mark.parametrize(("size", "together"), [(LARGE, 8), (2 * LARGE, 4), (4 * LARGE, 2)])
def test_large_requests_that_repeat_are_read_together(size: int, together: int) -> None:
    assert most_in_a_read(size, repeats=True) == together


@pytest.mark.parametrize(("size", "repeats"), [(8 * LARGE, True), (2 * LARGE, False)])
def test_other_large_requests_are_read_one_at_a_time(size: int, repeats: bool) -> None:
    assert most_in_a_read(size, repeats) == 1


@pytest.mark.parametrize(("repeats", "together"), [(True, 3), (False, 1)])
def test_large_requests_behind_small_ones_are_read_together_if_they_repeat(
    repeats: bool, together: int
) -> None:
    buffer, large = ReceiveBuffer(), framed([bytes(LARGE)])
    buffer.enlarge(READ_AHEAD)
    read(buffer, memoryview(large), MOST)
    served(buffer, repeats)
    read(buffer, memoryview(framed([b"small"]) + large[:1000]), MOST)
    served(buffer, repeats)
    make_room(buffer)
    assert buffer.read_to - buffer.start == together * len(large)


def most_in_a_read(size: int, repeats: bool) -> int:
    """The most frames of one size that are in the buffer together, none of them in part."""
    left = memoryview(framed([bytes(size)] * 24))
    buffer, most = ReceiveBuffer(), 0
    while left:
        left = read(buffer, left, len(left))
        most = max(most, len(served(buffer, repeats)))
    assert buffer.start == buffer.end == 0
    return most


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 7))
def test_bytes_that_come_one_by_one_give_the_same_frames(payloads: list[bytes], by: int) -> None:
    assert frames_of(framed(payloads), [by]) == payloads


def test_a_frame_that_is_not_whole_is_not_handed_out_and_stays() -> None:
    buffer = ReceiveBuffer()
    whole = framed([b"request"])
    read(buffer, memoryview(whole[:-1]), MOST)
    assert buffer.next_frame(MOST) is None
    read(buffer, memoryview(whole[-1:]), MOST)
    frame = buffer.next_frame(MOST)
    assert frame is not None
    assert bytes(frame) == b"request"


def test_memory_follows_the_bytes_received_and_not_the_size_announced() -> None:
    buffer = ReceiveBuffer()
    read(buffer, memoryview(struct.pack(">i", 50 * MOST) + bytes(FIRST_BUFFER)), MOST)
    while buffer.is_full:
        make_room(buffer)
    assert buffer.read_to <= buffer.granted <= FIRST_BUFFER + GRANTED_AHEAD


def test_a_large_buffer_is_given_back_when_its_request_is_served() -> None:
    large = framed([bytes(2 * KEPT_BUFFER)])
    buffer, left = ReceiveBuffer(), memoryview(large)
    while left:
        left = read(buffer, left, MOST)
        if left and buffer.is_full:
            make_room(buffer)
            assert (
                buffer.granted <= 1.2 * buffer.end or buffer.granted - buffer.end <= GRANTED_AHEAD
            )
    assert buffer.next_frame(2 * KEPT_BUFFER) is not None
    buffer.release()
    assert buffer.capacity == FIRST_BUFFER


def test_frames_that_fill_the_buffer_wait_there_until_they_are_served() -> None:
    buffer = ReceiveBuffer()
    read(buffer, memoryview(framed([bytes(1020)] * 20)), MOST)
    assert buffer.is_full
    assert not buffer.wanted()
    assert buffer.next_frame(MOST) is not None


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (struct.pack(">i", MOST + 1), "exceeds socket.request.max.bytes"),
        (struct.pack(">i", -1), "is negative"),
        (b"GET /", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00", "a TLS handshake"),
    ],
    ids=["too large", "negative", "HTTP", "TLS"],
)
def test_bytes_that_are_no_size_are_refused_with_a_reason(first: bytes, says: str) -> None:
    buffer = ReceiveBuffer()
    read(buffer, memoryview(first), MOST)
    with pytest.raises(BadFrameSize, match=says):
        buffer.next_frame(MOST)
    assert says in bad_size(struct.unpack(">i", first[:4])[0], MOST)
