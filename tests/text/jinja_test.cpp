// Goal: the template language gives what Jinja2 gives, form by form, and refuses what Jinja2
// refuses, with the line. Method: tables of small templates with their texts. The texts are those
// of Jinja2 3.1.6 on Python 3.11, recorded once, in the environment that Transformers sets up:
// ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True), the extensions loopcontrols
// and `generation`, its tojson, raise_exception and strftime_now. The last tests have the
// differences, intended or known, each with what Jinja2 does.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "shared/jinja/chat_template.h"

namespace holdfast::text::jinja_test {
namespace {

constexpr std::string_view kVariables =
    R"({"x":{"b":1,"A":[1,2],"c":{"d":null}},"l":[3,1,2],"s":"Hello World","f":1.5,"n":null,)"
    R"("t":true,"e":[],"rows":[{"k":"b","v":2},{"k":"a","v":1},{"k":"B","v":3}],)"
    R"("big":9007199254740993,"u":"h\u00e9llo \ud83d\ude00"})";

/// The text, or the error after "parse: " or "render: ".
std::string render(std::string_view source, std::string_view variables = kVariables) {
  const auto tmpl = ChatTemplate::parse(source);
  if (!tmpl.has_value()) return "parse: " + tmpl.error().what;
  ChatInput input;
  input.messages_json = R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Yo"}])";
  input.extra_json = variables;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.date = "2026-01-15";
  const auto text = tmpl.value()->render(input);
  return text.has_value() ? text.value() : "render: " + text.error().what;
}

struct Case {
  std::string_view source;
  std::string_view result;
};
using Cases = std::span<const Case>;

void expect_texts(Cases cases) {
  for (const auto& [source, text] : cases) EXPECT_EQ(render(source), text) << source;
}
/// Expects the error's text after its line: each template begins on line 3.
void expect_refusals(Cases cases) {
  for (const auto& [source, error] : cases) {
    EXPECT_EQ(render("a\n\n" + std::string(source)),
              "render: chat template line 3: " + std::string(error))
        << source;
  }
}
void expect_no_templates(Cases cases) {
  for (const auto& [source, error] : cases) {
    EXPECT_EQ(render("a\n\n" + std::string(source)),
              "parse: chat template line 3: " + std::string(error))
        << source;
  }
}

constexpr Case kLiterals[] = {
    {R"({{ 'a\nb\tc\rd' }})", "a\nb\tc\015d"},
    {R"({{ "q\"q" 'p\'p' }})", R"(q"qp'p)"},
    {R"({{ 'a\\b' }})", R"(a\b)"},
    {R"({{ '\x41\u00e9\U0001F600' }})", "Aé😀"},
    {R"({{ '\101\12x' }})", "A\nx"},
    {R"({{ ('\0' ~ 'x') | tojson }})", R"("\u0000x")"},
    {R"({{ '\q\d' }})", R"(\q\d)"},
    {R"({{ '\a\b\f\v' | tojson }})", R"("\u0007\b\f\u000b")"},
    {R"({{ 'a' "b" 'c' }})", "abc"},
    {"{{ 1_000 + 0x1F + 0b101 + 0o17 }}", "1051"},
    {"{{ 1e3 }} {{ 1.5e-3 }} {{ 2E+2 }} {{ 1_0.5 }}", "1000.0 0.0015 200.0 10.5"},
    {"{{ {'a': {'b': 1}}['a']['b'] }}", "1"},
    {"{{ {'a': {}}}}", "{'a': {}}"},
    {R"({{ '}}' }}{{ "%}" }})", "}}%}"},
    {"{#- x -#} a {#- y -#} b", "ab"},
    {"a {# {{ x }} {% if %} #} b", "a  b"},
    {"a {#+ c +#} b", "a  b"},
    {"{% raw %}{{ a }}{% if %}{# c #}{% endraw %}", "{{ a }}{% if %}{# c #}"},
    {"a  {%- raw -%}  {{ b }}  {%- endraw -%}  c", "a{{ b }}c"},
    {"{% raw %}{% other %}{% endraw %}", "{% other %}"},
    {"a {{- ' b ' -}} c", "a b c"},
    {"{%- if true -%} x {%- endif -%}", "x"},
    {"{% if true +%} x{% endif %}", " x"},
    {R"({{ "é" }}{{ 'ü' | length }})", "é1"},
    {"{% set größe = 3 %}{{ größe }}", "3"},
    {"{{ [1,2,][0] }}{{ (1,) }}{{ {'a':1,} }}", "1(1,){'a': 1}"},
    {"{{ l.0 }}{{ l.1 }}", "31"},
    {"{{ 'a' if true }};", "a;"},
};
TEST(Jinja, Literals_WhenRendered_MatchJinja2) {
  expect_texts(kLiterals);
}

constexpr Case kWhiteSpaceLinesAndRawBlocks[] = {
    {"a\015\nb\015c\n\n", "a\nb\nc\n"},
    {"{% if true %}\n\n  x\n  {% endif %}\n  y\n", "\n  x\n  y"},
    {"  {# c #}\n  x", "  x"},
    {"  {{ 1 }}\n  {{ 2 }}\n", "  1\n  2"},
    {"x {% raw %}\n a \n{% endraw %}\n y", "x \n a \n y"},
    {"{% raw %}\n{{ x }}\n{% endraw %}\nz", "\n{{ x }}\nz"},
    {"  {% raw %}a{% endraw %}", "a"},
    {"a\n  {%- raw %} b {% endraw -%}\n c", "a b c"},
    {"  {%+ if true %}a{%+ endif +%}\nb", "  a\nb"},
    {"{{ 'a\nb' }}\n", "a\nb"},
    {"{{\n1\n+\n2\n}}", "3"},
    {"x\n\n", "x\n"},
    {"\n", ""},
    {"", ""},
    {"{%- set a = 1 -%}\n\n  b", "b"},
    {"a{% set b = 1 %}\nc", "ac"},
    {"a{% set b = 1 +%}\nc", "a\nc"},
    {"{# a #}\n{# b #}\nc", "c"},
    {"\t{% if true %}\t{% endif %}\tx", "\t\tx"},
    {"a {% if true %}b{% endif %}\n  {% if true %}\nc{% endif %}", "a bc"},
    {" {{- 'x' }} {{ 'y' -}} ", "x y"},
    {"{{ 'x' -}}\n  {% if true %}y{% endif %}", "xy"},
    {"{{ 'x' }}\n  {% if true %}y{% endif %}", "x\ny"},
};
TEST(Jinja, WhitespaceLinesAndRawBlocks_WhenRendered_MatchJinja2) {
  expect_texts(kWhiteSpaceLinesAndRawBlocks);
}

constexpr Case kArithmetic[] = {
    {"{{ 1 + 2 }}|{{ 1 + 2.0 }}|{{ 1.5 + 1 }}|{{ true + true }}", "3|3.0|2.5|2"},
    {"{{ 'a' + 'b' }}|{{ [1] + [2] }}|{{ (1,) + (2,) }}|{{ 5 - 7 }}", "ab|[1, 2]|(1, 2)|-2"},
    {"{{ 5 - 0.5 }}|{{ true - 2 }}|{{ 0.1 + 0.2 }}|{{ 3 * 4 }}", "4.5|-1|0.30000000000000004|12"},
    {"{{ 3 * 1.5 }}|{{ 'ab' * 3 }}|{{ 3 * 'ab' }}|{{ [1, 2] * 2 }}",
     "4.5|ababab|ababab|[1, 2, 1, 2]"},
    {"{{ 2 * [1] }}|{{ (1,) * 2 }}|{{ 'a' * -1 }}|{{ 'a' * true }}", "[1, 1]|(1, 1)||a"},
    {"{{ 7 / 2 }}|{{ 6 / 3 }}|{{ -7 / 2 }}|{{ 1 / 3 }}|{{ 7.5 / 2.5 }}",
     "3.5|2.0|-3.5|0.3333333333333333|3.0"},
    {"{{ 7 // 2 }}|{{ -7 // 2 }}|{{ 7 // -2 }}|{{ 7.5 // 2 }}", "3|-4|-4|3.0"},
    {"{{ -7.5 // 2 }}|{{ 5 // true }}|{{ 5 // -1 }}|{{ 7 % 3 }}", "-4.0|5|-5|1"},
    {"{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 7.5 % 2 }}|{{ -7.5 % 2 }}", "2|-2|1.5|0.5"},
    {"{{ 7 % -1 }}|{{ 0.3 % 0.1 }}|{{ 7.5 % -2 }}|{{ 1e20 % 3 }}",
     "0|0.09999999999999998|-0.5|1.0"},
    {"{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ 2 ** 0.5 }}|{{ 2.0 ** 3 }}",
     "1024|0.5|1.4142135623730951|8.0"},
    {"{{ 2 ** 3 ** 2 }}|{{ -2 ** 2 }}|{{ 0 ** 0 }}|{{ (-1) ** 3 }}", "64|4|1|-1"},
    {"{{ 1 ** 100000 }}|{{ -5 }}|{{ +5 }}|{{ --5 }}|{{ -1.5 }}", "1|-5|5|5|-1.5"},
    {"{{ -true }}|{{ +true }}|{{ - 5 | abs }}|{{ -5 | string }}", "-1|1|5|-5"},
    {"{{ 1 ~ 2.0 ~ 'a' ~ none ~ true ~ [1] ~ {'a': 1} }}", "12.0aNoneTrue[1]{'a': 1}"},
    {"{{ undef ~ 'x' }}|{{ 1 + 2 * 3 - 4 / 2 }}|{{ (1 + 2) * 3 }}", "x|5.0|9"},
    {"{{ 2 * 3 ~ 4 }}|{{ 9223372036854775807 }}", "64|9223372036854775807"},
    {"{{ -9223372036854775807 - 1 }}|{{ 9223372036854775807 // -1 }}",
     "-9223372036854775808|-9223372036854775807"},
    {"{{ big }}|{{ big + 1 }}|{{ big > 9007199254740992 }}",
     "9007199254740993|9007199254740994|True"},
    {"{{ big == 9007199254740992 }}|{{ 1.0 }}|{{ 1e16 }}|{{ 1e15 }}",
     "False|1.0|1e+16|1000000000000000.0"},
    {"{{ 123456789.125 }}|{{ 1e-4 }}|{{ 1e-5 }}|{{ 1.5e300 }}|{{ -0.0 }}",
     "123456789.125|0.0001|1e-05|1.5e+300|-0.0"},
    {"{{ 1e22 }}|{{ 5e-324 }}|{{ 100 * 1.1 }}|{{ 3.0 * 2 }}",
     "1e+22|5e-324|110.00000000000001|6.0"},
    {"{{ 1e308 * 10 }}|{{ -1e308 * 10 }}", "inf|-inf"},
};
TEST(Jinja, Arithmetic_WhenRendered_MatchesJinja2) {
  expect_texts(kArithmetic);
}

constexpr Case kComparisonsAndLogic[] = {
    {"{{ 1 == 1.0 }}|{{ true == 1 }}|{{ 'a' == 'a' }}|{{ none == none }}", "True|True|True|True"},
    {"{{ [1] == [1] }}|{{ (1,) == [1] }}|{{ {'a': 1} == {'a': 1.0} }}", "True|False|True"},
    {"{{ 1 == '1' }}|{{ undef == undef2 }}|{{ undef == none }}", "False|True|False"},
    {"{{ 1 != 2 }}|{{ 'a' != 'a' }}|{{ [] != {} }}", "True|False|True"},
    {"{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}", "True"},
    {"{{ {'a': 1} == {'b': 1} }}|{{ [1, 2] == [1] }}|{{ 1 < 2 }}", "False|False|True"},
    {"{{ 1.5 < 2 }}|{{ true < 2 }}|{{ 'a' < 'b' }}|{{ 'Z' < 'a' }}", "True|True|True|True"},
    {"{{ [1, 2] < [1, 3] }}|{{ [1] < [1, 0] }}|{{ (1, 2) >= (1, 2) }}", "True|True|True"},
    {"{{ 'é' > 'z' }}|{{ [none, 1] < [none, 2] }}", "True|True"},
    {"{{ [1, 'a'] < [2, none] }}|{{ 1 <= 1 }}|{{ 2 >= 3 }}", "True|True|False"},
    {"{{ 3 > 2 > 1 }}|{{ 3 > 2 > 2 }}|{{ 1 < 3 < 2 }}", "True|False|False"},
    {"{{ 1 == 1 == true }}|{{ 1 in [1, 2] }}|{{ 3 not in (1, 2) }}", "True|True|True"},
    {"{{ 'a' in 'cat' }}|{{ '' in 'a' }}|{{ 'b' in x }}|{{ 1 in x }}", "True|True|True|False"},
    {"{{ 'a' in undef }}|{{ 1.0 in [1] }}|{{ [1] in [[1]] }}", "False|True|True"},
    {"{{ none in [none] }}|{{ not true }}|{{ not 0 }}|{{ not '' }}", "True|False|True|True"},
    {"{{ not [] }}|{{ not {} }}|{{ not none }}|{{ not 0.0 }}", "True|True|True|True"},
    {"{{ not undef }}|{{ not () }}|{{ not x }}|{{ not namespace() }}", "True|True|False|False"},
    {"{{ 1 and 2 }}|{{ 0 and 2 }}|{{ 1 or 2 }}|{{ 0 or 2 }}", "2|0|1|2"},
    {"{{ '' or 'd' }}|{{ none or [] or 0 }}|{{ not 1 == 2 }}", "d|0|True"},
    {"{{ true and not false or false }}|{{ 1 if true else 2 }}", "True|1"},
    {"{{ 1 if false else 2 if false else 3 }}", "3"},
    {"{{ (1 if false) is defined }}|{{ 'a' if not x.zz else 'b' }}", "False|a"},
};
TEST(Jinja, ComparisonsAndLogic_WhenRendered_MatchJinja2) {
  expect_texts(kComparisonsAndLogic);
}

