#!/usr/bin/env python3
"""Runs the fenced blocks of pages as a reader would: run.py --build BUILD [--page NAME] [FOLDER].

Each page has a server of its own with the demo model as `demo` (no page sees another's requests), a
folder with the files of `FILES`, and one environment: variables that a block sets stay for those after
it. Addresses that pages name (`ADDRESSES`) are replaced by the server's, folders (`PLACES`) by the page's. A
block of shell stops at the
first command that fails, and an answer of HTTP of 400 or more is a failure. blocks.py says what a page may
say of a block.
"""
import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

sys.dont_write_bytecode = True  # nothing is left in the tree
from blocks import DATA, RUN, blocks_of, c_program, complaint, console_commands, server_flags

SOURCE = pathlib.Path(__file__).resolve().parents[3]
DEMO = SOURCE / "ops/demo/holdfast-demo-Q8_0.gguf"
ADDRESSES = (("https://models.example:8080", "http://{}"), ("127.0.0.1:8080", "{}"))
PLACES = ("/path/to/", "/models/")  # folders that pages name
MODELS = ("model.gguf", "second.gguf")  # copies of the demo model in each page's folder
PATIENCE_S = 40
HELP = "docs/contribute/testing.md, section \"Commands of the pages\", has the whole of it."

# Files that pages name, in the folder where their blocks run.
FILES = {
    "lines.jsonl": "".join(json.dumps({
        "custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions",
        "body": {"model": "demo", "messages": [{"role": "user", "content": f"Speak {i}"}], "max_tokens": 8}}) + "\n"
        for i in range(20)),
}

# curl as in a page, but an answer that is an error is one here too. A time-out that the command itself
# asked for is none.
CURL = """#!/bin/bash
CURL --fail-with-body --no-progress-meter "$@"
code=$?
[[ $code -eq 28 && " $* " == *" --max-time "* ]] && exit 0
exit $code
"""

# Around the commands of a block: variables of the blocks before, and what stays for those after.
# For `before`: what the block before this one printed ($LAST) and the server's processes.
SHELL = """set -euo pipefail
header() { sed -n "s/^$1: *//Ip" "$LAST" | tr -d '\\r' | tail -n 1; }
pid() { python3 -c 'import json, sys
print(next(c["pid"] for c in json.load(open(sys.argv[1]))["children"] if c["name"] == sys.argv[2]))' \
  "$HOLDFAST_STATE/run/supervisor.json" "$1"; }
__known=$(compgen -v | sort)
[ ! -f .variables ] || . ./.variables
__keep() { local __name; for __name in $(comm -13 <(echo "$__known") <(compgen -v | sort)); do
  case $__name in __*|BASH*|FUNCNAME|PIPESTATUS|_) ;; *) declare -p "$__name" ;; esac; done >.variables.new
  sed 's/^declare -- /declare -g /; s/^declare -\\([a-zA-Z]\\)/declare -g\\1/' .variables.new >.variables; }
trap __keep EXIT
"""


