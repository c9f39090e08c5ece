"""The two failures that truncation by leader epoch was invented for (KIP-101), on two logs.

Each runs twice: with the safeguard in force, and without it, where it must be seen to fail.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.base.safeguards import Safeguards
from tests.log.batches import append, batch_of, read_all
from tests.replication.following import Setting, on_a_loop, until

WITHOUT = Safeguards(epoch_truncation=False)
Story = Callable[[Path, Safeguards], Awaitable[None]]


async def loss(folder: Path, safeguards: Safeguards) -> None:
    """B has both records, but has not heard yet that the second is committed; it restarts.

    Its leader dies before it answers, and B is elected: it was in sync, and must have both.
    """
    async with Setting(folder, safeguards=safeguards) as here:
        b = here.follower(high_watermark=1)
        for value in (b"m1", b"m2"):
            append(b.log, batch_of(value=value))
        b = here.follower(high_watermark=1)
        await here.leader.stop()
        here.follow(b)
        await until(lambda: here.fetchers.statistics.connections_lost > 0)
        here.fetchers.stop(b.topic_partition)
        await here.leader.start()
        assert b.log.log_end_offset == 2, "a committed record is lost"


async def divergence(folder: Path, safeguards: Safeguards) -> None:
    """A had both records when all lost power, and B only the first; B is back first, and leads.

    It writes another record in the second's place. A comes back, and must take that one.
    """
    async with Setting(folder, safeguards=safeguards) as here:
        b = here.lead()
        b.append(value=b"m1")
        a = here.follower()
        append(a.log, batch_of(value=b"m1"))
        append(a.log, batch_of(value=b"m2"))
        b.lead(1)
        b.append(value=b"m3")
        a = here.follow(here.follower(epoch=1, high_watermark=2))
        await until(lambda: a.lag == 0 and b.high_watermark == 2)
        assert read_all(a.log) == read_all(b.log), "the logs differ for good"


@pytest.mark.parametrize("story", [loss, divergence])
@on_a_loop
async def test_truncation_by_epoch_prevents_it(tmp_path: Path, story: Story) -> None:
    await story(tmp_path, Safeguards())


@pytest.mark.parametrize("story", [loss, divergence])
@on_a_loop
async def test_truncation_by_high_watermark_does_not(tmp_path: Path, story: Story) -> None:
    with pytest.raises(AssertionError, match=r"lost|differ"):
        await story(tmp_path, WITHOUT)