constexpr Case kItemsAttributesAndSlices[] = {
    {"{{ l[0] }}|{{ l[-1] }}|{{ l[5] is defined }}|{{ s[0] }}", "3|2|False|H"},
    {"{{ s[-1] }}|{{ s[99] is defined }}|{{ u[1] }}|{{ u[-1] }}", "d|False|é|😀"},
    {"{{ (1, 2)[1] }}|{{ l[:] }}|{{ l[1:] }}|{{ l[:1] }}|{{ l[-2:] }}",
     "2|[3, 1, 2]|[1, 2]|[3]|[1, 2]"},
    {"{{ l[:-1] }}|{{ l[::2] }}|{{ l[::-1] }}|{{ l[2:0:-1] }}", "[3, 1]|[3, 2]|[2, 1, 3]|[2, 1]"},
    {"{{ l[5:] }}|{{ l[-9:9] }}|{{ l[1:1] }}|{{ s[1:4] }}|{{ s[::-1] }}",
     "[]|[3, 1, 2]|[]|ell|dlroW olleH"},
    {"{{ s[-3:] }}|{{ s[::3] }}|{{ u[4:7] }}|{{ u[::-1] }}", "rld|HlWl|o 😀|😀 olléh"},
    {"{{ s[-2::-2] }}|{{ s[:-20:-1] }}|{{ (1, 2, 3)[::2] }}", "lo le|dlroW olleH|(1, 3)"},
    {"{{ (1, 2, 3)[1:2] }}|{{ ()[:] }}|{{ l[none:none:none] }}", "(2,)|()|[3, 1, 2]"},
    {"{{ l[0:3:2] }}|{{ l[true:] }}", "[3, 2]|[1, 2]"},
    {"{{ [1, 2, 3][1::9223372036854775807] }}", "[2]"},
    {"{{ [1, 2, 3][1::-9223372036854775807] }}", "[2]"},
    {"{{ l[-9223372036854775807:] }}|{{ x['b'] }}|{{ x.b }}", "[3, 1, 2]|1|1"},
    {"{{ x['zz'] is defined }}|{{ x.zz is defined }}|{{ x['c']['d'] }}", "False|False|None"},
    {"{{ x.c.d }}|{{ x.A[0] }}|{{ x.A.1 }}|{{ x['A'][-1] }}", "None|1|2|2"},
    {"{{ x.items is callable }}|{{ {'items': 1}['items'] }}", "True|1"},
    {"{{ {'items': 1}.items is callable }}|{{ l['count'] is callable }}", "True|True"},
    {"{{ n.a is defined }}|{{ f.a is defined }}|{{ l.a is defined }}", "False|False|False"},
    {"{{ s.a is defined }}|{{ l['a'] is defined }}|{{ n[0] is defined }}", "False|False|False"},
};
TEST(Jinja, ItemsAttributesAndSlices_WhenRendered_MatchJinja2) {
  expect_texts(kItemsAttributesAndSlices);
}

constexpr Case kTests[] = {
    {"{{ x is defined }}|{{ zz is defined }}|{{ zz is undefined }}", "True|False|True"},
    {"{{ x is not undefined }}|{{ x.zz is undefined }}", "True|True"},
    {"{{ n is defined }}|{{ n is none }}|{{ 0 is none }}", "True|True|False"},
    {"{{ zz is none }}|{{ n is not none }}|{{ s is string }}", "False|False|True"},
    {"{{ 1 is string }}|{{ zz is string }}|{{ 1 is number }}", "False|False|True"},
    {"{{ 1.5 is number }}|{{ true is number }}|{{ '1' is number }}", "True|True|False"},
    {"{{ n is number }}|{{ 1 is integer }}|{{ 1.0 is integer }}", "False|True|False"},
    {"{{ true is integer }}|{{ 1.0 is float }}|{{ 1 is float }}", "False|True|False"},
    {"{{ true is boolean }}|{{ 1 is boolean }}|{{ true is true }}", "True|False|True"},
    {"{{ 1 is true }}|{{ false is false }}|{{ 0 is false }}", "False|True|False"},
    {"{{ n is false }}|{{ x is mapping }}|{{ l is mapping }}", "False|True|False"},
    {"{{ s is mapping }}|{{ namespace(a=1) is mapping }}", "False|False"},
    {"{{ x is iterable }}|{{ l is iterable }}|{{ s is iterable }}", "True|True|True"},
    {"{{ (1, 2) is iterable }}|{{ 1 is iterable }}|{{ n is iterable }}", "True|False|False"},
    {"{{ zz is iterable }}|{{ x is sequence }}|{{ l is sequence }}", "True|True|True"},
    {"{{ s is sequence }}|{{ () is sequence }}|{{ 1 is sequence }}", "True|True|False"},
    {"{{ n is sequence }}|{{ zz is sequence }}|{{ range is callable }}", "False|True|True"},
    {"{{ s.upper is callable }}|{{ s is callable }}", "True|False"},
    {"{{ namespace is callable }}|{{ s is escaped }}", "True|False"},
    {"{{ n is sameas none }}|{{ 1 is sameas 1 }}|{{ 1 is sameas true }}", "True|True|False"},
    {"{{ true is sameas true }}|{{ 1 is sameas 1.0 }}", "True|False"},
    {"{{ l is sameas l }}|{{ l is sameas [3, 1, 2] }}|{{ 1 is eq 1 }}", "True|False|True"},
    {"{{ 1 is equalto 1.0 }}|{{ 1 is ne 2 }}|{{ 1 is lt 2 }}", "True|True|True"},
    {"{{ 1 is lessthan 2 }}|{{ 1 is le 1 }}|{{ 1 is gt 0 }}", "True|True|True"},
    {"{{ 1 is greaterthan 2 }}|{{ 1 is ge 1 }}|{{ 1 is in [1] }}", "False|True|True"},
    {"{{ 'a' is in 'cat' }}|{{ 'b' is in x }}|{{ 1 is not in [1] }}", "True|True|False"},
    {"{{ 'abc' is lower }}|{{ 'aBc' is lower }}|{{ '' is lower }}", "True|False|False"},
    {"{{ '12' is lower }}|{{ 'ABC' is upper }}|{{ 'A1' is upper }}", "False|True|True"},
    {"{{ '12' is upper }}|{{ '' is upper }}|{{ 3 is odd }}", "False|False|True"},
    {"{{ 4 is odd }}|{{ 4 is even }}|{{ -3 is odd }}|{{ 0 is even }}", "False|True|True|True"},
    {"{{ 9 is divisibleby 3 }}|{{ 10 is divisibleby(3) }}", "True|False"},
    {"{{ 3.0 is odd }}|{{ 4.5 is even }}|{{ true is odd }}", "True|False|True"},
    {"{{ 'upper' is filter }}|{{ 'nope' is filter }}|{{ 'odd' is test }}", "True|False|True"},
    {"{{ 'nope' is test }}|{{ 1 is odd and 2 is even or false }}", "False|True"},
    {"{{ 'y' if 3 is odd else 'n' }}|{{ 3 is divisibleby 3 and true }}", "y|True"},
    {"{{ not 3 is odd }}|{{ [1, 2, 3] | select('odd') | list }}", "False|[1, 3]"},
    {"{{ [1, 2, 3] | select('in', [1, 2]) | list }}", "[1, 2]"},
    {"{{ [1, 2, 3] | select('>', 1) | list }}", "[2, 3]"},
    {"{{ [1, 2, 3] | reject('<=', 1) | list }}", "[2, 3]"},
    {"{{ [1, 2] | select('==', 1) | list }}", "[1]"},
    {"{{ [1, 2] | select('!=', 1) | list }}", "[2]"},
    {"{{ [1, 2] | select('>=', 2) | list }}", "[2]"},
    {"{{ [1, 2] | select('<', 2) | list }}", "[1]"},
};
TEST(Jinja, TestExpressions_WhenRendered_MatchJinja2) {
  expect_texts(kTests);
}

