"""A seed of the simulation as an animation: brokers, leaders, ISRs, messages and faults."""

import asyncio
import sys
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from barnabas.console.web.page import Page, sign_in_first

_WITHIN_S: Final = 180.0
_KEPT: Final = 8
_SECONDS: Final = 12
_MOST_SECONDS: Final = 60
_one_at_a_time: Final = asyncio.Lock()
_recordings: Final[dict[tuple[int, int], bytes]] = {}


async def show(request: Request) -> Response:
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    seed = page.integer("seed", 7, 0, 2**31)
    seconds = page.integer("seconds", _SECONDS, 1, _MOST_SECONDS)
    return page.render("simulation.html", {"seed": seed, "seconds": seconds})


async def recording(request: Request) -> Response:
    """The recording as JSON; the same seed is run once. A browser that goes away stops it."""
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    seed = page.integer("seed", 7, 0, 2**31)
    seconds = page.integer("seconds", _SECONDS, 1, _MOST_SECONDS)
    running = asyncio.ensure_future(_recorded(seed, seconds))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not running.done():
            running.cancel()
    try:
        data = await running
    except asyncio.CancelledError:
        return Response(status_code=204)  # nobody reads it
    if data is None:
        return JSONResponse({"error": f"it takes more than {_WITHIN_S:.0f} s here"}, 503)
    return Response(data, media_type="application/json")


async def _left(request: Request) -> None:
    """Returns when the browser has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the body of a GET


async def _recorded(seed: int, seconds: int) -> bytes | None:
    """The recording of a seed; None if it fails. A cancelled one leaves no process."""
    async with _one_at_a_time:
        if (seed, seconds) not in _recordings:
            data = await _run(seed, seconds)
            if data is None:
                return None
            _recordings[seed, seconds] = data
            while len(_recordings) > _KEPT:
                _recordings.pop(next(iter(_recordings)))
        return _recordings[seed, seconds]


async def _run(seed: int, seconds: int) -> bytes | None:
    """The output of a process; None if it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "barnabas.console.replay.sim_recording",
        str(seed),
        str(seconds),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_WITHIN_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output if process.returncode == 0 else None


ROUTES: Final = (
    Route("/simulation", show, methods=["GET"]),
    Route("/simulation/recording", recording, methods=["GET"]),
)
