"""Every API has its handler, though it is loaded late."""

from barnabas.server.requests import api_handlers
from barnabas.wire.apis import APIS, ApiKey

JOINED_ELSEWHERE = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS}


def test_the_module_of_each_api_has_its_name_and_a_handler() -> None:
    for key in (*api_handlers.LOADED_WHEN_ASKED, *api_handlers.CONTROL):
        assert callable(api_handlers._load(key))


def test_all_that_is_served_has_a_handler() -> None:
    assert {*api_handlers.LOADED_WHEN_ASKED, *api_handlers.CONTROL, *JOINED_ELSEWHERE} == set(APIS)
