// Goal: a Go template and its translation write the same prompt, or the template is refused by
// name. Method: expected texts are derived by the rules of Go's text/template and of Ollama's
// documents (messages are joined by role, templates with .Prompt run turn by turn), and compared
// with what the translation writes when our Jinja runs it.
#include "shared/go_template/translate.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/jinja/chat_template.h"

namespace holdfast::go_template {
namespace {

/// System, user, assistant, user.
constexpr const char* kChat = R"([{"role":"system","content":"S"},{"role":"user","content":"A"},
  {"role":"assistant","content":"B"},{"role":"user","content":"C"}])";
constexpr const char* kUser = R"([{"role":"user","content":"A"}])";

std::string render(std::string_view go, const std::string& messages = kUser,
                   const std::string& tools = "", const std::string& extra = "") {
  const auto jinja = to_jinja(go);
  if (!jinja) return "refused: " + jinja.error().what;
  const auto parsed = text::ChatTemplate::parse(*jinja);
  if (!parsed) return "parse: " + parsed.error().what + "\n" + *jinja;
  text::ChatInput input;
  input.messages_json = messages;
  input.tools_json = tools;
  input.extra_json = extra;
  input.date = "2026-01-15";
  const auto out = (*parsed)->render(input);
  return out ? *out : "render: " + out.error().what + "\n" + *jinja;
}

/// Renders an item that stands before the messages, which write nothing.
std::string item(std::string_view go, const std::string& messages = kUser) {
  return render(std::string(go) + "{{ range .Messages }}{{ end }}", messages);
}

TEST(GoTemplate, TextsAndTrims_WhenRendered_AreThoseOfGo) {
  EXPECT_EQ(item("a b\n  c"), "a b\n  c");
  EXPECT_EQ(item("a \n {{- \"x\" -}} \t\n b"), "axb");
  EXPECT_EQ(item("a {{ \"x\" }} b"), "a x b");
  EXPECT_EQ(item("a {{/* note }} */}} b"), "a  b");
  EXPECT_EQ(item("a {{- /* note */ -}} b"), "ab");
  EXPECT_EQ(item("{% x %} {# y #} \\ \" ' \xE2\x80\xA8"), "{% x %} {# y #} \\ \" ' \xE2\x80\xA8");
  EXPECT_EQ(item("{{-3}}"), "-3");
  EXPECT_EQ(item("}} { { "), "}} { { ");
}

TEST(GoTemplate, Literals_WhenPrinted_AreTheirValues) {
  EXPECT_EQ(item(R"({{ "a\n\t\"\\\u00e9\x41" }})"),
            "a\n\t\"\\\xC3\xA9"
            "A");
  EXPECT_EQ(item("{{ `raw \\n \"x\"` }}"), "raw \\n \"x\"");
  EXPECT_EQ(item("{{ 42 }}{{ true }}{{ false }}"), "42truefalse");
  EXPECT_EQ(item("{{ \"}}\" }}"), "}}");
}

TEST(GoTemplate, Conditions_WhenNestedAndChained_TakeTheBranchOfGo) {
  EXPECT_EQ(item("{{ if .System }}s{{ else }}n{{ end }}"), "n");
  EXPECT_EQ(item("{{ if .System }}s{{ else }}n{{ end }}", kChat), "s");
  EXPECT_EQ(
      item("{{ if eq .System \"x\" }}1{{ else if eq .System \"S\" }}2{{ else }}3{{ end }}", kChat),
      "2");
  EXPECT_EQ(item("{{ if false }}1{{ else if true }}2{{ end }}"), "2");
  EXPECT_EQ(item("{{ if 0 }}1{{ end }}{{ if \"\" }}2{{ end }}{{ if 1 }}3{{ end }}"), "3");
  EXPECT_EQ(item("{{ if .Tools }}t{{ end }}{{ if .Suffix }}{{ .Suffix }}{{ end }}-"), "-");
}

TEST(GoTemplate, Logic_WhenPrinted_GivesTheArgumentThatDecides) {
  EXPECT_EQ(item("{{ or \"\" \"b\" \"c\" }}{{ and \"a\" \"b\" }}{{ and \"\" \"b\" }}"), "bb");
  EXPECT_EQ(item("{{ not true }}{{ not \"\" }}"), "falsetrue");
  EXPECT_EQ(item("{{ if and .System (not .Tools) }}y{{ end }}", kChat), "y");
  EXPECT_EQ(item("{{ if or .Tools .System }}y{{ else }}n{{ end }}"), "n");
  EXPECT_EQ(item("{{ if and (eq 1 1) (ne 1 2) (lt 1 2) (le 2 2) (gt 2 1) (ge 2 2) }}y{{ end }}"),
            "y");
  EXPECT_EQ(item("{{ eq 3 1 2 3 }}{{ eq \"a\" \"b\" \"c\" }}"), "truefalse");
}

