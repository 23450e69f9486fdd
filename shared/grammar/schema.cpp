#include "shared/grammar/schema.h"

#include <algorithm>
#include <utility>

namespace holdfast::grammar {
namespace {

constexpr std::uint32_t kGroupDepthMax = 200;  // $ref, allOf, … nested in each other

template <class T>
void append_new(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& item : from) {
    if (std::find(to.begin(), to.end(), item) == to.end()) to.push_back(item);
  }
}

template <class T>
std::optional<T> lesser(const std::optional<T>& a, const std::optional<T>& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

bool contradict(std::uint32_t min, const std::optional<std::uint32_t>& max) {
  return max && *max < min;
}

bool contradict(const std::optional<Bound>& lower, const std::optional<Bound>& upper) {
  if (!lower || !upper) return false;
  const auto order = lower->value <=> upper->value;
  return order > 0 || (order == 0 && (lower->exclusive || upper->exclusive));
}

/// Removes types for which two limits contradict each other.
void drop_impossible_types(Conjunct& c) {
  if (contradict(c.min_length, c.max_length)) c.types &= ~kTypeString;
  if (contradict(c.min_items, c.max_items)) c.types &= ~kTypeArray;
  if (contradict(c.min_properties, c.max_properties)) c.types &= ~kTypeObject;
  if (contradict(c.lower, c.upper)) c.types &= ~(kTypeInteger | kTypeFraction);
}

/// Returns true for the common keywords that do not restrict documents.
bool is_annotation(const std::string& keyword) {
  static const std::set<std::string> annotations = {"title",
                                                    "description",
                                                    "default",
                                                    "examples",
                                                    "example",
                                                    "$comment",
                                                    "$schema",
                                                    "deprecated",
                                                    "readOnly",
                                                    "writeOnly",
                                                    "xml",
                                                    "externalDocs",
                                                    "markdownDescription"};
  return annotations.count(keyword) != 0;
}

/// Returns a schema without annotations. `is_map`: its members are names with schemas.
JsonTree without_annotations(const JsonTree& tree, bool is_map) {
  static const std::set<std::string> maps = {"properties",  "patternProperties", "$defs",
                                             "definitions", "dependentSchemas",  "dependencies"};
  static const std::set<std::string> values = {"enum", "const", "required"};
  JsonTree out = {tree.kind, tree.boolean, tree.text, {}, {}};
  if (!tree.is(JsonTree::Kind::kObject)) {
    for (const JsonTree& item : tree.items) out.items.push_back(without_annotations(item, false));
    return out;
  }
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    const std::string& name = tree.names[i];
    if (!is_map && is_annotation(name)) continue;
    const bool is_value = !is_map && values.contains(name);
    const bool holds_names = !is_map && maps.contains(name);
    out.names.push_back(name);
    out.items.push_back(is_value ? tree.items[i] : without_annotations(tree.items[i], holds_names));
  }
  return out;
}

bool has_references(const std::string& text) {
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  return has("\"$ref\"") || has("\"$dynamicRef\"") || has("\"$recursiveRef\"");
}

void merge_values(Conjunct& out, const Conjunct& b) {
  if (!b.values) return;
  if (!out.values) {
    out.values = b.values;
    return;
  }
  std::set<std::string> others;
  for (const JsonTree* value : *b.values) others.insert(canonical_json(*value));
  std::erase_if(*out.values,
                [&](const JsonTree* value) { return others.count(canonical_json(*value)) == 0; });
}

}  // namespace

bool is_schema(const JsonTree& tree) {
  return tree.is(JsonTree::Kind::kObject) || tree.is(JsonTree::Kind::kBoolean);
}

bool Conjunct::is_required(const std::string& name) const {
  return std::find(required.begin(), required.end(), name) != required.end();
}

std::optional<Bound> greater_bound(const std::optional<Bound>& a, const std::optional<Bound>& b) {
  if (!a || !b) return a ? a : b;
  if (a->value == b->value) return a->exclusive ? a : b;
  return a->value > b->value ? a : b;
}

std::optional<Bound> lesser_bound(const std::optional<Bound>& a, const std::optional<Bound>& b) {
  if (!a || !b) return a ? a : b;
  if (a->value == b->value) return a->exclusive ? a : b;
  return a->value < b->value ? a : b;
}

