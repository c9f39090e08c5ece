"""Every API has its handler, though it is loaded late."""

from barnabas.server.requests import api_handlers, control_requests
from barnabas.wire.apis import APIS, ApiKey

JOINED_ELSEWHERE = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS}
CONTROL = tuple(control_requests._HANDLERS)


def test_the_module_of_each_api_has_its_name_and_a_handler() -> None:
    for key in (*api_handlers.LOADED_WHEN_ASKED, *CONTROL):
        for version in range(APIS[key].lowest, APIS[key].highest + 1):
            assert callable(api_handlers._load(key, version))


def test_all_that_is_served_has_a_handler() -> None:
    assert {*api_handlers.LOADED_WHEN_ASKED, *CONTROL, *JOINED_ELSEWHERE} == set(APIS)