TEST(GoTemplate, Pipelines_WhenPiped_PassTheLastArgument) {
  EXPECT_EQ(item("{{ 2 | eq 2 }}{{ \"a\" | printf \"%s-%s\" \"b\" }}"), "trueb-a");
  EXPECT_EQ(item("{{ printf \"%d%%:%v\" 7 \"x\" }}"), "7%:x");
  EXPECT_EQ(item("{{ (printf \"%s\" \"q\") | printf \"<%s>\" }}"), "<q>");
}

TEST(GoTemplate, Ranges_OverMessages_HaveIndexElementAndElse) {
  EXPECT_EQ(render("{{ range .Messages }}[{{ .Role }}:{{ .Content }}]{{ end }}", kChat),
            "[system:S][user:A][assistant:B][user:C]");
  EXPECT_EQ(
      render("{{ range $i, $m := .Messages }}{{ $i }}{{ $m.Content }}{{ .Role }},{{ end }}", kChat),
      "0Ssystem,1Auser,2Bassistant,3Cuser,");
  EXPECT_EQ(render("{{ range $m := .Messages }}{{ $m.Content }}{{ end }}", kChat), "SABC");
  EXPECT_EQ(
      render("{{ range .Messages }}{{ range .ToolCalls }}c{{ else }}-{{ end }}{{ end }}", kUser),
      "-");
  EXPECT_EQ(render("{{ range .Messages }}{{ if eq .Role \"assistant\" }}{{ break }}{{ end }}"
                   "{{ if eq .Role \"system\" }}{{ continue }}{{ end }}{{ .Content }}{{ end }}",
                   kChat),
            "A");
}

TEST(GoTemplate, LastMessage_ByLenAndSlice_IsFound) {
  constexpr const char* kTemplate =
      "{{- range $i, $_ := .Messages }}\n"
      "{{- $last := eq (len (slice $.Messages $i)) 1 }}"
      "<{{ .Role }}>{{ .Content }}{{ if not $last }}|{{ end }}\n"
      "{{- if and (ne .Role \"assistant\") $last }}<assistant>{{ end }}\n"
      "{{- end }}";
  EXPECT_EQ(render(kTemplate, kChat), "<system>S|<user>A|<assistant>B|<user>C<assistant>");
  EXPECT_EQ(render("{{ (index .Messages 1).Content }}{{ len .Messages }}", kChat), "A4");
  EXPECT_EQ(render("{{ range slice .Messages 1 3 }}{{ .Content }}{{ end }}", kChat), "AB");
}

TEST(GoTemplate, Variables_WhenAssignedInABlock_HaveTheValueOutside) {
  EXPECT_EQ(render("{{ $n := -1 }}{{ range $i, $m := .Messages }}{{ if eq .Role \"user\" }}"
                   "{{ $n = $i }}{{ end }}{{ end }}{{ $n }}",
                   kChat),
            "3");
  EXPECT_EQ(item("{{ $x := \"a\" }}{{ if true }}{{ $x := \"b\" }}{{ $x }}{{ end }}{{ $x }}"), "ba");
  EXPECT_EQ(item("{{ if $x := .System }}{{ $x }}{{ end }}", kChat), "S");
  EXPECT_EQ(
      item("{{ with .System }}<{{ . }}>{{ end }}{{ with .System }}{{ $.System }}{{ end }}", kChat),
      "<S>S");
  EXPECT_EQ(item("{{ with .System }}x{{ else }}none{{ end }}"), "none");
  EXPECT_EQ(item("{{ with $s := .System }}{{ $s }}{{ end }}", kChat), "S");
}

TEST(GoTemplate, Neighbours_OfOneRole_AreOneMessage) {
  constexpr const char* kTwice = R"([{"role":"system","content":"S"},
    {"role":"system","content":"T"},{"role":"user","content":"A"},{"role":"user","content":"B"},
    {"role":"tool","content":"1"},{"role":"tool","content":"2"}])";
  EXPECT_EQ(render("{{ .System }}!{{ range .Messages }}[{{ .Content }}]{{ end }}", kTwice),
            "S\n\nT![S\n\nT][A\n\nB][1][2]");
}

