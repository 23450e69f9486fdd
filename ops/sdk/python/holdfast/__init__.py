"""Holdfast's client: durable requests to a language-model server, on this machine or elsewhere.

    import holdfast

    with holdfast.open("/var/lib/holdfast") as server:
        for part in server.stream(model="demo", prompt="To be", key="k1"):
            print(part.text, end="")

A request is durable before the first part comes. The iterator goes on by itself over the death of the
daemon and of workers. A program that died itself calls the same again with the same key: it gets the same
request, from the first token on, or from where it says (`next`).

Errors are `holdfast.Error` with `code` and `retry_after_ms`. Objects may be used by several threads, a
stream by one at a time. `holdfast.aio` has the same for asyncio.
"""
from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from typing import Any, Iterator, Mapping, Optional, Sequence

from ._library import Error, Part as _CPart, library, take_error, take_text

__all__ = ["DONE", "Client", "Error", "Part", "Stream", "open", "version"]


#: Stands in `next` for a choice whose `finish` was seen: nothing more of it is given.
DONE = 2**63 - 1


def version() -> str:
    """Returns the version of the library."""
    return library().holdfast_version().decode()


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of a stream: the text that has become final with some tokens of a choice."""

    choice: int
    index: int  # of the first token
    ids: tuple[int, ...]
    text: str
    finish: Optional[str]  # "stop", "length", …: the choice has ended


class Stream:
    """The parts of a request, in order, each once. An iterator; also a context manager."""

    def __init__(self, client: "Client", request_id: str, next: Optional[Sequence[int]] = None) -> None:
        self.id = request_id
        self._client = client
        count = len(next) if next else 0
        wanted = (ctypes.c_int64 * count)(*next) if next else None
        error = ctypes.c_void_p()
        self._handle = library().holdfast_attach(
            client._open_handle(), request_id.encode(), wanted, count, ctypes.byref(error))
        if not self._handle:
            raise take_error(error)
        client._streams.add(self)

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        part = self.next(timeout=None)
        if part is None:
            raise StopIteration
        return part

    def next(self, timeout: Optional[float] = None) -> Optional[Part]:
        """Returns the next part, None after the last. TimeoutError after `timeout` seconds."""
        if not self._handle:
            return None
        part, error = _CPart(), ctypes.c_void_p()
        wait_ms = -1 if timeout is None else max(0, int(timeout * 1000))
        got = library().holdfast_next(self._handle, wait_ms, ctypes.byref(part), ctypes.byref(error))
        if got == 1:
            text = ctypes.string_at(part.text, part.text_size).decode() if part.text_size else ""
            return Part(part.choice, part.index, tuple(part.ids[:part.id_count]), text,
                        part.finish.decode() if part.finish else None)
        if got == 2:
            raise TimeoutError(f"no part of {self.id} within {timeout} s")
        self.close()
        if got < 0:
            raise take_error(error)
        return None

    def text(self) -> str:
        """Reads to the end; returns the text of choice 0."""
        return "".join(part.text for part in self if part.choice == 0)

    def close(self) -> None:
        """Leaves the stream; the request goes on unless its on_disconnect is "cancel"."""
        handle, self._handle = self._handle, None
        if handle:
            library().holdfast_detach(handle)
            self._client._streams.discard(self)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Client:
    """A server. Make one with holdfast.open()."""

    def __init__(self, state: Optional[str] = None, start: bool = True) -> None:
        self._streams: set[Stream] = set()
        error = ctypes.c_void_p()
        path = os.fspath(state).encode() if state is not None else None
        self._handle = library().holdfast_open(path, 1 if start else 0, ctypes.byref(error))
        if not self._handle:
            raise take_error(error)

    def submit(self, **request: Any) -> str:
        """Accepts a request and returns its id. Members: model; prompt, ids or messages; max_tokens,
        n, stop, seed, every sampling parameter, key, tenant, priority, … (holdfast.h lists them)."""
        given = {name: value for name, value in request.items() if value is not None}
        error = ctypes.c_void_p()
        made = library().holdfast_submit(self._open_handle(), json.dumps(given).encode(), ctypes.byref(error))
        return take_text(made, error)

    def stream(self, next: Optional[Sequence[int]] = None, **request: Any) -> Stream:
        """Submits a request and attaches to it. `next[i]`: the first token that is wanted of choice i."""
        return self.attach(self.submit(**request), next)

    def attach(self, request_id: str, next: Optional[Sequence[int]] = None) -> Stream:
        """Attaches to a request, from its first token on or from `next`."""
        return Stream(self, request_id, next)

    def complete(self, **request: Any) -> str:
        """Submits a request, waits for its end, returns the text of choice 0."""
        with self.stream(**request) as stream:
            return stream.text()

    def status(self, request_id: str) -> Mapping[str, Any]:
        """Returns the state of a request: id, state, model, choices, queue_position, …"""
        return self._document("holdfast_status", request_id)

    def cancel(self, request_id: str) -> Mapping[str, Any]:
        """Cancels a request; returns its state."""
        return self._document("holdfast_cancel", request_id)

    def models(self) -> Sequence[Mapping[str, Any]]:
        """Returns the models and aliases."""
        error = ctypes.c_void_p()
        return json.loads(take_text(library().holdfast_models(self._open_handle(), ctypes.byref(error)), error))

    def add(self, name: str, path: str) -> None:
        """Registers a file under a name."""
        self._change("holdfast_add", name, os.fspath(path))

    def load(self, name: str) -> None:
        """Loads a model; returns when it is ready."""
        self._change("holdfast_load", name)

    def unload(self, name: str) -> None:
        """Unloads a model. A request that asks for it loads it again."""
        self._change("holdfast_unload", name)

    def remove(self, name: str) -> None:
        """Removes the name of a model that is not loaded."""
        self._change("holdfast_remove", name)

    def stop_server(self) -> None:
        """Stops the server, whoever started it. What is queued goes on with its next start."""
        error = ctypes.c_void_p()
        if library().holdfast_stop_server(self._open_handle(), ctypes.byref(error)) != 0:
            raise take_error(error)

    def close(self) -> None:
        """Closes the client and its streams. Requests go on."""
        for stream in list(self._streams):
            stream.close()
        handle, self._handle = self._handle, None
        if handle:
            library().holdfast_close(handle)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _open_handle(self) -> int:
        if not self._handle:
            raise Error("usage", "the client is closed")
        return self._handle

    def _document(self, function: str, request_id: str) -> Mapping[str, Any]:
        error = ctypes.c_void_p()
        text = getattr(library(), function)(self._open_handle(), request_id.encode(), ctypes.byref(error))
        return json.loads(take_text(text, error))

    def _change(self, function: str, *words: str) -> None:
        error = ctypes.c_void_p()
        encoded = [word.encode() for word in words]
        if getattr(library(), function)(self._open_handle(), *encoded, ctypes.byref(error)) != 0:
            raise take_error(error)


def open(state: Optional[str] = None, start: bool = True) -> Client:
    """Opens a server: of a state directory, which is started if none runs, or elsewhere ("http://HOST:PORT",
    with the key in HOLDFAST_API_KEY). Without `state`: HOLDFAST_STATE, HOLDFAST_URL, this user's own."""
    return Client(state, start)
