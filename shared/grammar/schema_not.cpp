// Negates a schema into alternatives of its own: the negation of "all of these hold" is "one of
// these does not", expressed with the available constraints. Where no constraint expresses it
// (formats, multipleOf, …) the alternative is marked, and refused if it is still there after all
// else is merged in: next to "type": "string" the objects that would fit do not matter.

#include <algorithm>

#include "shared/grammar/schema.h"

namespace holdfast::grammar {
namespace {

constexpr std::uint8_t kTypeNumber = kTypeInteger | kTypeFraction;

const JsonTree kTrueTree = {JsonTree::Kind::kBoolean, true, "", {}, {}};
const JsonTree kFalseTree = {JsonTree::Kind::kBoolean, false, "", {}, {}};

JsonTree object_of(const char* name, JsonTree value) {
  JsonTree out = {JsonTree::Kind::kObject, false, "", {}, {name}};
  out.items.push_back(std::move(value));
  return out;
}

JsonTree required(std::vector<JsonTree> names) {
  return object_of("required", {JsonTree::Kind::kArray, false, "", std::move(names), {}});
}

/// Builds the alternatives that violate one conjunct.
class Negation {
 public:
  Negation(SchemaReader& reader, const Conjunct& of, const std::string& pointer)
      : reader_(reader), of_(of), pointer_(pointer) {}

  std::vector<Conjunct> build() {
    if (of_.types != kTypeAll) add(kTypeAll & ~of_.types);
    if (of_.refused) add(of_.types).refused = of_.refused;
    if (of_.values) violate_values(*of_.values);
    if ((of_.types & kTypeString) != 0) violate_string();
    if ((of_.types & kTypeNumber) != 0) violate_number();
    if ((of_.types & kTypeArray) != 0) violate_array();
    if ((of_.types & kTypeObject) != 0) violate_object();
    return std::move(out_);
  }

 private:
  Conjunct& add(int types) {
    Conjunct& c = out_.emplace_back();
    c.pointer = pointer_;
    c.types = static_cast<std::uint8_t>(types);
    return c;
  }
  void refuse(int types, const std::string& keyword) {
    add(types).refused = Refused{keyword, of_.pointer};
  }

  void violate_values(const std::vector<const JsonTree*>& values) {
    std::uint8_t kinds = 0;
    for (const JsonTree* value : values) kinds |= type_of(*value);
    if ((kinds & kTypeNumber) != 0) kinds |= kTypeNumber;
    add(of_.types & ~kinds);
    const auto each = [&](std::uint8_t types) {
      std::vector<const JsonTree*> some;
      std::copy_if(values.begin(), values.end(), std::back_inserter(some),
                   [&](const JsonTree* value) { return (type_of(*value) & types) != 0; });
      return some;
    };
    if ((kinds & kTypeBoolean) != 0) other_booleans(each(kTypeBoolean));
    if ((kinds & kTypeString) != 0) add(kTypeString).other_texts = each(kTypeString);
    if ((kinds & kTypeNumber) != 0) between(each(kTypeNumber));
    if ((kinds & kTypeArray) != 0) not_empty(each(kTypeArray)).min_items = 1;
    if ((kinds & kTypeObject) != 0) not_empty(each(kTypeObject)).min_properties = 1;
  }
  /// Adds the booleans that are not among these.
  void other_booleans(const std::vector<const JsonTree*>& values) {
    for (const JsonTree* other : {&kTrueTree, &kFalseTree}) {
      const bool is_same = std::any_of(values.begin(), values.end(), [&](const JsonTree* v) {
        return v->boolean == other->boolean;
      });
      if (!is_same) add(kTypeBoolean).values.emplace(1, other);
    }
  }
  /// Excludes values. Of arrays and objects only the empty one can be excluded.
  Conjunct& not_empty(const std::vector<const JsonTree*>& values) {
    Conjunct& c = add(type_of(*values[0]));
    const bool empty = std::all_of(values.begin(), values.end(),
                                   [](const JsonTree* value) { return value->items.empty(); });
    if (!empty) c.refused = Refused{values.size() > 1 ? "enum" : "const", of_.pointer};
    return c;
  }
  /// Adds all numbers but these: below, between and above them.
  void between(const std::vector<const JsonTree*>& values) {
    std::vector<Decimal> numbers;
    for (const JsonTree* value : values) {
      const auto number = Decimal::parse(value->text);
      if (!number) return refuse(kTypeNumber, "enum");
      numbers.push_back(*number);
    }
    std::sort(numbers.begin(), numbers.end());
    for (std::size_t i = 0; i <= numbers.size(); ++i) {
      Conjunct& c = add(of_.types & kTypeNumber);
      if (i > 0) c.lower = Bound{numbers[i - 1], true};
      if (i < numbers.size()) c.upper = Bound{numbers[i], true};
    }
  }

