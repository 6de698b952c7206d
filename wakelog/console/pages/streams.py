"""Answers that stay open: each holds a place, and no host or session can have all of them."""

from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from wakelog.console.defence.places import ALL, Places, host_of
from wakelog.console.pages.sessions import cookie_of

_TEXTS: Final = {
    ALL: (503, "Too many pages are open at this console. This one is not kept new"),
    "host": (429, "Too many pages are open from here. Close one, or this one is not kept new"),
    "session": (429, "You have too many pages open. Close one, or this one is not kept new"),
}


def hold(places: Places, request: Request) -> Callable[[], None]:
    """Hold a place for a request; return what frees it. Raises: HTTPException without one."""
    address = request.client.host if request.client else ""
    holders = {"host": host_of(address), "session": cookie_of(request)}
    if reached := places.take(**holders):
        raise HTTPException(*_TEXTS[reached])
    return lambda: places.free(**holders)


class HeldResponse(StreamingResponse):
    """An answer that frees its place when it ends, however that is."""

    def __init__(
        self, content: AsyncIterator[str], release: Callable[[], None], media_type: str
    ) -> None:
        """release: frees the place; it is called once.

        A response that is not sent has to be released.
        """
        headers = {"x-accel-buffering": "no"}  # nginx would keep the parts back
        super().__init__(content, headers=headers, media_type=media_type)
        self.release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.release()
