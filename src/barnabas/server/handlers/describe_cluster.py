"""DescribeCluster (60): the brokers, the controller and the cluster's id."""

from typing import Final

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterBroker, DescribeClusterResponse

from barnabas.base.errors import ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.access import NOT_ASKED, cluster_operations
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _refused(request.endpoint_type)
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        cluster_id=broker.metadata.cluster_id,
        controller_id=broker.metadata.controller,
        brokers=tuple(
            DescribeClusterBroker(broker_id=b.broker_id, host=host, port=port, rack=b.rack)
            for b in broker.metadata.brokers_on(call.connection.listener)
            for host, port in [b.endpoint(call.connection.listener)]
        ),
        cluster_authorized_operations=cluster_operations(call.access)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    code, message = (
        ErrorCode.unsupported_endpoint_type,
        f"Unsupported endpoint type {endpoint_type}",
    )
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.mismatched_endpoint_type
        message = (
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER"
        )
    return DescribeClusterResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        error_message=message,
        cluster_id="",
        brokers=(),
    )
