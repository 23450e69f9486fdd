// Checks that values of enum and const satisfy the keywords next to them, and that alternatives
// exclude each other.

#include <algorithm>
#include <set>

#include "shared/grammar/schema_builder.h"
#include "shared/text/utf8.h"

namespace holdfast::grammar {
namespace {

constexpr std::uint32_t kEmptyDepthMax = 4;  // nesting of properties that is checked

bool is_between(std::size_t n, std::uint32_t min, const std::optional<std::uint32_t>& max) {
  return n >= min && (!max || n <= *max);
}

bool within(const Conjunct& c, const Decimal& number) {
  if (c.lower) {
    const auto order = number <=> c.lower->value;
    if (order < 0 || (order == 0 && c.lower->exclusive)) return false;
  }
  if (c.upper) {
    const auto order = number <=> c.upper->value;
    if (order > 0 || (order == 0 && c.upper->exclusive)) return false;
  }
  return true;
}

/// Returns true if number / step is an integer. The step has at most 15 digits.
bool is_multiple(const Decimal& number, const Decimal& step) {
  const std::uint64_t m = std::stoull(step.integer + step.fraction);
  if (number.fraction.size() > step.fraction.size()) return false;
  std::string digits = number.integer + number.fraction;
  digits.append(step.fraction.size() - number.fraction.size(), '0');
  std::uint64_t remainder = 0;
  for (const char d : digits) {
    remainder = (remainder * 10 + static_cast<std::uint64_t>(d - '0')) % m;
  }
  return remainder == 0;
}

std::size_t count_characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char b) { return (b & 0xC0) != 0x80; }));
}

}  // namespace

Result<bool> SchemaBuilder::admits(const SchemaSet& set, const JsonTree& value) {
  HOLDFAST_TRY(const std::vector<Conjunct> alternatives, reader_.alternatives(set));
  for (const Conjunct& c : alternatives) {
    HOLDFAST_TRY(const bool good, admits(c, value));
    if (good) return true;
  }
  return false;
}

Result<bool> SchemaBuilder::admits(const Conjunct& c, const JsonTree& value) {
  if (!rules_.budget().take_work(10)) return rules_.budget().error("compile JSON schema");
  if ((type_of(value) & c.types) == 0) return false;
  HOLDFAST_CHECKED(check_usable(c));
  if (c.values) {
    const std::string text = canonical_json(value);
    const bool same = std::find(c.values->begin(), c.values->end(), &value) != c.values->end();
    const bool listed =
        same || std::any_of(c.values->begin(), c.values->end(), [&](const JsonTree* other) {
          return other == &value || canonical_json(*other) == text;
        });
    if (!listed) return false;
  }
  switch (value.kind) {
    case JsonTree::Kind::kString:
      return admits_string(c, value);
    case JsonTree::Kind::kNumber:
      return admits_number(c, value);
    case JsonTree::Kind::kArray:
      return admits_array(c, value);
    case JsonTree::Kind::kObject:
      return admits_object(c, value);
    default:
      return true;
  }
}

Result<bool> SchemaBuilder::admits_string(const Conjunct& c, const JsonTree& value) {
  const std::size_t n = count_characters(value.text);
  if (!is_between(n, c.min_length, c.max_length)) return false;
  const std::string escaped = json_escaped(value.text);
  HOLDFAST_TRY(const bool good, admits_patterns(c, escaped));
  if (!good) return false;
  for (const JsonTree* other : c.other_texts) {
    if (other->text == value.text) return false;
  }
  for (const std::string& format : c.formats) {
    HOLDFAST_TRY(const Dfa* dfa, format_dfa(format, c.pointer));
    if (dfa != nullptr && !dfa->matches(escaped)) return false;
  }
  return true;
}

Result<bool> SchemaBuilder::admits_patterns(const Conjunct& c, const std::string& escaped) {
  for (const std::string& pattern : c.patterns) {
    HOLDFAST_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
    if (!dfa->matches(escaped)) return false;
  }
  for (const std::string& pattern : c.not_patterns) {
    HOLDFAST_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
    if (dfa->matches(escaped)) return false;
  }
  return true;
}

Result<bool> SchemaBuilder::admits_number(const Conjunct& c, const JsonTree& value) {
  const auto number = Decimal::parse(value.text);
  if (!number) {
    return schema_error(
        Errc::kUnsupported, "enum", c.pointer,
        "the exponent of " + value.text + " is beyond " + std::to_string(Decimal::kExponentMax));
  }
  for (const Decimal& step : c.steps) {
    if (step.integer.size() + step.fraction.size() > 15) {
      return schema_error(Errc::kUnsupported, "multipleOf", c.pointer,
                          step.str() + " has over 15 digits");
    }
    if (!is_multiple(*number, step)) return false;
  }
  return within(c, *number);
}

