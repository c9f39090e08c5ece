"""The path of a request: header, dispatch, the fast path for repeated requests, the reply."""