  void violate_string() {
    if (of_.min_length > 0) add(kTypeString).max_length = of_.min_length - 1;
    if (of_.max_length) add(kTypeString).min_length = *of_.max_length + 1;
    for (const std::string& pattern : of_.patterns) add(kTypeString).not_patterns.insert(pattern);
    for (const std::string& pattern : of_.not_patterns) add(kTypeString).patterns.insert(pattern);
    if (!of_.other_texts.empty()) add(kTypeString).values = of_.other_texts;
    if (!of_.formats.empty()) refuse(kTypeString, "format");
  }

  void violate_number() {
    const int types = of_.types & kTypeNumber;
    if (of_.number_format) return refuse(types, "format");
    if (of_.lower) add(types).upper = Bound{of_.lower->value, !of_.lower->exclusive};
    if (of_.upper) add(types).lower = Bound{of_.upper->value, !of_.upper->exclusive};
    if (!of_.steps.empty()) refuse(types, "multipleOf");
  }

  void violate_array() {
    if (of_.min_items > 0) add(kTypeArray).max_items = of_.min_items - 1;
    if (of_.max_items) add(kTypeArray).min_items = *of_.max_items + 1;
    if (of_.unique_items) refuse(kTypeArray, "uniqueItems");
    for (const ArrayPart& part : of_.arrays) {
      violate_prefix(part);
      violate_items(part);
    }
    for (const Contains& c : of_.contains) violate_contains(c);
  }
  void violate_prefix(const ArrayPart& part) {
    for (std::size_t i = 0; i < part.prefix.size(); ++i) {
      if (reader_.is_true(part.prefix[i])) continue;
      ArrayPart other;
      other.open = true;
      other.prefix.assign(i, reader_.make(kTrueTree, pointer_));
      other.prefix.push_back(reader_.negated(part.prefix[i]));
      Conjunct& c = add(kTypeArray);
      c.arrays.push_back(std::move(other));
      c.min_items = static_cast<std::uint32_t>(i) + 1;
    }
  }
  void violate_items(const ArrayPart& part) {
    if (!part.items || reader_.is_true(*part.items)) return;
    if (part.prefix.empty()) {
      add(kTypeArray).contains.push_back({reader_.negated(*part.items), 1, std::nullopt});
    } else if (reader_.is_false(*part.items)) {
      add(kTypeArray).min_items = static_cast<std::uint32_t>(part.prefix.size()) + 1;
    } else {
      refuse(kTypeArray, "items");
    }
  }
  void violate_contains(const Contains& c) {
    if (c.min == 1) {
      ArrayPart none;
      none.open = true;
      none.items = reader_.negated(c.schema);
      add(kTypeArray).arrays.push_back(std::move(none));
    } else if (c.min > 0) {
      add(kTypeArray).contains.push_back({c.schema, 0, c.min - 1});
    }
    if (c.max) add(kTypeArray).contains.push_back({c.schema, *c.max + 1, std::nullopt});
  }

