"""Assertion rewriting for the shared driver contract."""

import pytest

pytest.register_assert_rewrite("tests.bench.driver_contract")
