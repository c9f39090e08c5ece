"""Driver programs, which measure with one client each; `client_driver` has their contract."""
