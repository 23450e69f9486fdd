#include <algorithm>

#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {
namespace {

constexpr std::size_t kUniqueValuesMax = 8;

}  // namespace

/// What the item at a place must satisfy. False: the array ends before it.
bool SchemaBuilder::item_schemas(const Conjunct& c, std::size_t at, SchemaSet& out) const {
  std::vector<SchemaId> ids;
  bool any_items = false;
  bool in_prefix = false;
  std::size_t longest = 0;
  for (const ArrayPart& part : c.arrays) {
    if (!part.open) longest = std::max(longest, part.prefix.size());
    if (at < part.prefix.size()) {
      ids.push_back(part.prefix[at]);
      in_prefix = true;
    } else if (part.items) {
      ids.push_back(*part.items);
      any_items = any_items || !part.open;
    }
  }
  out = reader_.set_of(std::move(ids));
  // Closed behind its prefix unless something says what follows, or more items are asked for.
  return any_items || in_prefix || longest == 0 || at < c.min_items;
}

Result<Expr> SchemaBuilder::array_of(const Conjunct& c) {
  const bool is_free =
      c.arrays.empty() && c.min_items == 0 && !c.max_items && !c.unique_items && c.contains.empty();
  if (is_free) return Expr::call(json_.any_array());
  if (c.contains.size() > 1) {
    return schema_error(Errc::kUnsupported, "contains", c.pointer,
                        "more than one cannot be honoured together");
  }
  std::size_t prefix = 0;
  for (const ArrayPart& part : c.arrays) prefix = std::max(prefix, part.prefix.size());
  SchemaSet rest;
  const bool open = item_schemas(c, std::max<std::size_t>(prefix, c.min_items), rest);
  std::uint32_t max = c.max_items ? *c.max_items : kUnlimited;
  if (!open) max = std::min(max, std::max(static_cast<std::uint32_t>(prefix), c.min_items));
  if (c.unique_items && max > 1) return unique_array_of(c, max);
  const std::uint32_t wanted = c.contains.empty() ? 0 : c.contains[0].second;
  Nfa nfa(rules_.budget());
  const std::uint32_t begin = nfa.append(nfa.append_literal(0, "["), json_.gap());
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  // From `last` items on the array goes round in one state.
  const auto last =
      max != kUnlimited ? max : std::max({static_cast<std::uint32_t>(prefix), c.min_items, 1u});
  std::vector<std::uint32_t> here{begin};  // by how many items satisfied `contains`
  for (std::uint32_t k = 1; k <= wanted; ++k) here.push_back(nfa.add_state());
  for (std::uint32_t n = 0;; ++n) {
    if (!rules_.budget().take_work(here.size())) break;
    if (n >= c.min_items) {
      const std::uint32_t done = n == 0 ? here[wanted] : nfa.append(here[wanted], json_.gap());
      nfa.add_empty(nfa.append_literal(done, "]"), end);
    }
    if (n == last && max != kUnlimited) break;
    SchemaSet set;
    if (!item_schemas(c, n, set)) break;
    std::vector<std::uint32_t> next = here;  // the same states again once it goes round
    if (n < last) {
      for (std::uint32_t& state : next) state = nfa.add_state();
    }
    for (std::uint32_t k = 0; k <= wanted; ++k) {
      const std::uint32_t item =
          n == 0 ? here[k] : nfa.append(nfa.append_literal(here[k], ","), json_.gap());
      nfa.add_call(item, rule_of(set), next[k]);
      if (k == wanted) continue;
      std::vector<SchemaId> both = set;
      both.push_back(c.contains[0].first);
      nfa.add_call(item, rule_of(reader_.set_of(std::move(both))), next[k + 1]);
    }
    if (n == last) break;
    here = std::move(next);
  }
  if (!rules_.budget().ok()) {
    return schema_error(Errc::kInvalidRequest, c.max_items ? "maxItems" : "minItems", c.pointer,
                        rules_.budget().error("count items").what);
  }
  return Expr::call(rules_.add("array at " + c.pointer, determinised(nfa)));
}

/// Items from a short list of values: a state for each set of those that are used up.
Result<Expr> SchemaBuilder::unique_array_of(const Conjunct& c, std::uint32_t max_items) {
  const auto refuse = [&](const std::string& cause) {
    return schema_error(Errc::kUnsupported, "uniqueItems", c.pointer, cause);
  };
  const bool plain = std::all_of(c.arrays.begin(), c.arrays.end(),
                                 [](const ArrayPart& part) { return part.prefix.empty(); });
  if (!plain || !c.contains.empty()) return refuse("not beside prefixItems or contains");
  SchemaSet set;
  item_schemas(c, 0, set);
  HF_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(set));
  std::map<std::string, Expr> values;
  static const JsonTree words[] = {{JsonTree::Kind::kNull, false, "", {}, {}},
                                   {JsonTree::Kind::kBoolean, false, "", {}, {}},
                                   {JsonTree::Kind::kBoolean, true, "", {}, {}}};
  for (const Conjunct& a : alternatives) {
    std::vector<const JsonTree*> found;
    if (a.values) {
      found = *a.values;
    } else {
      if ((a.types & ~(kTypeNull | kTypeBoolean)) != 0) {
        return refuse("expected items from an enum of at most " + std::to_string(kUniqueValuesMax) +
                      " values, or maxItems of 1");
      }
      for (const JsonTree& word : words) found.push_back(&word);
    }
    for (const JsonTree* value : found) {
      HF_TRY(const bool good, admits(a, *value));
      if (good) values.emplace(canonical_json(*value), literal_of(*value));
    }
  }
  if (values.size() > kUniqueValuesMax) {
    return refuse("its items have " + std::to_string(values.size()) + " values; expected at most " +
                  std::to_string(kUniqueValuesMax));
  }
  Nfa nfa(rules_.budget());
  const std::uint32_t begin = nfa.append(nfa.append_literal(0, "["), json_.gap());
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  std::vector<std::uint32_t> states{begin};
  const std::size_t sets = std::size_t{1} << values.size();
  while (states.size() < sets && rules_.budget().ok()) states.push_back(nfa.add_state());
  for (std::size_t used = 0; used < sets && rules_.budget().ok(); ++used) {
    const auto n = static_cast<std::uint32_t>(__builtin_popcountll(used));
    if (n > max_items) continue;
    if (n >= c.min_items) {
      const std::uint32_t done = n == 0 ? states[used] : nfa.append(states[used], json_.gap());
      nfa.add_empty(nfa.append_literal(done, "]"), end);
    }
    if (n == max_items) continue;
    const std::uint32_t item =
        n == 0 ? begin : nfa.append(nfa.append_literal(states[used], ","), json_.gap());
    std::size_t bit = 1;
    for (const auto& [text, literal] : values) {
      if ((used & bit) == 0) nfa.add_empty(nfa.append(item, literal), states[used | bit]);
      bit <<= 1;
    }
  }
  return Expr::call(rules_.add("array at " + c.pointer, determinised(nfa)));
}

}  // namespace holdfast::grammar