Result<bool> SchemaBuilder::admits_array(const Conjunct& c, const JsonTree& value) {
  const std::size_t n = value.items.size();
  if (!is_between(n, c.min_items, c.max_items)) return false;
  std::set<std::string> unique;
  for (std::size_t i = 0; i < n; ++i) {
    SchemaSet set;
    item_schemas(c, i, set);
    HOLDFAST_TRY(const bool good, admits(set, value.items[i]));
    if (!good) return false;
    if (c.unique_items && !unique.insert(canonical_json(value.items[i])).second) return false;
  }
  for (const Contains& contains : c.contains) {
    HOLDFAST_TRY(const bool good, admits_contained(contains, value));
    if (!good) return false;
  }
  return true;
}

Result<bool> SchemaBuilder::admits_contained(const Contains& contains, const JsonTree& value) {
  std::uint32_t found = 0;
  for (const JsonTree& item : value.items) {
    HOLDFAST_TRY(const bool good, admits(reader_.set_of({contains.schema}), item));
    found += good ? 1 : 0;
  }
  return is_between(found, contains.min, contains.max);
}

Result<bool> SchemaBuilder::admits_object(const Conjunct& c, const JsonTree& value) {
  const std::size_t n = value.names.size();
  if (!is_between(n, c.min_properties, c.max_properties)) return false;
  for (const std::string& name : c.required) {
    if (value.find(name) == nullptr) return false;
  }
  for (std::size_t i = 0; i < n; ++i) {
    HOLDFAST_TRY(const bool good, admits_member(c, value.names[i], value.items[i]));
    if (!good) return false;
  }
  return true;
}

Result<bool> SchemaBuilder::admits_member(const Conjunct& c, const std::string& name,
                                          const JsonTree& value) {
  bool is_named = false;
  HOLDFAST_TRY(const SchemaSet set, member_schemas(c, name, is_named));
  HOLDFAST_TRY(const bool good, admits(set, value));
  if (!good || c.names.empty()) return good;
  JsonTree text;
  text.kind = JsonTree::Kind::kString;
  text.text = name;
  return admits(c.names, text);
}

Result<bool> SchemaBuilder::may_be_listed(const Conjunct& c) {
  for (const JsonTree* value : *c.values) {
    HOLDFAST_TRY(const bool good, admits(c, *value));
    if (good) return true;
  }
  return false;
}

Result<bool> SchemaBuilder::may_be_string(const Conjunct& c) {
  if ((c.types & kTypeString) == 0) return false;
  HOLDFAST_TRY(const Dfa characters, characters_of(c));
  return !characters.is_empty();
}

Result<bool> SchemaBuilder::may_be_number(const Conjunct& c) {
  if ((c.types & (kTypeInteger | kTypeFraction)) == 0) return false;
  HOLDFAST_TRY(const Dfa numbers, number_dfa(number_spec(c), c.pointer, rules_.budget()));
  return !numbers.is_empty();
}

bool SchemaBuilder::may_be_array(const Conjunct& c, std::uint32_t depth) {
  if ((c.types & kTypeArray) == 0) return false;
  for (std::uint32_t i = 0; i < std::min(c.min_items, 8u); ++i) {
    SchemaSet set;
    item_schemas(c, i, set);
    if (is_empty_set(set, depth + 1)) return false;
  }
  return true;
}

Result<bool> SchemaBuilder::may_be_object(const Conjunct& c, std::uint32_t depth) {
  if ((c.types & kTypeObject) == 0) return false;
  for (const std::string& name : c.required) {
    bool is_named = false;
    HOLDFAST_TRY(const SchemaSet set, member_schemas(c, name, is_named));
    if (is_empty_set(set, depth + 1)) return false;
  }
  return true;
}

Result<bool> SchemaBuilder::is_empty(const Conjunct& c, std::uint32_t depth) {
  if (c.refused) return false;
  if (c.values) {
    HOLDFAST_TRY(const bool listed, may_be_listed(c));
    return !listed;
  }
  if ((c.types & (kTypeNull | kTypeBoolean)) != 0) return false;
  HOLDFAST_TRY(const bool string, may_be_string(c));
  if (string) return false;
  HOLDFAST_TRY(const bool number, may_be_number(c));
  if (number || may_be_array(c, depth)) return false;
  HOLDFAST_TRY(const bool object, may_be_object(c, depth));
  return !object;
}

bool SchemaBuilder::is_empty_set(const SchemaSet& set, std::uint32_t depth) {
  if (has_false(set)) return true;
  if (depth > kEmptyDepthMax) return false;
  // An error (also for a schema that is being read) only means that nothing is known.
  const Result<std::vector<Conjunct>> alternatives = reader_.alternatives(set);
  if (!alternatives) return false;
  return std::all_of(alternatives->begin(), alternatives->end(), [&](const Conjunct& c) {
    const Result<bool> empty = is_empty(c, depth);
    return empty.has_value() && *empty;
  });
}

Result<bool> SchemaBuilder::is_disjoint(void* builder, const Conjunct& both) {
  return static_cast<SchemaBuilder*>(builder)->is_empty(both, 0);
}

}  // namespace holdfast::grammar
