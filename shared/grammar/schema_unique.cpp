// Arrays whose items must differ. Automata cannot compare texts, so each item is of one of a few
// kinds that exclude each other, and no kind occurs twice: the values of an enum, or else classes
// that partition the possible items. Many values come in the order of the schema instead.

#include <algorithm>

#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {
namespace {

constexpr std::size_t kKindsMax = 8;     // one state for each set of used kinds
constexpr std::size_t kValuesMax = 128;  // in their order: the states are their square

using Kinds = std::vector<std::string>;  // schemas that exclude each other

Kinds text_kinds(bool by_end) {
  // Strings are divided by their first letters where they are free; those of a format often begin
  // alike.
  Kinds out;
  for (const char* some :
       {"a-bA-B01", "c-dC-D2", "e-gE-G34", "h-lH-L5", "m-oM-O67", "p-rP-R8", "s-tS-T9"}) {
    const std::string set = "[" + std::string(some) + "]";
    out.push_back(R"({"type":"string","pattern":")" + (by_end ? set + "$" : "^" + set) + "\"}");
  }
  out.push_back(std::string(R"({"type":"string","pattern":")") +
                (by_end ? "(^|[^a-tA-T0-9])$" : "^([^a-tA-T0-9]|$)") + "\"}");
  return out;
}

Kinds number_kinds() {
  Kinds out = {R"({"type":"number","exclusiveMaximum":0})",
               R"({"type":"number","minimum":0,"maximum":1})"};
  const char* const bounds[] = {"1", "3", "7", "20", "100", "1000"};
  for (std::size_t i = 0; i < std::size(bounds); ++i) {
    out.push_back(std::string(R"({"type":"number","exclusiveMinimum":)") + bounds[i]);
    const bool is_last = i + 1 == std::size(bounds);
    out.back() += is_last ? "}" : std::string(",\"maximum\":") + bounds[i + 1] + "}";
  }
  return out;
}

/// Joins kinds of the type that has most, until there are at most kKindsMax.
Kinds joined(std::vector<Kinds> by_type) {
  const auto total = [&] {
    std::size_t n = 0;
    for (const Kinds& kinds : by_type) n += kinds.size();
    return n;
  };
  while (total() > kKindsMax) {
    Kinds& most =
        *std::max_element(by_type.begin(), by_type.end(),
                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const std::string last = most.back();
    most.pop_back();
    most.back() = R"({"anyOf":[)" + most.back() + "," + last + "]}";
  }
  Kinds out;
  for (const Kinds& kinds : by_type) out.insert(out.end(), kinds.begin(), kinds.end());
  return out;
}

bool is_any(const std::vector<Conjunct>& alternatives, std::uint8_t types) {
  return std::any_of(alternatives.begin(), alternatives.end(),
                     [types](const Conjunct& c) { return (c.types & types) != 0; });
}

/// Returns the values among which those of an alternative are; nullopt if they cannot be listed.
std::optional<std::vector<const JsonTree*>> candidates_of(const Conjunct& c) {
  static const JsonTree words[] = {{JsonTree::Kind::kNull, false, "", {}, {}},
                                   {JsonTree::Kind::kBoolean, false, "", {}, {}},
                                   {JsonTree::Kind::kBoolean, true, "", {}, {}}};
  if (c.values) return c.values;
  if ((c.types & ~(kTypeNull | kTypeBoolean)) != 0) return std::nullopt;
  return std::vector<const JsonTree*>{&words[0], &words[1], &words[2]};
}

Kinds kinds_of_texts(const std::vector<Conjunct>& alternatives) {
  const bool by_end = std::any_of(alternatives.begin(), alternatives.end(), [](const auto& c) {
    return !c.patterns.empty() || !c.formats.empty();
  });
  return text_kinds(by_end);
}

/// The automaton of an array, with its brackets and commas.
class ArrayFrame {
 public:
  ArrayFrame(JsonRules& json, Budget& budget) : nfa_(budget), json_(json) {
    begin_ = nfa_.append(nfa_.append_literal(0, "["), json_.gap());
    end_ = nfa_.add_state();
    nfa_.set_accept(end_);
  }
  Nfa& nfa() { return nfa_; }
  /// Returns the state before the first item.
  std::uint32_t begin() const { return begin_; }
  /// Returns the state where the item after n others begins; they end at `from`.
  std::uint32_t item_after(std::uint32_t n, std::uint32_t from) {
    return n == 0 ? from : nfa_.append(nfa_.append_literal(from, ","), json_.gap());
  }
  /// Ends the array after n items, which end at `from`.
  void end_after(std::uint32_t n, std::uint32_t from) {
    const std::uint32_t done = n == 0 ? from : nfa_.append(from, json_.gap());
    nfa_.add_empty(nfa_.append_literal(done, "]"), end_);
  }

  /// Adds an item that may be there or not. `here`: the states before it by the number of items so
  /// far; returns those after it. With `bounded` none may follow the last of them, else the last
  /// means that many or more.
  std::vector<std::uint32_t> after_value(const Expr& value, const std::vector<std::uint32_t>& here,
                                         bool bounded) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t state : here) {
      next.push_back(nfa_.add_state());
      nfa_.add_empty(state, next.back());
    }
    const auto last = static_cast<std::uint32_t>(here.size()) - 1;
    for (std::uint32_t n = 0; n <= last && nfa_.budget().ok(); ++n) {
      if (n == last && bounded) break;
      const std::uint32_t item = item_after(n, here[n]);
      nfa_.add_empty(nfa_.append(item, value), next[std::min(n + 1, last)]);
    }
    return next;
  }

 private:
  Nfa nfa_;
  JsonRules& json_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

}  // namespace