constexpr Case kFilters[] = {
    {"{{ -3 | abs }}|{{ -3.5 | abs }}|{{ true | abs }}", "3|3.5|1"},
    {"{{ s | attr('upper') is callable }}|{{ x | attr('b') is defined }}", "True|False"},
    {"{{ namespace(a=1) | attr('a') }}", "1"},
    {"{{ [1, 2, 3, 4, 5] | batch(2) | list }}", "[[1, 2], [3, 4], [5]]"},
    {"{{ [1, 2, 3] | batch(2, 'x') | list }}", "[[1, 2], [3, 'x']]"},
    {"{{ 'abc' | batch(2) | list }}|{{ 'hello WORLD' | capitalize }}",
     "[['a', 'b'], ['c']]|Hello world"},
    {"{{ '' | capitalize }}|{{ 'éa' | capitalize }}", "|Éa"},
    {"{{ 12 | capitalize }}|{{ s | count }}|{{ u | length }}", "12|11|7"},
    {"{{ l | length }}|{{ x | length }}|{{ zz | length }}", "3|3|0"},
    {"{{ (1, 2) | length }}|{{ {} | count }}|{{ zz | default('d') }}", "2|0|d"},
    {"{{ n | default('d') }}|{{ n | default('d', true) }}", "None|d"},
    {"{{ '' | default('d', boolean=true) }}|{{ zz | d('e') }}", "d|e"},
    {"{{ zz | default }}|{{ x.zz | default(default_value=3) }}", "|3"},
    {"{{ 0 | d(5, false) }}|{{ {'b': 1, 'A': 3, 'c': 2} | dictsort }}",
     "0|[('A', 3), ('b', 1), ('c', 2)]"},
    {"{{ {'b': 1, 'A': 3} | dictsort(true) }}", "[('A', 3), ('b', 1)]"},
    {"{{ {'b': 1, 'A': 3} | dictsort(false, 'value') }}", "[('b', 1), ('A', 3)]"},
    {"{{ {'b': 1, 'A': 3} | dictsort(by='value', reverse=true) }}", "[('A', 3), ('b', 1)]"},
    {"{{ {'a': 1, 'B': 2} | dictsort(case_sensitive=true) }}", "[('B', 2), ('a', 1)]"},
    {R"({{ '<a href="x">&\'</a>' | escape }}|{{ '<' | e }}|{{ 5 | e }})",
     "&lt;a href=&#34;x&#34;&gt;&amp;&#39;&lt;/a&gt;|&lt;|5"},
    {"{{ l | first }}|{{ s | first }}|{{ [] | first }}|{{ x | first }}", "3|H||b"},
    {"{{ l | last }}|{{ s | last }}|{{ [] | last }}|{{ x | last }}", "2|d||c"},
    {"{{ zz | first }}||{{ '1.5' | float }}|{{ 'abc' | float }}", "||1.5|0.0"},
    {"{{ 'abc' | float(2.5) }}|{{ 3 | float }}|{{ true | float }}", "2.5|3.0|1.0"},
    {"{{ n | float }}|{{ ' 2 ' | float }}|{{ '1e3' | float }}", "0.0|2.0|1000.0"},
    {"{{ 'inf' | float }}|{{ '+1.5' | float }}|{{ '1_0.5' | float }}", "inf|1.5|10.5"},
    {"{{ 'x' | float(default=1) }}", "1"},
    {"{% for g in rows | groupby('k') %}{{ g.grouper }}:{{ g.list | length }};{% endfor %}",
     "a:1;b:2;"},
    {"{% for k, g in rows | groupby('v') %}{{ k }}={{ g }};{% endfor %}",
     "1=[{'k': 'a', 'v': 1}];2=[{'k': 'b', 'v': 2}];3=[{'k': 'B', 'v': 3}];"},
    {"{% for k, g in rows | groupby('z', default='none') %}{{ k }}={{ g | length }};{% endfor %}",
     "none=3;"},
    {"{% for k, g in rows | groupby('k', case_sensitive=true) %}{{ k }}={{ g | length }};{% endfor "
     "%}",
     "B=1;a=1;b=1;"},
    {R"({{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2) }})", "a\n    b\n\n    c|a\n  b"},
    {R"({{ 'a\nb' | indent(2, true) }})", "  a\n  b"},
    {R"({{ 'a\n\nb' | indent(2, false, true) }})", "a\n  \n  b"},
    {R"({{ 'a\nb' | indent('>> ') }}|{{ 'a\n' | indent(2) }})", "a\n>> b|a\n"},
    {R"({{ 'a\n' | indent(2, blank=true) }}|{{ '' | indent(2, true) }})", "a\n  |  "},
    {R"({{ 'a\nb' | indent(width=1, first=true) }})", " a\n b"},
    {R"({{ '\n\n' | indent(2, true) }}|{{ 'a\r\nb' | indent(1) }})", "  \n\n|a\n b"},
    {"{{ '42' | int }}|{{ '4.9' | int }}|{{ 'abc' | int }}", "42|4|0"},
    {"{{ 'abc' | int(7) }}|{{ 4.9 | int }}|{{ -4.9 | int }}", "7|4|-4"},
    {"{{ true | int }}|{{ n | int }}|{{ ' 5 ' | int }}|{{ '+5' | int }}", "1|0|5|5"},
    {"{{ '-5' | int }}|{{ '1_000' | int }}|{{ '0x1A' | int(0, 16) }}", "-5|1000|26"},
    {"{{ '1A' | int(base=16) }}|{{ '0b11' | int(0, 2) }}|{{ '' | int }}", "26|3|0"},
    {"{{ '1e3' | int }}|{{ [] | int }}|{{ 'inf' | int }}", "1000|0|0"},
    {"{{ '0x1A' | int }}|{{ '9007199254740993' | int }}", "0|9007199254740993"},
    {"{{ 'nan' | int(3) }}|{{ '9223372036854775807' | int }}", "3|9223372036854775807"},
    {"{{ x | items | list }}|{{ zz | items | list }}",
     "[('b', 1), ('A', [1, 2]), ('c', {'d': None})]|[]"},
    {"{{ {} | items | list }}|{{ [1, 'a', none] | join }}", "[]|1aNone"},
    {"{{ [1, 2] | join(', ') }}|{{ rows | join('-', attribute='k') }}", "1, 2|b-a-B"},
    {"{{ 'abc' | join('.') }}|{{ [] | join(',') }}|{{ x | join(',') }}", "a.b.c||b,A,c"},
    {"{{ l | join(d='+') }}|{{ [1, 2] | join(3) }}|{{ zz | join(',') }}|", "3+1+2|132||"},
    {"{{ s | list }}", "['H', 'e', 'l', 'l', 'o', ' ', 'W', 'o', 'r', 'l', 'd']"},
    {"{{ x | list }}|{{ (1, 2) | list }}|{{ zz | list }}", "['b', 'A', 'c']|[1, 2]|[]"},
    {"{{ range(3) | list }}|{{ 'ABC É' | lower }}|{{ 5 | lower }}", "[0, 1, 2]|abc é|5"},
    {"{{ none | lower }}|{{ 'abc é' | upper }}|{{ true | upper }}", "none|ABC É|TRUE"},
    {"{{ zz | upper }}||{{ ['a', 'b'] | map('upper') | list }}", "||['A', 'B']"},
    {"{{ rows | map(attribute='k') | list }}", "['b', 'a', 'B']"},
    {"{{ rows | map(attribute='z', default='-') | list }}", "['-', '-', '-']"},
    {"{{ [[1, 2], [3, 4]] | map('join', '+') | list }}", "['1+2', '3+4']"},
    {"{{ [[1, 2], [3, 4]] | map(attribute=1) | list }}", "[2, 4]"},
    {"{{ [{'a': {'b': 5}}] | map(attribute='a.b') | list }}", "[5]"},
    {"{{ [[[7]]] | map(attribute='0.0') | list }}", "[7]"},
    {"{{ ['1', '2'] | map('int') | sum }}", "3"},
    {"{{ [none, 1] | map('default', 5, true) | list }}", "[5, 1]"},
    {"{{ ['ab'] | map('replace', 'a', 'c') | list }}|{{ l | min }}", "['cb']|1"},
    {"{{ l | max }}|{{ ['b', 'A'] | min }}|{{ ['b', 'A'] | max }}", "3|A|b"},
    {"{{ ['b', 'A'] | min(true) }}", "A"},
    {"{{ ['a', 'A'] | max(case_sensitive=true) }}|{{ [] | min }}", "a|"},
    {"{{ rows | max(attribute='v') }}|{{ rows | min(attribute='k') }}",
     "{'k': 'B', 'v': 3}|{'k': 'a', 'v': 1}"},
    {"{{ 'hello' | max }}|{{ [1, 0, 2, none] | select | list }}", "o|[1, 2]"},
    {"{{ [1, 0, none] | reject | list }}", "[0, None]"},
    {"{{ rows | selectattr('v', 'gt', 1) | list }}", "[{'k': 'b', 'v': 2}, {'k': 'B', 'v': 3}]"},
    {"{{ rows | rejectattr('k', 'eq', 'a') | map(attribute='v') | list }}", "[2, 3]"},
    {"{{ rows | selectattr('k') | list | length }}", "3"},
    {"{{ rows | rejectattr('z') | list | length }}", "3"},
    {"{{ rows | selectattr('z', 'defined') | list }}", "[]"},
    {"{{ rows | selectattr('k', 'in', ['a']) | list }}", "[{'k': 'a', 'v': 1}]"},
    {"{{ 'aXbX' | replace('X', '-') }}", "a-b-"},
    {"{{ 'aaa' | replace('a', 'b', 2) }}|{{ 'abc' | replace('', '-') }}", "bba|-a-b-c-"},
    {"{{ 123 | replace('2', 'x') }}|{{ 'abc' | replace('b', 5) }}", "1x3|a5c"},
    {"{{ 'aa' | replace('a', 'b', count=1) }}", "ba"},
    {"{{ 'aa' | replace('a', 'b', none) }}", "bb"},
    {"{{ 'aa' | replace(old='a', new='c') }}|{{ 'abc' | reverse }}", "cc|cba"},
    {"{{ u | reverse }}|{{ l | reverse | list }}", "😀 olléh|[2, 1, 3]"},
    {"{{ (1, 2) | reverse | list }}|{{ [] | reverse | list }}", "[2, 1]|[]"},
    {"{{ 2.5 | round }}|{{ 3.5 | round }}|{{ 2.675 | round(2) }}", "2.0|4.0|2.67"},
    {"{{ 0.15 | round(1) }}|{{ 42 | round }}", "0.1|42"},
    {"{{ 42.55 | round(1, 'floor') }}|{{ 42.51 | round(1, 'ceil') }}", "42.5|42.6"},
    {"{{ -2.5 | round }}|{{ 1234.5 | round(-2) }}", "-2.0|1200.0"},
    {"{{ 42.7 | round(method='floor') }}|{{ 2.5 | round | int }}", "42.0|2"},
    {"{{ 42 | round(1, 'floor') }}|{{ 1.005 | round(precision=2) }}", "42.0|1.0"},
    {"{{ true | round }}|{{ 1e20 | round(3) }}|{{ 1250 | round(-2) }}", "1|1e+20|1200"},
    {"{{ '<b>' | safe }}|{{ 5 | string }}|{{ 1.5 | string }}", "<b>|5|1.5"},
    {"{{ [1] | string }}|{{ none | string }}|{{ zz | string }}|", "[1]|None||"},
    {"{{ l | sort }}|{{ ['b', 'A', 'c'] | sort }}", "[1, 2, 3]|['A', 'b', 'c']"},
    {"{{ ['b', 'A'] | sort(case_sensitive=true) }}|{{ l | sort(true) }}", "['A', 'b']|[3, 2, 1]"},
    {"{{ l | sort(reverse=true) }}", "[3, 2, 1]"},
    {"{{ rows | sort(attribute='k') | map(attribute='v') | list }}", "[1, 2, 3]"},
    {"{{ rows | sort(attribute='k', reverse=true) | map(attribute='v') | list }}", "[2, 3, 1]"},
    {"{{ [[2, 1], [1, 2]] | sort(attribute=1) }}|{{ 'bca' | sort }}",
     "[[2, 1], [1, 2]]|['a', 'b', 'c']"},
    {"{{ x | sort }}", "['A', 'b', 'c']"},
    {"{{ rows | sort(attribute='k,v') | map(attribute='v') | list }}", "[1, 2, 3]"},
    {"{{ [1, 1.5, true] | sort }}", "[1, True, 1.5]"},
    {"{{ ['a', 'A', 'a'] | sort(reverse=true) }}|{{ l | sum }}", "['a', 'A', 'a']|6"},
    {"{{ [1, 1.5] | sum }}|{{ rows | sum(attribute='v') }}", "2.5|6"},
    {"{{ l | sum(start=10) }}|{{ [] | sum }}|{{ [] | sum(start=1.5) }}", "16|0|1.5"},
    {"{{ [true, 1] | sum }}|{{ [[1], [2]] | sum(start=[]) }}", "2|[1, 2]"},
    {"{{ rows | sum('v', 5) }}|{{ [0.1, 0.2, 0.3] | sum }}", "11|0.6000000000000001"},
    {R"({{ "it's a-b (c) hello_World" | title }}|{{ "it's" | title }})",
     "It's A-B (C) Hello_world|It's"},
    {"{{ 'ÉA' | title }}|{{ 'a<b[c{d' | title }}|{{ 12 | title }}", "Éa|A<B[C{D|12"},
    {"{{ '  a ' | trim }}|{{ 'xxaxx' | trim('x') }}", "a|a"},
    {"{{ 'abcba' | trim(chars='ab') }}|{{ 5 | trim }}", "c|5"},
    {"{{ ' a ' | trim(none) }}||{{ ['b', 'a', 'B'] | unique | list }}", "a||['b', 'a']"},
    {"{{ ['b', 'B'] | unique(true) | list }}", "['b', 'B']"},
    {"{{ rows | unique(attribute='k') | map(attribute='v') | list }}", "[2, 1]"},
    {"{{ [1, 1.0, true] | unique | list }}|{{ 'hello' | unique | join }}", "[1]|helo"},
    {R"({{ "it's two-words  x" | wordcount }}|{{ '' | wordcount }})", "5|0"},
    {"{{ 'é_a b' | wordcount }}|{{ '%s-%s' | format('a', 1) }}", "2|a-1"},
    {"{{ '%d%%' | format(5) }}|{{ '%.2f' | format(1.005) }}", "5%|1.00"},
    {"{{ '%(a)s' | format(a=1) }}|{{ 'ab' | center(6) }}", "1|  ab  "},
    {"{{ 'abc' | center(6) }}|{{ 'abc' | center(2) }}", " abc  |abc"},
    {"{{ [1, 2, 3, 4, 5] | slice(2) | list }}", "[[1, 2, 3], [4, 5]]"},
    {"{{ [1, 2, 3] | slice(2, 'x') | list }}|{{ [1] | slice(3) | list }}",
     "[[1, 2], [3, 'x']]|[[1], [], []]"},
    {"{{ 'hello big world' | truncate(11) }}", "hello big world"},
    {"{{ 'hello big world' | truncate(11, true) }}", "hello big world"},
    {"{{ 'hello' | truncate(3) }}", "hello"},
    {"{{ 'hello big world' | truncate(8, true, '') }}", "hello bi"},
    {"{{ 'hello world' | truncate(8, end='..', leeway=0) }}", "hello.."},
    {"{{ '<b>' | forceescape }}|{{ [1] | pprint }}|{{ 'a' | pprint }}", "&lt;b&gt;|[1]|'a'"},
    {"{% filter upper %}ab{{ 'c' }}{% endfilter %} {% filter replace('a', 'b') | upper %}aa{% "
     "endfilter %}",
     "ABC BB"},
    {"{{ l | sort | first }}|{{ s | upper | lower | length }}", "1|11"},
    {"{{ (l | sort)[0] }}|{{ l | map('string') | join('+') | upper }}", "1|3+1+2"},
};
TEST(Jinja, Filters_WhenRendered_MatchJinja2) {
  expect_texts(kFilters);
}

constexpr Case kToJson[] = {
    {"{{ x | tojson }}|{{ l | tojson }}|{{ s | tojson }}",
     R"({"b": 1, "A": [1, 2], "c": {"d": null}}|[3, 1, 2]|"Hello World")"},
    {"{{ f | tojson }}|{{ n | tojson }}|{{ t | tojson }}", "1.5|null|true"},
    {"{{ (1, 2) | tojson }}|{{ [] | tojson }}|{{ {} | tojson }}", "[1, 2]|[]|{}"},
    {"{{ u | tojson }}|{{ big | tojson }}", R"("héllo 😀"|9007199254740993)"},
    {"{{ x | tojson(indent=2) }}",
     "{\n  \"b\": 1,\n  \"A\": [\n    1,\n    2\n  ],\n  \"c\": {\n    \"d\": null\n  }\n}"},
    {"{{ x | tojson(indent=0) }}",
     "{\n\"b\": 1,\n\"A\": [\n1,\n2\n],\n\"c\": {\n\"d\": null\n}\n}"},
    {"{{ [[], {}, [[]]] | tojson(indent=1) }}", "[\n [],\n {},\n [\n  []\n ]\n]"},
    {"{{ x | tojson(indent='--') }}",
     "{\n--\"b\": 1,\n--\"A\": [\n----1,\n----2\n--],\n--\"c\": {\n----\"d\": null\n--}\n}"},
    {"{{ x | tojson(sort_keys=true) }}", R"({"A": [1, 2], "b": 1, "c": {"d": null}})"},
    {"{{ {'b': {'z': 1, 'a': 2}, 'a': 1} | tojson(indent=1, sort_keys=true) }}",
     "{\n \"a\": 1,\n \"b\": {\n  \"a\": 2,\n  \"z\": 1\n }\n}"},
    {"{{ x | tojson(separators=(',', ':')) }}", R"({"b":1,"A":[1,2],"c":{"d":null}})"},
    {"{{ x | tojson(separators=[', ', '=']) }}", R"({"b"=1, "A"=[1, 2], "c"={"d"=null}})"},
    {"{{ {'a': [1, 2]} | tojson(indent=2, separators=(', ', ': ')) }}",
     "{\n  \"a\": [\n    1, \n    2\n  ]\n}"},
    {"{{ {'a': [1, 2]} | tojson(indent=2, separators=(',', ':')) }}",
     "{\n  \"a\":[\n    1,\n    2\n  ]\n}"},
    {"{{ u | tojson(ensure_ascii=true) }}", R"("h\u00e9llo \ud83d\ude00")"},
    {"{{ u | tojson(ensure_ascii=false) }}", R"("héllo 😀")"},
    {R"({{ {'é': '\x7f\u2028'} | tojson(ensure_ascii=True) }})", R"({"\u00e9": "\u007f\u2028"})"},
    {R"({{ {'é': '\u2028'} | tojson }}|{{ u | tojson(true) }})",
     "{\"é\": \"\342\200\250\"}|\"h\\u00e9llo \\ud83d\\ude00\""},
    {"{{ x | tojson(false, 2) }}",
     "{\n  \"b\": 1,\n  \"A\": [\n    1,\n    2\n  ],\n  \"c\": {\n    \"d\": null\n  }\n}"},
    {"{{ [1] | tojson(indent=none) }}|{{ [1] | tojson(indent=true) }}", "[1]|[\n 1\n]"},
    {"{{ [1] | tojson(indent=-1) }}", "[\n1\n]"},
    {R"({{ '"\\/\b\f\n\r\t\x01<>&\'' | tojson }}|{{ 1e16 | tojson }})",
     R"("\"\\/\b\f\n\r\t\u0001<>&'"|1e+16)"},
    {"{{ 1e-7 | tojson }}|{{ 2.0 | tojson }}|{{ 1e999 | tojson }}", "1e-07|2.0|Infinity"},
    {"{{ -1e999 | tojson }}|{{ (1e999 - 1e999) | tojson }}", "-Infinity|NaN"},
    {"{{ [1, [2, {'a': [3]}]] | tojson(indent=20) }}",
     "[\n                    1,\n                    [\n                                        "
     "2,\n                                        {\n                                              "
     "              \"a\": [\n                                                                     "
     "           3\n                                                            ]\n                "
     "                        }\n                    ]\n]"},
};
TEST(Jinja, TojsonFilter_WhenRendered_MatchesJinja2) {
  expect_texts(kToJson);
}

