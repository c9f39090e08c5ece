"""Producer ids, in blocks of a thousand that no other broker will ever give out."""

import asyncio
from typing import Final

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import BrokerId, ProducerId
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import BadVersion, Coordination

BLOCK: Final = 1000
_LAST: Final = 2**63 - 1


class ProducerIds:
    """Gives each producer an id of its own; what is left of a block at a restart is lost."""

    def __init__(self, coordination: Coordination, broker_id: BrokerId) -> None:
        self._coordination = coordination
        self._broker_id = broker_id
        self._next = 0
        self._end = 0  # exclusive
        self._one_at_a_time = asyncio.Lock()

    async def next(self) -> ProducerId:
        """An id that nobody had before.

        Raises  BrokerError(coordinator_not_available), if a block cannot be had now
        """
        async with self._one_at_a_time:
            if self._next == self._end:
                await self._take_block()
            self._next += 1
            return ProducerId(self._next - 1)

    async def _take_block(self) -> None:
        """Take the block after the last one, unless another broker was faster: then try again."""
        while True:
            data, stat = await self._coordination.get(paths.PRODUCER_ID_BLOCK)
            taken = layout.decode_producer_id_block(data)
            start = 0 if taken is None else taken.end
            end = start + BLOCK
            if end > _LAST:
                raise BrokerError(ErrorCode.unknown_server_error, "All producer ids are used up.")
            block = layout.ProducerIdBlock(self._broker_id, ProducerId(start), ProducerId(end))
            try:
                await self._coordination.set(
                    paths.PRODUCER_ID_BLOCK, layout.encode_producer_id_block(block), stat.version
                )
            except BadVersion:
                continue
            except DiskFault as fault:
                raise BrokerError(ErrorCode.coordinator_not_available, str(fault)) from fault
            self._next, self._end = start, end
            return