/// Returns nullopt if there are too many values, or infinitely many.
Result<std::optional<SchemaBuilder::Values>> SchemaBuilder::values_of_items(
    const std::vector<Conjunct>& alternatives) {
  Values values;
  std::set<std::string> unique;
  for (const Conjunct& a : alternatives) {
    const auto candidates = candidates_of(a);
    if (!candidates) return std::optional<Values>();
    for (const JsonTree* value : *candidates) {
      HOLDFAST_TRY(const bool good, admits(a, *value));
      if (good && unique.insert(canonical_json(*value)).second)
        values.push_back(literal_of(*value));
    }
  }
  if (values.size() > kValuesMax) return std::optional<Values>();
  return std::optional(std::move(values));
}

/// Returns the kinds of the documents of the alternatives. `depth`: objects are divided by one
/// property.
Result<std::vector<std::string>> SchemaBuilder::kinds_of(const std::vector<Conjunct>& alternatives,
                                                         std::uint32_t depth) {
  std::vector<Kinds> by_type;
  if (is_any(alternatives, kTypeNull)) by_type.push_back({R"({"type":"null"})"});
  if (is_any(alternatives, kTypeBoolean)) {
    by_type.push_back({R"({"const":true})", R"({"const":false})"});
  }
  if (is_any(alternatives, kTypeInteger | kTypeFraction)) by_type.push_back(number_kinds());
  if (is_any(alternatives, kTypeString)) by_type.push_back(kinds_of_texts(alternatives));
  if (is_any(alternatives, kTypeArray)) by_type.push_back({R"({"type":"array"})"});
  if (is_any(alternatives, kTypeObject)) {
    Kinds objects{R"({"type":"object"})"};
    if (alternatives.size() == 1 && depth == 0) {
      HOLDFAST_TRY(objects, kinds_of_objects(alternatives[0]));
    }
    by_type.push_back(std::move(objects));
  }
  return joined(std::move(by_type));
}