constexpr Case kStringMethods[] = {
    {"{{ s.upper() }}|{{ s.lower() }}|{{ 'ÀÉ'.lower() }}", "HELLO WORLD|hello world|àé"},
    {"{{ 'Straße'.casefold() }}|{{ 'straße'.upper() }}", "strasse|STRASSE"},
    {R"({{ "it's a-b".title() }}|{{ 'hELLO wORLD'.capitalize() }})", "It'S A-B|Hello world"},
    {"{{ 'aBc'.swapcase() }}|{{ '  a '.strip() }}|{{ '  a '.lstrip() }}", "AbC|a|a "},
    {"{{ '  a '.rstrip() }}|{{ 'xyaxy'.strip('xy') }}", "  a|a"},
    {"{{ 'xa'.lstrip('x') }}|{{ 'ax'.rstrip('x') }}", "a|a"},
    {R"({{ '\n\ta\u00a0\u2003'.strip() }}|{{ 'éaé'.strip('é') }})", "a|a"},
    {"{{ ' a '.strip(none) }}|{{ 'a'.strip('') }}", "a|a"},
    {"{{ s.startswith('He') }}|{{ s.startswith(('x', 'H')) }}", "True|True"},
    {"{{ s.endswith('ld') }}|{{ s.endswith(('a', 'b')) }}", "True|False"},
    {"{{ s.startswith('') }}|{{ s.startswith('llo', 2) }}", "True|True"},
    {"{{ s.endswith('lo', 0, 5) }}|{{ 'a,b,,c'.split(',') }}", "True|['a', 'b', '', 'c']"},
    {"{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}", "['a', 'b']|['a', 'b c']"},
    {"{{ 'a b  c'.split(none, 1) }}|{{ ''.split() }}|{{ ''.split(',') }}", "['a', 'b  c']|[]|['']"},
    {"{{ 'a,b'.split(sep=',') }}|{{ 'a,b,c'.split(',', maxsplit=1) }}", "['a', 'b']|['a', 'b,c']"},
    {"{{ 'abc'.split('abc') }}|{{ 'a  b'.split(maxsplit=1) }}", "['', '']|['a', 'b']"},
    {"{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a b  c '.rsplit() }}", "['a,b', 'c']|['a', 'b', 'c']"},
    {"{{ ' a b c '.rsplit(none, 1) }}|{{ 'a,b'.rsplit(',') }}", "[' a b', 'c']|['a', 'b']"},
    {"{{ 'aaa'.rsplit('aa') }}|{{ ''.rsplit(',') }}", "['a', '']|['']"},
    {"{{ 'a,b,c'.rsplit(',', maxsplit=1) }}|{{ 'a,b,c'.rsplit(',', 0) }}",
     "['a,b', 'c']|['a,b,c']"},
    {R"({{ 'a\nb\r\nc\n'.splitlines() }}|{{ 'a\nb'.splitlines(true) }})",
     R"(['a', 'b', 'c']|['a\n', 'b'])"},
    {R"({{ ''.splitlines() }}|{{ '\n'.splitlines() }})", "[]|['']"},
    {R"({{ 'a\n\nb'.splitlines(keepends=true) }})", R"(['a\n', '\n', 'b'])"},
    {R"({{ 'a\rb\x0bc\x0cd\x1ce\x85f\u2028g'.splitlines() }})",
     "['a', 'b', 'c', 'd', 'e', 'f', 'g']"},
    {"{{ ','.join(['a', 'b']) }}|{{ ''.join('abc') }}|{{ '-'.join([]) }}", "a,b|abc|"},
    {"{{ ', '.join({'a': 1, 'b': 2}) }}", "a, b"},
    {"{{ '+'.join(l | map('string')) }}|{{ 'banana'.count('a') }}", "3+1+2|3"},
    {"{{ 'banana'.count('ana') }}|{{ 'abc'.count('') }}", "1|4"},
    {"{{ 'banana'.count('a', 2) }}|{{ 'banana'.count('a', 2, 4) }}", "2|1"},
    {"{{ 'abc'.count('', 1) }}|{{ '{} {}'.format('a', 1) }}", "3|a 1"},
    {"{{ '{1}{0}'.format('a', 'b') }}|{{ '{x}'.format(x=5) }}", "ba|5"},
    {"{{ '{{}}'.format() }}|{{ '{:.2f}'.format(1.256) }}", "{}|1.26"},
    {"{{ '{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c') }}", "    a|b    |  c  "},
    {"{{ '{!r}'.format('a') }}|{{ '{:,}'.format(1234567) }}", "'a'|1,234,567"},
    {"{{ '{:05d}'.format(42) }}|{{ '{0:x}'.format(255) }}", "00042|ff"},
    {"{{ '{}'.format(none) }}|{{ '{:+d}'.format(3) }}", "None|+3"},
    {"{{ '{:*^7}'.format('ab') }}|{{ '{:.3}'.format('abcdef') }}", "**ab***|abc"},
    {"{{ '{:.0%}'.format(0.25) }}|{{ '{:e}'.format(12345.678) }}", "25%|1.234568e+04"},
    {"{{ '{:.3g}'.format(1234.5) }}|{{ '{:d}'.format(true) }}", "1.23e+03|1"},
    {"{{ '{:,.2f}'.format(1234567.891) }}", "1,234,567.89"},
    {"{{ '{:8.3f}|'.format(3.14159) }}|{{ '{:b}'.format(5) }}", "   3.142||101"},
    {"{{ '{:5}|'.format(3) }}|{{ '{:s}'.format('q') }}", "    3||q"},
    {"{{ '{:g}'.format(0.5) }}|{{ 'banana'.find('an') }}", "0.5|1"},
    {"{{ 'banana'.rfind('an') }}|{{ 'banana'.find('x') }}", "3|-1"},
    {"{{ 'éa'.find('a') }}|{{ 'banana'.find('an', 2) }}", "1|3"},
    {"{{ 'banana'.rfind('an', 0, 4) }}|{{ 'banana'.find('') }}", "1|0"},
    {"{{ 'abc'.find('c', 0, 2) }}|{{ 'banana'.index('n') }}", "-1|2"},
    {"{{ 'banana'.rindex('n') }}|{{ 'éaéa'.rfind('a') }}", "4|3"},
    {"{{ 'abc'.find('a', -2) }}|{{ 'abc'.find('', 9) }}", "-1|-1"},
    {"{{ 'abc'.removeprefix('a') }}|{{ 'abc'.removesuffix('c') }}", "bc|ab"},
    {"{{ 'abc'.removeprefix('x') }}|{{ 'abc'.removesuffix('abc') }}|", "abc||"},
    {"{{ 'aaa'.replace('a', 'b') }}|{{ 'aaa'.replace('a', 'b', 1) }}", "bbb|baa"},
    {"{{ 'abc'.replace('', '.') }}|{{ 'é'.replace('', '-') }}", ".a.b.c.|-é-"},
    {"{{ 'ab'.replace('', '-', 2) }}|{{ 'a'.replace('a', '') }}", "-a-b|"},
    {"{{ 'aaa'.replace('a', 'b', -1) }}|{{ '12'.isdigit() }}", "bbb|True"},
    {"{{ '1a'.isdigit() }}|{{ ''.isdigit() }}|{{ '²'.isdigit() }}", "False|False|True"},
    {"{{ '½'.isnumeric() }}|{{ '12'.isdecimal() }}|{{ '٣'.isdigit() }}", "True|True|True"},
    {"{{ 'ab'.isalpha() }}|{{ 'a1'.isalpha() }}|{{ 'é'.isalpha() }}", "True|False|True"},
    {"{{ 'a1'.isalnum() }}|{{ 'a b'.isalnum() }}|{{ ''.isalnum() }}", "True|False|False"},
    {R"({{ '½'.isalnum() }}|{{ ' \n'.isspace() }}|{{ ''.isspace() }})", "True|True|False"},
    {"{{ 'a '.isspace() }}|{{ 'AB'.isupper() }}|{{ 'A1'.isupper() }}", "False|True|True"},
    {"{{ '1'.isupper() }}|{{ 'aB'.isupper() }}|{{ 'ab'.islower() }}", "False|False|True"},
    {"{{ 'a1'.islower() }}|{{ 'Ab'.islower() }}|{{ 'Ab Cd'.istitle() }}", "True|False|True"},
    {"{{ 'AB'.istitle() }}|{{ 'abc'.isascii() }}|{{ 'é'.isascii() }}", "False|True|False"},
    {"{{ ''.isascii() }}|{{ 'a_1'.isidentifier() }}", "True|True"},
    {"{{ '1a'.isidentifier() }}|{{ 'a=b=c'.partition('=') }}", "False|('a', '=', 'b=c')"},
    {"{{ 'abc'.partition('=') }}|{{ 'a=b=c'.rpartition('=') }}",
     "('abc', '', '')|('a=b', '=', 'c')"},
    {"{{ 'abc'.rpartition('=') }}|{{ 'ab'.center(5) }}", "('', '', 'abc')|  ab "},
    {"{{ 'ab'.center(5, '*') }}|{{ 'abc'.center(6, '*') }}", "**ab*|*abc**"},
    {"{{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4, '.') }}|{{ '5'.zfill(3) }}", "ab  |..ab|005"},
    {"{{ '-5'.zfill(4) }}|{{ 'abc'.zfill(2) }}|{{ 'é'.ljust(3, 'ü') }}", "-005|abc|éüü"},
    {R"({{ 'a\tb'.expandtabs(4) }}|{{ '%s' % 'a' }})", "a   b|a"},
    {"{{ '%s %s' % ('a', 1) }}|{{ '%d' % 3.7 }}", "a 1|3"},
    {"{{ '%5d|%-5d|%05d' % (1, 2, 3) }}|{{ '%.2f' % 1.256 }}", "    1|2    |00003|1.26"},
    {"{{ '%x %X %o' % (255, 255, 8) }}|{{ '%r' % 'a' }}", "ff FF 10|'a'"},
    {"{{ '%c%c' % (65, 'b') }}|{{ '%%' % () }}", "Ab|%"},
    {"{{ '%(a)s %(b)d' % {'a': 'x', 'b': 2} }}|{{ '%5.1f|' % 2.25 }}", "x 2|  2.2|"},
    {"{{ '%s' % [1] }}|{{ '%e' % 12345.678 }}|{{ '%g' % 0.00001 }}", "[1]|1.234568e+04|1e-05"},
    {"{{ '%+d' % 5 }}|{{ '%i' % true }}|{{ '%.2s' % 'abc' }}", "+5|1|ab"},
    {"{{ '%6s|' % 'é' }}|{{ '%-6s|' % 'é' }}|{{ '%s' % none }}", "     é||é     ||None"},
    {"{{ 'abc' % {} }}|{{ '%d' % -5 }}|{{ 'abc'['upper']() }}", "abc|-5|ABC"},
};
TEST(Jinja, StringMethods_WhenRendered_MatchJinja2) {
  expect_texts(kStringMethods);
}

constexpr Case kListsDictsAndTheirPrintedForms[] = {
    {"{{ l.index(1) }}|{{ l.count(3) }}|{{ (1, 1).count(1) }}", "1|1|2"},
    {"{{ (1, 2).index(2) }}|{{ ['a', 'b', 'a'].count('a') }}", "1|2"},
    {"{{ l.copy() }}|{{ [1, 2, 1].index(1, 1) }}|{{ x.keys() | list }}",
     "[3, 1, 2]|2|['b', 'A', 'c']"},
    {"{{ x.values() | list }}", "[1, [1, 2], {'d': None}]"},
    {"{{ x.items() | list }}|{{ x.get('b') }}|{{ x.get('zz') }}",
     "[('b', 1), ('A', [1, 2]), ('c', {'d': None})]|1|None"},
    {"{{ x.get('zz', 5) }}|{{ x.get('c').get('d', 7) }}|{{ x.copy() }}",
     "5|None|{'b': 1, 'A': [1, 2], 'c': {'d': None}}"},
    {"{{ x.keys() | length }}", "3"},
    {"{% for k in x %}{{ k }},{% endfor %} {% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %} "
     "{{ x | list }} {{ 'b' in x.keys() }} {{ 1 in x.values() }}",
     "b,A,c, b=1;A=[1, 2];c={'d': None}; ['b', 'A', 'c'] True True"},
    {"{{ {1: 'a', 'b': 2} }}|{{ {1: 'a'}[1] }}|{{ {true: 'y'}[true] }}", "{1: 'a', 'b': 2}|a|y"},
    {"{{ {none: 1} }}|{{ {1: 'a'}.get(1) }}|{{ {1: 2}.items() | list }}", "{None: 1}|a|[(1, 2)]"},
    {"{{ {1.5: 'f'}[1.5] }}|{{ {(1, 2): 'p'}[(1, 2)] }}", "f|p"},
    {"{{ {1: 'a'}[1.0] }}|{{ 1 in {1: 2} }}|{{ '1' in {1: 2} }}", "a|True|False"},
    {"{{ {1: 'a'} | tojson }}|{{ {1: 'a', 2: 'b'} | list }}", R"({"1": "a"}|[1, 2])"},
    {"{{ {1: 1} == {1: 1} }}|{{ {'a': 1, 'a': 2} }}|{{ dict(a=1, b=2) }}",
     "True|{'a': 2}|{'a': 1, 'b': 2}"},
    {"{{ dict({'a': 1}, b=2) }}|{{ dict() }}", "{'a': 1, 'b': 2}|{}"},
    {"{{ dict([('a', 1), ('b', 2)]) }}|{{ dict(x, b=5).b }}", "{'a': 1, 'b': 2}|5"},
    {"{{ dict(x.items()) == x }}|{{ dict([[1, 2]]) }}", "True|{1: 2}"},
    {"{{ range(5) | list }}|{{ range(2, 5) | list }}", "[0, 1, 2, 3, 4]|[2, 3, 4]"},
    {"{{ range(5, 0, -2) | list }}|{{ range(0) | list }}", "[5, 3, 1]|[]"},
    {"{{ range(3, 1) | list }}|{{ range(-2) | list }}|{{ range(3)[1] }}", "[]|[]|1"},
    {"{{ range(10) | length }}|{{ range(true) | list }}", "10|[0]"},
    {"{{ 2 in range(3) }}|{{ [1, [2, 'a'], {'k': (1,)}] }}|{{ (1,) }}",
     "True|[1, [2, 'a'], {'k': (1,)}]|(1,)"},
    {"{{ () }}|{{ [] }}|{{ {} }}", "()|[]|{}"},
    {R"({{ [none, true, 1.0, 'it\'s', "q\"", 'b\'"'] }})",
     R"([None, True, 1.0, "it's", 'q"', 'b\'"'])"},
    {R"({{ ['a\nb\t\\', '\x01\x7f', 'é', '\u00a0\u200b\u2028', '\U0001F600'] }})",
     R"(['a\nb\t\\', '\x01\x7f', 'é', '\xa0\u200b\u2028', '😀'])"},
    {"{{ [1, 2], 3 }}|{{ 1, }}", "([1, 2], 3)|(1,)"},
};
TEST(Jinja, ListsAndDicts_WhenPrinted_MatchJinja2) {
  expect_texts(kListsDictsAndTheirPrintedForms);
}

