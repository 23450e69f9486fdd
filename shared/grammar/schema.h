#pragma once
// A JSON schema as alternatives: each is a conjunction of plain constraints, after $ref, allOf,
// anyOf, oneOf, not and if have been merged in. Nested schemas (properties, items) stay sets of
// schemas that must hold together.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/grammar/budget.h"
#include "shared/grammar/decimal.h"
#include "shared/grammar/json_tree.h"
#include "shared/grammar/schema_refs.h"

namespace holdfast::grammar {

using SchemaId = std::uint32_t;
/// Schemas that must hold together: sorted, each once, without the schema `true`.
using SchemaSet = std::vector<SchemaId>;

/// Bits for the types that a value may have; numbers are integers or fractions.
enum SchemaType : std::uint8_t {
  kTypeNull = 1,
  kTypeBoolean = 2,
  kTypeInteger = 4,
  kTypeFraction = 8,  // numbers that are not integers
  kTypeString = 16,
  kTypeArray = 32,
  kTypeObject = 64,
  kTypeAll = 127,
};

/// A bound of numbers: `value` itself is allowed unless it is exclusive.
struct Bound {
  Decimal value;
  bool exclusive = false;
};

/// The constraints of one schema object on members. The schemas of a member are decided part by
/// part: "additionalProperties" considers only the names of its own part.
struct ObjectPart {
  std::vector<std::pair<std::string, SchemaId>> properties;
  std::vector<std::pair<std::string, SchemaId>> patterns;
  std::optional<SchemaId> additional;
  bool open = false;  // of a condition: does not restrict other names
};
/// The constraints of one schema object on items: the first by `prefix`, the others by `items`.
struct ArrayPart {
  std::vector<SchemaId> prefix;
  std::optional<SchemaId> items;
  bool open = false;  // of a condition: does not restrict the array's length
};
/// The number of items that satisfy a schema.
struct Contains {
  SchemaId schema = 0;
  std::uint32_t min = 1;
  std::optional<std::uint32_t> max;
  bool operator==(const Contains&) const = default;
};
/// A part of a schema whose negation no constraint expresses.
struct Refused {
  std::string keyword;
  std::string pointer;
};

/// A conjunction of constraints: one alternative of a schema.
struct Conjunct {
  std::string pointer;  // of the first schema that contributes, for errors
  std::uint8_t types = kTypeAll;
  std::optional<std::vector<const JsonTree*>> values;  // enum, const
  // strings
  std::set<std::string> patterns;
  std::set<std::string> not_patterns;
  std::vector<const JsonTree*> other_texts;  // excluded strings
  std::set<std::string> formats;  // names; after a line end the pattern of the same schema
  std::uint32_t min_length = 0;
  std::optional<std::uint32_t> max_length;
  // numbers
  std::optional<Bound> lower;
  std::optional<Bound> upper;
  std::vector<Decimal> steps;
  bool number_format = false;  // a bound comes from a "format"
  // objects
  std::vector<ObjectPart> objects;
  std::vector<std::string> required;  // in order of appearance
  SchemaSet names;                    // propertyNames
  std::uint32_t min_properties = 0;
  std::optional<std::uint32_t> max_properties;
  // arrays
  std::vector<ArrayPart> arrays;
  std::uint32_t min_items = 0;
  std::optional<std::uint32_t> max_items;
  bool unique_items = false;
  std::vector<Contains> contains;
  /// Set if the conjunct requires more than a grammar can express: using it refuses the schema.
  std::optional<Refused> refused;

  bool is_required(const std::string& name) const;
};

/// Returns `cause` after keyword and location: "compile JSON schema: 'minimum' at #/properties/a:
/// …".
Error schema_error(Errc code, const std::string& keyword, const std::string& pointer,
                   const std::string& cause);

/// Reads schemas on demand. Not thread-safe.
class SchemaReader {
 public:
  explicit SchemaReader(Budget& budget) : budget_(budget) {}
  /// Adds a document, whose schemas are shared with equal ones of others. `root` outlives the
  /// reader.
  SchemaId add_document(const JsonTree& root);
  /// Returns the alternatives of a schema, without obviously contradictory ones. The reference
  /// stays valid. Errors as compile_json_schema.
  Result<const std::vector<Conjunct>*> alternatives(SchemaId id);
  Result<std::vector<Conjunct>> alternatives(const SchemaSet& set);
  /// Returns the alternatives that satisfy both.
  Result<std::vector<Conjunct>> product(const std::vector<Conjunct>& a,
                                        const std::vector<Conjunct>& b);
  bool is_true(SchemaId id) const;
  bool is_false(SchemaId id) const;
  /// Returns the schema of everything that does not satisfy this one.
  SchemaId negated(SchemaId id);
  /// Returns the id of a schema. `outer` is the base of its references, unless it has its own
  /// "$id".
  SchemaId intern(const JsonTree& tree, const std::string& pointer, BaseId outer);
  /// Returns the id of a derived schema that the source does not have; no references in it.
  SchemaId make(JsonTree tree, const std::string& pointer) {
    return intern_derived(std::move(tree), pointer, 0);
  }
  SchemaSet set_of(std::vector<SchemaId> ids) const;
  const std::string& pointer(SchemaId id) const { return schemas_[id].pointer; }
  /// Decides that two alternatives of a oneOf can never both hold; set by the builder, which knows
  /// rules.
  using Disjoint = Result<bool> (*)(void* context, const Conjunct& both);
  void set_disjoint(Disjoint disjoint, void* context) {
    disjoint_ = disjoint;
    context_ = context;
  }

