#include "shared/go_template/translate.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "shared/go_template/syntax.h"
#include "shared/go_template/values.h"

namespace holdfast::go_template {
namespace {

/// The way in which a template is run.
enum class Mode : std::uint8_t { kMessages, kTurns };

constexpr std::string_view kResponse = "Response";

template <class F>
void each_name(const Expr& expr, const F& f) {
  for (const std::string& field : expr.fields) f(field, expr);
  for (const Expr& arg : expr.args) each_name(arg, f);
}

/// Calls `f` with each field that the nodes read, and the expression that reads it.
template <class F>
void each_field(const std::vector<Node>& nodes, const F& f) {
  for (const Node& node : nodes) {
    if (node.kind != Node::Kind::kText) each_name(node.pipeline, f);
    each_field(node.list, f);
    each_field(node.other, f);
  }
}

bool reads(const std::vector<Node>& nodes, std::string_view name) {
  bool found = false;
  each_field(nodes, [&](const std::string& field, const Expr&) { found = found || field == name; });
  return found;
}

/// True if the node writes .Response, after which the last turn ends.
bool writes_response(const Node& node) {
  bool found = false;
  if (node.kind != Node::Kind::kPrint) return false;
  each_name(node.pipeline, [&](const std::string& field, const Expr& expr) {
    found = found || (field == kResponse && expr.kind == Expr::Kind::kDot);
  });
  return found;
}

/// Writes nodes as Jinja. A turn's last form ends with its first .Response.
class Writer {
 public:
  Writer(Mode mode, bool ends_at_response)
      : values_(mode == Mode::kMessages), ends_at_response_(ends_at_response) {}

  Result<void> write(const std::vector<Node>& nodes) {
    values_.open_scope();
    for (const Node& node : nodes) {
      if (ended_) break;
      HOLDFAST_CHECKED(write(node));
    }
    values_.close_scope();
    return {};
  }

  std::string take() { return std::move(out_); }

 private:
  Result<void> write(const Node& node) {
    switch (node.kind) {
      case Node::Kind::kText:
        out_ += "{{- " + quoted(node.text) + " -}}";
        return {};
      case Node::Kind::kPrint:
        return write_print(node);
      case Node::Kind::kIf:
        return write_if(node);
      case Node::Kind::kWith:
        return write_with(node);
      case Node::Kind::kRange:
        return write_range(node);
      case Node::Kind::kBreak:
        out_ += "{%- break -%}";
        return {};
      case Node::Kind::kContinue:
        out_ += "{%- continue -%}";
        return {};
    }
    return {};
  }

  void set(const std::string& name, const std::string& value) {
    out_ += "{%- set " + name + " = " + value + " -%}";
  }

  Result<void> write_print(const Node& node) {
    HOLDFAST_TRY(const Value value, values_.value_of(node.pipeline));
    if (!node.variables.empty()) return write_set(node, value);
    HOLDFAST_TRY(const std::string text, values_.printed(value, node.line));
    out_ += "{{- " + text + " -}}";
    if (ends_at_response_ && writes_response(node)) {
      if (!node.pipeline.args.empty()) {
        return error_at(Errc::kUnsupported, node.line, "uses .Response as an argument");
      }
      ended_ = true;
    }
    return {};
  }

  Result<void> write_set(const Node& node, const Value& value) {
    const std::string& name = node.variables.front();
    if (node.variables.size() != 1) {
      return error_at(Errc::kInvalidRequest, node.line, "two variables outside of range");
    }
    HOLDFAST_TRY(const std::string target, node.declares
                                               ? values_.declare(name, value.type)
                                               : values_.assigned(name, value.type, node.line));
    set(target, value.text);
    return {};
  }

  /// Declares the variable of `if $x := …` and `with $x := …`, in the block's scope.
  Result<void> declare_for_block(const Node& node, Value& value) {
    if (node.variables.empty()) return {};
    HOLDFAST_CHECKED(write_set(node, value));
    HOLDFAST_TRY(value, values_.variable(node.variables.front(), node.line));
    return {};
  }

  Result<void> write_if(const Node& node) {
    values_.open_scope();
    HOLDFAST_TRY(Value value, values_.value_of(node.pipeline));
    HOLDFAST_CHECKED(declare_for_block(node, value));
    HOLDFAST_CHECKED(write_branches(node, value));
    values_.close_scope();
    return {};
  }

  /// Writes the branch that is taken, or both where only a rendering knows.
  Result<void> write_branches(const Node& node, const Value& value) {
    if (value.constant) return write(*value.constant ? node.list : node.other);
    out_ += "{%- if " + value.text + " -%}";
    HOLDFAST_CHECKED(write(node.list));
    HOLDFAST_CHECKED(write_other(node));
    out_ += "{%- endif -%}";
    return {};
  }

  Result<void> write_other(const Node& node) {
    if (!node.has_other) return {};
    if (ended_) {
      return error_at(Errc::kUnsupported, node.line, "uses else after .Response");
    }
    out_ += "{%- else -%}";
    return write(node.other);
  }

  Result<void> write_with(const Node& node) {
    values_.open_scope();
    HOLDFAST_TRY(Value value, values_.value_of(node.pipeline));
    HOLDFAST_CHECKED(declare_for_block(node, value));
    if (!value.constant || *value.constant) {
      const std::string dot = values_.fresh();
      set(dot, value.text);
      value.text = dot;
    }
    const Value outer = values_.exchange_dot(value);
    if (node.has_other) HOLDFAST_CHECKED(check_else_dot(node));
    HOLDFAST_CHECKED(write_branches(node, value));
    values_.exchange_dot(outer);
    values_.close_scope();
    return {};
  }