std::optional<Conjunct> merged(const Conjunct& a, const Conjunct& b) {
  Conjunct out = a;
  out.types &= b.types;
  merge_values(out, b);
  out.patterns.insert(b.patterns.begin(), b.patterns.end());
  out.not_patterns.insert(b.not_patterns.begin(), b.not_patterns.end());
  append_new(out.other_texts, b.other_texts);
  out.formats.insert(b.formats.begin(), b.formats.end());
  out.min_length = std::max(a.min_length, b.min_length);
  out.max_length = lesser(a.max_length, b.max_length);
  out.lower = greater_bound(a.lower, b.lower);
  out.upper = lesser_bound(a.upper, b.upper);
  append_new(out.steps, b.steps);
  out.number_format = a.number_format || b.number_format;
  out.objects.insert(out.objects.end(), b.objects.begin(), b.objects.end());
  append_new(out.required, b.required);
  append_new(out.names, b.names);
  std::sort(out.names.begin(), out.names.end());
  out.min_properties = std::max(a.min_properties, b.min_properties);
  out.max_properties = lesser(a.max_properties, b.max_properties);
  out.arrays.insert(out.arrays.end(), b.arrays.begin(), b.arrays.end());
  out.min_items = std::max(a.min_items, b.min_items);
  out.max_items = lesser(a.max_items, b.max_items);
  out.unique_items = a.unique_items || b.unique_items;
  append_new(out.contains, b.contains);
  if (!out.refused) out.refused = b.refused;
  drop_impossible_types(out);
  if (out.values) {
    std::erase_if(*out.values,
                  [&](const JsonTree* value) { return (type_of(*value) & out.types) == 0; });
    if (out.values->empty()) return std::nullopt;
  }
  if (out.types == 0) return std::nullopt;
  return out;
}

SchemaId SchemaReader::add_document(const JsonTree& root) {
  return intern(root, "#", refs_.add_document(root));
}

SchemaId SchemaReader::intern(const JsonTree& tree, const std::string& pointer, BaseId outer) {
  if (const auto at = by_tree_.find(&tree); at != by_tree_.end()) return at->second;
  const BaseId base = refs_.inside(tree, outer);
  // Equal schemas are one: they share their rules and the masks that are found for them.
  std::string text = canonical_json(without_annotations(tree, false), false);
  budget_.take_work(text.size() / 8 + 1);
  // References mean the same only within one base.
  if (has_references(text)) text += " " + std::to_string(base);
  const auto [at, is_new] =
      by_text_.try_emplace(std::move(text), static_cast<SchemaId>(schemas_.size()));
  if (is_new) schemas_.push_back({&tree, pointer, base, nullptr, false});
  by_tree_.emplace(&tree, at->second);
  return at->second;
}

bool SchemaReader::is_true(SchemaId id) const {
  const JsonTree& tree = *schemas_[id].tree;
  if (tree.is(JsonTree::Kind::kBoolean)) return tree.boolean;
  return tree.is(JsonTree::Kind::kObject) &&
         std::all_of(tree.names.begin(), tree.names.end(), &is_annotation);
}

bool SchemaReader::is_false(SchemaId id) const {
  const JsonTree& tree = *schemas_[id].tree;
  return tree.is(JsonTree::Kind::kBoolean) && !tree.boolean;
}

SchemaSet SchemaReader::set_of(std::vector<SchemaId> ids) const {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::erase_if(ids, [this](SchemaId id) { return is_true(id); });
  return ids;
}

/// Returns the schema of a reference; nullopt if there is no such keyword.
Result<std::optional<SchemaId>> SchemaReader::resolve(SchemaId id, const std::string& keyword) {
  const Schema& from = schemas_[id];
  const JsonTree* ref = from.tree->find_set(keyword);
  if (ref == nullptr) return std::optional<SchemaId>();
  const std::string pointer = from.pointer;
  if (!ref->is(JsonTree::Kind::kString)) {
    return schema_error(Errc::kInvalidRequest, keyword, pointer, "expected a text");
  }
  const bool is_dynamic = keyword == "$dynamicRef";
  HOLDFAST_TRY(const SchemaTarget target, is_dynamic
                                              ? refs_.find_dynamic(ref->text, from.base, pointer)
                                              : refs_.find(ref->text, from.base, keyword, pointer));
  return std::optional(intern(*target.tree, ref->text, target.base));
}