  void violate_object() {
    if (of_.min_properties > 0) add(kTypeObject).max_properties = of_.min_properties - 1;
    if (of_.max_properties) add(kTypeObject).min_properties = *of_.max_properties + 1;
    if (!of_.names.empty()) refuse(kTypeObject, "propertyNames");
    for (const std::string& name : of_.required) {
      add_member(name, reader_.make(kFalseTree, pointer_));
    }
    for (const ObjectPart& part : of_.objects) violate_members(part);
  }
  void violate_members(const ObjectPart& part) {
    for (const auto& [name, id] : part.properties) {
      if (reader_.is_true(id)) continue;
      add_member(name, reader_.negated(id)).required.push_back(name);
    }
    for (const auto& [pattern, id] : part.patterns) {
      if (!reader_.is_true(id)) refuse(kTypeObject, "patternProperties");
    }
    const bool any = !part.additional || reader_.is_true(*part.additional);
    if (!any) refuse(kTypeObject, "additionalProperties");
  }
  Conjunct& add_member(const std::string& name, SchemaId id) {
    Conjunct& c = add(kTypeObject);
    ObjectPart& part = c.objects.emplace_back();
    part.open = true;
    part.properties.emplace_back(name, id);
    return c;
  }

  SchemaReader& reader_;
  const Conjunct& of_;
  const std::string pointer_;
  std::vector<Conjunct> out_;
};

}  // namespace

SchemaId SchemaReader::negated(SchemaId id) {
  if (is_true(id)) return make(kFalseTree, pointer(id));
  if (is_false(id)) return make(kTrueTree, pointer(id));
  const JsonTree& of = *schemas_[id].tree;
  const BaseId base = schemas_[id].base;
  const bool is_not = of.names == std::vector<std::string>{"not"} && is_schema(of.items[0]);
  if (is_not) return intern(of.items[0], pointer(id), base);
  budget_.take_work(100);
  // The inner copy is the same schema again: it has the same text.
  return intern_derived(object_of("not", of), pointer(id), base);
}

/// Returns the id of a schema that the source does not have.
SchemaId SchemaReader::intern_derived(JsonTree tree, const std::string& pointer, BaseId base) {
  made_.push_back(std::make_unique<const JsonTree>(std::move(tree)));
  return intern(*made_.back(), pointer, base);
}

Result<std::vector<Conjunct>> SchemaReader::violations(SchemaId id, const std::string& pointer) {
  std::vector<Conjunct> all(1);
  all[0].pointer = pointer;
  HOLDFAST_TRY(const std::vector<Conjunct>* found, alternatives(id));
  for (const Conjunct& c : *found) {
    HOLDFAST_TRY(all, product(all, Negation(*this, c, pointer).build()));
  }
  return all;
}

/// Reads "if": the alternatives under the condition and those without it. A condition lists no
/// members, so it closes no object.
Result<std::vector<Conjunct>> SchemaReader::read_condition(SchemaId id) {
  const JsonTree& tree = *schemas_[id].tree;
  const std::string pointer = schemas_[id].pointer;
  HOLDFAST_TRY(const SchemaId condition, group_member(id, "if"));
  HOLDFAST_TRY(const std::vector<Conjunct>* found, alternatives(condition));
  std::vector<Conjunct> held = *found;
  for (Conjunct& c : held) {
    for (ObjectPart& part : c.objects) part.open = true;
    for (ArrayPart& part : c.arrays) part.open = true;
  }
  HOLDFAST_TRY(std::vector<Conjunct> otherwise, violations(condition, pointer + "/if"));
  if (tree.find_set("then") != nullptr) {
    HOLDFAST_TRY(const SchemaId then, group_member(id, "then"));
    HOLDFAST_TRY(const std::vector<Conjunct>* more, alternatives(then));
    HOLDFAST_TRY(held, product(held, *more));
  }
  if (tree.find_set("else") != nullptr) {
    HOLDFAST_TRY(const SchemaId other, group_member(id, "else"));
    HOLDFAST_TRY(const std::vector<Conjunct>* more, alternatives(other));
    HOLDFAST_TRY(otherwise, product(otherwise, *more));
  }
  held.insert(held.end(), std::make_move_iterator(otherwise.begin()),
              std::make_move_iterator(otherwise.end()));
  return held;
}

namespace {

bool is_names(const JsonTree& value) {
  return value.is(JsonTree::Kind::kArray) &&
         std::all_of(value.items.begin(), value.items.end(),
                     [](const JsonTree& n) { return n.is(JsonTree::Kind::kString); });
}

/// Returns true if the keyword's members may have this value.
bool is_dependent(const std::string& keyword, const JsonTree& value) {
  if (keyword == "dependencies") return is_names(value) || is_schema(value);
  return keyword == "dependentRequired" ? is_names(value) : is_schema(value);
}

}  // namespace

/// Reads each member as the condition that it stands for: "if": {"required": [name]}, "then": …
Result<std::vector<Conjunct>> SchemaReader::read_dependents(SchemaId id, const std::string& keyword,
                                                            std::vector<Conjunct> base) {
  const JsonTree& all = *schemas_[id].tree->find(keyword);
  const std::string pointer = schemas_[id].pointer + "/" + keyword;
  const auto good = [&](const JsonTree& value) { return is_dependent(keyword, value); };
  if (!all.is(JsonTree::Kind::kObject) || !std::all_of(all.items.begin(), all.items.end(), good)) {
    return schema_error(Errc::kInvalidRequest, keyword, schemas_[id].pointer,
                        keyword == "dependentRequired" ? "expected an object of lists of names"
                                                       : "expected an object of schemas");
  }
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    const JsonTree name = {JsonTree::Kind::kString, false, all.names[i], {}, {}};
    const JsonTree& value = all.items[i];
    JsonTree condition = object_of("if", required({name}));
    condition.names.emplace_back("then");
    condition.items.push_back(is_names(value) ? required(value.items) : value);
    const SchemaId part = intern_derived(std::move(condition), pointer, schemas_[id].base);
    HOLDFAST_TRY(const std::vector<Conjunct>* more, alternatives(part));
    HOLDFAST_TRY(base, product(base, *more));
  }
  return base;
}