constexpr Case kStatements[] = {
    {"{% if false %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %}{% if zz %}e{% else %}f{% "
     "endif %}",
     "cf"},
    {"{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ "
     "loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
     "1032TrueFalse310;2121FalseFalse310;3210FalseTrue310;"},
    {"{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }}{{ loop.previtem is defined "
     "}}{{ loop.cycle('a', 'b') }};{% endfor %}",
     "<3>1Falsea;3<1>2Trueb;1<2>Truea;"},
    {"{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }},{% endfor %}",
     "True,False,True,False,True,"},
    {"{% for i in [] %}a{% else %}none{% endfor %}{% for i in zz %}a{% else %}undef{% endfor %}{% "
     "for i in l if i > 5 %}a{% else %}filtered{% endfor %}",
     "noneundeffiltered"},
    {"{% for i in l if i != 1 %}{{ loop.index }}{{ i }}{{ loop.last }};{% endfor %}",
     "13False;22True;"},
    {"{% for c in u %}{{ c }}.{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}{% for k in "
     "{'a': 1} %}{{ k }}{% endfor %}{% for i in (1, 2) %}{{ i }}{% endfor %}{% for i in 1, 2 %}{{ "
     "i }}{% endfor %}",
     "h.é.l.l.o. .😀.012a1212"},
    {"{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}{% "
     "for i in [1] %}{% set o = loop %}{% for j in [1, 2] %}{{ o.index }}{{ loop.index }}{% endfor "
     "%}{% endfor %}",
     "1231;1232;1233;1112"},
    {"{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% "
     "endif %}{{ i }}{% endfor %}{% for i in [1] %}{% break %}{% else %}x{% endfor %}",
     "02x"},
    {"{% for i in range(3) %}{% with a = i %}{% if a == 1 %}{% break %}{% endif %}{{ a }}{% "
     "endwith %}{% endfor %}",
     "0"},
    {"{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% for i in [1] %}{{ x }}{% set "
     "x = 3 %}{{ x }}{% endfor %}{{ x }}{% with %}{% set x = 9 %}{{ x }}{% endwith %}{{ x }}",
     "223292"},
    {"{% set ns = namespace(a=1, b=[]) %}{% for i in l %}{% set ns.a = ns.a + i %}{% set ns.b = "
     "ns.b + [i] %}{% endfor %}{{ ns.a }}{{ ns.b }}{% set ns.new = 5 %}{{ ns.new }}{{ ns['a'] }}{{ "
     "ns.zz is defined }}{% set m = namespace({'k': 1}, j=2) %}{{ m.k }}{{ m.j }}",
     "7[3, 1, 2]57False12"},
    {"{% set t %}a{{ 1 }}{% if true %}b{% endif %}{% endset %}[{{ t }}]{{ t is string }}{% set v | "
     "upper | replace('A', 'x') %}abc{% endset %}{{ v }}{% set ns = namespace() %}{% set ns.t "
     "%}q{% endset %}{{ ns.t }}",
     "[a1b]TruexBCq"},
    {"{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ "
     "m(1, c=5) }} {{ m(b=1, a=2) }} {{ m() }}|",
     "121 131 125 212 2|"},
    {"{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}{% for i in [1] "
     "%}{% set g = 3 %}{{ m() }}{% endfor %}{% macro n() %}{{ m() }}{{ later() }}{% endmacro %}{% "
     "macro later() %}L{% endmacro %}{{ n() }}",
     "222L"},
    {"{% macro fact(n) %}{% if n <= 1 %}1{% else %}{{ n * fact(n - 1) | int }}{% endif %}{% "
     "endmacro %}{{ fact(5) }}",
     "120"},
    {"{% macro w(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b) w(1) %}{{ a }}-{{ b }}{% "
     "endcall %}{% macro v() %}{{ caller() if caller else 'no' }}{% endmacro %}{{ v() }}{% call "
     "v() %}yes{% endcall %}",
     "<1-2>noyes"},
    {"{% macro m() %}  x  {% endmacro %}[{{ m() | trim }}]{{ m() is string }}{{ m is callable }}{% "
     "macro ret() %}{% set inner = 4 %}{% endmacro %}{{ ret() }}{{ inner is defined }}",
     "[x]TrueTrueFalse"},
    {"{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% set a = 5 %}{% with a "
     "= 6, b = a %}{{ b }}{% endwith %}{{ a }}",
     "12False55"},
    {"{% for i in l %}{% set q = i %}{% endfor %}{{ q is defined }}{% for i in [1] %}{% if true "
     "%}{% set r = 1 %}{% endif %}{{ r }}{% endfor %}{{ r is defined }}{{ i is defined }}{{ loop "
     "is defined }}",
     "False1FalseFalseFalse"},
    {"{{ strftime_now('%d %B %Y, %A %j') }} {{ strftime_now('') }}| {{ strftime_now('%Y-%m-%d') }} "
     "{{ strftime_now('%-d') }}",
     "15 January 2026, Thursday 015 | 2026-01-15 15"},
    {"{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools }}{{ messages | length "
     "}}{{ messages[0] }}",
     "<s></s>TrueNone2{'role': 'user', 'content': 'Hi'}"},
    {"{% for m in messages %}{{ m['role'] }}:{{ m.content }}{{ m.get('name', '-') }}{{ '' if "
     "loop.last else '|' }}{% endfor %}",
     "user:Hi-|assistant:Yo-"},
    {"{% set f = s.upper %}{{ f() }}{% set g = range %}{{ g(2) | list }}{{ [s.lower][0]() }}",
     "HELLO WORLD[0, 1]hello world"},
    {"{{ m2(1) if false else 'ok' }}{{ zz.a.b if zz is defined else 'safe' }}{{ (zz or {}).a is "
     "defined }}{{ x.zz.q if x.zz else 'none' }}",
     "oksafeFalsenone"},
    {"{% if x.b is defined and x.b == 1 %}1{% endif %}{% if not zz %}2{% endif %}{% if 'a' in "
     "'abc' and not 'z' in 'abc' %}3{% endif %}",
     "123"},
    {"{% set a = [1] %}{% set b = a %}{{ a is sameas b }}{% set d = {'k': [1]} %}{{ d.k + [2] }}{{ "
     "d }}",
     "True[1, 2]{'k': [1]}"},
    {"{% set x %}{% endset %}[{{ x }}]{% for i in [1, 2] -%} {{ i }} {%- endfor %}", "[]12"},
    {"{% if false %}{{ 1 | nope }}{% endif %}x", "x"},
    {"{{ loop }}", ""},
    {"{{ 'İ'.lower() }} {{ 'ﬁ'.upper() }} {{ 'ß'.title() }} {{ 'ǆ'.title() }} {{ 'ŉ' | capitalize "
     "}}",
     "i̇ FI Ss ǅ ʼN"},
    {"{% generation %}a{{ 1 }}{% endgeneration %}", "a1"},
    {"{{ 'abc' | list | last }} {{ l | sort(reverse=true) | join('>') }}", "c 3>2>1"},
    {"{{ x | length > 2 and l | length == 3 }} {{ (s | length) * 2 }} {{ -1 | abs + 2 }}",
     "True 22 3"},
    {"{% set x = namespace(n=0) %}{% for i in range(3) %}{% for j in range(3) if j <= i %}{% set "
     "x.n = x.n + 1 %}{% endfor %}{% endfor %}{{ x.n }}",
     "6"},
    {"{% for i in [1] %}{% continue %}{% else %}x{% endfor %}", "x"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}", "12(1, 2)"},
    {"{{ \"a\" if l else \"b\" if s else \"c\" }} {{ ('a' if false else none) is none }}",
     "a True"},
    {"{{ (not l) is false }} {{ 'x' in ['x'] and 'y' }} {{ l is not string and l is iterable }}",
     "True y True"},
    {"{{ n | default('z') }} {{ none ~ '' }} {{ '' ~ 1.0 }} {{ true ~ false }}",
     "None None 1.0 TrueFalse"},
    {"{{ s | replace('World', 'You') | upper | trim('!') }}", "HELLO YOU"},
    {"{{ f is number and f is not integer }} {{ 3 is in [1, 2, 3] }} {{ 'k' in {'k': 1} }}",
     "True True True"},
    {"{{ messages | map(attribute='content') | join(' ') }} {{ messages | selectattr('role', "
     "'equalto', 'user') | map(attribute='content') | first }}",
     "Hi Yo Hi"},
    {"{{ messages[-1].role }} {{ messages[1:] | length }} {{ messages[::-1][0]['content'] }}",
     "assistant 1 Yo"},
    {"{{ '-' * 3 }}{{ '=' * 0 }}{{ 2 * 'ab' }} {{ [0] * 3 }}", "---abab [0, 0, 0]"},
    {"{{ x.c.d is none }} {{ x.get('zz', {}).get('y', 'deep') }} {{ 'zz' not in x }}",
     "True deep True"},
    {"{% set y = x.b if x.b is defined else 0 %}{{ y }} {% set z = (l | first) + 1 %}{{ z }}",
     "1 4"},
    {"{% set j = joiner(' + ') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}{% set k = joiner() "
     "%}{{ k() }}{{ k() }}",
     "3 + 1 + 2, "},
    {"{% set (d, e) = [3, 4] %}{{ d }}{{ e }}{% for (p, q), r in [((1, 2), 3)] %}{{ p }}{{ q }}{{ "
     "r }}{% endfor %}",
     "34123"},
    {"{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
    {"{% for i in range(4) %}{% for j in range(4) %}{% if j > i %}{% break %}{% endif %}{{ j }}{% "
     "endfor %};{% endfor %}",
     "0;01;012;0123;"},
    {"{% macro m(x) %}{% for i in x %}{{ i }}{% if i > 1 %}{% break %}{% endif %}{% endfor %}{% "
     "endmacro %}{% for k in [1] %}{{ m([1, 2, 3]) }}{% endfor %}",
     "12"},
    {"{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.role[0] | upper "
     "%}{% endfor %}{{ ns.t }}",
     "UA"},
    {"{{ '%s' | format([1, 2]) }} {{ '%-5s|' | format('a') }} {{ '% d' % 5 }} {{ '%#x' % 255 }} {{ "
     "'%.3d' % 7 }} {{ '%G' % 1e-10 }} {{ '%a' % 'x' }}",
     "[1, 2] a    |  5 0xff 007 1E-10 'x'"},
    {"{{ '{:>+8.2f}'.format(2.5) }} {{ '{:<6}|'.format(1) }} {{ '{:=+5}'.format(3) }} {{ "
     "'{:#x}'.format(255) }} {{ '{:o}'.format(8) }} {{ '{:c}'.format(65) }} {{ "
     "'{:_}'.format(12345) }} {{ '{!s:>4}'.format(1) }} {{ '{: d}'.format(4) }} {{ "
     "'{:.1%}'.format(0.123) }} {{ '{:X}'.format(255) }} {{ '{:.3}'.format(1.0) }} {{ "
     "'{:é>4}'.format('a') }} {{ '{:5}|'.format('ab') }} {{ '{:,}'.format(123) }} {{ "
     "'{:08.3f}'.format(-3.14159) }} {{ '{0}{0}'.format('x') }}",
     "   +2.50 1     | +   3 0xff 10 A 12_345    1  4 12.3% FF 1.0 éééa ab   | 123 -003.142 xx"},
    {"{{ ['\\r'] }} {{ [zz] }} {{ {none: 1, true: 2, 1.5: 3} | tojson }} {{ s | attr('upper')() }} "
     "{{ '{:>5}'.format(1.5) }}",
     R"(['\r'] [Undefined] {"null": 1, "true": 2, "1.5": 3} HELLO WORLD   1.5)"},
    {"{{ '1__0' | int }} {{ '_1' | float }} {{ '1_' | int }} {{ '%c' % 233 }} {{ {1.5: {2: "
     "'a'}}[1.5][2] }} {{ {true: 1, 1: 2} }}",
     "0 0.0 0 é a {True: 2}"},
    {"{{ {'é': 1, 'b': 2} | tojson(sort_keys=true) }} {{ {2: 'b', 1: 'a'} | tojson(sort_keys=true) "
     "}} {{ {'b': 1, 'a': 2} | dictsort(by='key') }}",
     R"({"b": 2, "é": 1} {"1": "a", "2": "b"} [('a', 2), ('b', 1)])"},
    {"{{ 'a\\tb\\n\\tc'.expandtabs() }} {{ 'ab'.expandtabs(0) }} {{ 'x'.ljust(0) }} {{ "
     "'+5'.zfill(4) }} {{ '{:^5}|'.format('é') }}",
     "a       b\n        c ab x +005   é  |"},
    {"{{ none | map('upper') | list }} {{ n | selectattr('k') | list }} {{ n | select | list }} {{ "
     "0 | reject | list }} {{ x.zz | rejectattr('k') | list }}",
     "[] [] [] [] []"},
    {"{{ rows | sort(attribute='zz') | map(attribute='v') | list }} {{ [none, none] | sort }} {{ "
     "(1.5 | safe) is string }}",
     "[2, 1, 3] [None, None] True"},
    {"{{ 1 if [] | map('upper') else 2 }} {{ 1 if l | select('gt', 9) else 2 }} {{ 1 if l | "
     "select('gt', 9) | list else 2 }} {{ 1 if rows | selectattr('zz') else 2 }}",
     "1 1 2 1"},
    {"{{ 1 if {} | items else 2 }} {{ 1 if {}.items() else 2 }} {{ 1 if range(0) else 2 }} {{ 1 if "
     "[] | reverse else 2 }} {{ 1 if [] | unique else 2 }} {{ 1 if [] | batch(2) else 2 }} {{ 1 if "
     "[] | sort else 2 }} {{ 1 if [] | groupby('k') else 2 }}",
     "1 2 2 1 1 1 2 2"},
};
TEST(Jinja, Statements_WhenRendered_MatchJinja2) {
  expect_texts(kStatements);
}

struct Row {
  std::string_view op, left, results;  // with each of kRight in turn; ! = refused
};
constexpr std::string_view kRight[] = {"2",    "2.5",      "true", "'a'", "[1]",
                                       "(1,)", "{'a': 1}", "none", "zz"};
constexpr Row kRows[] = {
    {"+", "2", "4 ; 4.5 ; 3 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"+", "2.5", "4.5 ; 5.0 ; 3.5 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"+", "true", "3 ; 3.5 ; 2 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"+", "'a'", "! ; ! ; ! ; aa ; ! ; ! ; ! ; ! ; !"},
    {"+", "[1]", "! ; ! ; ! ; ! ; [1, 1] ; ! ; ! ; ! ; !"},
    {"+", "(1,)", "! ; ! ; ! ; ! ; ! ; (1, 1) ; ! ; ! ; !"},
    {"+", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"+", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"+", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "2", "0 ; -0.5 ; 1 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "2.5", "0.5 ; 0.0 ; 1.5 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "true", "-1 ; -1.5 ; 0 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "'a'", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "[1]", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "(1,)", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"-", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "2", "4 ; 5.0 ; 2 ; aa ; [1, 1] ; (1, 1) ; ! ; ! ; !"},
    {"*", "2.5", "5.0 ; 6.25 ; 2.5 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "true", "2 ; 2.5 ; 1 ; a ; [1] ; (1,) ; ! ; ! ; !"},
    {"*", "'a'", "aa ; ! ; a ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "[1]", "[1, 1] ; ! ; [1] ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "(1,)", "(1, 1) ; ! ; (1,) ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"*", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "2", "1.0 ; 0.8 ; 2.0 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "2.5", "1.25 ; 1.0 ; 2.5 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "true", "0.5 ; 0.4 ; 1.0 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "'a'", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "[1]", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "(1,)", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"/", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "2", "1 ; 0.0 ; 2 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "2.5", "1.0 ; 1.0 ; 2.0 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "true", "0 ; 0.0 ; 1 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "'a'", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "[1]", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "(1,)", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"//", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "2", "0 ; 2.0 ; 0 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "2.5", "0.5 ; 0.0 ; 0.5 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "true", "1 ; 1.0 ; 0 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "'a'", "! ; ! ; ! ; ! ; a ; ! ; a ; ! ; !"},
    {"%", "[1]", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "(1,)", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"%", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "2", "4 ; 5.656854249492381 ; 2 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "2.5", "6.25 ; 9.882117688026186 ; 2.5 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "true", "1 ; 1.0 ; 1 ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "'a'", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "[1]", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "(1,)", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"**", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"~", "2", "22 ; 22.5 ; 2True ; 2a ; 2[1] ; 2(1,) ; 2{'a': 1} ; 2None ; 2"},
    {"~", "2.5", "2.52 ; 2.52.5 ; 2.5True ; 2.5a ; 2.5[1] ; 2.5(1,) ; 2.5{'a': 1} ; 2.5None ; 2.5"},
    {"~", "true",
     "True2 ; True2.5 ; TrueTrue ; Truea ; True[1] ; True(1,) ; True{'a': 1} ; TrueNone ; True"},
    {"~", "'a'", "a2 ; a2.5 ; aTrue ; aa ; a[1] ; a(1,) ; a{'a': 1} ; aNone ; a"},
    {"~", "[1]", "[1]2 ; [1]2.5 ; [1]True ; [1]a ; [1][1] ; [1](1,) ; [1]{'a': 1} ; [1]None ; [1]"},
    {"~", "(1,)",
     "(1,)2 ; (1,)2.5 ; (1,)True ; (1,)a ; (1,)[1] ; (1,)(1,) ; (1,){'a': 1} ; (1,)None ; (1,)"},
    {"~", "{'a': 1}",
     "{'a': 1}2 ; {'a': 1}2.5 ; {'a': 1}True ; {'a': 1}a ; {'a': 1}[1] ; {'a': 1}(1,) ; {'a': "
     "1}{'a': 1} ; {'a': 1}None ; {'a': 1}"},
    {"~", "none",
     "None2 ; None2.5 ; NoneTrue ; Nonea ; None[1] ; None(1,) ; None{'a': 1} ; NoneNone ; None"},
    {"~", "zz", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"==", "2", "True ; False ; False ; False ; False ; False ; False ; False ; False"},
    {"==", "2.5", "False ; True ; False ; False ; False ; False ; False ; False ; False"},
    {"==", "true", "False ; False ; True ; False ; False ; False ; False ; False ; False"},
    {"==", "'a'", "False ; False ; False ; True ; False ; False ; False ; False ; False"},
    {"==", "[1]", "False ; False ; False ; False ; True ; False ; False ; False ; False"},
    {"==", "(1,)", "False ; False ; False ; False ; False ; True ; False ; False ; False"},
    {"==", "{'a': 1}", "False ; False ; False ; False ; False ; False ; True ; False ; False"},
    {"==", "none", "False ; False ; False ; False ; False ; False ; False ; True ; False"},
    {"==", "zz", "False ; False ; False ; False ; False ; False ; False ; False ; True"},
    {"!=", "2", "False ; True ; True ; True ; True ; True ; True ; True ; True"},
    {"!=", "2.5", "True ; False ; True ; True ; True ; True ; True ; True ; True"},
    {"!=", "true", "True ; True ; False ; True ; True ; True ; True ; True ; True"},
    {"!=", "'a'", "True ; True ; True ; False ; True ; True ; True ; True ; True"},
    {"!=", "[1]", "True ; True ; True ; True ; False ; True ; True ; True ; True"},
    {"!=", "(1,)", "True ; True ; True ; True ; True ; False ; True ; True ; True"},
    {"!=", "{'a': 1}", "True ; True ; True ; True ; True ; True ; False ; True ; True"},
    {"!=", "none", "True ; True ; True ; True ; True ; True ; True ; False ; True"},
    {"!=", "zz", "True ; True ; True ; True ; True ; True ; True ; True ; False"},
    {"<", "2", "False ; True ; False ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<", "2.5", "False ; False ; False ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<", "true", "True ; True ; False ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<", "'a'", "! ; ! ; ! ; False ; ! ; ! ; ! ; ! ; !"},
    {"<", "[1]", "! ; ! ; ! ; ! ; False ; ! ; ! ; ! ; !"},
    {"<", "(1,)", "! ; ! ; ! ; ! ; ! ; False ; ! ; ! ; !"},
    {"<", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<=", "2", "True ; True ; False ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<=", "2.5", "False ; True ; False ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<=", "true", "True ; True ; True ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<=", "'a'", "! ; ! ; ! ; True ; ! ; ! ; ! ; ! ; !"},
    {"<=", "[1]", "! ; ! ; ! ; ! ; True ; ! ; ! ; ! ; !"},
    {"<=", "(1,)", "! ; ! ; ! ; ! ; ! ; True ; ! ; ! ; !"},
    {"<=", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<=", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"<=", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {">", "2", "False ; False ; True ; ! ; ! ; ! ; ! ; ! ; !"},
    {">", "2.5", "True ; False ; True ; ! ; ! ; ! ; ! ; ! ; !"},
    {">", "true", "False ; False ; False ; ! ; ! ; ! ; ! ; ! ; !"},
    {">", "'a'", "! ; ! ; ! ; False ; ! ; ! ; ! ; ! ; !"},
    {">", "[1]", "! ; ! ; ! ; ! ; False ; ! ; ! ; ! ; !"},
    {">", "(1,)", "! ; ! ; ! ; ! ; ! ; False ; ! ; ! ; !"},
    {">", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {">", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {">", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {">=", "2", "True ; False ; True ; ! ; ! ; ! ; ! ; ! ; !"},
    {">=", "2.5", "True ; True ; True ; ! ; ! ; ! ; ! ; ! ; !"},
    {">=", "true", "False ; False ; True ; ! ; ! ; ! ; ! ; ! ; !"},
    {">=", "'a'", "! ; ! ; ! ; True ; ! ; ! ; ! ; ! ; !"},
    {">=", "[1]", "! ; ! ; ! ; ! ; True ; ! ; ! ; ! ; !"},
    {">=", "(1,)", "! ; ! ; ! ; ! ; ! ; True ; ! ; ! ; !"},
    {">=", "{'a': 1}", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {">=", "none", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {">=", "zz", "! ; ! ; ! ; ! ; ! ; ! ; ! ; ! ; !"},
    {"in", "2", "! ; ! ; ! ; ! ; False ; False ; False ; ! ; False"},
    {"in", "2.5", "! ; ! ; ! ; ! ; False ; False ; False ; ! ; False"},
    {"in", "true", "! ; ! ; ! ; ! ; True ; True ; False ; ! ; False"},
    {"in", "'a'", "! ; ! ; ! ; True ; False ; False ; True ; ! ; False"},
    {"in", "[1]", "! ; ! ; ! ; ! ; False ; False ; ! ; ! ; False"},
    {"in", "(1,)", "! ; ! ; ! ; ! ; False ; False ; False ; ! ; False"},
    {"in", "{'a': 1}", "! ; ! ; ! ; ! ; False ; False ; ! ; ! ; False"},
    {"in", "none", "! ; ! ; ! ; ! ; False ; False ; False ; ! ; False"},
    {"in", "zz", "! ; ! ; ! ; ! ; False ; False ; False ; ! ; False"},
    {"not in", "2", "! ; ! ; ! ; ! ; True ; True ; True ; ! ; True"},
    {"not in", "2.5", "! ; ! ; ! ; ! ; True ; True ; True ; ! ; True"},
    {"not in", "true", "! ; ! ; ! ; ! ; False ; False ; True ; ! ; True"},
    {"not in", "'a'", "! ; ! ; ! ; False ; True ; True ; False ; ! ; True"},
    {"not in", "[1]", "! ; ! ; ! ; ! ; True ; True ; ! ; ! ; True"},
    {"not in", "(1,)", "! ; ! ; ! ; ! ; True ; True ; True ; ! ; True"},
    {"not in", "{'a': 1}", "! ; ! ; ! ; ! ; True ; True ; ! ; ! ; True"},
    {"not in", "none", "! ; ! ; ! ; ! ; True ; True ; True ; ! ; True"},
    {"not in", "zz", "! ; ! ; ! ; ! ; True ; True ; True ; ! ; True"},
    {"and", "2", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "2.5", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "true", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "'a'", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "[1]", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "(1,)", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "{'a': 1}", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"and", "none", "None ; None ; None ; None ; None ; None ; None ; None ; None"},
    {"and", "zz", " ;  ;  ;  ;  ;  ;  ;  ; "},
    {"or", "2", "2 ; 2 ; 2 ; 2 ; 2 ; 2 ; 2 ; 2 ; 2"},
    {"or", "2.5", "2.5 ; 2.5 ; 2.5 ; 2.5 ; 2.5 ; 2.5 ; 2.5 ; 2.5 ; 2.5"},
    {"or", "true", "True ; True ; True ; True ; True ; True ; True ; True ; True"},
    {"or", "'a'", "a ; a ; a ; a ; a ; a ; a ; a ; a"},
    {"or", "[1]", "[1] ; [1] ; [1] ; [1] ; [1] ; [1] ; [1] ; [1] ; [1]"},
    {"or", "(1,)", "(1,) ; (1,) ; (1,) ; (1,) ; (1,) ; (1,) ; (1,) ; (1,) ; (1,)"},
    {"or", "{'a': 1}",
     "{'a': 1} ; {'a': 1} ; {'a': 1} ; {'a': 1} ; {'a': 1} ; {'a': 1} ; {'a': 1} ; {'a': 1} ; "
     "{'a': 1}"},
    {"or", "none", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
    {"or", "zz", "2 ; 2.5 ; True ; a ; [1] ; (1,) ; {'a': 1} ; None ; "},
};
TEST(Jinja, Operators_WithEveryPairOfTypes_MatchJinja2) {
  for (const Row& row : kRows) {
    std::string results;
    for (const std::string_view right : kRight) {
      const std::string source = "{{ " + std::string(row.left) + " " + std::string(row.op) + " " +
                                 std::string(right) + " }}";
      const std::string text = render(source);
      if (right != kRight[0]) results += " ; ";
      results += text.starts_with("render: ") ? "!" : text;
    }
    EXPECT_EQ(results, row.results) << row.left << ' ' << row.op;
  }
}

// Jinja2 refuses these too, in other words.
constexpr Case kErrorsOfRenderingNameTheLine[] = {
    {"{{ 1 / 0 }}", "division by zero"},
    {"{{ 1 // 0 }}", "division by zero"},
    {"{{ 1 % 0 }}", "division by zero"},
    {"{{ 1.0 / 0 }}", "division by zero"},
    {"{{ 5.5 % 0.0 }}", "division by zero"},
    {"{{ 0 ** -1 }}", "0.0 cannot be raised to a negative power"},
    {"{{ 10.0 ** 400 }}", "numerical result out of range in '**'"},
    {"{{ 'a' + 1 }}", "unsupported operand type(s) for +: 'str' and 'int'"},
    {"{{ 1 + 'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"},
    {"{{ [1] + (1,) }}", "unsupported operand type(s) for +: 'list' and 'tuple'"},
    {"{{ none + 1 }}", "unsupported operand type(s) for +: 'NoneType' and 'int'"},
    {"{{ 'a' - 'b' }}", "unsupported operand type(s) for -: 'str' and 'str'"},
    {"{{ {} + {} }}", "unsupported operand type(s) for +: 'dict' and 'dict'"},
    {"{{ 'a' * 'b' }}", "unsupported operand type(s) for *: 'str' and 'str'"},
    {"{{ 'a' * 1.5 }}", "unsupported operand type(s) for *: 'str' and 'float'"},
    {"{{ [1] * 1.5 }}", "unsupported operand type(s) for *: 'list' and 'float'"},
    {"{{ -'a' }}", "bad operand type for unary -: 'str'"},
    {"{{ +none }}", "bad operand type for unary +: 'NoneType'"},
    {"{{ -[] }}", "bad operand type for unary -: 'list'"},
    {"{{ 1 < 'a' }}", "'<' not supported between instances of 'int' and 'str'"},
    {"{{ none < 1 }}", "'<' not supported between instances of 'NoneType' and 'int'"},
    {"{{ {} < {} }}", "'<' not supported between instances of 'dict' and 'dict'"},
    {"{{ [1] < (1,) }}", "'<' not supported between instances of 'list' and 'tuple'"},
    {"{{ [1, 'a'] < [1, 2] }}", "'<' not supported between instances of 'str' and 'int'"},
    {"{{ zz < 1 }}", "'zz' is undefined"},
    {"{{ zz + 1 }}", "'zz' is undefined"},
    {"{{ -zz }}", "'zz' is undefined"},
    {"{{ 1 in 5 }}", "argument of type 'int' is not iterable"},
    {"{{ 1 in 'a' }}", "'in <string>' requires string as left operand, not int"},
    {"{{ 1 in none }}", "argument of type 'NoneType' is not iterable"},
    {"{{ zz() }}", "'zz' is undefined"},
    {"{{ 'a'() }}", "'str' object is not callable"},
    {"{{ s.nope() }}", "'str object' has no attribute 'nope'"},
    {"{{ zz.a }}", "'zz' is undefined"},
    {"{{ zz['a'] }}", "'zz' is undefined"},
    {"{{ zz[0] }}", "'zz' is undefined"},
    {"{{ x.zz.y }}", "'dict object' has no attribute 'zz'"},
    {"{{ x['zz'].y }}", "'dict object' has no attribute 'zz'"},
    {"{{ l[9].a }}", "'list object' has no element 9"},
    {"{{ zz[1:] }}", "'zz' is undefined"},
    {"{{ x[1:] }}", "'dict' object is not subscriptable"},
    {"{{ l[::0] }}", "slice step cannot be zero"},
    {"{{ l['a':] }}", "slice indices must be integers or None"},
    {"{{ l[1.5:] }}", "slice indices must be integers or None"},
    {"{% for i in 5 %}{% endfor %}", "'int' object is not iterable"},
    {"{% for i in none %}{% endfor %}", "'NoneType' object is not iterable"},
    {"{% for a, b in [1] %}{% endfor %}", "'int' object is not iterable"},
    {"{% for a, b in [(1, 2, 3)] %}{% endfor %}", "expected 2 values to unpack, got 3"},
    {"{% set a, b = 1, 2, 3 %}", "expected 2 values to unpack, got 3"},
    {"{% set x.y = 1 %}", "cannot assign attribute on non-namespace object"},
    {"{% set zz.y = 1 %}", "cannot assign attribute on non-namespace object"},
    {"{{ raise_exception('no') }}", "no"},
    {"{{ range() }}", "range takes one to three arguments"},
    {"{{ range(1, 2, 0) }}", "range() arg 3 must not be zero"},
    {"{{ range(1, 2, 3, 4) }}", "range takes one to three arguments"},
    {"{{ range('a') }}", "'str' object cannot be interpreted as an integer"},
    {"{{ range(1.5) }}", "'float' object cannot be interpreted as an integer"},
    {"{{ range(100001) }}", "Range too big. The sandbox blocks ranges larger than 100000."},
    {"{{ strftime_now() }}", "strftime_now needs a format"},
    {"{{ l.append(1) }}", "access to attribute 'append' of 'list' object is unsafe"},
    {"{{ x.update({}) }}", "access to attribute 'update' of 'dict' object is unsafe"},
    {"{{ x.pop('b') }}", "access to attribute 'pop' of 'dict' object is unsafe"},
    {"{{ l.nope }}{{ l.sort() }}", "access to attribute 'sort' of 'list' object is unsafe"},
    {"{{ l.index(9) }}", "9 is not in list"},
    {"{{ s.index('z') }}", "substring not found"},
    {"{{ s.split('') }}", "empty separator"},
    {"{{ s.rsplit('') }}", "empty separator"},
    {"{{ s.partition('') }}", "empty separator"},
    {"{{ s.join() }}", "join needs an iterable"},
    {"{{ s.join([1]) }}", "sequence item: expected str instance, int found"},
    {"{{ s.startswith(1) }}", "startswith first arg must be str or a tuple of str, not int"},
    {"{{ s.startswith() }}", "startswith and endswith need an argument"},
    {"{{ s.replace('a') }}", "argument 'new' must be a string"},
    {"{{ s.replace(1, 2) }}", "argument 'old' must be a string"},
    {"{{ s.find(1) }}", "argument 'sub' must be a string"},
    {"{{ s.count() }}", "argument 'sub' must be a string"},
    {"{{ '{}'.format() }}", "format has no value for field ''"},
    {"{{ '{a}'.format() }}", "format has no value for field 'a'"},
    {"{{ '{'.format() }}", "Single '{' encountered in format string"},
    {"{{ '}'.format() }}", "Single '}' encountered in format string"},
    {"{{ '{:d}'.format('a') }}", "Unknown format code 'd' for object of type 'str'"},
    {"{{ '{:q}'.format(1) }}", "Unknown format code 'q' for object of type 'int'"},
    {"{{ '%s %s' % 'a' }}", "not enough arguments for format string"},
    {"{{ '%d' % 'a' }}", "%d format: a real number is required, not str"},
    {"{{ '%z' % 1 }}", "unsupported format character 'z'"},
    {"{{ '%s' % (1, 2) }}", "not all arguments converted during string formatting"},
    {"{{ '%' % 1 }}", "incomplete format"},
    {"{{ '%(a)s' % 1 }}", "format requires a mapping"},
    {"{{ 'a' % 1 }}", "not all arguments converted during string formatting"},
    {"{{ 5 | length }}", "object of type 'int' has no len()"},
    {"{{ none | length }}", "object of type 'NoneType' has no len()"},
    {"{{ 'a' | abs }}", "bad operand type for abs(): 'str'"},
    {"{{ zz | abs }}", "'zz' is undefined"},
    {"{{ zz | int }}", "'zz' is undefined"},
    {"{{ zz | float }}", "'zz' is undefined"},
    {"{{ 5 | list }}", "'int' object is not iterable"},
    {"{{ 5 | join }}", "'int' object is not iterable"},
    {"{{ 5 | first }}", "'int' object is not iterable"},
    {"{{ l | batch }}", "batch needs a positive size"},
    {"{{ 5 | dictsort }}", "dictsort needs a mapping"},
    {"{{ zz | dictsort }}", "'zz' is undefined"},
    {"{{ [1, 'a'] | sort }}", "'<' not supported between instances of 'str' and 'int'"},
    {"{{ [1, none] | max }}", "'<' not supported between instances of 'NoneType' and 'int'"},
    {"{{ ['a'] | sum }}", "unsupported operand type(s) for +: 'int' and 'str'"},
    {"{{ zz | round }}", "'zz' is undefined"},
    {"{{ 'a' | round }}", "type str doesn't define __round__ method"},
    {"{{ 1 | round(1, 'nope') }}", "method must be common, ceil or floor"},
    {"{{ l | map('nope') | list }}", "No filter named 'nope'."},
    {"{{ l | select('nope') | list }}", "No test named 'nope'."},
    {"{{ rows | selectattr | list }}", "missing attribute name"},
    {"{{ zz | tojson }}", "Object of type Undefined is not JSON serializable"},
    {"{{ [zz] | tojson }}", "Object of type Undefined is not JSON serializable"},
    {"{{ range | tojson }}", "Object of type function is not JSON serializable"},
    {"{{ namespace() | tojson }}", "Object of type Namespace is not JSON serializable"},
    {"{{ 1 | nope }}", "No filter named 'nope'."},
    {"{{ 1 is nope }}", "No test named 'nope'."},
    {"{{ zz is odd }}", "'zz' is undefined"},
    {"{{ 'a' is odd }}", "test 'odd' needs numbers"},
    {"{{ 5 is divisibleby 0 }}", "division by zero"},
    {"{{ 5 is divisibleby }}", "test 'divisibleby' needs an argument"},
    {"{{ 5 is eq }}", "test 'eq' needs an argument"},
    {"{{ zz is gt 3 }}", "'zz' is undefined"},
    {"{{ 1 is in 5 }}", "'int' object is not iterable"},
    {"{{ 1 is lt 'a' }}", "'<' not supported between instances of 'int' and 'str'"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "macro 'm' takes not more than 1 argument(s)"},
    {"{% macro m(a) %}{% endmacro %}{{ m(z=1) }}", "macro 'm' takes no keyword argument 'z'"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "macro 'm' takes no keyword argument 'a'"},
    {"{% call m() %}{% endcall %}", "'m' is undefined"},
    {"{% for i in l %}{{ loop.cycle() }}{% endfor %}", "no items for cycling given"},
    {"{{ 5 | indent(2.5) }}", "argument 'width' must be an integer, not float"},
    {"{{ 'a' | center('x') }}", "argument 'width' must be an integer, not str"},
    {"{{ s.get('a') }}", "'str object' has no attribute 'get'"},
    {"{{ x.get() }}", "get expected at least 1 argument, got 0"},
    {"{{ 5 | attr }}", "attr needs a name"},
    {"{{ rows | groupby }}", "groupby needs an attribute"},
    {"{{ dict(5) }}", "'int' object is not iterable"},
    {"{{ dict([1]) }}", "'int' object is not iterable"},
    {"{{ {[]: 1} }}", "unhashable type: 'list'"},
    {"{{ 'a' | replace('a') }}", "replace needs two texts"},
    {"{{ 'ab'.center() }}", "a width must be an integer"},
    {"{{ s.zfill('a') }}", "a width must be an integer"},
    {"{{ l | tojson(separators=1) }}", "tojson: separators must be two strings"},
    {"{{ [[1], 2] | sum(start=[]) }}", "unsupported operand type(s) for +: 'list' and 'int'"},
    {"{{ '%s' | format(1, a=2) }}",
     "can't handle positional and keyword arguments at the same time"},
    {"{{ 'a'.split(',', 1.5) }}", "'float' object cannot be interpreted as an integer"},
    {"{{ 'a'.center(5, 'ab') }}", "the fill character must be exactly one character long"},
    {"{{ {(1,): 2} | tojson }}", "keys must be str, int, float, bool or None, not tuple"},
    {"{{ '%c' % 1114112 }}", "%c arg not in range(0x110000)"},
    {"{{ '%c' % 1.5 }}", "%c requires int or char"},
    {"{{ '%x' % 1.5 }}", "%x format: an integer is required, not float"},
    {"{{ '{:.3d}'.format(5) }}", "Precision not allowed in integer format specifier"},
    {"{{ '{:5}'.format(l) }}", "unsupported format string passed to list.__format__"},
    {"{{ '{:.}'.format(1.5) }}", "Format specifier missing precision"},
    {"{{ '{:5dd}'.format(1) }}", "Invalid format specifier '5dd'"},
    {"{{ '%(a' % x }}", "incomplete format key"},
    {"{{ '%(q)s' % x }}", "format has no value for 'q'"},
    {"{{ '%5' % 1 }}", "incomplete format"},
    {"{{ 'x' | truncate(1) }}", "truncate: the length is too small"},
    {"{{ l | slice(0) | list }}", "slice needs a positive number"},
    {"{{ l | slice }}", "slice needs a positive number"},
    {"{{ x.A.b.c }}", "'list object' has no attribute 'b'"},
    {"{{ [].x.y }}", "'list object' has no attribute 'x'"},
    {"{{ l | first | attr('q') + 1 }}", "the value is undefined"},
    {"{{ ([] | first) + 1 }}", "No first item, sequence was empty."},
    {"{{ ([] | max).a }}", "No aggregated item, sequence was empty."},
    {"{{ (1 if false).a }}",
     "the inline if-expression evaluated to false and no else section was defined"},
    {"{{ loop.index }}", "'loop' is undefined"},
    {"{% for i in l %}{{ loop.previtem.a }}{% endfor %}",
     "'Namespace object' has no attribute 'previtem'"},
    {"{% set ns = namespace() %}{{ ns.q.r }}", "'Namespace object' has no attribute 'q'"},
    {"{{ messages[0].name.first }}", "'dict object' has no attribute 'name'"},
    {"{{ tools[0].x }}", "'NoneType object' has no element 0"},
    {"{{ {'a': 1}.a() }}", "'int' object is not callable"},
    {"{{ dict(1, 2) }}", "dict expected at most 1 argument"},
    {"{{ dict([[1, 2, 3]]) }}", "dict: each item must be a pair"},
};
TEST(Jinja, Render_WhenItFails_NamesTheLine) {
  expect_refusals(kErrorsOfRenderingNameTheLine);
}

// Jinja2 refuses these too, in other words.
constexpr Case kErrorsOfParsingNameTheLine[] = {
    {"{{ 1 + }}", "unexpected end of print statement"},
    {"{{ }}", "unexpected end of print statement"},
    {"{{ 1 2 }}", "expected end of print statement, found '2'"},
    {"{{ (1 }}", "unexpected end of template in a tag"},
    {"{{ [1, 2 }}", "unexpected end of template in a tag"},
    {"{{ {'a' 1} }}", "expected ':', found '1'"},
    {"{{ {'a': } }}", "unexpected '}'"},
    {"{{ 'abc }}", "unterminated string"},
    {R"({{ "abc)", "unterminated string"},
    {"{{ 1", "unexpected end of template in a tag"},
    {"{% if x", "unexpected end of template in a tag"},
    {"{# x", "missing end of comment tag '#}'"},
    {"{% raw %} x", "missing end of raw block"},
    {"{% if true %}", "unexpected end of template; expected 'endif'"},
    {"{% for i in l %}", "unexpected end of template; expected 'endfor'"},
    {"{% for i in l %}{% endif %}", "unknown or unsupported tag 'endif'"},
    {"{% endif %}", "unknown or unsupported tag 'endif'"},
    {"{% else %}", "unknown or unsupported tag 'else'"},
    {"{% if %}{% endif %}", "unexpected end of tag"},
    {"{% for %}{% endfor %}", "expected a name, found end of tag"},
    {"{% for i l %}{% endfor %}", "expected 'in', found 'l'"},
    {"{% for 1 in l %}{% endfor %}", "expected a name, found '1'"},
    {"{% set %}", "expected a name, found end of tag"},
    {"{% set 1 = 2 %}", "expected a name, found '1'"},
    {"{% set x[0] = 1 %}", "expected end of tag, found '['"},
    {"{% set x = %}", "unexpected end of tag"},
    {"{% set x = 1", "unexpected end of template in a tag"},
    {"{% macro %}{% endmacro %}", "expected a name, found end of tag"},
    {"{% macro m(1) %}{% endmacro %}", "expected a name, found '1'"},
    {"{% macro m(a b) %}{% endmacro %}", "expected ',', found 'b'"},
    {"{% call 5 %}{% endcall %}", "expected a call after 'call'"},
    {"{% filter %}{% endfilter %}", "expected a name, found end of tag"},
    {"{% with 1 %}{% endwith %}", "expected a name, found '1'"},
    {"{% with a %}{% endwith %}", "expected '=', found end of tag"},
    {"{% nope %}", "unknown or unsupported tag 'nope'"},
    {"{% include 'x' %}", "unknown or unsupported tag 'include'"},
    {"{% import 'x' as y %}", "unknown or unsupported tag 'import'"},
    {"{% extends 'x' %}", "unknown or unsupported tag 'extends'"},
    {"{% do x %}", "tag 'do' is not supported: extensions are off"},
    {"{% 5 %}", "expected a name, found '5'"},
    {"{{ x. }}", "expected a name, found end of print statement"},
    {"{{ x.'a' }}", "expected a name, found 'a'"},
    {"{{ x[1 2] }}", "expected ']', found '2'"},
    {"{{ l[1:2:3:4] }}", "too many parts in a slice"},
    {"{{ f(1 2) }}", "expected ',', found '2'"},
    {"{{ f(a=1, 2) }}", "positional argument after a named one"},
    {"{{ f(, ) }}", "unexpected ','"},
    {"{{ x | }}", "expected a name, found end of print statement"},
    {"{{ x | 5 }}", "expected a name, found '5'"},
    {"{{ x is }}", "expected a name, found end of print statement"},
    {"{{ x is not }}", "expected a name, found end of print statement"},
    {"{{ 1 ? 2 }}", "unexpected char '?'"},
    {"{{ a ! b }}", "unexpected char '!'"},
    {"{{ @ }}", "unexpected char '@'"},
    {"{{ ` }}", "unexpected char '`'"},
    {R"({{ '\x4' }})", "truncated escape in a string"},
    {R"({{ '\u12' }})", "truncated escape in a string"},
    {R"({{ '\ud800' }})", "escape in a string is no character"},
    {R"({{ '\U00110000' }})", "escape in a string is no character"},
    {"{{ not }}", "unexpected end of print statement"},
    {"{{ 1 if }}", "unexpected end of print statement"},
    {"{{ a = 1 }}", "expected end of print statement, found '='"},
    {"{% break %}", "'break' outside a loop"},
    {"{% continue %}", "'continue' outside a loop"},
    {"{% for i in l %}{% break 1 %}{% endfor %}", "expected end of tag, found '1'"},
    {"{% if x %}{% else %}{% elif y %}{% endif %}", "unknown or unsupported tag 'elif'"},
    {"{{ x) }}", "expected end of print statement, found ')'"},
    {"{{ x] }}", "expected end of print statement, found ']'"},
    {"{{ x} }}", "expected end of print statement, found '}'"},
    {"{% if x }}{% endif %}", "unexpected end of template in a tag"},
    {"{{ x %}", "unexpected end of template in a tag"},
    {"{% endfor x %}", "unknown or unsupported tag 'endfor'"},
    {"{% if true %}{% endif x %}", "expected end of tag, found 'x'"},
};
TEST(Jinja, Parse_WhenItFails_NamesTheLine) {
  expect_no_templates(kErrorsOfParsingNameTheLine);
}

TEST(Jinja, LineNumbers_AfterEveryForm_AreCorrect) {
  const std::string fails = "{{ 1 / 0 }}";
  const auto line_of = [&](const std::string& before) {
    const std::string text = render(before + fails);
    const std::size_t from = text.find("line ") + 5;
    return text.substr(from, text.find(':', from) - from);
  };
  EXPECT_EQ(line_of(""), "1");
  EXPECT_EQ(line_of("\r\n\r\n"), "3");
  EXPECT_EQ(line_of("a\rb\n"), "3");
  EXPECT_EQ(line_of("{# a\nb #}\n"), "3");
  EXPECT_EQ(line_of("{% raw %}\n\n{% endraw %}\n"), "4");
  EXPECT_EQ(line_of("{{ 'a\nb' }}\n"), "3");
  EXPECT_EQ(line_of("{{ 'a\\\nb' }}"), "2");
  EXPECT_EQ(line_of("{% set x =\n1\n-%}\n\n"), "5");
  EXPECT_EQ(line_of("{% if true -%}\n\n"), "3");  // no template: 'endif' is missing
  EXPECT_EQ(line_of("{% macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n\n{{ m() }}"), "2");
}

// Templates are not trusted: what they build is bounded, shared parts counted each time.
constexpr std::string_view kTooManySteps = "the template takes more than 4000000 steps";
constexpr Case kUnbounded[] = {
    {"{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}"
     "{% endfor %}",
     "a value is nested too deeply"},
    {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
     "{% endfor %}",
     "a value grows too large"},
    {"{% set ns = namespace(x={}) %}{% for i in range(60) %}"
     "{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}",
     "a value grows too large"},
    {"{{ [('x' * 1000000)] * 100000 }}", "a value grows too large"},
    {"{{ [1] * 9000000 }}", "a repeated value grows too long"},
    {"{{ 'x' * 9000000 }}", "a repeated value grows too long"},
    {"{% set a = [1] * 1000000 %}{{ a + a }}", "a value grows too large"},
    {"{{ [[1] * 600000, [2] * 600000] | sum(start=[]) }}", "a value grows too large"},
    {"{% set a = ('x' * 1000) * 5000 %}{{ (a ~ a) | length }}", "a string grows too long"},
    {"{{ ('x' * 1000000) | replace('x', 'y' * 1000000) }}", "a string grows too long"},
    {"{{ ('x' * 1000000).replace('', 'y' * 1000000) }}", "a string grows too long"},
    {"{{ ('x' * 1000000).join(range(10000) | map('string')) }}", "a string grows too long"},
    {"{{ range(10000) | join('x' * 1000000) }}", "a string grows too long"},
    {"{{ ('{0}' * 1000).format('x' * 1000000) }}", "a string grows too long"},
    {"{{ ('%(a)s' * 1000) | format(a='x' * 1000000) }}", "a string grows too long"},
    {"{{ ('\\n' * 100000) | indent('x' * 1000000, true, true) }}", "a string grows too long"},
    {"{{ [('x' * 50000)] * 1001 }}", "a string grows too long"},
    {"{{ ([('x' * 50000)] * 1001) | string | length }}", "a string grows too long"},
    {"{{ [1, 2] | tojson(indent=('x' * 1000) * 8000) }}", "a string grows too long"},
    {"{{ 'x'.center(99999999999) }}", "a string grows too long"},
    {"{{ 'x'.zfill(9000000000000000000) }}", "a string grows too long"},
    {"{{ '\\t'.expandtabs(999999999999) }}", "a string grows too long"},
    {"{{ '%999999999d' % 1 }}", "a width or precision in a format is too large"},
    {"{{ '%.999d' % 1 }}{{ '%.999f' % 1 }}", "a width or precision in a format is too large"},
    {"{{ '{:999999999}'.format(1) }}", "a width or precision in a format is too large"},
    {"{{ ('x' * 2000000) | list | length }}", "a value grows too large"},
    {"{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{% if s == s ~ '' %}{% endif %}"
     "{% endfor %}",
     kTooManySteps},
    {"{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{% set t = s.count('y') %}"
     "{% endfor %}",
     kTooManySteps},
    {"{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{% set t = 'y' in s %}"
     "{% endfor %}",
     kTooManySteps},
    {"{% set s = ['x' * 1000000] %}{% for i in range(99999) %}{% set t = s == [s[0]] %}"
     "{% endfor %}",
     kTooManySteps},
    {"{% macro a(n) %}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}"
     "{{ a(1) }}",
     "macros are nested deeper than 100"},
};
TEST(Jinja, Render_WhenWorkOrSizeIsUnbounded_IsRefused) {
  expect_refusals(kUnbounded);
  EXPECT_EQ(render("{% for i in range(9) %}{{ ('x' * 1000) * 1000 }}{% endfor %}"),
            "render: chat template line 1: the template writes more than 8388608 bytes");
  EXPECT_EQ(render("{% set s = range(99999) %}{{ s | batch(1) | list | length }}"), "99999");
}

// A namespace may hold itself, or a row of others that is long: both must end with the rendering.
TEST(Jinja, Namespaces_WhenNestedOrCyclic_AreReleased) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}"),
            "True");
  EXPECT_EQ(render("{% set ns = namespace() %}{% macro m() %}{% endmacro %}{% set ns.m = m %}"
                   "{% set ns.l = [ns] %}{{ ns.l | length }}"),
            "1");
  EXPECT_EQ(render("{% set h = namespace(n=1) %}{% for i in range(50000) %}"
                   "{% set h.n = namespace(x=h.n) %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(render("{% set h = namespace() %}{% set h.last = namespace() %}{% set a = h.last %}"
                   "{% for i in range(50000) %}{% set c = h.last %}{% set d = namespace() %}"
                   "{% set c.x = d %}{% set h.last = d %}{% endfor %}ok"),
            "ok");
}

TEST(Jinja, Input_WhenNotValidJson_IsRefused) {
  EXPECT_EQ(render("{{ a }}", "{"), "render: chat template: malformed JSON");
  EXPECT_EQ(render("{{ a }}", "[1]"), "render: chat template: extra variables are no object");
  EXPECT_EQ(render("{{ a }}", R"({"a":9223372036854775807})"), "9223372036854775807");
  EXPECT_EQ(render("{{ a }}", R"({"a":9223372036854775808})"),
            "render: chat template: an integer in the JSON is out of range");
  EXPECT_EQ(render("{{ a }}", R"({"a":-9223372036854775808})"), "-9223372036854775808");
  EXPECT_EQ(render("x", "{\"a\":" + std::string(70, '[') + std::string(70, ']') + "}"),
            "render: chat template: JSON is nested deeper than 64 levels, at byte 68");
  // Jinja2 gets Python's integer of any size here; beyond 64 bits without a sign we get a float.
  EXPECT_EQ(render("{{ a }}", R"({"a":100000000000000000000})"), "1e+20");
  EXPECT_EQ(render("{{ bos_token }}", R"({"bos_token":"given"})"), "given");
  EXPECT_EQ(render("\xff"), "parse: chat template: is not UTF-8");
  EXPECT_EQ(render("{{ a }}", R"({"a":1e400})"), "render: chat template: malformed JSON");
}

TEST(Jinja, StrftimeNow_WithTheGivenDate_FormatsIt) {
  const auto tmpl = ChatTemplate::parse("{{ strftime_now('%Y') }}");
  ASSERT_TRUE(tmpl.has_value());
  ChatInput input;
  input.messages_json = "[]";
  const auto text = tmpl.value()->render(input);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().what, "chat template line 1: the date is not YYYY-MM-DD");
  EXPECT_EQ(render("{{ strftime_now('%A' * 1000) }}"),
            "render: chat template line 1: strftime_now: the result is too long");
}

// ---- differences from Jinja2

// Integers are of 64 bits; Python's are of any size. An error, never another number.
TEST(Jinja, Integers_WhenBeyond64Bits_AreRefusedUnlikePython) {
  expect_refusals(std::to_array<Case>({
      {"{{ 9223372036854775807 + 1 }}", "integer overflow in '+'"},
      {"{{ -9223372036854775807 - 2 }}", "integer overflow in '-'"},
      {"{{ 3037000500 * 3037000500 }}", "integer overflow in '*'"},
      {"{{ 10 ** 19 }}", "integer overflow in '**'"},
      {"{{ (-2) ** 1000000000 }}", "integer overflow in '**'"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "integer overflow in '//'"},
      {"{{ (-9223372036854775807 - 1) | abs }}", "integer overflow in 'abs'"},
      {"{{ [9223372036854775807, 1] | sum }}", "integer overflow in 'sum'"},
      {"{{ 1e300 | int }}", "integer overflow in 'int'"},
      {"{{ '%d' % 1e300 }}", "integer out of range in a format"},
  }));
  expect_no_templates(std::to_array<Case>(
      {{"{{ 99999999999999999999 }}", "integer literal out of range"},
       {"{{ 0xFFFFFFFFFFFFFFFFFF }}", "malformed number '0xFFFFFFFFFFFFFFFFFF'"}}));
}

// Views and generators are lists (the latter true if empty, as in Jinja2); Jinja2 prints them as
// Python objects ("dict_items(…)") and takes no element of them, which no template means to.
TEST(Jinja, LazyValues_WhenPrinted_AreListsUnlikeJinja2) {
  expect_texts(std::to_array<Case>({
      {"{{ range(3) }}", "[0, 1, 2]"},
      {"{{ x.keys() }}{{ x.values() | first }}", "['b', 'A', 'c']1"},
      {"{{ x.items() }}", "[('b', 1), ('A', [1, 2]), ('c', {'d': None})]"},
      {"{{ l | map('string') }}", "['3', '1', '2']"},
      {"{{ (l | select('odd'))[0] }}", "3"},
      {"{{ 'abc' | batch(2) }}", "[['a', 'b'], ['c']]"},
      {"{% set a = l | map('string') %}{{ a | join }}{{ a | join }}", "312312"},  // there "312"
      {"{{ namespace(a=1) }}{{ range }}", "<Namespace><function>"},
  }));
  expect_refusals(
      std::to_array<Case>({{"{{ 5 | items }}", "Can only get item pairs from a mapping."},
                           {"{{ l | map }}", "map requires a filter argument"}}));
}

// The documentation lists these as missing: they are refused, not ignored.
TEST(Jinja, Syntax_WhenUnsupported_IsRefusedUnlikeJinja2) {
  expect_no_templates(std::to_array<Case>({
      {"{% for i in l recursive %}{% endfor %}", "recursive loops are not supported"},
      {"{{ range(*l) }}", "argument unpacking is not supported"},
      {"{{ dict(**x) }}", "argument unpacking is not supported"},
      {"{% block b %}{% endblock %}", "unknown or unsupported tag 'block'"},
      {"{% do l.index(1) %}", "tag 'do' is not supported: extensions are off"},
  }));
  expect_refusals(std::to_array<Case>({
      {"{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1) }}",
       "macro 'm' takes not more than 0 argument(s)"},
      {"{{ cycler('a') }}", "'cycler' is undefined"},
      {"{{ s | urlencode }}", "No filter named 'urlencode'."},
      {"{{ 'a'.encode() }}", "'str object' has no attribute 'encode'"},
      {"{{ '{0.real}'.format(1) }}", "format field '0.real' is not supported"},
      {"{{ '{0[0]}'.format(l) }}", "format field '0[0]' is not supported"},
      {"{{ '{!z}'.format(1) }}", "format field '!z' is not supported"},
  }));
  // Jinja2 refuses an unknown filter or test when it parses; here only code that runs is checked.
  EXPECT_EQ(render("{% if false %}{{ 1 | nope }}{{ 1 is nope }}{% endif %}x"), "x");
}

TEST(Jinja, EdgeCases_WhenRendered_DifferFromJinja2) {
  expect_texts(std::to_array<Case>({
      {"{{ 007 }}{{+ 1 +}}", "71"},                             // Jinja2: syntax errors
      {"{% set a, = [7] %}{{ a }}", "7"},                       // likewise
      {"{{ 'a' | default(1, 2, 3) }}", "a"},                    // arguments that nothing takes
      {"{{ {'b': 1, 'a': 2} | pprint }}", "{'b': 1, 'a': 2}"},  // sorted, broken at 80 columns
      {"{{ 'ΑΣ'.lower() }}", "ασ"},                             // 'ας': sigma at a word's end
  }));
  expect_refusals(std::to_array<Case>({
      {"{{ 5[1:] }}", "'int' object is not subscriptable"},  // "": a constant's slice only
      {"{{ {zz: 1} }}", "unhashable type: 'Undefined'"},     // an undefined key is one
      {"{{ (-8) ** 0.5 }}",
       "a negative number cannot be raised to a fractional power"},  // a complex number
      {"{{ 'a' % zz }}", "'zz' is undefined"},                       // 'a'
      {"{{ '%z' % 1 }}", "unsupported format character 'z'"},
  }));
  EXPECT_EQ(render("{{ x[] }}"), "parse: chat template line 1: expected a subscript");  // ""
}

}  // namespace
}  // namespace holdfast::text::jinja_test