Result<const std::vector<Conjunct>*> SchemaReader::alternatives(SchemaId id) {
  if (schemas_[id].alternatives) return &std::as_const(*schemas_[id].alternatives);
  if (schemas_[id].open) {
    return schema_error(Errc::kInvalidRequest, "$ref", schemas_[id].pointer,
                        "the schema refers to itself without end; expected a property or an item "
                        "in between");
  }
  if (depth_ >= kGroupDepthMax) {
    return schema_error(Errc::kInvalidRequest, "$ref", schemas_[id].pointer,
                        "references and groups nest deeper than " + std::to_string(kGroupDepthMax));
  }
  schemas_[id].open = true;
  ++depth_;
  Result<std::vector<Conjunct>> found = read(id);
  --depth_;
  schemas_[id].open = false;
  if (!found) return found.error();
  schemas_[id].alternatives = std::make_unique<std::vector<Conjunct>>(std::move(*found));
  return &std::as_const(*schemas_[id].alternatives);
}

Result<std::vector<Conjunct>> SchemaReader::alternatives(const SchemaSet& set) {
  std::vector<Conjunct> all(1);
  if (!set.empty()) all[0].pointer = schemas_[set[0]].pointer;
  for (const SchemaId id : set) {
    HOLDFAST_TRY(const std::vector<Conjunct>* more, alternatives(id));
    HOLDFAST_TRY(all, product(all, *more));
  }
  return all;
}

Result<std::vector<Conjunct>> SchemaReader::product(const std::vector<Conjunct>& a,
                                                    const std::vector<Conjunct>& b) {
  std::vector<Conjunct> out;
  for (const Conjunct& x : a) {
    for (const Conjunct& y : b) {
      const std::size_t size = x.objects.size() + y.objects.size() + x.required.size() +
                               (x.values ? x.values->size() : 0) +
                               (y.values ? y.values->size() : 0);
      if (!budget_.take_work(100 + size * 20)) return budget_.error("compile JSON schema");
      auto both = merged(x, y);
      if (both) out.push_back(std::move(*both));
      if (out.size() > budget_.limits().alternatives_max) {
        return schema_error(Errc::kInvalidRequest, "anyOf", x.pointer,
                            "over " + std::to_string(budget_.limits().alternatives_max) +
                                " alternatives when all that must hold together is merged");
      }
    }
  }
  return out;
}

Result<std::vector<Conjunct>> SchemaReader::read(SchemaId id) {
  const JsonTree& tree = *schemas_[id].tree;
  const std::string pointer = schemas_[id].pointer;
  if (tree.is(JsonTree::Kind::kBoolean)) {
    std::vector<Conjunct> all(tree.boolean ? 1 : 0);
    for (Conjunct& c : all) c.pointer = pointer;
    return all;
  }
  if (!tree.is(JsonTree::Kind::kObject)) {
    return Error{Errc::kInvalidRequest,
                 "compile JSON schema: " + pointer + ": expected an object, true or false"};
  }
  HOLDFAST_TRY(Conjunct conjunct, KeywordReader(*this, tree, pointer, schemas_[id].base).read());
  std::vector<Conjunct> base;
  base.push_back(std::move(conjunct));
  HOLDFAST_TRY(base, product(base, std::vector<Conjunct>(1)));  // drops contradictory alternatives
  return read_groups(id, std::move(base));
}

