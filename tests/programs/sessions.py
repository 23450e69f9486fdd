"""The programs and what is done with each: a session of several turns with calls of tools, what the
model says in it, and what must have happened at its end."""

import base64
import json
import pathlib
import shutil
import subprocess
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 300


class Failed(Exception):
    pass


def call(name, arguments, thought="I know a tool for that."):
    """A call as the model's template writes it."""
    asked = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    before = f"<think>\n{thought}\n</think>\n\n" if thought else ""
    return f"{before}<tool_call>\n{asked}\n</tool_call>"


class Place:
    """Where a program runs: a home and a folder to work in, both of its own."""

    def __init__(self, folder, npm, url):
        self.npm = npm
        self.url = url
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self.env = {"HOME": str(self.home), "PATH": f"{npm}/node_modules/.bin:/usr/bin:/bin",
                    "TERM": "dumb", "LANG": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1", "CI": "1",
                    "USER": "user", "SHELL": "/bin/bash", "HOLDFAST_URL": url}

    def run(self, args, **env):
        """Its output; Failed if it ends otherwise than with 0."""
        try:
            ended = subprocess.run(args, cwd=self.work, env=self.env | env, text=True,
                                   stdin=subprocess.DEVNULL, capture_output=True,
                                   timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{args[0]} runs for {PATIENCE_S} s: "
                         f"{late.stdout or b''} {late.stderr or b''}"[-1500:]) from None
        except OSError as error:
            raise Failed(f"{args[0]}: {error}") from None
        if ended.returncode != 0:
            raise Failed(f"{pathlib.Path(args[0]).name} ended with {ended.returncode}: "
                         f"{ended.stdout[-1500:]} {ended.stderr[-1500:]}")
        return ended.stdout

    def expect(self, name, content):
        path = self.work / name
        if not path.exists():
            raise Failed(f"{name} was not written")
        if path.read_text().strip() != content:
            raise Failed(f"{name} holds {path.read_text()!r}, expected {content!r}")


def expect_said(output, text):
    if text not in output:
        raise Failed(f"its output does not say {text!r}: {output[-1500:]}")


# ---- client libraries

WEATHER = [
    {"say": "I know about the weather alone."},
    {"when": "weather in Paris", "say": call("weather", {"city": "Paris"})},
    {"when": "18 degrees", "say": "It has 18 degrees in Paris."},
    {"when": "And in Rome?", "say": call("weather", {"city": "Rome"})},
    {"when": "25 degrees", "say": "Rome is warmer: 25 degrees."},
    {"when": "Compare Oslo and Bern",
     "say": call("weather", {"city": "Oslo"}) + "\n" + call("weather", {"city": "Bern"}, "")},
    {"when": ["3 degrees", "9 degrees"], "say": "Bern is warmer than Oslo."},
    {"when": "Name a city", "say": '{"city": "Paris", "people": 2100000}'},
    {"when": "Call for a city", "say": call("place", {"city": "Paris", "people": 2100000})},
]


class Library:
    recorded = True

    def __init__(self, name):
        self.name = name

    def script(self, _):
        return WEATHER

    def session(self, place):
        self.run(place, "Bern is warmer than Oslo.")

    def run(self, place, last):
        # Node looks for packages beside the file that wants them.
        for source in (HERE / "sdks").glob("*.mjs"):
            shutil.copy(source, place.work)
        (place.work / "node_modules").symlink_to(place.npm / "node_modules")
        output = place.run(["node", f"{self.name}.mjs"])
        expect_said(output.splitlines()[-1], last)


class Forced(Library):
    """The libraries against the real engine, which has no script: a call must come, and does."""

    recorded = False

    def script(self, _):
        return None

    def session(self, place):
        self.run(place, "All were called.")


# ---- coding agents

FIRST = "Please write the file greeting.txt with the text hello-from-holdfast in it."
SECOND = "Now copy it to copy.txt with a command."
THIRD = "Look at dot.png."
DONE = ["The file greeting.txt is there.", "The copy is there.", "I cannot see pictures."]
DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA"
                       "AABJRU5ErkJggg==")


class Agent:
    """`write` and `command`: what the model says to have a file written and a command run; `look`:
    a picture read, where the program sends pictures to a model that it does not know."""

    look = None
    recorded = True

    def script(self, work):
        return [
            {"say": "A greeting"},  # titles, summaries and whatever else is asked beside
            {"when": FIRST, "say": self.write(work)},
            {"when": [FIRST, "<tool_response>"], "say": DONE[0]},
            {"when": [FIRST, DONE[0], SECOND],
             "say": self.command("cp greeting.txt copy.txt && echo copied-$((40 + 2))", work)},
            {"when": [FIRST, DONE[0], SECOND, "copied-42"], "say": DONE[1]},
        ] + ([{"when": [DONE[1], THIRD], "say": self.look(work)},
              {"when": [DONE[1], THIRD, "image left out"], "say": DONE[2]}] if self.look else [])

    def prepare(self, place):
        """Its settings, for the server of this session."""

    def session(self, place):
        self.prepare(place)
        expect_said(self.ask(place, FIRST, False), DONE[0])
        place.expect("greeting.txt", "hello-from-holdfast")
        expect_said(self.ask(place, SECOND, True), DONE[1])
        place.expect("copy.txt", "hello-from-holdfast")
        if self.look:
            (place.work / "dot.png").write_bytes(DOT)
            expect_said(self.ask(place, THIRD, True), DONE[2])


