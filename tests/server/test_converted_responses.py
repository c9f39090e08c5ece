"""The memory of responses with message sets, over all connections."""

from barnabas.server.requests.converted_responses import (
    LEAST_CONVERTED,
    MOST_CONVERTED,
    MOST_UNREAD,
    Converted,
    ConvertedResponses,
)


def test_the_more_responses_are_unread_the_less_the_next_one_has() -> None:
    responses, unread, sizes = ConvertedResponses(), [], []
    for _ in range(100):
        sizes.append(responses.most)
        unread.append(Converted(sizes[-1]))
        responses.count(unread[-1])
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (MOST_CONVERTED, LEAST_CONVERTED)
    assert responses.unread == sum(sizes) <= MOST_UNREAD + 100 * LEAST_CONVERTED


def test_a_response_counts_until_nobody_refers_to_it() -> None:
    responses, response = ConvertedResponses(), Converted(MOST_UNREAD)
    responses.count(response)
    part = memoryview(response)[1:]  # as the transport has it, once a part is sent
    del response
    assert responses.unread == MOST_UNREAD
    del part
    assert (responses.unread, responses.most) == (0, MOST_CONVERTED)
