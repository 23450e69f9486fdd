"""Schemas written out by hand: tools as servers and agents describe them, what careless clients send,
and the less used keywords of the standard."""

DRAFT7 = "http://json-schema.org/draft-07/schema#"


def tool(kind, title, required, /, closed=True, **properties):
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    if closed:
        schema["additionalProperties"] = False
        schema["$schema"] = DRAFT7
    return (kind, title, schema)


def s(text="", /, **more):
    return {"type": "string", **({"description": text} if text else {}), **more}


def n(text="", /, **more):
    return {"type": "number", **({"description": text} if text else {}), **more}


def i(**more):
    return {"type": "integer", **more}


def b(**more):
    return {"type": "boolean", **more}


def a(items, /, **more):
    return {"type": "array", "items": items, **more}


def o(required="", /, **properties):
    return {"type": "object", "properties": properties, "required": required.split()}


def fs(title, required, /, **p):
    return tool("MCP filesystem", title, required, **p)


def git(title, required, /, **p):
    return tool("MCP git", title, required, closed=False, **p)


def hub(title, required, /, **p):
    return tool("MCP github", title, required, **p)


def play(title, required, /, **p):
    return tool("MCP playwright", title, required, **p)


def slack(title, required, /, **p):
    return tool("MCP slack", title, required, closed=False, **p)


ELEMENT = {"element": s("Human-readable element description"), "ref": s("Exact target element")}
EDIT = o("oldText newText", oldText=s("Text to search for"), newText=s("Text to replace with"))
PAGE = {"page": n("Page number", minimum=1), "perPage": n("Results per page", minimum=1, maximum=100)}
REPO = {"owner": s("Repository owner"), "repo": s("Repository name")}

