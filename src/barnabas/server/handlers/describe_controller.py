"""DescribeController (20000, our own): what the controller knows and does, as JSON."""

import json

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.control.describe_controller import (
    DescribeControllerRequest,
    DescribeControllerResponse,
)


def handle(broker: Broker, _: DescribeControllerRequest, __: Call) -> DescribeControllerResponse:
    try:
        broker.check_controller()
    except BrokerError as e:
        return DescribeControllerResponse(error_code=e.code, state="")
    state = json.dumps(broker.controller.describe(full=True))
    return DescribeControllerResponse(error_code=ErrorCode.none, state=state)