Result<std::vector<std::string>> SchemaBuilder::kinds_of_objects(const Conjunct& c) {
  for (const std::string& name : c.required) {
    bool is_named = false;
    HOLDFAST_TRY(const SchemaSet set, member_schemas(c, name, is_named));
    HOLDFAST_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(set));
    if (is_any(alternatives, kTypeArray | kTypeObject) || alternatives.empty()) continue;
    HOLDFAST_TRY(Kinds kinds, kinds_of(alternatives, 1));
    const std::string key = '"' + json_escaped(name) + '"';
    for (std::string& kind : kinds) {
      kind = R"({"type":"object","properties":{)" + key + ":" + kind + R"(},"required":[)" + key +
             "]}";
    }
    return kinds;
  }
  return Kinds{R"({"type":"object"})"};
}

Result<Expr> SchemaBuilder::unique_array_of(const Conjunct& c, std::uint32_t max_items) {
  const auto refuse = [&](const std::string& cause) {
    return schema_error(Errc::kUnsupported, "uniqueItems", c.pointer, cause);
  };
  const bool plain = std::all_of(c.arrays.begin(), c.arrays.end(),
                                 [](const ArrayPart& part) { return part.prefix.empty(); });
  if (!plain || !c.contains.empty()) return refuse("not beside prefixItems or contains");
  SchemaSet set;
  item_schemas(c, 0, set);
  HOLDFAST_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(set));
  HOLDFAST_TRY(std::optional<Values> values, values_of_items(alternatives));
  if (values && values->size() > kKindsMax) return ordered_array_of(c, *values, max_items);
  if (!values) {
    HOLDFAST_TRY(const Kinds kinds, kinds_of(alternatives, 0));
    values.emplace();
    for (const std::string& kind : kinds) {
      HOLDFAST_TRY(JsonTree tree, parse_json_tree(kind, rules_.budget().limits().depth_max));
      values->push_back(Expr::call(rule_of(with(set, reader_.make(std::move(tree), c.pointer)))));
    }
    if (c.min_items > kKindsMax) {
      return refuse("only " + std::to_string(kKindsMax) +
                    " items can be told apart; expected minItems of at most that");
    }
  }
  return array_of_kinds(c, *values, max_items);
}

/// Builds the array of kinds: each at most once, in any order.
Expr SchemaBuilder::array_of_kinds(const Conjunct& c, const Values& kinds,
                                   std::uint32_t max_items) {
  ArrayFrame array(json_, rules_.budget());
  Nfa& nfa = array.nfa();
  std::vector<std::uint32_t> states{array.begin()};
  const std::size_t sets = std::size_t{1} << kinds.size();
  while (states.size() < sets && rules_.budget().ok()) states.push_back(nfa.add_state());
  for (std::size_t used = 0; used < sets && rules_.budget().ok(); ++used) {
    const auto n = static_cast<std::uint32_t>(__builtin_popcountll(used));
    if (n > max_items) continue;
    if (n >= c.min_items) array.end_after(n, states[used]);
    if (n == max_items) continue;
    const std::uint32_t item = array.item_after(n, states[used]);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::size_t then = used | std::size_t{1} << i;
      if (then != used) nfa.add_empty(nfa.append(item, kinds[i]), states[then]);
    }
  }
  return Expr::call(rules_.add("array at " + c.pointer, determinised(nfa)));
}

/// Builds the array of values: each at most once, in their order. The number of items is counted
/// where it is bounded.
Expr SchemaBuilder::ordered_array_of(const Conjunct& c, const Values& values,
                                     std::uint32_t max_items) {
  const auto all = static_cast<std::uint32_t>(values.size());
  const std::uint32_t most = max_items >= all ? c.min_items : max_items;  // counted up to here
  const bool bounded = max_items < all;
  ArrayFrame array(json_, rules_.budget());
  Nfa& nfa = array.nfa();
  // By the number of items so far; without a bound the last one means that many or more.
  const std::uint32_t levels = std::max(most, 1u) + 1;
  std::vector<std::uint32_t> here{array.begin()};
  while (here.size() < levels) here.push_back(nfa.add_state());
  for (const Expr& value : values) here = array.after_value(value, here, bounded);
  for (std::uint32_t n = c.min_items; n < levels; ++n) array.end_after(n, here[n]);
  return Expr::call(rules_.add("array at " + c.pointer, determinised(nfa)));
}

}  // namespace holdfast::grammar
