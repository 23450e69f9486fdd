"""Reads one {"schema": ..., "docs": [text, ...]} a line and writes for each one text of '1' (valid)
and '0' by python3-jsonschema, which knows nothing of our code. 'x': the text is not JSON. What is no
JSON schema is read as docs/use/structured-output.md says it is (plain), patterns as ECMA-262 means them."""

import json
import sys
import unicodedata

try:
    import jsonschema
except ImportError:
    sys.exit("python3-jsonschema is missing; apt-get install python3-jsonschema")

SPACE = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
NO_SPACE = ("\\0-\\x08\\x0e-\\x1f!-\\x9f\\u00a1-\\u167f\\u1681-\\u1fff\\u200b-\\u2027\\u202a-\\u202e"
            "\\u2030-\\u205e\\u2060-\\u2fff\\u3001-\\ufefe\\uff00-\\U0010ffff")
CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": SPACE, "D": "\\0-/:-\\U0010ffff", "S": NO_SPACE,
           "W": "\\0-/:-@\\[-\\^`{-\\U0010ffff"}
TYPES = {"str": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
         "dict": "object", "list": "array", "none": "null"}
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
PROPERTIES = {}


def property_class(name):
    """The characters of a general category; None for what this Python does not know."""
    if name not in PROPERTIES:
        found, start = "", None
        for point in range(0x110001):
            inside = point < 0x110000 and unicodedata.category(chr(point)).startswith(name)
            if inside and start is None:
                start = point
            elif not inside and start is not None:
                found += "\\U%08x-\\U%08x" % (start, point - 1)
                start = None
        PROPERTIES[name] = found or None
    return PROPERTIES[name]


def python_pattern(source):
    """The same for Python's re; None if that cannot say it."""
    out, at, in_class, flags = "", 0, False, ""
    while at < len(source):
        c, two = source[at], source[at:at + 2]
        if two in ("\\p", "\\P"):
            end = source.index("}", at)
            inner = property_class(source[at + 3:end])
            if inner is None or two == "\\P":
                return None
            out += inner if in_class else "[" + inner + "]"
            at = end + 1
        elif c == "\\" and two[1] in CLASSES:
            out += CLASSES[two[1]] if in_class else "[" + CLASSES[two[1]] + "]"
            at += 2
        elif c == "\\":
            out += "/" if two == "\\/" else two
            at += 2
        elif source[at:at + 4] == "(?i)":
            flags, at = "i", at + 4
        elif two == "(?" and source[at + 2] == "<" and source[at + 3] not in "=!" and not in_class:
            out, at = out + "(?P<", at + 3
        elif in_class:
            in_class = c != "]"
            out, at = out + c, at + 1
        else:
            in_class = c == "["
            out += {"$": "\\Z", ".": "[^\\n\\r\\u2028\\u2029]"}.get(c, c)
            at += 1
            if in_class and source[at:at + 1] == "^":
                out, at = out + "^", at + 1
    return "(?a" + flags + ":" + out + ")"  # \b of ASCII, as ECMA-262 has it


def plain_type(name):
    name = TYPES.get(name.lower(), name.lower())
    return None if name in ("", "any") else name


def plain_types(out):
    types = out.pop("type", None)
    names = [plain_type(t) for t in (types if isinstance(types, list) else [types or ""])]
    if names and None not in names:
        out["type"] = names + ["null"] if out.get("nullable") is True else names
    out.pop("nullable", None)


def plain_numbers(out):
    for key in ("minimum", "maximum"):
        if isinstance(out.get(key), str):
            out[key] = json.loads(out[key])
        exclusive = "exclusive" + key.capitalize()
        if out.get(exclusive) is True and key in out:
            out[exclusive] = out.pop(key)
        elif isinstance(out.get(exclusive), bool):
            del out[exclusive]


def plain_objects(out):
    if out.get("properties") == []:
        out["properties"] = {}
    if isinstance(out.get("required"), bool):
        del out["required"]


def plain(schema, in_map=False):
    """What the schema means: null says nothing, names of types in any language, OpenAPI's nullable,
    drafts before 2020-12."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if in_map:
        return {key: plain(value) for key, value in schema.items()}
    out = {key: value for key, value in schema.items() if value is not None or key == "const"}
    members = out.get("properties")
    for name, value in (members.items() if isinstance(members, dict) else ()):
        if isinstance(value, dict) and value.get("required") is True:
            out["required"] = out.get("required", []) + [name]
    plain_types(out)
    plain_numbers(out)
    plain_objects(out)
    if isinstance(out.get("items"), list):
        out["prefixItems"] = out.pop("items")
        if "additionalItems" in out:
            out["items"] = out.pop("additionalItems")
    if "pattern" in out:
        pattern = python_pattern(out.pop("pattern"))
        if pattern is not None:
            out["pattern"] = pattern
    for keyword in ("$schema", "$recursiveAnchor"):
        out.pop(keyword, None)
    if "$recursiveRef" in out:
        out["$ref"] = out.pop("$recursiveRef")
    if str(out.get("$id", "")).startswith("#"):
        out["$anchor"] = out.pop("$id")[1:]
    for key, value in out.items():
        if key in ("enum", "const", "default", "examples", "example", "required", "pattern"):
            continue
        out[key] = plain(value, key in MAPS)
        if key == "patternProperties":
            out[key] = {python_pattern(p): inner for p, inner in out[key].items()}
    return out


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
    schema = plain(case["schema"])
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.FormatChecker(["date", "ipv4", "ipv6", "uuid", "email", "regex"])
    checked = jsonschema.Draft202012Validator(schema, format_checker=checker)
    print("".join(verdict(checked, text) for text in case["docs"]))
