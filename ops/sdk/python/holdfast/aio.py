"""The client for asyncio: the same calls, awaited; streams are asynchronous iterators.

    async with holdfast.aio.open() as server:
        async for part in await server.stream(model="demo", prompt="To be"):
            print(part.text, end="")
"""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Mapping, Optional, Sequence

from . import Client as _Client, Error, Part, Stream as _Stream

__all__ = ["Client", "Error", "Part", "Stream", "open"]

_TURN_S = 0.25  # a thread waits so long at most, so that a task that was cancelled leaves soon


class Stream:
    """The parts of a request, in order, each once."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self.id = stream.id

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self) -> Part:
        while True:
            try:
                part = await asyncio.to_thread(self._stream.next, _TURN_S)
            except TimeoutError:
                continue
            if part is None:
                raise StopAsyncIteration
            return part

    async def text(self) -> str:
        """Reads to the end; returns the text of choice 0."""
        return "".join([part.text async for part in self if part.choice == 0])

    async def close(self) -> None:
        """Leaves the stream."""
        await asyncio.to_thread(self._stream.close)

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Client:
    """A server, for asyncio."""

    def __init__(self, state: Optional[str] = None, start: bool = True) -> None:
        self._state, self._start = state, start
        self._client: Optional[_Client] = None

    async def __aenter__(self) -> "Client":
        self._client = await asyncio.to_thread(_Client, self._state, self._start)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    @property
    def _open(self) -> _Client:
        if self._client is None:
            raise Error("usage", "the client is opened by `async with`")
        return self._client

    async def submit(self, **request: Any) -> str:
        """Accepts a request and returns its id."""
        return await asyncio.to_thread(lambda: self._open.submit(**request))

    async def stream(self, next: Optional[Sequence[int]] = None, **request: Any) -> Stream:
        """Submits a request and attaches to it."""
        return Stream(await asyncio.to_thread(lambda: self._open.stream(next, **request)))

    async def attach(self, request_id: str, next: Optional[Sequence[int]] = None) -> Stream:
        """Attaches to a request."""
        return Stream(await asyncio.to_thread(self._open.attach, request_id, next))

    async def complete(self, **request: Any) -> str:
        """Submits a request, waits for its end, returns the text of choice 0."""
        async with await self.stream(**request) as stream:
            return await stream.text()

    async def status(self, request_id: str) -> Mapping[str, Any]:
        """Returns the state of a request."""
        return await asyncio.to_thread(self._open.status, request_id)

    async def cancel(self, request_id: str) -> Mapping[str, Any]:
        """Cancels a request; returns its state."""
        return await asyncio.to_thread(self._open.cancel, request_id)

    async def models(self) -> Sequence[Mapping[str, Any]]:
        """Returns the models and aliases."""
        return await asyncio.to_thread(self._open.models)

    async def load(self, name: str) -> None:
        """Loads a model; returns when it is ready."""
        await asyncio.to_thread(self._open.load, name)

    async def unload(self, name: str) -> None:
        """Unloads a model."""
        await asyncio.to_thread(self._open.unload, name)


def open(state: Optional[str] = None, start: bool = True) -> Client:
    """Opens the server of a state directory by `async with`, and starts it if none runs."""
    return Client(state, start)
