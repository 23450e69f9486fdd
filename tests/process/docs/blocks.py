"""The fenced blocks of a page and what the page says of them to the test.

A comment line directly above a block, or several, speaks of it:

    <!-- not run: needs a GPU -->          the block is not run; the reason is counted and printed
    <!-- before: REQUEST=$(…) -->          shell that runs first; its variables stay for the whole page
    <!-- check: grep -q '"id"' "$OUT" -->  shell that must succeed afterwards; $OUT is the block's output,
                                           $BLOCK its text as a file
    <!-- until: ready http -->             the block does not end by itself: it is ended when its output has that
    <!-- with: jq -->                      programs that it needs; where one is missing it is skipped, and said

And anywhere in a page, once: <!-- server: FLAGS --> (of `holdfast serve`, beside those of run.py), or
<!-- server: none -->.
"""
import dataclasses
import re

RUN = {"sh": "sh", "bash": "sh", "console": "console", "python": "python", "py": "python",
       "js": "js", "mjs": "js", "c": "c"}
DATA = {"json", "toml"}  # read by a parser
TEXT = {"text", "http"}  # pictures, output, messages: nothing is done with them
KEYS = ("not run", "before", "check", "until", "with", "server")

FENCE = re.compile(r"^\s*```(.*)$")
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.S)


@dataclasses.dataclass
class Block:
    page: str
    line: int  # of the fence
    language: str
    text: str
    said: dict  # key -> list of values

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    def first(self, key):
        return self.said.get(key, [None])[0]


def comments_above(lines, fence):
    """Returns the keys and values of the comments that end directly above a line (blank lines may be between)."""
    above = "\n".join(lines[:fence]).rstrip()
    said = []
    while above.endswith("-->"):
        begin = above.rfind("<!--")
        match = COMMENT.fullmatch(above[begin:])
        key, colon, value = match.group(1).partition(":")
        if colon and key in KEYS:
            said.append((key, value.strip()))
        above = above[:begin].rstrip()
    out = {}
    for key, value in reversed(said):
        out.setdefault(key, []).append(value)
    return out


def blocks_of(page, text):
    """Returns the blocks of a page, in its order."""
    lines, blocks, begin = text.split("\n"), [], None
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if not match:
            continue
        if begin is None:
            begin, language = number, match.group(1).strip()
            continue
        inside = lines[begin + 1:number]
        indent = min((len(one) - len(one.lstrip()) for one in inside if one.strip()), default=0)
        blocks.append(Block(page, begin + 1, language, "\n".join(one[indent:] for one in inside) + "\n",
                            comments_above(lines, begin)))
        begin = None
    return blocks


def server_flags(text):
    """Returns the flags that a page wants for its server, None where it wants none."""
    found = re.search(r"<!--\s*server:\s*(.*?)\s*-->", text)
    if not found:
        return []
    return None if found.group(1) == "none" else found.group(1).split()


def complaint(block):
    """Returns what is wrong with a block before it is run; "" if nothing is."""
    known = [*RUN, *sorted(DATA | TEXT)]
    if block.language not in known:
        said = f"has the language `{block.language}`" if block.language else "has no language"
        return (f"the block {said}. Write one behind its three backticks: sh, console, python, js or c for what "
                "is run, json or toml for files, text or http for pictures and output.")
    if block.language in TEXT and re.search(r"^\s*(\$ |curl |holdfast [a-z]+ +[-\w])", block.text, re.M):
        return f"the block is marked `{block.language}`, but has commands: mark it `sh` or `console`."
    reason = block.first("not run")
    if reason is not None and len(reason.split()) < 2:
        return "`not run` wants a reason of some words: <!-- not run: needs a GPU -->."
    return ""


def console_commands(text):
    """Returns the commands of a terminal session: lines after `$ `, and those that a \\ continues."""
    out, goes_on = [], False
    for line in text.split("\n"):
        if goes_on or line.lstrip().startswith("$ "):
            command = line if goes_on else line.lstrip()[2:]
            out.append(command)
            goes_on = command.rstrip().endswith("\\")
    return "\n".join(out) + "\n"


def c_program(text):
    """Returns a whole program of a C block: a block without main() is what main() does."""
    if re.search(r"\bmain\s*\(", text):
        return text
    lines = text.split("\n")
    heads = [line for line in lines if line.startswith("#")]
    rest = [line for line in lines if not line.startswith("#")]
    return "\n".join(["#include <stdio.h>", *heads, "int main(void) {", *rest, "return error != NULL;", "}", ""])