  /// In the else of `with` the dot is the one outside; it is not written with that.
  static Result<void> check_else_dot(const Node& node) {
    bool reads_dot = false;
    each_field(node.other, [&](const std::string&, const Expr& expr) {
      reads_dot = reads_dot || expr.kind == Expr::Kind::kDot;
    });
    if (!reads_dot) return {};
    return error_at(Errc::kUnsupported, node.line, "uses the dot in the else of with");
  }

  Result<void> write_range(const Node& node) {
    HOLDFAST_TRY(const Value list, values_.value_of(node.pipeline));
    if (list.constant && !*list.constant) return write(node.other);
    HOLDFAST_TRY(const Type element, values_.element_of(list.type, node.line));
    if (!node.variables.empty() && !node.declares) {
      return error_at(Errc::kUnsupported, node.line, "uses range with =");
    }
    const std::string name = values_.fresh_name();
    out_ += "{%- for " + name + " in " + list.text + " -%}";
    values_.open_scope();
    const Value one{name, element, std::nullopt};
    if (node.variables.size() == 2) {
      HOLDFAST_TRY(const std::string index, values_.declare(node.variables[0], Type::kInteger));
      set(index, "loop.index0");
    }
    if (!node.variables.empty()) {
      HOLDFAST_TRY(const std::string target, values_.declare(node.variables.back(), element));
      set(target, name);
    }
    const Value outer = values_.exchange_dot(one);
    HOLDFAST_CHECKED(write(node.list));
    values_.exchange_dot(outer);
    values_.close_scope();
    HOLDFAST_CHECKED(write_other(node));
    out_ += "{%- endfor -%}";
    return {};
  }

  Values values_;
  bool ends_at_response_;
  bool ended_ = false;
  std::string out_;
};

/// Joins neighbours of one role, but answers of tools, and collects the system's texts.
constexpr std::string_view kCollate =
    R"({%- set go = namespace(system='', has_system=false, list=[]) -%})"
    R"({%- for one in messages -%})"
    R"({%- if one.role == 'system' -%})"
    R"({%- set go.system = (go.system ~ '\n\n' if go.has_system else '') ~ one.content -%})"
    R"({%- set go.has_system = true -%})"
    R"({%- endif -%})"
    R"({%- set before = go.list[-1] if go.list else none -%})"
    R"({%- set joins = before and one.role != 'tool' and before.role == one.role -%})"
    R"({%- set said = before if joins else one -%})"
    R"({%- set made = {'role': one.role,)"
    R"( 'content': (before.content ~ '\n\n' if joins else '') ~ one.content,)"
    R"( 'reasoning_content': said.reasoning_content|default(''),)"
    R"( 'tool_calls': said.tool_calls|default([]), 'name': said.name|default(''),)"
    R"( 'tool_call_id': said.tool_call_id|default('')} -%})"
    R"({%- set go.list = (go.list[:-1] if joins else go.list) + [made] -%})"
    R"({%- endfor -%})";

/// Runs the macro `turn` where a turn ends, and keeps the texts of the one that goes on.
constexpr std::string_view kTurns =
    R"({%- for one in messages -%})"
    R"({%- set joins = one.role == go.role -%})"
    R"({%- set ends = (one.role == 'system' and (go.prompt or go.response)))"
    R"( or (one.role == 'user' and go.response) -%})"
    R"({%- if ends and not joins -%})"
    R"({{- turn(go.system, go.prompt, go.response) -}})"
    R"({%- set go.system = '' -%}{%- set go.prompt = '' -%}{%- set go.response = '' -%})"
    R"({%- endif -%})"
    R"({%- if one.role == 'system' -%})"
    R"({%- set go.system = (go.system ~ '\n\n' if joins else '') ~ one.content -%})"
    R"({%- elif one.role == 'user' -%})"
    R"({%- set go.prompt = (go.prompt ~ '\n\n' if joins else '') ~ one.content -%})"
    R"({%- elif one.role == 'assistant' -%})"
    R"({%- set go.response = (go.response ~ '\n\n' if joins else '') ~ one.content -%})"
    R"({%- endif -%})"
    R"({%- set go.role = one.role -%})"
    R"({%- endfor -%})";

Result<std::string> written(Mode mode, bool ends_at_response, const std::vector<Node>& nodes) {
  Writer writer(mode, ends_at_response);
  HOLDFAST_CHECKED(writer.write(nodes));
  return writer.take();
}

Node response_node() {
  Node node;
  node.kind = Node::Kind::kPrint;
  node.pipeline.fields.emplace_back(kResponse);
  return node;
}

Result<std::string> in_turns(std::vector<Node> nodes) {
  if (!reads(nodes, kResponse)) nodes.push_back(response_node());
  HOLDFAST_TRY(const std::string whole, written(Mode::kTurns, false, nodes));
  HOLDFAST_TRY(const std::string last, written(Mode::kTurns, true, nodes));
  std::string out = "{%- set go = namespace(system='', prompt='', response='', role='') -%}";
  out += "{%- macro turn(system, prompt, response) -%}" + whole + "{%- endmacro -%}";
  out += "{%- macro last_turn(system, prompt, response) -%}" + last + "{%- endmacro -%}";
  out += kTurns;
  return out + "{{- last_turn(go.system, go.prompt, go.response) -}}";
}

}  // namespace

Result<std::string> to_jinja(std::string_view go) {
  HOLDFAST_TRY(std::vector<Node> nodes, parse(go));
  if (!reads(nodes, "Messages")) return in_turns(std::move(nodes));
  HOLDFAST_TRY(const std::string body, written(Mode::kMessages, false, nodes));
  return std::string(kCollate) + body;
}

}  // namespace holdfast::go_template
