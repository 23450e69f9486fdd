"""A server for programs: `holdfast serve` on a model folder that speaks as families with tools do,
with the fake engine and a script of what it says (docs/contribute/fake-engine.md), or the real one."""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[1] / "ops/demo/holdfast-demo-Q8_0.gguf"
CONTEXT = 262144  # coding agents begin with 50 KB of instructions, and the tokens are short
CONTEXT_REAL = 2048
STEP_KILLED_US = 20_000
KILL_EVERY_S = 1.5
CONTROL = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]


def make_model(bin_dir, folder):
    """The demo model as a folder, with a chat template and the control tokens that it writes in
    place of the vocabulary's last words."""
    subprocess.run([bin_dir / "holdfast", "--quiet", "convert", DEMO, folder], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.copy(HERE / "chat_template.jinja", folder / "chat_template.jinja")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    last = sorted(vocabulary, key=vocabulary.get)[-len(CONTROL) - 1:-1]
    last = [word for word in last if word != "<|endoftext|>"][-len(CONTROL):]
    ids = {}
    for word, name in zip(last, CONTROL):
        ids[name] = vocabulary.pop(word)
        vocabulary[name] = ids[name]
    gone = set(last)
    tokenizer["model"]["merges"] = [
        pair for pair in tokenizer["model"]["merges"]
        if gone.isdisjoint([*(pair if isinstance(pair, list) else pair.split(" ")),
                            "".join(pair if isinstance(pair, list) else pair.split(" "))])]
    like = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [dict(like, id=id, content=name, special=name.startswith("<|"))
                                  for name, id in ids.items()]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    for name, change in (("config.json", {"max_position_embeddings": CONTEXT,
                                          "eos_token_id": ids["<|im_end|>"]}),
                         ("tokenizer_config.json", {"eos_token": "<|im_end|>"})):
        settings = json.loads((folder / name).read_text())
        settings.pop("chat_template", None)
        (folder / name).write_text(json.dumps(settings | change))


class TestServer:
    """`with TestServer(bin, folder, model, script, kill) as url`. Without a script the model's own
    weights are computed with, whatever they say. `kill`: its worker and its daemon are
    killed in turn all the time, and tokens take long enough that it happens within answers."""

    def __init__(self, bin_dir, folder, model, script, kill=False):
        self.folder = folder
        fake = {"script": script, "slots": 4, "context": CONTEXT, "prefill_chunk": CONTEXT}
        if kill:
            fake["step_us"] = STEP_KILLED_US
        engine = ["--engine", "fake", "--engine-options", json.dumps(fake), "--context",
                  str(CONTEXT)]
        self.killer = threading.Thread(target=self.kill_in_turn) if kill else None
        self.kills = 0
        self.ended = threading.Event()
        self.command = [bin_dir / "holdfast", "--state", folder / "state", "serve",
                        "--model", f"m={model}", "--http", "127.0.0.1:0",
                        *(["--context", str(CONTEXT_REAL)] if script is None else engine)]

    def __enter__(self):
        folder = self.folder
        self.errors = open(folder / "serve.log", "wb")
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.errors)
        for line in self.process.stdout:
            found = re.match(rb"ready (http://\S+)", line)
            if found:
                if self.killer:
                    self.killer.start()
                return found[1].decode()
        raise RuntimeError("the server did not start: " +
                           (folder / "serve.log").read_text()[-2000:])

    def kill_in_turn(self):
        victims = itertools.cycle(["worker-0", "daemon"])
        while not self.ended.wait(KILL_EVERY_S):
            victim = next(victims)
            listed = json.loads((self.folder / "state/run/supervisor.json").read_text())
            for child in listed["children"]:
                if child["name"] == victim and child["pid"] > 0:
                    os.kill(child["pid"], signal.SIGKILL)
                    self.kills += 1

    def __exit__(self, *_):
        self.ended.set()
        if self.killer and self.killer.ident:
            self.killer.join()
        self.process.terminate()
        self.process.wait(60)
        self.errors.close()
