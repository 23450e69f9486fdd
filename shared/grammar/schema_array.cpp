#include <algorithm>

#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {
namespace {

bool is_free_array(const Conjunct& c) {
  return c.arrays.empty() && c.min_items == 0 && !c.max_items && !c.unique_items &&
         c.contains.empty();
}

bool is_long(std::uint32_t min, std::uint32_t max) {
  return min > Counted::kPlainMax || (max != kUnlimited && max > Counted::kPlainMax);
}

bool is_possible(const Contains& contains) {
  return !contains.max || *contains.max >= contains.min;
}

std::uint32_t longest_prefix(const Conjunct& c) {
  std::size_t longest = 0;
  for (const ArrayPart& part : c.arrays) longest = std::max(longest, part.prefix.size());
  return static_cast<std::uint32_t>(longest);
}

}  // namespace

/// An array as an automaton: a state for each number of items, and of items that satisfied
/// `contains`, which are counted up to its maximum, or else its minimum.
class SchemaBuilder::ArrayNfa {
 public:
  /// `prefix`: how many items have schemas of their own; `max`: how many items at most.
  ArrayNfa(SchemaBuilder& builder, const Conjunct& c, std::uint32_t prefix, std::uint32_t max)
      : builder_(builder),
        c_(c),
        contains_(c.contains.empty() ? Contains{0, 0, std::nullopt} : c.contains[0]),
        counted_(contains_.max ? *contains_.max : contains_.min),
        is_bounded_(max != kUnlimited),
        last_(is_bounded_ ? max : std::max({prefix, c.min_items, 1u})),
        nfa_(builder.rules_.budget()) {}

  const Nfa& build() {
    here_.assign(1, nfa_.append(nfa_.append_literal(0, "["), builder_.json_.gap()));
    end_ = nfa_.add_state();
    nfa_.set_accept(end_);
    for (std::uint32_t k = 1; k <= counted_; ++k) here_.push_back(nfa_.add_state());
    for (std::uint32_t n = 0; n <= last_; ++n) {
      if (!nfa_.budget().take_work(here_.size())) break;
      if (n >= c_.min_items) add_end(n);
      const bool is_full = n == last_ && is_bounded_;
      if (is_full || !add_item(n)) break;
    }
    return nfa_;
  }

 private:
  /// Ends the array after n items.
  void add_end(std::uint32_t n) {
    const std::uint32_t done = nfa_.add_state();
    for (std::uint32_t k = contains_.min; k <= counted_; ++k) {
      nfa_.add_empty(n == 0 ? here_[k] : nfa_.append(here_[k], builder_.json_.gap()), done);
    }
    nfa_.add_empty(nfa_.append_literal(done, "]"), end_);
  }
  /// Adds the item after n others. False: the array ends before it.
  bool add_item(std::uint32_t n) {
    SchemaSet set;
    if (!builder_.item_schemas(c_, n, set)) return false;
    std::vector<std::uint32_t> next = here_;  // the same states again once it loops
    if (n < last_) {
      for (std::uint32_t& state : next) state = nfa_.add_state();
    }
    const SchemaSet others =
        contains_.max ? builder_.with(set, builder_.reader_.negated(contains_.schema)) : set;
    for (std::uint32_t k = 0; k <= counted_; ++k) {
      const std::uint32_t item =
          n == 0 ? here_[k] : nfa_.append(nfa_.append_literal(here_[k], ","), builder_.json_.gap());
      if (!builder_.has_false(others)) nfa_.add_call(item, builder_.rule_of(others), next[k]);
      if (k == counted_) continue;
      nfa_.add_call(item, builder_.rule_of(builder_.with(set, contains_.schema)), next[k + 1]);
    }
    here_ = std::move(next);
    return true;
  }

  SchemaBuilder& builder_;
  const Conjunct& c_;
  const Contains contains_;
  const std::uint32_t counted_;  // the most items that satisfy `contains` and are told apart
  const bool is_bounded_;
  const std::uint32_t last_;  // from so many items on the array loops in one state, or is full
  Nfa nfa_;
  std::uint32_t end_ = 0;
  std::vector<std::uint32_t> here_;  // by the number of items that satisfied `contains`
};

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

/// Returns the most items; kUnlimited where there is no limit.
std::uint32_t SchemaBuilder::items_max(const Conjunct& c) const {
  const std::uint32_t least = std::max(longest_prefix(c), c.min_items);
  const std::uint32_t max = c.max_items ? *c.max_items : kUnlimited;
  SchemaSet rest;
  return item_schemas(c, least, rest) ? max : std::min(max, least);
}

Result<Expr> SchemaBuilder::array_of(const Conjunct& c) {
  if (is_free_array(c)) return Expr::call(json_.any_array());
  if (c.contains.size() > 1) {
    return schema_error(Errc::kUnsupported, "contains", c.pointer,
                        "more than one cannot be honoured together");
  }
  const std::uint32_t prefix = longest_prefix(c);
  const std::uint32_t max = items_max(c);
  if (c.unique_items && max > 1) return unique_array_of(c, max);
  if (is_long(c.min_items, max) && prefix == 0 && c.contains.empty()) return long_array_of(c, max);
  return plain_array_of(c, prefix, max);
}

Result<Expr> SchemaBuilder::plain_array_of(const Conjunct& c, std::uint32_t prefix,
                                           std::uint32_t max) {
  if (!std::all_of(c.contains.begin(), c.contains.end(), is_possible)) return Expr::nothing();
  ArrayNfa array(*this, c, prefix, max);
  const Nfa& nfa = array.build();
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
