// Goal: the template language behaves as Jinja2 does where templates rely on it, names line and
// construct in its errors, and stays within its bounds on hostile templates.
#include "shared/jinja/chat_template.h"

#include <gtest/gtest.h>

#include <string>

namespace holdfast::text::chat_template_test {
namespace {

std::string render(std::string_view source, const std::string& extra = "{}") {
  const auto tmpl = ChatTemplate::parse(source);
  if (!tmpl.has_value()) return "parse: " + tmpl.error().what;
  ChatInput input;
  input.messages_json = R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}])";
  input.extra_json = extra;
  input.bos_token = "<s>";
  input.date = "2026-01-15";
  const auto text = tmpl.value()->render(input);
  return text.has_value() ? text.value() : "render: " + text.error().what;
}

TEST(ChatTemplate, WhitespaceControl_WhenRendered_MatchesJinja2) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(render("a  {%- if true -%}  b  {%- endif %} c"), "ab c");
  EXPECT_EQ(render("a {% if true %} b{% endif %}"), "a  b");
  EXPECT_EQ(render("  {%+ if true %}x{% endif %}"), "  x");
  EXPECT_EQ(render("{# note #}\nx {{- ' y ' -}} z"), "x y z");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
}

TEST(ChatTemplate, ScopesAndNamespaces_WhenRendered_MatchJinja2) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1,2] %}{% set x = i %}{% endfor %}{{ x }}"), "1");
  EXPECT_EQ(render("{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = i %}{% endfor "
                   "%}{{ ns.x }}"),
            "2");
  EXPECT_EQ(
      render("{% macro m(a, b='z') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}"),
      "1z32");
  EXPECT_EQ(render("{% set x %}a{{ 1 + 1 }}{% endset %}{{ x | upper }}"), "A2");
  EXPECT_EQ(render("{% call m() %}{% endcall %}"),
            "render: chat template line 1: 'm' is undefined");
  EXPECT_EQ(render("{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}"),
            "<in>");
  EXPECT_EQ(render("{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a is defined }}"), "3False");
}

TEST(ChatTemplate, LoopsAndControl_WhenRendered_MatchJinja2) {
  EXPECT_EQ(render("{% for m in messages %}{{ loop.index }}{{ m.role[0] }}{{ ',' if not loop.last "
                   "}}{% endfor %}"),
            "1u,2a");
  EXPECT_EQ(render("{% for i in range(9) if i is odd %}{% if i > 5 %}{% break %}{% endif %}{{ i "
                   "}}{% else %}-{% endfor %}"),
            "135");
  EXPECT_EQ(render("{% for k, v in {'a': 1, 'b': none}.items() %}{{ k }}={{ v }};{% endfor %}"),
            "a=1;b=None;");
  EXPECT_EQ(render("{% for m in messages[::-1] %}{{ m['content'] }}{% endfor %}"), "YoHi");
}

TEST(ChatTemplate, Expressions_WhenRendered_MatchJinja2) {
  EXPECT_EQ(
      render("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 1 ~ 'a' }}"),
      "3 -4 2 3.5 8 1a");
  EXPECT_EQ(render("{{ 'a' in 'abc' and 2 not in [1] and not false }}"), "True");
  EXPECT_EQ(render("{{ 1 < 2 < 3 }} {{ 'x' if false }}|{{ [1,'a',none,true,{'k':1.5}] }}"),
            "True |[1, 'a', None, True, {'k': 1.5}]");
  EXPECT_EQ(render("{{ 'héllo'[1] }}{{ 'héllo' | length }}{{ 'abc'[-2:] }}"), "é5bc");
  EXPECT_EQ(render("{{ x.items is defined }} {{ x['items'] }}", R"({"x":{"items":[1]}})"),
            "True [1]");
  EXPECT_EQ(
      render("{{ x | tojson }} {{ x | tojson(indent=2) }}", R"({"x":{"a":[1,"é\n"],"b":{}}})"),
      "{\"a\": [1, \"é\\n\"], \"b\": {}} {\n  \"a\": [\n    1,\n    \"é\\n\"\n  ],\n  \"b\": "
      "{}\n}");
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}"), "15 Jan 2026");
  EXPECT_EQ(render("{{ '%s-%d' % ('a', 3) }}{{ ' x '.strip() }}{{ 'a,b'.split(',')[1] }}"),
            "a-3xb");
  EXPECT_EQ(render("{{ messages | map(attribute='role') | join(',') }} {{ messages | "
                   "selectattr('role', 'equalto', 'user') | list | length }}"),
            "user,assistant 1");
}

TEST(ChatTemplate, Template_WhenInvalid_NamesLineAndConstruct) {
  EXPECT_EQ(render("a\n{{ raise_exception('no system') }}"),
            "render: chat template line 2: no system");
  EXPECT_EQ(render("{% if x %}"),
            "parse: chat template line 1: unexpected end of template; expected 'endif'");
  EXPECT_EQ(render("\n\n{{ 1 + }}"),
            "parse: chat template line 3: unexpected end of print statement");
  EXPECT_EQ(render("{{ x.y }}"), "render: chat template line 1: 'x' is undefined");
  EXPECT_EQ(render("{{ 'a' + 1 }}"),
            "render: chat template line 1: unsupported operand type(s) for +: 'str' and 'int'");
  EXPECT_EQ(render("{{ 'a' | nope }}"), "render: chat template line 1: No filter named 'nope'.");
  EXPECT_EQ(
      render("{{ messages.append(1) }}"),
      "render: chat template line 1: access to attribute 'append' of 'list' object is unsafe");
  EXPECT_NE(render("{% for x in none %}{% endfor %}").find("not iterable"), std::string::npos);
}

TEST(ChatTemplate, Template_WhenHostile_EndsWithinBounds) {
  const auto fails = [](std::string_view source) { return render(source).find("render: ") == 0; };
  EXPECT_TRUE(fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"));
  EXPECT_TRUE(fails(
      "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(fails("{{ 'x' * 10000000000 }}"));
  EXPECT_TRUE(
      fails("{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + "
            "ns.s %}{% endfor %}"));
  EXPECT_TRUE(fails("{{ range(10 ** 12) }}"));
  EXPECT_TRUE(fails("{{ 99 ** 99 ** 9 }}"));
  EXPECT_EQ(render(std::string(100000, '(').insert(0, "{{ ")).find("parse: "), 0u);
  EXPECT_EQ(render("{{ " + std::string(100000, '-') + "1 }}").find("parse: "), 0u);
}

}  // namespace
}  // namespace holdfast::text::chat_template_test
