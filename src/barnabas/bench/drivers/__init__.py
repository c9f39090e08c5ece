"""Programs that measure with one client each; `client_driver` has the contract that they keep."""
