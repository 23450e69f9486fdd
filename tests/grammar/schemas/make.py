"""Writes the schemas of this folder: python3 make.py. Each line of a file is {"kind": who writes such
schemas, "name": …, "schema": …}. Models are put together from fields as the generators write them;
tools are written out by hand (tools.py)."""

import json
import random

from tools import AGENTS, MCP, SLOPPY, STANDARD

R = random.Random(22)
NAMES = ("id name title status kind email url tags count price total created_at updated_at owner "
         "description address city country items notes score enabled parent metadata path query "
         "limit offset language currency weight height level message subject body priority due "
         "start end duration code reference version author category rating").split()

EMAIL = (r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@"
         r"([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$")
DATE = (r"(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00)-02-29|"
        r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|"
        r"(?:02)-(?:0[1-9]|1\d|2[0-8])))")
TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
UUID = (r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
        r"|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$")
DURATION = (r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?"
            r"(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$")
IPV4 = (r"^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\.){3}"
        r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])$")
IPV6 = (r"^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|"
        r"([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|"
        r"([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|"
        r"([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|"
        r"([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|"
        r":((:[0-9a-fA-F]{1,4}){1,7}|:))$")
BASE64 = r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$"
DECIMAL = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"
HOST = (r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
        r"(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$")
SAFE = 9007199254740991

TEXT_PATTERNS = [
    r"^(?=.*[A-Z])(?=.*\d).{8,}$", r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^\w\s]).{8,64}$",
    r"^(?!\s*$).+", r"^\S+$", r"\S", r"^[a-z0-9]+(?:-[a-z0-9]+)*$", r"^[A-Z]{2,5}-\d{1,6}$",
    r"^\+?[1-9]\d{1,14}$", r"^#(?:[0-9a-fA-F]{3}){1,2}$", r"^\d+\.\d+\.\d+(?:-[\w.]+)?$",
    r"^[\p{L}\p{M}' -]{1,60}$", r"^\p{Lu}\p{Ll}+$", r"^(?i)(yes|no)$", r"\bTODO\b",
    r"^(?<year>\d{4})-(?<month>0[1-9]|1[0-2])$", r"^[^/\\:*?\"<>|]{1,80}$", r"^/(?!/)[\w./-]*$",
    r"^(?!.*--)[a-z][a-z0-9-]{1,30}[a-z0-9]$", r"^(?!(?:con|prn|nul)$)[a-z]{3,8}$",
    r"^[a-zA-Z_$][\w$]*$", r"^(GET|POST|PUT|DELETE)$", r"^https?://[^\s/$.?#][^\s]*$",
    r"^[가-힣]{2,5}$", r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$", r"^s3://[a-z0-9.-]{3,63}/.+$",
    r"^[\w.-]+@[\w-]+\.\w{2,}$", r"^(?=[a-z0-9-]{3,20}$)[a-z]+(?:-[a-z0-9]+)*$", r"^v?\d+(\.\d+){0,2}$",
    r"^(?:(?!--).)*$", r"^[A-Za-z]:\\(?:[^\\]+\\)*[^\\]*$", r"^(?=.*x)[x-z]{3,6}$", r"^[\s\S]{1,200}$"]