class Server:
    """A server of a page's own."""

    def __init__(self, build, folder, flags):
        self.log = folder / "serve.log"
        command = [str(build / "bin/holdfast"), "serve", "--state", str(folder / "state"), "--http", "127.0.0.1:0",
                   "--threads", "1", "--model", f"demo={DEMO}", *flags]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)
        self.address = self.wait()

    def wait(self):
        for _ in range(PATIENCE_S * 50):
            found = re.search(r"^ready http://(\S+)", self.log.read_text(), re.M)
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the server of the page did not come up:\n{self.log.read_text()}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Page:
    """One page: its folder, its server, its blocks in order."""

    def __init__(self, build, path, root):
        self.build, self.path, self.root = build, path, root
        self.name = str(path.relative_to(SOURCE)) if path.is_relative_to(SOURCE) else str(path)
        self.text = path.read_text()
        self.blocks = blocks_of(self.name, self.text)
        self.server, self.address, self.groups, self.last = None, "127.0.0.1:8080", [], "/dev/null"
        self.ran, self.not_run, self.skipped, self.read, self.failures = 0, [], [], 0, []

    def wants_run(self, block):
        return block.language in RUN and block.first("not run") is None

    def run(self):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hf-docs-") as folder:
            self.folder = pathlib.Path(folder)
            try:
                self.prepare()
                for number, block in enumerate(self.blocks):
                    self.take(number, block)
            except RuntimeError as fault:
                self.failures.append(f"{self.name}: {fault}")
            finally:
                self.clean()
        self.seconds = time.monotonic() - begin
        return self

    def prepare(self):
        (self.folder / "bin").mkdir()
        for name, text in FILES.items():
            (self.folder / name).write_text(text)
        curl = self.folder / "bin/curl"
        curl.write_text(CURL.replace("CURL", shutil.which("curl") or "curl"))
        curl.chmod(0o755)
        for name in MODELS:
            shutil.copyfile(DEMO, self.folder / name)
        self.link_packages()
        flags = server_flags(self.text)
        if flags is not None and any(self.wants_run(block) for block in self.blocks):
            self.server = Server(self.build, self.folder, flags)
            self.address = self.server.address

    def link_packages(self):
        """Makes the packages for Node that a build has visible to programs in the folder."""
        modules = self.folder / "node_modules"
        modules.mkdir()
        for place in (self.build / "clients/node_modules", self.build / "node"):
            for package in place.iterdir() if place.is_dir() else ():
                (modules / package.name).symlink_to(package)

    def clean(self):
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.server:
            self.server.stop()
        elif (self.folder / "state/run/supervisor.json").exists():  # one that a library started
            try:
                os.kill(json.loads((self.folder / "state/run/supervisor.json").read_text())["pid"], signal.SIGTERM)
            except (ProcessLookupError, ValueError):
                pass

    def take(self, number, block):
        wrong = complaint(block)
        reason = block.first("not run")
        if wrong:
            self.failures.append(f"{block.place}: {wrong}\n  {HELP}")
        elif block.language in DATA:
            self.parse(block)
        elif block.language not in RUN:
            self.read += 1
        elif reason is not None:
            self.not_run.append(f"{block.place}: {reason}")
        elif self.missing(block):
            self.skipped.append(f"{block.place}: {self.missing(block)}")
        else:
            self.try_block(number, block)

    def parse(self, block):
        try:
            json.loads(block.text) if block.language == "json" else tomllib.loads(block.text)
            self.read += 1
        except ValueError as fault:
            self.failures.append(f"{block.place}: no valid {block.language}: {fault}. Mend it; a message with gaps "
                                 "is `text` or `http`.")

    def missing(self, block):
        """Returns what a block needs and this machine has not; "" if it has all."""
        wanted = (block.first("with") or "").split()
        wanted += {"js": ["node"], "c": ["cc"]}.get(RUN[block.language], [])
        for program in wanted:
            if shutil.which(program) is None:
                return f"no {program} on PATH"
        if RUN[block.language] == "python":
            for module in re.findall(r"^(?:from|import) (\w+)", block.text, re.M):
                ours = (SOURCE / "ops/sdk/python" / module).is_dir()
                if not ours and importlib.util.find_spec(module) is None:
                    return f"no Python module {module}"
        if RUN[block.language] == "js":
            for package in re.findall(r"from '([^.'][^']*)'", block.text):
                if not package.startswith("node:") and not (self.folder / "node_modules" / package).exists():
                    return f"no package {package} for Node in the build (ops/test fetches or builds it)"
        return ""

    def environment(self):
        paths = [str(self.folder / "bin"), str(self.build / "bin"), os.environ.get("PATH", "")]
        return {"PATH": ":".join(paths), "HOME": str(self.folder), "LANG": "C.UTF-8", "NO_COLOR": "1",
                "TMPDIR": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "HOLDFAST_STATE": str(self.folder / "state"),
                "HOLDFAST_SOURCE": str(SOURCE), "DEMO": str(DEMO),
                "HOLDFAST_LIBRARY": str(self.build / "lib/libholdfast.so.0"),
                "HOLDFAST_PROGRAM": str(self.build / "bin/holdfast"),
                "PYTHONPATH": str(SOURCE / "ops/sdk/python")}

    def placed(self, text):
        """Returns a text of the page with this run's address and folder."""
        for place in PLACES:
            text = re.sub(rf"(?<![\w.]){place}", f"{self.folder}/", text)
        for named, real in ADDRESSES:
            text = text.replace(named, real.format(self.address))
        return text

    def command_of(self, number, block):
        """Writes the block as a file; returns the file and the shell command that runs it."""
        text = self.placed(block.text)
        kind = RUN[block.language]
        if kind == "console":
            text = console_commands(text)
        if kind == "c":
            text = c_program(text)
        suffix = {"sh": "sh", "console": "sh", "python": "py", "js": "mjs", "c": "c"}[kind]
        file = self.folder / f"block{number}.{suffix}"
        file.write_text(text)
        library = self.build / "lib"
        return file, {"sh": f". ./{file.name}", "console": f". ./{file.name}",
                      "python": f"{shlex.quote(sys.executable)} ./{file.name}", "js": f"node ./{file.name}",
                      "c": f"cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I {SOURCE}/shared/sdk "
                           f"-o block{number} {file.name} {library}/libholdfast.so.0 -Wl,-rpath,{library}\n"
                           f"./block{number}"}[kind]

    def try_block(self, number, block):
        file, command = self.command_of(number, block)
        before = self.placed("\n".join(block.said.get("before", [])))
        check = self.placed("\n".join(block.said.get("check", [])))
        out = self.folder / f"out{number}"
        script = self.folder / f"script{number}"
        script.write_text(f"{SHELL}OUT={out} LAST={self.last}\nexport BLOCK={file}\nexec 3>&1 >/dev/null\n{before}\nexec >&3 3>&-\n{command}\n"
                          f"exec >/dev/null\nset -x\n{check}\n")
        ended = self.shell(script, out, block.first("until"))
        self.last = out
        if ended:
            shown = "".join(f"    {line}\n" for line in block.text.rstrip("\n").split("\n"))
            self.failures.append(f"{block.place}: the block {ended}.\n  The block:\n{shown}  What it printed:\n"
                                 f"{self.printed(out)}  What to do: mend the page or the program; a file or a value "
                                 "that a reader would have is made by\n  <!-- before: SHELL --> directly above the "
                                 "block; what cannot run here says so there: <!-- not run: REASON -->.\n"
                                 f"  {HELP}")
        else:
            self.ran += 1

    def printed(self, out):
        text = out.read_text(errors="replace") + pathlib.Path(f"{out}.err").read_text(errors="replace")
        return "".join(f"    {line}\n" for line in text.split("\n")[-40:] if line)

    def shell(self, script, out, until):
        """Runs a script of a block. Returns "" if it did what it should, else what it did."""
        with open(out, "wb") as stdout, open(f"{out}.err", "wb") as stderr:
            process = subprocess.Popen(["bash", "--norc", str(script)], stdin=subprocess.DEVNULL, stdout=stdout,
                                       stderr=stderr, cwd=self.folder, env=self.environment(), start_new_session=True)
        self.groups.append(process.pid)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            code = process.poll()
            if until and re.search(until, out.read_text(errors="replace")):
                os.killpg(process.pid, signal.SIGTERM)
                return ""
            if code is not None:
                return "" if code == 0 else f"failed with exit status {code}"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        return f"did not end within {PATIENCE_S} s" + (f", and its output has no match of /{until}/" if until else "")