/// Reads "unevaluatedProperties" and "unevaluatedItems" like "additionalProperties" and "items"
/// next to all members that the schema itself lists, in each of its alternatives.
Result<void> SchemaReader::read_unevaluated(SchemaId id, std::vector<Conjunct>& base) {
  for (const char* keyword : {"unevaluatedProperties", "unevaluatedItems"}) {
    if (schemas_[id].tree->find_set(keyword) == nullptr) continue;
    HOLDFAST_TRY(const SchemaId rest, group_member(id, keyword));
    const bool is_object = std::string(keyword) == "unevaluatedProperties";
    for (Conjunct& c : base) {
      if (is_object) {
        close_members(c, rest);
      } else {
        HOLDFAST_CHECKED(close_items(c, rest));
      }
    }
  }
  return {};
}

void SchemaReader::close_members(Conjunct& c, SchemaId rest) {
  const SchemaId any = make(kTrueTree, c.pointer);
  ObjectPart all;
  all.additional = rest;
  for (const ObjectPart& part : c.objects) {
    if (part.open) continue;  // of a condition, or of a negation
    if (part.additional) return;
    for (const auto& [name, schema] : part.properties) all.properties.emplace_back(name, any);
    for (const auto& [pattern, schema] : part.patterns) all.patterns.emplace_back(pattern, any);
  }
  c.objects.push_back(std::move(all));
}

Result<void> SchemaReader::close_items(Conjunct& c, SchemaId rest) {
  if (!c.contains.empty()) {
    return schema_error(Errc::kUnsupported, "unevaluatedItems", c.pointer,
                        "it cannot be honoured beside contains; use items");
  }
  const SchemaId any = make(kTrueTree, c.pointer);
  ArrayPart all;
  all.items = rest;
  for (const ArrayPart& part : c.arrays) {
    if (part.open) continue;
    if (part.items) return {};
    if (part.prefix.size() > all.prefix.size()) all.prefix.assign(part.prefix.size(), any);
  }
  c.arrays.push_back(std::move(all));
  return {};
}

}  // namespace holdfast::grammar
