"""As resuming_client.c, by the Python package: resuming_client.py STATE MODEL PROMPT TOKENS KEY FILE."""
import os
import sys

import holdfast


def read_next(path):
    """Returns the next token that is wanted, and cuts off a record that is not whole."""
    if not os.path.exists(path):
        return 0
    with open(path, "rb+") as file:
        records = file.read()
        whole = records.rfind(b"\n") + 1
        file.truncate(whole)
    lines = records[:whole].split(b"\n")
    return int(lines[-2].split(b" ")[0]) if len(lines) > 1 else 0


def main():
    state, model, prompt, tokens, key, path = sys.argv[1:]
    with holdfast.open(state) as server:
        request = server.submit(model=model, prompt=prompt, max_tokens=int(tokens), ignore_eos=True, seed=1, key=key)
        start = read_next(path)
        with open(path, "ab", buffering=0) as file, server.attach(request, [start]) as stream:
            for part in stream:
                next = holdfast.DONE if part.finish else part.index + len(part.ids)
                file.write(b"%d %s\n" % (next, part.text.encode().hex().encode()))
    print("ended")


main()
