"""Reads one {"schema": ..., "docs": [text, ...]} a line and writes for each one text of '1' (valid)
and '0' by python3-jsonschema, which knows nothing of our code. 'x': the text is not JSON."""

import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit("python3-jsonschema is missing; apt-get install python3-jsonschema")


def refuse_constant(name):
    raise ValueError(name + " is not JSON")


def verdict(validator, text):
    try:
        document = json.loads(text, parse_constant=refuse_constant)
    except ValueError:
        return "x"
    return "1" if validator.is_valid(document) else "0"


for line in sys.stdin:
    case = json.loads(line)
    jsonschema.Draft202012Validator.check_schema(case["schema"])
    checker = jsonschema.FormatChecker(["date", "ipv4", "ipv6", "uuid", "email"])
    checked = jsonschema.Draft202012Validator(case["schema"], format_checker=checker)
    print("".join(verdict(checked, text) for text in case["docs"]))