def report(pages):
    """Prints what was done. Returns the number of failures."""
    total = {"ran": 0, "not_run": 0, "skipped": 0, "read": 0}
    for page in pages:
        counts = {"ran": page.ran, "not_run": len(page.not_run), "skipped": len(page.skipped), "read": page.read}
        total = {key: total[key] + counts[key] for key in total}
        if page.blocks:
            print(f"{page.name:<50} {len(page.blocks):>3} blocks: {page.ran} run, {len(page.not_run)} not run, "
                  f"{len(page.skipped)} skipped, {page.read} read; {page.seconds:.1f} s")
    failures = [failure for page in pages for failure in page.failures]
    for title, lines in (("Not run, as the page says", [line for page in pages for line in page.not_run]),
                         ("Skipped on this machine", [line for page in pages for line in page.skipped])):
        if lines:
            print(f"\n{title}:")
            print("\n".join(f"  {line}" for line in lines))
    print(f"\n{len(pages)} pages: {total['ran']} blocks run, {total['not_run']} not run, {total['skipped']} skipped, "
          f"{total['read']} read (data, pictures, output), {len(failures)} failed")
    if failures:
        print("\n" + "\n".join(failures))
    return len(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--page", help="the name of one page, without .md")
    parser.add_argument("folder", nargs="?", default=SOURCE / "docs/use", type=pathlib.Path)
    given = parser.parse_args()
    paths = sorted(given.folder.resolve().glob(f"{given.page or '*'}.md"))
    if not paths:
        sys.exit(f"no page {given.page or '*'}.md in {given.folder}")
    root = given.build.resolve()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pages = list(pool.map(lambda path: Page(root, path, given.folder).run(), paths))
    sys.exit(1 if report(pages) else 0)


if __name__ == "__main__":
    main()
