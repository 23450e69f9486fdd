"""The C library: where it is, its functions, its errors."""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import pathlib
from typing import Optional

_INTERFACE = 1


class Error(Exception):
    """A refusal or a failure: `code` is typed ("model_not_found"), `retry_after_ms` -1 or a time to wait."""

    def __init__(self, code: str, message: str, retry_after_ms: int = -1) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry_after_ms = retry_after_ms


class Part(ctypes.Structure):
    """holdfast_part."""

    _fields_ = [("choice", ctypes.c_int32), ("id_count", ctypes.c_int32), ("index", ctypes.c_int64),
                ("ids", ctypes.POINTER(ctypes.c_int32)), ("text", ctypes.c_void_p),
                ("text_size", ctypes.c_size_t), ("finish", ctypes.c_char_p),
                ("reserved", ctypes.c_void_p * 4)]


def _find() -> str:
    named = os.environ.get("HOLDFAST_LIBRARY")
    if named:
        return named
    beside = pathlib.Path(__file__).parent / "libholdfast.so.0"
    if beside.exists():
        return str(beside)
    return ctypes.util.find_library("holdfast") or "libholdfast.so.0"


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Returns the library with the types of its functions. OSError: it is not on this machine."""
    lib = ctypes.CDLL(_find())
    text, handle, error = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    signatures = {
        "holdfast_version": (text, []),
        "holdfast_interface": (ctypes.c_int, []),
        "holdfast_error_code": (text, [handle]),
        "holdfast_error_message": (text, [handle]),
        "holdfast_error_retry_after_ms": (ctypes.c_int64, [handle]),
        "holdfast_error_free": (None, [handle]),
        "holdfast_free": (None, [handle]),
        "holdfast_open": (handle, [text, ctypes.c_uint, error]),
        "holdfast_close": (None, [handle]),
        "holdfast_stop_server": (ctypes.c_int, [handle, error]),
        "holdfast_submit": (handle, [handle, text, error]),
        "holdfast_status": (handle, [handle, text, error]),
        "holdfast_cancel": (handle, [handle, text, error]),
        "holdfast_attach": (handle, [handle, text, ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t, error]),
        "holdfast_next": (ctypes.c_int, [handle, ctypes.c_int, ctypes.POINTER(Part), error]),
        "holdfast_detach": (None, [handle]),
        "holdfast_models": (handle, [handle, error]),
        "holdfast_add": (ctypes.c_int, [handle, text, text, error]),
        "holdfast_load": (ctypes.c_int, [handle, text, error]),
        "holdfast_unload": (ctypes.c_int, [handle, text, error]),
        "holdfast_remove": (ctypes.c_int, [handle, text, error]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    if lib.holdfast_interface() < _INTERFACE:
        raise OSError(f"libholdfast has interface {lib.holdfast_interface()}, expected {_INTERFACE}")
    return lib


def take_error(error: ctypes.c_void_p) -> Error:
    """Makes an exception of an error of the library, and frees it."""
    lib = library()
    made = Error((lib.holdfast_error_code(error) or b"internal").decode(),
                 (lib.holdfast_error_message(error) or b"").decode(errors="replace"),
                 lib.holdfast_error_retry_after_ms(error))
    lib.holdfast_error_free(error)
    return made


def take_text(text: Optional[int], error: ctypes.c_void_p) -> str:
    """Returns a text of the library and frees it; without one, raises the error."""
    if not text:
        raise take_error(error)
    value = ctypes.string_at(text).decode()
    library().holdfast_free(text)
    return value
