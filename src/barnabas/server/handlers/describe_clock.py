"""DescribeClock (20001, our own): what time this broker's clock shows, to compare clocks with."""

from barnabas.base.errors import ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.describe_clock import DescribeClockRequest, DescribeClockResponse


def handle(broker: Broker, _: DescribeClockRequest, __: Call) -> DescribeClockResponse:
    return DescribeClockResponse(error_code=ErrorCode.none, time_ms=broker.clock.now_ms())
