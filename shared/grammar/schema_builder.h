#pragma once
// Builds the rules of a grammar from the alternatives of a schema.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared/grammar/counted.h"
#include "shared/grammar/json_rules.h"
#include "shared/grammar/schema.h"
#include "shared/grammar/schema_number.h"

namespace holdfast::grammar {

/// Returns these texts between quotes, each in the form of generated strings.
Dfa dfa_of_texts(const std::set<std::string>& texts, Budget& budget);

/// Builds rules of schemas. Not thread-safe. Errors as compile_json_schema.
class SchemaBuilder {
 public:
  explicit SchemaBuilder(RuleSet& rules);
  /// Returns the rule of a schema's documents. The schema outlives the builder. Equal parts of
  /// several schemas are built once.
  Result<RuleId> build(const JsonTree& root);
  /// Returns the rule of those documents that are objects.
  Result<RuleId> build_object(const JsonTree& root);

 private:
  /// A class of names that no "properties" lists: those that match the same patterns.
  struct FreeNames {
    Dfa characters;
    SchemaSet schemas;
  };

  Result<RuleId> build(const SchemaSet& set);
  RuleId rule_of(const SchemaSet& set);
  SchemaSet with(const SchemaSet& set, SchemaId more) const;
  Result<Expr> expr_of(const Conjunct& c);
  /// Returns kUnsupported if a grammar cannot express it.
  static Result<void> check_usable(const Conjunct& c);
  Result<Expr> values_of(const Conjunct& c);
  Expr literal_of(const JsonTree& value);

  static constexpr std::uint32_t kMinimumMax = 100'000;  // of minLength and minItems
  static Result<void> check_minimum(const std::string& keyword, std::uint32_t min,
                                    const std::string& pointer);
  Result<Expr> string_of(const Conjunct& c);
  Result<RuleId> rule_of_length(const Conjunct& c);
  Result<RuleId> rule_of_characters(const Conjunct& c);
  Result<Dfa> characters_of(const Conjunct& c);  // between the quotes
  Result<Dfa> with_length(const Conjunct& c, const Dfa& dfa);
  Result<const Dfa*> pattern_dfa(const std::string& pattern, const std::string& pointer);
  Result<const Dfa*> format_dfa(const std::string& format, const std::string& pointer);
  Result<Dfa> names_dfa(const SchemaSet& set);
  Result<Expr> number_of(const Conjunct& c);
  static NumberSpec number_spec(const Conjunct& c);

  class ArrayNfa;
  std::uint32_t items_max(const Conjunct& c) const;
  Result<Expr> array_of(const Conjunct& c);
  Result<Expr> long_array_of(const Conjunct& c, std::uint32_t max);
  Result<Expr> plain_array_of(const Conjunct& c, std::uint32_t prefix, std::uint32_t max);
  bool item_schemas(const Conjunct& c, std::size_t at, SchemaSet& out) const;
  using Values = std::vector<Expr>;
  Result<Expr> unique_array_of(const Conjunct& c, std::uint32_t max_items);
  Result<std::optional<Values>> values_of_items(const std::vector<Conjunct>& alternatives);
  Result<std::vector<std::string>> kinds_of(const std::vector<Conjunct>& alternatives,
                                            std::uint32_t depth);
  Result<std::vector<std::string>> kinds_of_objects(const Conjunct& c);
  Expr array_of_kinds(const Conjunct& c, const Values& kinds, std::uint32_t max_items);
  Expr ordered_array_of(const Conjunct& c, const Values& values, std::uint32_t max_items);

  Result<Expr> object_of(const Conjunct& c);
  Result<SchemaSet> member_schemas(const Conjunct& c, const std::string& name, bool& is_named);
  Result<std::vector<std::pair<std::string, SchemaSet>>> named_members(const Conjunct& c);
  Result<Dfa> unlisted_names(const Conjunct& c,
                             const std::vector<std::pair<std::string, SchemaSet>>& named);
  SchemaSet schemas_of_names(const Conjunct& c, const std::set<std::string>& matched) const;
  Result<std::vector<FreeNames>> free_names(
      const Conjunct& c, const std::vector<std::pair<std::string, SchemaSet>>& named);
  bool has_false(const SchemaSet& set) const;

  Result<bool> admits(const SchemaSet& set, const JsonTree& value);
  Result<bool> admits(const Conjunct& c, const JsonTree& value);
  Result<bool> admits_string(const Conjunct& c, const JsonTree& value);
  Result<bool> admits_patterns(const Conjunct& c, const std::string& escaped);
  Result<bool> admits_number(const Conjunct& c, const JsonTree& value);
  Result<bool> admits_array(const Conjunct& c, const JsonTree& value);
  Result<bool> admits_contained(const Contains& contains, const JsonTree& value);
  Result<bool> admits_object(const Conjunct& c, const JsonTree& value);
  Result<bool> admits_member(const Conjunct& c, const std::string& name, const JsonTree& value);
  /// Returns true if surely no document satisfies it; false where that is undecided.
  Result<bool> is_empty(const Conjunct& c, std::uint32_t depth);
  /// Return false if surely no document of the type satisfies it.
  Result<bool> may_be_listed(const Conjunct& c);
  Result<bool> may_be_string(const Conjunct& c);
  Result<bool> may_be_number(const Conjunct& c);
  bool may_be_array(const Conjunct& c, std::uint32_t depth);
  Result<bool> may_be_object(const Conjunct& c, std::uint32_t depth);
  bool is_empty_set(const SchemaSet& set, std::uint32_t depth);
  static Result<bool> is_disjoint(void* builder, const Conjunct& both);

  RuleSet& rules_;
  JsonRules json_;
  SchemaReader reader_;
  Counted long_strings_;  // after the opening quote
  std::map<SchemaSet, RuleId> by_set_;
  std::vector<std::pair<SchemaSet, RuleId>> todo_;
  std::map<std::string, RuleId> by_key_;  // strings and numbers by their constraints
  std::map<std::string, Dfa> patterns_;
  std::map<std::string, Dfa> formats_;
};

}  // namespace holdfast::grammar