Result<std::vector<Conjunct>> SchemaReader::read_groups(SchemaId id, std::vector<Conjunct> base) {
  const JsonTree& tree = *schemas_[id].tree;
  const std::string pointer = schemas_[id].pointer;
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    HOLDFAST_TRY(const std::optional<SchemaId> target, resolve(id, keyword));
    if (!target) continue;
    HOLDFAST_TRY(const std::vector<Conjunct>* more, alternatives(*target));
    HOLDFAST_TRY(base, product(base, *more));
  }
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    HOLDFAST_TRY(base, read_list(id, keyword, std::move(base)));
  }
  if (tree.find_set("not") != nullptr) {
    HOLDFAST_TRY(const SchemaId part, group_member(id, "not"));
    HOLDFAST_TRY(const std::vector<Conjunct> all, violations(part, pointer + "/not"));
    HOLDFAST_TRY(base, product(base, all));
  }
  if (tree.find_set("if") != nullptr) {  // "then" and "else" alone have no meaning
    HOLDFAST_TRY(const std::vector<Conjunct> all, read_condition(id));
    HOLDFAST_TRY(base, product(base, all));
  }
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    if (tree.find_set(keyword) == nullptr) continue;
    HOLDFAST_TRY(base, read_dependents(id, keyword, std::move(base)));
  }
  HOLDFAST_CHECKED(read_unevaluated(id, base));
  return base;
}

/// Reads a list of schemas and merges them into the alternatives so far.
Result<std::vector<Conjunct>> SchemaReader::read_list(SchemaId id, const std::string& keyword,
                                                      std::vector<Conjunct> base) {
  const JsonTree* list = schemas_[id].tree->find_set(keyword);
  if (list == nullptr) return base;
  const std::string pointer = schemas_[id].pointer;
  const bool all_of = keyword == "allOf";
  const bool good = list->is(JsonTree::Kind::kArray) && (all_of || !list->items.empty()) &&
                    std::all_of(list->items.begin(), list->items.end(), is_schema);
  if (!good) {
    return schema_error(Errc::kInvalidRequest, keyword, pointer,
                        "expected an array of at least one schema");
  }
  if (!all_of) {
    HOLDFAST_TRY(const std::vector<Conjunct> all, read_union(id, keyword));
    return product(base, all);
  }
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const SchemaId part =
        intern(list->items[i], pointer + "/allOf/" + std::to_string(i), schemas_[id].base);
    HOLDFAST_TRY(const std::vector<Conjunct>* more, alternatives(part));
    HOLDFAST_TRY(base, product(base, *more));
  }
  return base;
}

Result<SchemaId> SchemaReader::group_member(SchemaId id, const std::string& keyword) {
  const JsonTree& member = *schemas_[id].tree->find(keyword);
  if (!is_schema(member)) {
    return schema_error(Errc::kInvalidRequest, keyword, schemas_[id].pointer,
                        "expected a schema: an object, true or false");
  }
  return intern(member, schemas_[id].pointer + "/" + keyword, schemas_[id].base);
}

Result<std::vector<Conjunct>> SchemaReader::read_union(SchemaId id, const std::string& keyword) {
  const JsonTree& list = *schemas_[id].tree->find(keyword);
  const std::string pointer = schemas_[id].pointer;
  std::vector<SchemaId> parts;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const std::string item_pointer = pointer + "/" + keyword + "/" + std::to_string(i);
    parts.push_back(intern(list.items[i], item_pointer, schemas_[id].base));
  }
  std::vector<Conjunct> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HOLDFAST_TRY(const std::vector<Conjunct>* branch, alternatives(parts[i]));
    std::vector<Conjunct> only = *branch;
    for (std::size_t j = 0; keyword == "oneOf" && j < parts.size(); ++j) {
      if (i == j) continue;
      HOLDFAST_TRY(const bool disjoint, are_disjoint(parts[i], parts[j]));
      if (disjoint) continue;
      HOLDFAST_TRY(const std::vector<Conjunct> not_other, violations(parts[j], pointer + "/oneOf"));
      HOLDFAST_TRY(only, product(only, not_other));
    }
    all.insert(all.end(), std::make_move_iterator(only.begin()),
               std::make_move_iterator(only.end()));
  }
  return all;
}

/// Returns true if no document can satisfy both; false where that is undecided.
Result<bool> SchemaReader::are_disjoint(SchemaId a, SchemaId b) {
  HOLDFAST_TRY(const std::vector<Conjunct>* of_a, alternatives(a));
  HOLDFAST_TRY(const std::vector<Conjunct>* of_b, alternatives(b));
  HOLDFAST_TRY(const std::vector<Conjunct> both, product(*of_a, *of_b));
  for (const Conjunct& c : both) {
    HOLDFAST_TRY(const bool disjoint, disjoint_(context_, c));
    if (!disjoint) return false;
  }
  return true;
}

}  // namespace holdfast::grammar
