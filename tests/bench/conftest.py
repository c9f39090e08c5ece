"""The bench's tests share the contract of client programs, whose asserts say what they compared."""

import pytest

pytest.register_assert_rewrite("tests.bench.driver_contract")