class Codex(Agent):
    name = "codex"
    sockets = False

    def write(self, work):
        return self.command("printf hello-from-holdfast > greeting.txt", work)

    def command(self, line, work):
        return call("exec_command", {"cmd": line})

    def look(self, work):
        return call("view_image", {"path": f"{work}/dot.png"})

    def prepare(self, place):
        (place.home / ".codex").mkdir()
        (place.home / ".codex/config.toml").write_text(
            'model = "m"\nmodel_provider = "holdfast"\nmodel_context_window = 200000\n'
            "[model_providers.holdfast]\n"
            f'name = "holdfast"\nbase_url = "{place.url}/v1"\nwire_api = "responses"\n'
            f"supports_websockets = {str(self.sockets).lower()}\n")

    def ask(self, place, text, again):
        args = ["codex", "exec", "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox"]
        return place.run(args + (["resume", "--last"] if again else []) + [text])


class CodexBySocket(Codex):
    """The same over a WebSocket, which the recorder does not speak."""

    name = "codex-socket"
    recorded = False
    sockets = True

    def session(self, place):
        super().session(place)
        with urllib.request.urlopen(f"{place.url}/metrics") as answer:
            lines = [line for line in answer.read().decode().splitlines() if "/v1/responses" in line]
        if not any('status="101"' in line for line in lines):
            raise Failed("it did not use a WebSocket: " + "; ".join(lines))


class ClaudeCode(Agent):
    name = "claude"

    def write(self, work):
        return call("Write", {"file_path": f"{work}/greeting.txt", "content": "hello-from-holdfast"})

    def command(self, line, work):
        return call("Bash", {"command": line, "description": "Copy the file"})

    def look(self, work):
        return call("Read", {"file_path": f"{work}/dot.png"})

    def prepare(self, place):
        place.env |= {"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_AUTH_TOKEN": "none",
                      "ANTHROPIC_MODEL": "m", "ANTHROPIC_SMALL_FAST_MODEL": "m",
                      "ANTHROPIC_DEFAULT_HAIKU_MODEL": "m", "DISABLE_AUTOUPDATER": "1",
                      "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "200000",
                      "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    def ask(self, place, text, again):
        binary = place.npm / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
        return place.run([str(binary), "-p", text, "--allowedTools", "Write,Bash,Read"] +
                         (["--continue"] if again else []))


class OpenCode(Agent):
    name = "opencode"

    def write(self, work):
        return call("write", {"filePath": f"{work}/greeting.txt", "content": "hello-from-holdfast"})

    def command(self, line, work):
        return call("bash", {"command": line, "description": "Copy the file"})

    def prepare(self, place):
        config = {"$schema": "https://opencode.ai/config.json", "autoupdate": False,
                  "share": "disabled", "model": "holdfast/m", "small_model": "holdfast/m",
                  "provider": {"holdfast": {
                      "npm": "@ai-sdk/openai-compatible", "name": "holdfast",
                      "options": {"baseURL": f"{place.url}/v1", "apiKey": "none"},
                      "models": {"m": {"name": "m"}}}}}
        (place.work / "opencode.json").write_text(json.dumps(config))
        place.env |= {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                      "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}

    def ask(self, place, text, again):
        binary = place.npm / "node_modules/opencode-linux-x64-baseline/bin/opencode"
        return place.run([str(binary), "run", "--format", "json"] +
                         (["--continue"] if again else []) + [text])


class Pi(Agent):
    name = "pi"

    def write(self, work):
        return call("write", {"path": "greeting.txt", "content": "hello-from-holdfast"})

    def command(self, line, work):
        return call("bash", {"command": line})

    def session(self, place):
        """One in each of the dialects that it speaks."""
        (place.home / ".pi/agent").mkdir(parents=True)
        for self.api, base in (("openai-completions", "/v1"), ("openai-responses", "/v1"),
                               ("anthropic-messages", "")):
            (place.home / ".pi/agent/models.json").write_text(json.dumps(
                {"providers": {"holdfast": self.provider(place.url + base)}}))
            super().session(place)
            for name in ("greeting.txt", "copy.txt"):
                (place.work / name).unlink()

    def provider(self, url):
        return {"baseUrl": url, "api": self.api, "apiKey": "none",
                "models": [{"id": "m", "name": "m", "reasoning": False, "input": ["text"],
                            "contextWindow": 262144, "maxTokens": 4096,
                            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}

    def ask(self, place, text, again):
        return place.run(["pi", "--provider", "holdfast", "--model", "m", "-p"] +
                         (["--continue"] if again else []) + [text], PI_OFFLINE="1")


PROGRAMS = [
    Library("openai"),
    Library("anthropic"),
    Library("ai"),
    Library("langchain"),
    Library("llamaindex"),
    Forced("forced"),
    Codex(),
    CodexBySocket(),
    ClaudeCode(),
    OpenCode(),
    Pi(),
]
