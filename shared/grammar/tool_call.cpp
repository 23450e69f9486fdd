// Grammars of forced tool calls, in the formats that shared/chat parses.
#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {
namespace {

const std::string kOperation = "compile tool call";

Error bad(const std::string& cause) {
  return {Errc::kInvalidRequest, kOperation + ": " + cause};
}

/// A form's texts around the name and the arguments of one call.
struct Form {
  std::string_view name;
  std::string_view before;   // the name
  std::string_view between;  // name and arguments
  std::string_view after;
  std::string_view separator;  // of calls
};
constexpr Form kForms[] = {
    {"hermes", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n"},
    {"llama3", "{\"name\": \"", "\", \"parameters\": ", "}", "; "},
};

Result<const Form*> form_of(const JsonTree& source) {
  const JsonTree* name = source.find("form");
  for (const Form& form : kForms) {
    if (name != nullptr && name->is(JsonTree::Kind::kString) && name->text == form.name) {
      return &form;
    }
  }
  return bad("form: expected \"hermes\" or \"llama3\"");
}

bool flag(const JsonTree& source, std::string_view name) {
  const JsonTree* value = source.find(name);
  return value != nullptr && value->is(JsonTree::Kind::kBoolean) && value->boolean;
}

/// Returns any text without `end`, and then `end`.
Expr until(RuleSet& rules, const std::string& end) {
  const Expr any = Expr::repeat(Expr::one_of(negated({})), 0, kUnlimited);
  const RuleId all = rules.add("any text", any);
  const RuleId has = rules.add("text with " + end, Expr::seq({any, Expr::literal(end), any}));
  const RuleId without = rules.add(
      "text without " + end, intersected(rules.dfa(all), rules.dfa(has), true, rules.budget()));
  return Expr::seq({Expr::call(without), Expr::literal(end)});
}

/// Returns the text before the first call: the model's reasoning.
Expr opening(RuleSet& rules, const JsonTree& source) {
  if (!flag(source, "reasoning")) return Expr::empty();
  const Expr gap = Expr::repeat(Expr::one_of({{U'\n', U'\n'}}), 0, 2);
  Expr thought = Expr::seq({until(rules, "</think>"), gap});
  if (flag(source, "opened")) return thought;
  return Expr::optional(Expr::seq({Expr::literal("<think>"), std::move(thought)}));
}

Result<Expr> call_of(const JsonTree& tool, const Form& form, SchemaBuilder& schemas) {
  const JsonTree* name = tool.find("name");
  if (name == nullptr || !name->is(JsonTree::Kind::kString) || name->text.empty()) {
    return bad("tools: expected each to have a name");
  }
  static const JsonTree anything = {JsonTree::Kind::kBoolean, true, "", {}, {}};
  const JsonTree* parameters = tool.find_set("parameters");
  const auto arguments = schemas.build_object(parameters == nullptr ? anything : *parameters);
  if (!arguments) {
    return Error{arguments.error().code,
                 kOperation + ": parameters of " + name->text + ": " + arguments.error().what};
  }
  return Expr::seq({Expr::literal(std::string(form.before) + json_escaped(name->text) +
                                  std::string(form.between)),
                    Expr::call(*arguments), Expr::literal(std::string(form.after))});
}

}  // namespace

Result<GrammarPtr> compile_tool_call(std::string_view source_json, const GrammarLimits& limits) {
  if (source_json.size() > limits.source_bytes_max) {
    return bad("it has " + std::to_string(source_json.size()) + " bytes; expected at most " +
               std::to_string(limits.source_bytes_max));
  }
  const Result<JsonTree> source = parse_json_tree(source_json, limits.depth_max);
  if (!source) return bad(source.error().what);
  HOLDFAST_TRY(const Form* form, form_of(*source));
  const JsonTree* tools = source->find("tools");
  if (tools == nullptr || !tools->is(JsonTree::Kind::kArray) || tools->items.empty()) {
    return bad("tools: expected at least one");
  }
  Budget budget(limits);
  RuleSet rules(budget);
  SchemaBuilder schemas(rules);
  std::vector<Expr> calls;
  for (const JsonTree& tool : tools->items) {
    HOLDFAST_TRY(Expr call, call_of(tool, *form, schemas));
    calls.push_back(std::move(call));
  }
  const RuleId call = rules.add("a call", Expr::alt(std::move(calls)));
  std::vector<Expr> parts = {opening(rules, *source), Expr::call(call)};
  if (!flag(*source, "single")) {
    const Expr more = Expr::seq({Expr::literal(std::string(form->separator)), Expr::call(call)});
    parts.push_back(Expr::repeat(more, 0, kUnlimited));
  }
  const RuleId root = rules.add("calls", Expr::seq(std::move(parts)));
  return rules.assemble(root, kOperation);
}

}  // namespace holdfast::grammar
