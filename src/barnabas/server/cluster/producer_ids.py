"""Producer ids, in blocks of a thousand that no other broker will ever give out."""

import asyncio
from typing import Final

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode
from barnabas.base.ids import BrokerId, ProducerId
from barnabas.znodes import layout, paths
from barnabas.znodes.layout import ProducerIdBlock
from barnabas.znodes.tree import BadVersion, ConnectionLoss, Coordination, SessionExpired

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
                block = await self.take_block(self._broker_id)
                self._next, self._end = block.start, block.end
            self._next += 1
            return ProducerId(self._next - 1)

    async def take_block(self, broker_id: BrokerId) -> ProducerIdBlock:
        """The block after the last one, for a broker; if another is faster, the one after that.

        Raises  BrokerError(coordinator_not_available), nothing taken that is used
        """
        try:
            while True:
                data, stat = await self._coordination.get(paths.PRODUCER_ID_BLOCK)
                block = _after(layout.decode_producer_id_block(data), broker_id)
                taken = layout.encode_producer_id_block(block)
                try:
                    await self._coordination.set(paths.PRODUCER_ID_BLOCK, taken, stat.version)
                except BadVersion:
                    continue
                return block
        except (DiskFault, ConnectionLoss, SessionExpired) as lost:
            raise BrokerError(ErrorCode.coordinator_not_available, str(lost)) from lost


def _after(taken: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock:
    start = 0 if taken is None else taken.end
    if start + BLOCK > _LAST:
        raise BrokerError(ErrorCode.unknown_server_error, "All producer ids are used up.")
    return ProducerIdBlock(broker_id, ProducerId(start), ProducerId(start + BLOCK))