TEST(GoTemplate, ToolsAndCalls_WhenWritten_AreCompactJson) {
  constexpr const char* kTools = R"([{"type":"function","function":{"name":"f",
    "description":"a<b","parameters":{"type":"object","properties":{}}}}])";
  constexpr const char* kCalls = R"([{"role":"user","content":"A"},{"role":"assistant","content":"",
    "tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1,"y":"&"}}}]}])";
  EXPECT_EQ(render("{{ range .Tools }}{{ .Function.Name }}{{ end }}{{ range .Messages }}{{ end }}",
                   kUser, kTools),
            "f");
  EXPECT_EQ(render("{{ range $.Tools }}{{ json . }}{{ end }}{{ range .Messages }}{{ end }}", kUser,
                   kTools),
            R"({"type":"function","function":{"name":"f","description":"a\u003cb",)"
            R"("parameters":{"type":"object","properties":{}}}})");
  EXPECT_EQ(render("{{ range .Messages }}{{ range .ToolCalls }}{{ .Function.Name }} "
                   "{{ .Function.Arguments }}{{ end }}{{ end }}",
                   kCalls),
            R"(f {"x":1,"y":"\u0026"})");
  EXPECT_EQ(render("{{ if .Tools }}{{ .Tools }}{{ end }}{{ range .Messages }}{{ end }}"), "");
}

TEST(GoTemplate, Thinking_WhenSet_IsRead) {
  constexpr const char* kTemplate =
      "{{ if .IsThinkSet }}{{ if .Think }}on{{ else }}off{{ end }}{{ else }}unset{{ end }}"
      "{{ range .Messages }}{{ if .Thinking }}({{ .Thinking }}){{ end }}{{ end }}";
  EXPECT_EQ(render(kTemplate), "unset");
  EXPECT_EQ(render(kTemplate, kUser, "", R"({"enable_thinking":true})"), "on");
  EXPECT_EQ(render(kTemplate, kUser, "", R"({"enable_thinking":false})"), "off");
  EXPECT_EQ(render(kTemplate, R"([{"role":"assistant","content":"","reasoning_content":"t"}])"),
            "unset(t)");
}

TEST(GoTemplate, Turns_OfAnOlderTemplate_AreRunOneByOne) {
  constexpr const char* kTemplate =
      "{{ if .System }}<s>{{ .System }}</s>{{ end }}"
      "{{ if .Prompt }}<u>{{ .Prompt }}</u>{{ end }}<a>{{ .Response }}</a>";
  EXPECT_EQ(render(kTemplate), "<u>A</u><a>");
  EXPECT_EQ(render(kTemplate, kChat), "<s>S</s><u>A</u><a>B</a><u>C</u><a>");
  // A system message in the middle begins a turn.
  EXPECT_EQ(render(kTemplate, R"([{"role":"user","content":"A"},{"role":"system","content":"S"},
    {"role":"user","content":"B"}])"),
            "<u>A</u><a></a><s>S</s><u>B</u><a>");
  // An answer that has begun is gone on with.
  EXPECT_EQ(render(kTemplate, R"([{"role":"user","content":"A"},{"role":"assistant",
    "content":"B"}])"),
            "<u>A</u><a>B");
  EXPECT_EQ(render(kTemplate, R"([{"role":"user","content":"A"},{"role":"user","content":"B"}])"),
            "<u>A\n\nB</u><a>");
}

TEST(GoTemplate, ResponseInABlock_EndsTheLastTurnThere) {
  EXPECT_EQ(render("U:{{ .Prompt }}{{ if true }} A:{{ .Response }}<end>{{ end }}<after>", kChat),
            "U:A A:B<end><after>U:C A:");
}

TEST(GoTemplate, WithoutResponse_TheAnswerComesLast) {
  EXPECT_EQ(render("[{{ .Prompt }}]", kChat), "[A]B[C]");
}

TEST(GoTemplate, BothForms_AreRunOverTheMessages) {
  EXPECT_EQ(render("{{ if .Messages }}{{ range .Messages }}{{ .Content }};{{ end }}{{ else }}"
                   "{{ .Prompt }}{{ .Response }}{{ end }}{{ .Response }}",
                   kChat),
            "S;A;B;C;");
}

TEST(GoTemplate, CurrentDate_WhenPrinted_IsTodays) {
  EXPECT_EQ(item("{{ currentDate }}"), "2026-01-15");
}