def name(i):
    return NAMES[i % len(NAMES)] + ("" if i < len(NAMES) else str(i // len(NAMES)))


def title(text):
    return text.replace("_", " ").title()


def texts():
    return R.choice([
        {"type": "string"}, {"type": "string"}, {"type": "string", "minLength": 1},
        {"type": "string", "maxLength": R.choice([20, 50, 100, 255, 1000, 10000, 65536])},
        {"type": "string", "minLength": 1, "maxLength": R.choice([3, 64, 255, 2000])},
        {"type": "string", "pattern": R.choice(TEXT_PATTERNS)},
        {"type": "string", "enum": R.choice([["a", "b"], ["draft", "published", "archived"],
                                             ["low", "medium", "high", "urgent"], ["", "한국", "é\n"]])}])


def pydantic_field(depth):
    f = R.choice([
        texts, texts,
        lambda: {"type": "integer"}, lambda: {"type": "number"}, lambda: {"type": "boolean"},
        lambda: {"type": "integer", "minimum": 0, "maximum": R.choice([5, 100, 65535])},
        lambda: {"type": "number", "exclusiveMinimum": 0}, lambda: {"type": "integer", "multipleOf": 5},
        lambda: {"format": R.choice(["date-time", "date", "time", "duration", "uuid", "uuid4", "email",
                                     "path", "file-path", "binary", "ipv4", "ipv6", "ipvanyaddress",
                                     "json-string", "password"]), "type": "string"},
        lambda: {"format": "uri", "maxLength": 2083, "minLength": 1, "type": "string"},
        lambda: {"anyOf": [{"type": "number"}, {"pattern": DECIMAL, "type": "string"}]},
        lambda: {"items": {"type": "string"}, "type": "array"},
        lambda: {"items": {"type": "string"}, "type": "array", "uniqueItems": True},
        lambda: {"items": {"type": "integer"}, "minItems": 1, "type": "array", "uniqueItems": True},
        lambda: {"items": {"$ref": "#/$defs/Color"}, "type": "array", "uniqueItems": True},
        lambda: {"items": {"type": "string"}, "maxItems": R.choice([3, 100, 1000]), "type": "array"},
        lambda: {"additionalProperties": {"type": R.choice(["string", "integer", "number"])},
                 "type": "object"},
        lambda: {"additionalProperties": True, "type": "object"}, lambda: {},
        lambda: {"$ref": "#/$defs/Color"}, lambda: {"$ref": "#/$defs/Child"},
        lambda: {"items": {"$ref": "#/$defs/Child"}, "type": "array"},
        lambda: {"allOf": [{"$ref": "#/$defs/Color"}], "default": "red"},
        lambda: {"maxItems": 2, "minItems": 2, "type": "array",
                 "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        lambda: {"const": "v1", "type": "string"}, lambda: {"enum": [1, "a", None, True]},
        lambda: {"propertyNames": {"enum": ["x", "y"]}, "type": "object",
                 "additionalProperties": {"type": "integer"}},
        lambda: {"patternProperties": {"^[a-z]+$": {"type": "integer"}}, "type": "object"},
        lambda: {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"},
                                   "propertyName": "pet"},
                 "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
        lambda: {"contentEncoding": "base64", "contentMediaType": "application/octet-stream",
                 "type": "string", "format": "base64"}])()
    if R.random() < 0.3 and f:
        f = {"anyOf": [f, {"type": "null"}], "default": None}
    return f


def pydantic(i):
    names = [name(k) for k in R.sample(range(len(NAMES)), R.randint(2, 9))]
    properties = {}
    for n in names:
        f = pydantic_field(0)
        if "$ref" not in f:
            f = {**f, "title": title(n)}
        if R.random() < 0.3:
            f["description"] = "The " + n + " of it."
        properties[n] = f
    out = {"properties": properties, "title": "Model%d" % i, "type": "object"}
    required = [n for n in names if R.random() < 0.6]
    if required:
        out["required"] = required
    if R.random() < 0.3:
        out["additionalProperties"] = False
    used = json.dumps(properties)
    defs = {"Color": {"enum": ["red", "green", "blue"], "title": "Color", "type": "string"},
            "Child": {"properties": {"name": {"title": "Name", "type": "string"},
                                     "children": {"items": {"$ref": "#/$defs/Child"}, "type": "array"}},
                      "required": ["name"], "title": "Child", "type": "object"},
            "Cat": {"properties": {"pet": {"const": "cat", "type": "string"},
                                   "lives": {"type": "integer"}},
                    "required": ["pet", "lives"], "type": "object"},
            "Dog": {"properties": {"pet": {"const": "dog", "type": "string"},
                                   "good": {"default": True, "type": "boolean"}},
                    "required": ["pet"], "type": "object"}}
    defs = {k: v for k, v in defs.items() if "#/$defs/" + k in used}
    return {"$defs": defs, **out} if defs else out


def zod_field():
    return R.choice([
        texts, texts, lambda: {"type": "number"}, lambda: {"type": "boolean"},
        lambda: {"type": "integer", "minimum": -SAFE, "maximum": SAFE},
        lambda: {"type": "integer", "exclusiveMinimum": 0, "maximum": SAFE},
        lambda: {"type": "number", "minimum": 0, "maximum": 1},
        lambda: {"type": "string", "format": "email", "pattern": EMAIL},
        lambda: {"type": "string", "format": "uuid", "pattern": UUID},
        lambda: {"type": "string", "format": "date-time",
                 "pattern": "^" + DATE + "T(?:" + TIME + "(?:Z))$"},
        lambda: {"type": "string", "format": "date", "pattern": "^" + DATE + "$"},
        lambda: {"type": "string", "format": "time", "pattern": "^" + TIME + "$"},
        lambda: {"type": "string", "format": "duration", "pattern": DURATION},
        lambda: {"type": "string", "format": "ipv4", "pattern": IPV4},
        lambda: {"type": "string", "format": "ipv6", "pattern": IPV6},
        lambda: {"type": "string", "format": "base64", "contentEncoding": "base64", "pattern": BASE64},
        lambda: {"type": "string", "format": "cuid", "pattern": r"^[cC][^\s-]{8,}$"},
        lambda: {"type": "string", "format": "cuid2", "pattern": "^[0-9a-z]+$"},
        lambda: {"type": "string", "format": "ulid", "pattern": "^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"},
        lambda: {"type": "string", "format": "nanoid", "pattern": "^[a-zA-Z0-9_-]{21}$"},
        lambda: {"type": "string", "format": "jwt"}, lambda: {"type": "string", "format": "uri"},
        lambda: {"type": "string", "format": "hostname", "pattern": HOST},
        lambda: {"type": "string", "format": "e164", "pattern": r"^\+(?:[0-9]){6,14}[0-9]$"},
        lambda: {"type": ["string", "null"]}, lambda: {"anyOf": [texts(), {"type": "null"}]},
        lambda: {"type": "array", "items": zod_field()},
        lambda: {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5},
        lambda: {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "minItems": 2,
                 "maxItems": 2},
        lambda: {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
        lambda: {"type": "object", "propertyNames": {"type": "string"},
                 "additionalProperties": {"type": "number"}},
        lambda: {"type": "object", "additionalProperties": {}},
        lambda: {"anyOf": [{"type": "string", "const": "auto"}, {"type": "number"}]},
        lambda: {"type": "string", "const": "fixed"}, lambda: {"not": {}} if False else {},
        lambda: zod_object(R.randint(1, 3), False)])()


def zod_object(n, root):
    names = R.sample(NAMES, n)
    out = {"type": "object", "properties": {k: zod_field() for k in names}}
    required = [k for k in names if R.random() < 0.7]
    if required:
        out["required"] = required
    out["additionalProperties"] = False
    if root:
        out["$schema"] = R.choice(["http://json-schema.org/draft-07/schema#",
                                   "https://json-schema.org/draft/2020-12/schema"])
        if "2020" in out["$schema"]:
            out = json.loads(json.dumps(out).replace('"items": [', '"prefixItems": ['))
        else:
            out = json.loads(json.dumps(out).replace('"prefixItems": [', '"items": ['))
    return out


def api_field():
    return R.choice([
        texts, texts, lambda: {"type": "string", "nullable": True},
        lambda: {"type": "integer", "format": R.choice(["int32", "int64"])},
        lambda: {"type": "number", "format": R.choice(["double", "float", "decimal"])},
        lambda: {"type": "boolean", "example": True},
        lambda: {"type": "string", "format": R.choice(["date-time", "date", "uuid", "byte", "binary",
                                                       "uri", "password", "time-span", "email"])},
        lambda: {"type": "string", "maxLength": 255, "minLength": 0, "example": "x"},
        lambda: {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        lambda: {"type": "array", "items": {"$ref": "#/components/schemas/Tag"}},
        lambda: {"$ref": "#/components/schemas/Tag"},
        lambda: {"type": "object", "additionalProperties": {"type": "object"}},
        lambda: {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True},
        lambda: {"allOf": [{"$ref": "#/components/schemas/Tag"}], "nullable": True},
        lambda: {"type": "string", "enum": ["ACTIVE", "INACTIVE"], "xml": {"attribute": True}},
        lambda: {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        lambda: {"type": "integer", "readOnly": True, "x-faker": "n"},
        lambda: {"oneOf": [{"type": "string"}, {"type": "integer"}], "externalDocs": {"url": "u"}}])()


def openapi(i):
    names = R.sample(NAMES, R.randint(2, 8))
    out = {"type": "object", "properties": {k: api_field() for k in names}}
    required = sorted(k for k in names if R.random() < 0.5)
    if required:
        out["required"] = required
    if i % 3 == 0:
        out["additionalProperties"] = False
    if i % 7 == 0:
        out = {"allOf": [{"$ref": "#/components/schemas/Base"}, out]}
    used = json.dumps(out)
    parts = {"Tag": {"type": "object", "properties": {"id": {"type": "integer", "format": "int64"},
                                                      "label": {"type": "string"}},
                     "required": ["label"], "xml": {"name": "tag"}},
             "Base": {"type": "object", "properties": {"self": {"type": "string", "format": "uri"}},
                      "discriminator": {"propertyName": "self"}}}
    parts = {k: v for k, v in parts.items() if "/" + k in used}
    if parts:
        out["components"] = {"schemas": parts}
    return out


def write(file, rows):
    with open(file, "w", encoding="utf-8") as out:
        for kind, row, schema in rows:
            line = {"kind": kind, "name": row, "schema": schema}
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


write("models.jsonl",
      [("pydantic", "model %d" % i, pydantic(i)) for i in range(130)] +
      [("zod", "object %d" % i, zod_object(R.randint(2, 7), True)) for i in range(120)] +
      [(("FastAPI", "springdoc", "NSwag")[i % 3], "component %d" % i, openapi(i)) for i in range(90)])
write("patterns.jsonl", [("pattern", p, {"type": "object", "properties": {"value": {
    "type": "string", "pattern": p}}, "required": ["value"]})
    for p in TEXT_PATTERNS + [EMAIL, UUID, DURATION, IPV4, IPV6, BASE64, DECIMAL, HOST]])
write("tools.jsonl", MCP + AGENTS + SLOPPY + STANDARD)
