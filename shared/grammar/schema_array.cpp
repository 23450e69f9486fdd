#include <algorithm>

#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {
/// Sets the schemas of the item at an index. False: the array ends before it.
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
  // Closed after its prefix unless a schema for further items exists, or more items are required.
  return any_items || in_prefix || longest == 0 || at < c.min_items;
}

SchemaSet SchemaBuilder::with(const SchemaSet& set, SchemaId more) const {
  std::vector<SchemaId> ids = set;
  ids.push_back(more);
  return reader_.set_of(std::move(ids));
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
  const bool is_long =
      c.min_items > Counted::kPlainMax || (max != kUnlimited && max > Counted::kPlainMax);
  if (is_long && prefix == 0 && c.contains.empty()) return long_array_of(c, max);
  // Items that satisfy `contains` are counted up to its maximum, or else its minimum.
  const Contains contains = c.contains.empty() ? Contains{0, 0, std::nullopt} : c.contains[0];
  const std::uint32_t min_contains = contains.min;
  const std::uint32_t counted = contains.max ? *contains.max : min_contains;
  if (counted < min_contains) return Expr::nothing();
  Nfa nfa(rules_.budget());
  const std::uint32_t begin = nfa.append(nfa.append_literal(0, "["), json_.gap());
  const std::uint32_t end = nfa.add_state();
  nfa.set_accept(end);
  // From `last` items on the array loops in one state.
  const auto last =
      max != kUnlimited ? max : std::max({static_cast<std::uint32_t>(prefix), c.min_items, 1u});
  std::vector<std::uint32_t> here{begin};  // by the number of items that satisfied `contains`
  for (std::uint32_t k = 1; k <= counted; ++k) here.push_back(nfa.add_state());
  for (std::uint32_t n = 0;; ++n) {
    if (!rules_.budget().take_work(here.size())) break;
    if (n >= c.min_items) {
      const std::uint32_t done = nfa.add_state();
      for (std::uint32_t k = min_contains; k <= counted; ++k) {
        nfa.add_empty(n == 0 ? here[k] : nfa.append(here[k], json_.gap()), done);
      }
      nfa.add_empty(nfa.append_literal(done, "]"), end);
    }
    if (n == last && max != kUnlimited) break;
    SchemaSet set;
    if (!item_schemas(c, n, set)) break;
    std::vector<std::uint32_t> next = here;  // the same states again once it loops
    if (n < last) {
      for (std::uint32_t& state : next) state = nfa.add_state();
    }
    const SchemaSet others =
        contains.max ? with(set, reader_.negated(contains.schema)) : SchemaSet(set);
    for (std::uint32_t k = 0; k <= counted; ++k) {
      const std::uint32_t item =
          n == 0 ? here[k] : nfa.append(nfa.append_literal(here[k], ","), json_.gap());
      if (!has_false(others)) nfa.add_call(item, rule_of(others), next[k]);
      if (k == counted) continue;
      nfa.add_call(item, rule_of(with(set, contains.schema)), next[k + 1]);
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

Result<Expr> SchemaBuilder::long_array_of(const Conjunct& c, std::uint32_t max) {
  HOLDFAST_CHECKED(check_minimum("minItems", c.min_items, c.pointer));
  SchemaSet set;
  item_schemas(c, 0, set);
  const Expr item = Expr::call(rule_of(set));
  const Expr close = Expr::literal("]");
  Counted more(rules_, "items at " + c.pointer, Expr::seq({Expr::literal(","), json_.gap(), item}),
               Expr::seq({json_.gap(), close}), Encoding::kUtf8);
  const std::uint32_t min = std::max(c.min_items, 1u);
  const RuleId rest = more.between(min - 1, max == kUnlimited ? max : max - 1);
  std::vector<Expr> ways{Expr::seq({item, Expr::call(rest)})};
  if (c.min_items == 0) ways.push_back(close);
  const Expr array = Expr::seq({Expr::literal("["), json_.gap(), Expr::alt(std::move(ways))});
  return Expr::call(rules_.add("array at " + c.pointer, array));
}

}  // namespace holdfast::grammar
