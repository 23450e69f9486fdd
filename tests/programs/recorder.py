"""A proxy that writes down what a program sends, as lines of JSON, and hands everything on as it
comes. What belongs to this machine alone is left out or replaced."""

import hashlib
import http.client
import http.server
import json
import os
import re
import threading
import time
import urllib.parse

# Headers of the connection, of this machine, secret, or of no meaning for the server.
LEFT_OUT = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding",
            "authorization", "x-api-key", "user-agent", "keep-alive", "proxy-connection",
            "accept-language", "sec-fetch-mode"}
LEFT_OUT_BEGIN = ("x-stainless-", "x-codex-", "traceparent", "tracestate", "session", "thread",
                  "x-session", "x-claude-code-session", "x-client-request", "x-request",
                  "idempotency-key", "sec-websocket")
# Another in each run, of the same form.
OF_A_RUN = [(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
             "00000000-0000-4000-8000-000000000000"),
            (r"\b[0-9a-f]{64}\b", "0" * 64),
            (r"\b1[78]\d{11}\b", "1767225600000")]
TEXT_MAX = 200  # of each text in a body


class Recorder:
    """`with Recorder(url, places) as (own_url, recorder)`; places: {text of this machine: what stands
    for it}."""

    def __init__(self, url, places):
        self.target = urllib.parse.urlsplit(url)
        self.places = places
        self.requests = []  # of the program, in order
        self.answers = []   # (method, path, status, ignored, body)
        self.lock = threading.Lock()

    def __enter__(self):
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def pass_on(self):
                recorder.pass_on(self)

            do_GET = do_POST = do_DELETE = do_HEAD = do_OPTIONS = do_PUT = pass_on

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # programs leave when they are done
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}", self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def pass_on(self, call):
        body = call.rfile.read(int(call.headers.get("content-length") or 0))
        if call.headers.get("transfer-encoding", "").lower() == "chunked":
            body = read_chunks(call.rfile)
        headers = {name: value for name, value in call.headers.items()
                   if name.lower() not in ("connection", "transfer-encoding", "content-length")}
        there = http.client.HTTPConnection(self.target.hostname, self.target.port)
        there.request(call.command, call.path, body, headers)
        answer = there.getresponse()
        with self.lock:
            place = len(self.answers)
            self.answers.append(None)
            self.note(call, body)
        call.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                call.send_header(name, value)
        call.send_header("Transfer-Encoding", "chunked")
        call.end_headers()
        whole = b""
        try:
            while piece := answer.read1(65536):
                whole += piece
                call.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                call.wfile.flush()
            call.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            call.close_connection = True
        there.close()
        self.answers[place] = (call.command, call.path, answer.status,
                               answer.getheader("X-Holdfast-Ignored") or "",
                               whole.decode("utf-8", "replace"))

    def note(self, call, body):
        headers = {}
        for name, value in call.headers.items():
            low = name.lower()
            if low not in LEFT_OUT and not low.startswith(LEFT_OUT_BEGIN):
                headers[low] = value
        line = {"method": call.command, "path": call.path, "headers": headers}
        if body:
            try:
                line["body"] = json.loads(body)
            except ValueError:
                line["bytes"] = hashlib.sha256(body).hexdigest()
        self.requests.append(shorten(json.loads(self.clean(json.dumps(line, ensure_ascii=False)))))

    def write(self, path):
        path.parent.mkdir(exist_ok=True)
        with open(path, "w") as out:
            for line in self.requests:
                out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")

    def failures(self):
        """What was not answered with 200, as text."""
        return "; ".join(f"{command} {path} was answered with {status}: {whole[:300]}"
                         for command, path, status, _, whole in filter(None, self.answers)
                         if status >= 400)

    def ignored(self):
        """What the server named as ignored, of all answers."""
        names = [name.strip() for answer in self.answers if answer
                 for name in answer[3].split(",")]
        return sorted({name for name in names if name})

    def clean(self, text):
        """Without what is of this machine, this day or this run."""
        for own, stands in self.places.items():
            text = text.replace(own, stands)
        for own, stands in OF_A_RUN:
            text = re.sub(own, stands, text)
        return text


def of_this_machine():
    """Places of every recording."""
    now = time.localtime()
    return {os.uname().release: "6.1.0", os.uname().nodename: "host",
            time.strftime("%Y-%m-%d", now): "2026-01-01",
            time.strftime("%a %b %d %Y", now): "Thu Jan 01 2026"}


def shorten(value):
    """Instructions are their authors' texts, and long: their beginnings are kept."""
    if isinstance(value, dict):
        return {name: shorten(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shorten(inner) for inner in value]
    if isinstance(value, str) and len(value) > TEXT_MAX:
        return value[:TEXT_MAX] + "..."
    return value


def read_chunks(stream):
    body = b""
    while size := int(stream.readline().split(b";")[0], 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body