TEST(GoTemplate, UnknownConstructs_WhenTranslated_AreRefusedByName) {
  constexpr std::pair<const char*, const char*> kRefused[] = {
      {"{{ template \"x\" }}", "uses template"},
      {"{{ define \"x\" }}{{ end }}", "uses define"},
      {"{{ block \"x\" . }}{{ end }}", "uses block"},
      {"{{ html .System }}", "uses the function html"},
      {"{{ len .System }}", "uses len of a text"},
      {"{{ slice .System 1 }}", "uses slice of a text"},
      {"{{ .Prompt }}", "prints a name without a value"},
      {"{{ .Messages }}", "prints the messages"},
      {"{{ range .Messages }}{{ . }}{{ end }}", "prints a message"},
      {"{{ range .Messages }}{{ .Weight }}{{ end }}", "reads .Weight of a message"},
      {"{{ range .System }}{{ end }}", "ranges over a text"},
      {"{{ eq .System 1 }}", "compares a text with a number"},
      {"{{ lt true false }}", "orders a truth value"},
      {"{{ 1.5 }}", "uses a number that is not whole"},
      {"{{ 'x' }}", "uses a character in single quotes"},
      {"{{ nil }}", "uses nil"},
      {"{{ printf \"%x\" 1 }}", "uses printf with %x of a number"},
      {"{{ json .Messages }}", "writes the messages as JSON"},
      {"{{ $x := 1 }}{{ $x = \"a\" }}", "assigns a text to $x"},
      {"{{ with .System }}{{ else }}{{ .Tools }}{{ end }}", "uses the dot in the else of with"},
      {"\n\n{{ yesterdayDate }}", "line 3: uses the function yesterdayDate"},
  };
  for (const auto& [go, why] : kRefused) {
    const auto jinja = to_jinja(std::string(go) + "{{ range .Messages }}{{ end }}");
    ASSERT_FALSE(jinja.has_value()) << go;
    EXPECT_EQ(jinja.error().code, Errc::kUnsupported) << go << ": " << jinja.error().what;
    EXPECT_NE(jinja.error().what.find(why), std::string::npos) << jinja.error().what;
  }
}

TEST(GoTemplate, SyntaxErrors_WhenTranslated_NameTheLine) {
  constexpr std::pair<const char*, const char*> kWrong[] = {
      {"a\n{{ if .System }}b", "line 2: a block has no end"},
      {"{{ end }}", "unexpected end"},
      {"{{ else }}", "unexpected else"},
      {"{{ .System", "an action has no end"},
      {"{{ }}", "an action is empty"},
      {"{{ \"x }}", "an action has no end"},
      {"{{ \"\\q\" }}", "unknown escape"},
      {"{{ (.System }}", "expected )"},
      {"{{ .System | }}", "a value is missing"},
      {"{{ .System | .Tools }}", "goes on with no function"},
      {"{{ .System 1 }}", "no function has arguments"},
      {"{{ $y }}", "undefined variable $y"},
      {"{{ $x, $y := .System }}", "two variables outside of range"},
      {"{{ eq 1 }}", "wrong number of arguments"},
      {"{{ /* a }}", "a comment has no end"},
      {"{{ .A ? }}", "unexpected \"?\""},
      {"{{ 99999999999999999999 }}", "too large"},
      {"\xFF", "is not UTF-8"},
  };
  for (const auto& [go, why] : kWrong) {
    const auto jinja = to_jinja(go);
    ASSERT_FALSE(jinja.has_value()) << go;
    EXPECT_EQ(jinja.error().code, Errc::kInvalidRequest) << go << ": " << jinja.error().what;
    EXPECT_NE(jinja.error().what.find(why), std::string::npos) << go << ": " << jinja.error().what;
  }
}

TEST(GoTemplate, TextsBeyondTheBounds_AreRefused) {
  const std::string deep_parens = "{{ " + std::string(1'000, '(');
  std::string blocks, chain = "{{ if true }}";
  for (int i = 0; i < 1'000; ++i) blocks += "{{ if true }}";
  for (int i = 0; i < 1'000; ++i) chain += "{{ else if true }}";
  EXPECT_FALSE(to_jinja(deep_parens).has_value());
  EXPECT_FALSE(to_jinja(blocks).has_value());
  EXPECT_FALSE(to_jinja(chain).has_value());
  const auto large = to_jinja(std::string(kBytesMax + 1, 'x'));
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().what.find("expected at most 65536"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::go_template