MCP = [
    fs("read_text_file", "path", path=s(), tail=n("Last N lines"), head=n("First N lines")),
    fs("read_multiple_files", "paths", paths=a(s(), minItems=1)),
    fs("write_file", "path content", path=s(), content=s()),
    fs("edit_file", "path edits", path=s(), edits=a({**EDIT, "additionalProperties": False}),
       dryRun=b(default=False)),
    fs("list_directory_with_sizes", "path", path=s(),
       sortBy=s(enum=["name", "size"], default="name")),
    fs("search_files", "path pattern", path=s(), pattern=s(), excludePatterns=a(s(), default=[])),
    fs("list_allowed_directories", ""),
    git("git_status", "repo_path", repo_path=s(title="Repo Path")),
    git("git_add", "repo_path files", repo_path=s(title="Repo Path"), files=a(s(), title="Files")),
    git("git_log", "repo_path", repo_path=s(), max_count=i(default=10, title="Max Count"),
        start_timestamp={"anyOf": [s(), {"type": "null"}], "default": None},
        end_timestamp={"anyOf": [s(), {"type": "null"}], "default": None}),
    git("git_commit", "repo_path message", repo_path=s(), message=s()),
    git("git_diff", "repo_path target", repo_path=s(), target=s(), context_lines=i(default=3)),
    git("git_branch", "repo_path branch_type", repo_path=s(), branch_type=s(),
        contains={"anyOf": [s(), {"type": "null"}], "default": None}),
    hub("create_or_update_file", "owner repo path content message branch", **REPO, path=s(),
        content=s(), message=s(), branch=s(), sha=s()),
    hub("search_repositories", "query", query=s(), **PAGE),
    hub("push_files", "owner repo branch files message", **REPO, branch=s(), message=s(),
        files=a({**o("path content", path=s(), content=s()), "additionalProperties": False})),
    hub("create_issue", "owner repo title", **REPO, title=s(), body=s(maxLength=65536),
        assignees=a(s()), milestone=n(), labels=a(s())),
    hub("list_issues", "owner repo", **REPO, direction=s(enum=["asc", "desc"]), labels=a(s()),
        since=s(), sort=s(enum=["created", "updated", "comments"]),
        state=s(enum=["open", "closed", "all"]), **PAGE),
    hub("create_pull_request_review", "owner repo pull_number body event", **REPO,
        pull_number=n(), body=s(), event=s(enum=["APPROVE", "REQUEST_CHANGES", "COMMENT"]),
        comments=a({"anyOf": [
            {**o("path position body", path=s(), position=n(), body=s()),
             "additionalProperties": False},
            {**o("path line body", path=s(), line=n(), body=s()), "additionalProperties": False}]})),
    hub("merge_pull_request", "owner repo pull_number", **REPO, pull_number=n(),
        commit_title=s(), merge_method=s(enum=["merge", "squash", "rebase"])),
    hub("search_code", "q", q=s(), order=s(enum=["asc", "desc"]), page={"type": "number",
        "minimum": 1}, per_page={"type": "number", "minimum": 1, "maximum": 100}),
    hub("actions_run_trigger", "method owner repo", **REPO, method=s(
        enum=["run_workflow", "rerun_workflow_run", "cancel_workflow_run"]), run_id=n(),
        inputs={"type": "object", "additionalProperties": True}),
    play("browser_navigate", "url", url=s()),
    play("browser_click", "element ref", **ELEMENT, doubleClick=b(),
         button=s(enum=["left", "right", "middle"]),
         modifiers=a(s(enum=["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]))),
    play("browser_type", "element ref text", **ELEMENT, text=s(), submit=b(), slowly=b()),
    play("browser_select_option", "element ref values", **ELEMENT, values=a(s())),
    play("browser_fill_form", "fields", fields=a({**o("name type ref value", name=s(), ref=s(),
         type=s(enum=["textbox", "checkbox", "radio", "combobox", "slider"]), value=s()),
         "additionalProperties": False})),
    play("browser_take_screenshot", "", type=s(enum=["png", "jpeg"], default="png"), fullPage=b(),
         filename=s(), **ELEMENT),
    play("browser_tabs", "action", action=s(enum=["list", "new", "close", "select"]), index=n()),
    play("browser_resize", "width height", width=n(), height=n()),
    play("browser_close", ""),
    slack("slack_post_message", "channel_id text", channel_id=s(), text=s()),
    slack("slack_list_channels", "", limit=n(default=100), cursor=s()),
    slack("slack_reply_to_thread", "channel_id thread_ts text", channel_id=s(),
          thread_ts=s("in the format '1234567890.123456'", pattern=r"^\d{10}\.\d{6}$"), text=s()),
    slack("slack_get_channel_history", "channel_id", channel_id=s(), limit=n(default=10)),
    tool("MCP fetch", "fetch", "url", closed=False, url=s(format="uri", minLength=1, title="Url"),
         max_length=i(default=5000, exclusiveMaximum=1000000, exclusiveMinimum=0),
         start_index=i(default=0, minimum=0), raw=b(default=False)),
    tool("MCP memory", "create_entities", "entities", entities=a({**o(
        "name entityType observations", name=s(), entityType=s(), observations=a(s())),
        "additionalProperties": False})),
    tool("MCP memory", "delete_relations", "relations", relations=a(o(
        "from to relationType", **{"from": s(), "to": s(), "relationType": s()}))),
    tool("MCP sequential-thinking", "sequentialthinking",
         "thought nextThoughtNeeded thoughtNumber totalThoughts", thought=s(),
         nextThoughtNeeded=b(), thoughtNumber=i(minimum=1), totalThoughts=i(minimum=1),
         isRevision=b(), revisesThought=i(minimum=1), branchId=s()),
    tool("MCP time", "convert_time", "source_timezone time target_timezone", closed=False,
         source_timezone=s(), time=s(pattern=r"^([01]?\d|2[0-3]):[0-5]\d$"), target_timezone=s()),
    tool("MCP postgres", "query", "sql", closed=False, sql=s()),
    tool("MCP sqlite", "append_insight", "insight", closed=False, insight=s(minLength=3)),
    tool("MCP brave-search", "brave_web_search", "query", closed=False, query=s(maxLength=400),
         count=n(minimum=1, maximum=20, default=10), offset=n(minimum=0, maximum=9),
         freshness={"anyOf": [s(enum=["pd", "pw", "pm", "py"]), s(
             pattern=r"^\d{4}-\d{2}-\d{2}to\d{4}-\d{2}-\d{2}$")]}),
    tool("MCP notion", "post-page", "parent properties", parent={"oneOf": [
        o("page_id", page_id=s(format="uuid")), o("database_id", database_id=s(format="uuid"))]},
        properties={"type": "object", "additionalProperties": True},
        icon=s(format="json"), cover=s(format="json")),
    tool("MCP firecrawl", "firecrawl_scrape", "url", url=s(format="uri"), formats=a({"anyOf": [
        s(enum=["markdown", "html", "rawHtml", "screenshot", "links"]), {**o("type", type=s(
            const="json"), prompt=s(maxLength=10000), schema={"type": "object",
            "additionalProperties": {}}), "additionalProperties": False}]}, uniqueItems=False),
        onlyMainContent=b(), waitFor=n(), mobile=b(), maxAge=n(), proxy=s(
            enum=["basic", "stealth", "auto"]), location=o("", country=s(), languages=a(s()))),
    tool("MCP linear", "create_issue", "title team", title=s(maxLength=255), team=s(),
         description=s(maxLength=100000), priority=n(minimum=0, maximum=4), dueDate=s(format="date"),
         labelIds=a(s(format="uuid"), uniqueItems=True), estimate=i(minimum=0)),
    tool("MCP sentry", "search_events", "organizationSlug naturalLanguageQuery",
         organizationSlug=s(), regionUrl={"anyOf": [s(format="uri"), {"type": "null"}],
                                          "default": None},
         naturalLanguageQuery=s(minLength=1), limit=n(minimum=1, maximum=100, default=10)),
    tool("MCP gmail", "send_email", "to subject body", to=a(s(format="email")), subject=s(),
         body=s(), cc=a(s(format="email")), mimeType=s(enum=["text/plain", "text/html"]),
         attachments=a(s())),
    tool("MCP calendar", "create-event", "calendarId summary start end", calendarId=s(),
         summary=s(), start=s(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$"),
         end={"anyOf": [s(pattern=r"^\d{4}-\d{2}-\d{2}$"), s(format="date-time")]},
         attendees=a(o("email", email=s(format="email"))), colorId=s(pattern=r"^(?:[1-9]|1[01])$"),
         reminders=o("useDefault", useDefault=b(), overrides=a(o("method minutes", method=s(
             enum=["email", "popup"]), minutes=n())))),
    tool("MCP kubernetes", "kubectl_scale", "name replicas", name=s(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength=253), namespace=s(default="default"),
        replicas=n(), resourceType=s(enum=["deployment", "replicaset", "statefulset"])),
    tool("MCP figma", "get_figma_data", "fileKey", fileKey=s(pattern=r"^[a-zA-Z0-9]+$"),
         nodeId=s(pattern=r"^I?\d+[:|-]\d+(?:;\d+[:|-]\d+)*$"), depth=n()),
]


def code(title, required, /, **p):
    return tool("Claude Code", title, required, **p)


AGENTS = [
    code("Bash", "command", command=s(), timeout=n(maximum=600000), description=s(),
         run_in_background=b()),
    code("Edit", "file_path old_string new_string", file_path=s(), old_string=s(), new_string=s(),
         replace_all=b(default=False)),
    code("MultiEdit", "file_path edits", file_path=s(), edits=a({**o("old_string new_string",
         old_string=s(), new_string=s(), replace_all=b(default=False)),
         "additionalProperties": False}, minItems=1)),
    code("Grep", "pattern", pattern=s(), path=s(), glob=s(), output_mode=s(enum=[
        "content", "files_with_matches", "count"]), **{"-A": n(), "-B": n(), "-i": b(), "-n": b()},
        type=s(), head_limit=n(), multiline=b()),
    code("TodoWrite", "todos", todos=a({**o("content status activeForm", content=s(minLength=1),
         status=s(enum=["pending", "in_progress", "completed"]), activeForm=s(minLength=1)),
         "additionalProperties": False})),
    code("WebSearch", "query", query=s(minLength=2), allowed_domains=a(s()), blocked_domains=a(s())),
    code("WebFetch", "url prompt", url=s(format="uri"), prompt=s()),
    code("NotebookEdit", "notebook_path new_source", notebook_path=s(), cell_id=s(), new_source=s(),
         cell_type=s(enum=["code", "markdown"]), edit_mode=s(enum=["replace", "insert", "delete"])),
    code("AskUserQuestion", "questions", questions=a({**o("question header options multiSelect",
         question=s(), header=s(), multiSelect=b(default=False), options=a({**o("label description",
         label=s(), description=s()), "additionalProperties": False}, minItems=2, maxItems=4)),
         "additionalProperties": False}, minItems=1, maxItems=4),
         answers={"type": "object", "additionalProperties": {"type": "string"}}),
    code("Task", "description prompt subagent_type", description=s(), prompt=s(), subagent_type=s(),
         model=s(enum=["sonnet", "opus", "haiku"]), resume=s()),
    tool("Codex", "shell", "command", command=a(s()), workdir=s(), timeout_ms=n(),
         with_escalated_permissions=b(), justification=s()),
    tool("Codex", "update_plan", "plan", explanation=s(), plan=a({**o("step status", step=s(),
         status=s("One of: pending, in_progress, completed")), "additionalProperties": False})),
    tool("Codex", "apply_patch", "input", input=s()),
    tool("Codex", "view_image", "path", path=s()),
    tool("Cline", "replace_in_file", "path diff", closed=False, path=s(), diff=s()),
    tool("Cline", "ask_followup_question", "question", closed=False, question=s(),
         options=a(s(), minItems=2, maxItems=5)),
    tool("Cline", "use_mcp_tool", "server_name tool_name arguments", closed=False, server_name=s(),
         tool_name=s(), arguments={"type": "object"}),
    tool("opencode", "read", "filePath", filePath=s(), offset={"type": "number"}, limit=n()),
    tool("opencode", "patch", "patchText", patchText=s()),
    tool("opencode", "webfetch", "url format", url=s(), format=s(enum=["text", "markdown", "html"]),
         timeout=n(maximum=120)),
    tool("opencode", "todowrite", "todos", todos=a({**o("content status priority id", content=s(),
         status=s(), priority=s(), id=s()), "additionalProperties": False})),
    tool("VS Code", "copilot_findFiles", "query", closed=False, query=s(), maxResults=n()),
    tool("VS Code", "copilot_replaceString", "filePath oldString newString", closed=False,
         filePath=s(), oldString=s(), newString=s()),
    tool("VS Code", "run_in_terminal", "command explanation isBackground", closed=False,
         command=s(), explanation=s(), isBackground=b()),
    tool("VS Code", "copilot_readFile", "filePath startLine endLine", closed=False, filePath=s(),
         startLine=n(), endLine=n()),
    tool("VS Code", "manage_todo_list", "operation", closed=False, operation=s(
        enum=["write", "read"]), todoList=a(o("id title description status", id=n(), title=s(),
        description=s(), status=s(enum=["not-started", "in-progress", "completed"])))),
    tool("Zed", "grep", "regex", closed=False, regex=s(), include_pattern={"type": ["string", "null"]},
         offset=i(minimum=0, default=0, format="uint32"), case_sensitive=b(default=False)),
    tool("Zed", "find_path", "glob", closed=False, glob=s(), offset=i(format="uint", minimum=0)),
    tool("Goose", "text_editor", "command path", closed=False, command=s(enum=[
        "view", "write", "str_replace", "insert", "undo_edit"]), path=s(),
        view_range=a(i(), minItems=2, maxItems=2), insert_line=i(format="int64")),
    tool("Home Assistant", "HassTurnOn", "", closed=False, name=s(), area=s(), floor=s(),
         domain=a(s()), device_class=a(s(enum=["blind", "curtain", "garage", "shutter"])),
         brightness=i(minimum=0, maximum=100)),
    ("LangChain", "Joke", {"title": "Joke", "description": "d", "type": "object", "properties": {
        "setup": s(title="Setup"), "punchline": s(title="Punchline"), "rating": {
            "anyOf": [i(), {"type": "null"}], "default": None}}, "required": ["setup", "punchline"]}),
    ("OpenAI", "math_reasoning", {"type": "object", "properties": {"steps": a({**o(
        "explanation output", explanation=s(), output=s()), "additionalProperties": False}),
        "final_answer": s()}, "required": ["steps", "final_answer"], "additionalProperties": False}),
    ("OpenAI", "ui", {"$defs": {"node": {"type": "object", "properties": {
        "type": s(enum=["div", "button", "header", "form"]), "label": s(),
        "children": a({"$ref": "#/$defs/node"}), "attributes": a({**o("name value", name=s(),
        value=s()), "additionalProperties": False})}, "required": ["type", "label", "children",
        "attributes"], "additionalProperties": False}}, "$ref": "#/$defs/node"}),
    ("OpenAI", "linked list", {"type": "object", "properties": {"linked_list": {
        "$ref": "#/$defs/n"}}, "required": ["linked_list"], "additionalProperties": False, "$defs": {
        "n": {**o("value next", value=n(), next={"anyOf": [{"$ref": "#/$defs/n"}, {
            "type": "null"}]}), "additionalProperties": False}}}),
]

SLOPPY = [("careless", name, schema) for name, schema in [
    ("properties null", {"type": "object", "properties": None, "required": None}),
    ("type empty", {"type": "", "properties": {"a": {"type": ""}}}),
    ("enum null", {"type": "object", "properties": {"a": {"type": "string", "enum": None}}}),
    ("all null", {"type": "string", "minLength": None, "pattern": None, "format": None, "$ref": None,
                  "anyOf": None, "items": None, "additionalProperties": None}),
    ("properties list", {"type": "object", "properties": []}),
    ("type any", {"type": "object", "properties": {"a": {"type": "any"}}}),
    ("types of Gemini", {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {
        "type": "ARRAY", "items": {"type": "INTEGER"}}}, "required": ["a"]}),
    ("types of Python", {"type": "dict", "properties": {"a": {"type": "str"}, "b": {"type": "int"},
                                                        "c": {"type": "float"}}}),
    ("required true", {"type": "object", "properties": {"a": {"type": "string", "required": True},
                                                        "b": {"type": "string", "required": False}}}),
    ("numbers as text", {"type": "integer", "minimum": "1", "maximum": "5"}),
    ("counts as floats", {"type": "string", "minLength": 1.0, "maxLength": 3.0}),
    ("unknown keywords", {"type": "object", "properties": {"a": {"type": "string", "widget": "x",
                          "ui:order": [1], "options": {"b": 1}, "optional": True}}, "strict": True}),
    ("unknown formats", {"type": "object", "properties": {
        k.replace("-", "_"): s(format=k) for k in ("color", "phone", "credit-card", "html", "markdown",
                                                   "ipv4network", "semver", "textarea")}}),
    ("mixed enum", {"enum": ["a", 1, None, True, 1.5, {"k": [1]}, []]}),
    ("type list of one", {"type": ["object"], "properties": {"a": {"type": ["string"]}}}),
    ("empty", {}), ("object alone", {"type": "object"}), ("array alone", {"type": "array"}),
    ("nothing required", {"type": "object", "properties": {}, "required": []}),
    ("no type", {"properties": {"a": i()}, "required": ["a"]}),
    ("not listed", {"type": "object", "required": ["ghost"], "properties": {"a": i()}}),
]]


def obj(**p):
    return {"type": "object", "properties": p, "required": list(p)}


STANDARD = [("JSON Schema", name, schema) for name, schema in [
    ("$id and $anchor", {"$id": "https://x.example/s", "$defs": {"n": {"$anchor": "num", **i()}},
                         **obj(a={"$ref": "#num"}, b={"$ref": "https://x.example/s#/$defs/n"})}),
    ("$id inside", {"$id": "https://x.example/root", "$defs": {"p": {"$id": "person", "$defs": {
        "n": s(maxLength=5)}, **obj(name={"$ref": "#/$defs/n"})}}, **obj(p={"$ref": "person"})}),
    ("draft 7 anchor", {"$schema": DRAFT7, "definitions": {"n": {"$id": "#num", **i()}},
                        **obj(a={"$ref": "#num"})}),
    ("$dynamicRef", {"$dynamicAnchor": "node", **obj(c=a({"$dynamicRef": "#node"}, maxItems=2))}),
    ("$recursiveRef", {"$schema": "https://json-schema.org/draft/2019-09/schema",
                       "$recursiveAnchor": True, "type": "object",
                       "properties": {"c": {"$recursiveRef": "#"}}}),
    ("escaped refs", {"$defs": {"a/b": i(), "c d": b(), "e~f": {"const": None}}, **obj(
        x={"$ref": "#/$defs/a~1b"}, y={"$ref": "#/$defs/c%20d"}, z={"$ref": "#/$defs/e~0f"})}),
    ("unevaluatedProperties", {**obj(a=i()), "allOf": [{"properties": {"b": s()}}],
                               "unevaluatedProperties": False}),
    ("unevaluatedProperties schema", {"allOf": [obj(a=i())], "unevaluatedProperties": i()}),
    ("unevaluatedItems", {"type": "array", "prefixItems": [i(), s()], "unevaluatedItems": False}),
    ("dependencies", {"$schema": DRAFT7, "type": "object", "properties": {"a": i(), "b": i(),
                      "c": i()}, "dependencies": {"a": ["b"], "c": {"required": ["a"]}}}),
    ("dependentRequired", {"type": "object", "properties": {"card": s(), "zip": s()},
                           "dependentRequired": {"card": ["zip"]}}),
    ("dependentSchemas", {"type": "object", "properties": {"card": s(), "zip": s()},
                          "dependentSchemas": {"card": {"required": ["zip"]}}}),
    ("if then else", {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": i(),
                      "y": i()}, "required": ["kind"], "if": {"properties": {"kind": {
                          "const": "a"}}}, "then": {"required": ["x"]}, "else": {"required": ["y"]}}),
    ("contains", a(i(), contains={"minimum": 10}, minContains=1, maxContains=2, maxItems=4)),
    ("contains none", a(i(), contains={"const": 1}, minContains=0, maxContains=1)),
    ("unique enum", a({"enum": list("abcdefghijklmnop")}, uniqueItems=True, minItems=2, maxItems=5)),
    ("unique texts", a(s(), uniqueItems=True, minItems=2)),
    ("unique dates", a(s(format="date"), uniqueItems=True, minItems=1)),
    ("unique numbers", a(n(), uniqueItems=True, maxItems=3)),
    ("unique objects", a(obj(id=i(), name=s()), uniqueItems=True)),
    ("unique mixed", a({"type": ["string", "integer", "boolean", "null"]}, uniqueItems=True)),
    ("large counts", {"type": "object", "properties": {"a": s(maxLength=1000000), "b": s(
        minLength=300, maxLength=100000), "c": a(i(minimum=0, maximum=9), maxItems=100000), "d": s(
        pattern="^[a-z]+$", maxLength=5000)}}),
    ("long array", a(i(minimum=0, maximum=9), minItems=300, maxItems=3000)),
    ("formats", {"type": "object", "properties": {f.replace("-", "_"): s(format=f) for f in (
        "iri", "iri-reference", "uri-reference", "uri-template", "json-pointer", "regex",
        "relative-json-pointer", "idn-email", "idn-hostname", "hostname", "email", "duration")}}),
    ("propertyNames", {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"},
                       "additionalProperties": i(), "minProperties": 1}),
    ("patternProperties", {"type": "object", "patternProperties": {"^S_": s(maxLength=2),
                           "^I_": i()}, "additionalProperties": False, "maxProperties": 2}),
    ("allOf of refs", {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {
        "A": obj(a=b()), "B": obj(c=i())}}),
    ("oneOf of required", {"type": "object", "properties": {"a": i(), "b": i()}, "oneOf": [
        {"required": ["a"]}, {"required": ["b"]}], "additionalProperties": False}),
    ("not", {"type": ["integer", "null"], "not": {"type": "null"}}),
    ("content", s(contentMediaType="application/json", contentEncoding="base64", maxLength=8)),
    ("reference outside", {"$ref": "https://example.com/s.json"}),
    ("back reference", s(pattern=r"^(a|b)\1$")),
    ("two contains", {"allOf": [a(i(), contains={"const": 1}), {"contains": {"const": 2}}]}),
]]