 private:
  friend class KeywordReader;
  struct Schema {
    const JsonTree* tree;
    std::string pointer;
    BaseId base;
    std::unique_ptr<std::vector<Conjunct>> alternatives;
    bool open = false;  // being read
  };
  Result<std::optional<SchemaId>> resolve(SchemaId id, const std::string& keyword);
  Result<std::vector<Conjunct>> read(SchemaId id);
  Result<std::vector<Conjunct>> read_groups(SchemaId id, std::vector<Conjunct> base);
  Result<std::vector<Conjunct>> read_list(SchemaId id, const std::string& keyword,
                                          std::vector<Conjunct> base);
  Result<void> read_unevaluated(SchemaId id, std::vector<Conjunct>& base);
  Result<std::vector<Conjunct>> read_union(SchemaId id, const std::string& keyword);
  Result<SchemaId> group_member(SchemaId id, const std::string& keyword);
  Result<std::vector<Conjunct>> violations(SchemaId id, const std::string& pointer);
  Result<std::vector<Conjunct>> read_condition(SchemaId id);
  Result<std::vector<Conjunct>> read_dependents(SchemaId id, const std::string& keyword,
                                                std::vector<Conjunct> base);
  void close_members(Conjunct& c, SchemaId rest);
  Result<void> close_items(Conjunct& c, SchemaId rest);
  Result<bool> are_disjoint(SchemaId a, SchemaId b);
  SchemaId intern_derived(JsonTree tree, const std::string& pointer, BaseId base);

  SchemaRefs refs_;
  Budget& budget_;
  std::vector<Schema> schemas_;
  std::vector<std::unique_ptr<const JsonTree>> made_;  // derived schemas that no source has
  std::unordered_map<const JsonTree*, SchemaId> by_tree_;
  std::unordered_map<std::string, SchemaId> by_text_;
  std::uint32_t depth_ = 0;
  Disjoint disjoint_ = nullptr;
  void* context_ = nullptr;
};

/// Reads the keywords of one schema object, except groups ($ref, allOf, anyOf, oneOf, not, if,
/// dependent…).
class KeywordReader {
 public:
  KeywordReader(SchemaReader& reader, const JsonTree& tree, const std::string& pointer, BaseId base)
      : reader_(reader), tree_(tree), pointer_(pointer), base_(base) {}
  Result<Conjunct> read();

 private:
  Error bad(const std::string& keyword, const std::string& cause) const;
  Error unsupported(const std::string& keyword, const std::string& cause) const;
  Result<void> read_keyword(const std::string& keyword, const JsonTree& value);
  using Read = Result<void> (KeywordReader::*)(const std::string& keyword, const JsonTree& value);
  /// Returns the functions that read the keywords.
  static const std::map<std::string_view, Read>& keywords();
  Result<void> read_type(const std::string& keyword, const JsonTree& value);
  Result<void> read_const(const std::string& keyword, const JsonTree& value);
  Result<void> read_enum(const std::string& keyword, const JsonTree& value);
  Result<void> read_nullable(const std::string& keyword, const JsonTree& value);
  Result<void> read_pattern(const std::string& keyword, const JsonTree& value);
  Result<void> read_format(const std::string& keyword, const JsonTree& value);
  Result<void> read_inclusive_bound(const std::string& keyword, const JsonTree& value);
  Result<void> read_exclusive_bound(const std::string& keyword, const JsonTree& value);
  Result<void> read_multiple(const std::string& keyword, const JsonTree& value);
  Result<void> read_properties(const std::string& keyword, const JsonTree& value);
  Result<void> read_pattern_properties(const std::string& keyword, const JsonTree& value);
  Result<void> read_additional_properties(const std::string& keyword, const JsonTree& value);
  Result<void> read_property_names(const std::string& keyword, const JsonTree& value);
  Result<void> read_required(const std::string& keyword, const JsonTree& value);
  Result<void> read_items(const std::string& keyword, const JsonTree& value);
  Result<void> read_prefix_items(const std::string& keyword, const JsonTree& value);
  Result<void> read_additional_items(const std::string& keyword, const JsonTree& value);
  Result<void> read_unique_items(const std::string& keyword, const JsonTree& value);
  Result<void> read_contains(const std::string& keyword, const JsonTree& value);
  Result<void> read_min_contains(const std::string& keyword, const JsonTree& value);
  Result<void> read_max_contains(const std::string& keyword, const JsonTree& value);
  template <auto member>
  Result<void> read_count(const std::string& keyword, const JsonTree& value);
  void narrow_to(std::vector<const JsonTree*> values);
  void require(const std::string& name);
  Result<void> read_bound(const std::string& keyword, const JsonTree& value, bool lower,
                          bool exclusive);
  Result<void> read_named(const std::string& keyword, const JsonTree& value,
                          std::vector<std::pair<std::string, SchemaId>>& out);
  Result<void> read_list(const std::string& keyword, const JsonTree& value,
                         std::vector<SchemaId>& out);
  Result<SchemaId> subschema(const std::string& path, const JsonTree& value);
  Result<std::uint32_t> count(const std::string& keyword, const JsonTree& value) const;

  SchemaReader& reader_;
  const JsonTree& tree_;
  const std::string pointer_;
  const BaseId base_;
  Conjunct out_;
  ObjectPart object_;
  ArrayPart array_;
  std::optional<SchemaId> contains_;
  Contains of_contains_;
};

/// Returns the conjunction of both; nullopt if types or values contradict each other.
std::optional<Conjunct> merged(const Conjunct& a, const Conjunct& b);
/// Returns the narrower of two bounds.
std::optional<Bound> greater_bound(const std::optional<Bound>& a, const std::optional<Bound>& b);
std::optional<Bound> lesser_bound(const std::optional<Bound>& a, const std::optional<Bound>& b);

/// Returns true for an object, true or false.
bool is_schema(const JsonTree& tree);
std::uint8_t type_of(const JsonTree& value);

}  // namespace holdfast::grammar
