#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "shared/grammar/schema.h"
#include "shared/grammar/schema_formats.h"

namespace holdfast::grammar {
namespace {

bool is_group(const std::string& keyword) {
  static const std::set<std::string> recognised = {"$ref",
                                                   "$dynamicRef",
                                                   "$recursiveRef",
                                                   "allOf",
                                                   "anyOf",
                                                   "oneOf",
                                                   "not",
                                                   "if",
                                                   "then",
                                                   "else",
                                                   "dependencies",
                                                   "unevaluatedItems",
                                                   "dependentRequired",
                                                   "dependentSchemas",
                                                   "unevaluatedProperties"};
  return recognised.count(keyword) != 0;
}

std::string escaped_pointer(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

/// Returns the types that a name means: those of the standard, and names of languages and other
/// formats. 0: none.
std::uint8_t types_named(std::string name) {
  static const std::map<std::string, std::uint8_t> types = {
      {"null", kTypeNull},
      {"boolean", kTypeBoolean},
      {"integer", kTypeInteger},
      {"number", kTypeInteger | kTypeFraction},
      {"string", kTypeString},
      {"array", kTypeArray},
      {"object", kTypeObject},
      {"none", kTypeNull},
      {"bool", kTypeBoolean},
      {"int", kTypeInteger},
      {"str", kTypeString},
      {"float", kTypeInteger | kTypeFraction},
      {"list", kTypeArray},
      {"double", kTypeInteger | kTypeFraction},
      {"dict", kTypeObject},
      {"any", kTypeAll},
      {"", kTypeAll}};
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto at = types.find(name);
  return at == types.end() ? std::uint8_t{0} : at->second;
}

bool is_set(const ObjectPart& part) {
  return !part.properties.empty() || !part.patterns.empty() || part.additional;
}

bool is_set(const ArrayPart& part) {
  return !part.prefix.empty() || part.items;
}

}  // namespace

std::uint8_t type_of(const JsonTree& value) {
  switch (value.kind) {
    case JsonTree::Kind::kNull:
      return kTypeNull;
    case JsonTree::Kind::kBoolean:
      return kTypeBoolean;
    case JsonTree::Kind::kString:
      return kTypeString;
    case JsonTree::Kind::kArray:
      return kTypeArray;
    case JsonTree::Kind::kObject:
      return kTypeObject;
    case JsonTree::Kind::kNumber:
      break;
  }
  const auto number = Decimal::parse(value.text);
  return number && number->is_integer() ? kTypeInteger : kTypeFraction;
}

Error schema_error(Errc code, const std::string& keyword, const std::string& pointer,
                   const std::string& cause) {
  return {code, "compile JSON schema: '" + keyword + "' at " + pointer + ": " + cause};
}

Error KeywordReader::bad(const std::string& keyword, const std::string& cause) const {
  return schema_error(Errc::kInvalidRequest, keyword, pointer_, cause);
}

Error KeywordReader::unsupported(const std::string& keyword, const std::string& cause) const {
  return schema_error(Errc::kUnsupported, keyword, pointer_, cause);
}

/// Reads a count into a member of the conjunct.
template <auto member>
Result<void> KeywordReader::read_count(const std::string& keyword, const JsonTree& value) {
  HOLDFAST_TRY(out_.*member, count(keyword, value));
  return {};
}

const std::map<std::string_view, KeywordReader::Read>& KeywordReader::keywords() {
  using R = KeywordReader;
  static const std::map<std::string_view, Read> table = {
      {"type", &R::read_type},
      {"const", &R::read_const},
      {"enum", &R::read_enum},
      {"nullable", &R::read_nullable},
      {"minLength", &R::read_count<&Conjunct::min_length>},
      {"maxLength", &R::read_count<&Conjunct::max_length>},
      {"pattern", &R::read_pattern},
      {"format", &R::read_format},
      {"minimum", &R::read_inclusive_bound},
      {"maximum", &R::read_inclusive_bound},
      {"exclusiveMinimum", &R::read_exclusive_bound},
      {"exclusiveMaximum", &R::read_exclusive_bound},
      {"multipleOf", &R::read_multiple},
      {"properties", &R::read_properties},
      {"patternProperties", &R::read_pattern_properties},
      {"additionalProperties", &R::read_additional_properties},
      {"propertyNames", &R::read_property_names},
      {"required", &R::read_required},
      {"minProperties", &R::read_count<&Conjunct::min_properties>},
      {"maxProperties", &R::read_count<&Conjunct::max_properties>},
      {"items", &R::read_items},
      {"prefixItems", &R::read_prefix_items},
      {"additionalItems", &R::read_additional_items},
      {"minItems", &R::read_count<&Conjunct::min_items>},
      {"maxItems", &R::read_count<&Conjunct::max_items>},
      {"uniqueItems", &R::read_unique_items},
      {"contains", &R::read_contains},
      {"minContains", &R::read_min_contains},
      {"maxContains", &R::read_max_contains},
  };
  return table;
}

Result<Conjunct> KeywordReader::read() {
  out_.pointer = pointer_;
  for (std::size_t i = 0; i < tree_.names.size(); ++i) {
    HOLDFAST_CHECKED(read_keyword(tree_.names[i], tree_.items[i]));
  }
  const JsonTree* nullable = tree_.find("nullable");  // OpenAPI 3.0
  if (nullable != nullptr && nullable->boolean) out_.types |= kTypeNull;
  if (is_set(object_)) out_.objects.push_back(std::move(object_));
  if (is_set(array_)) out_.arrays.push_back(std::move(array_));
  if (contains_) {
    of_contains_.schema = *contains_;
    if (of_contains_.min > 0 || of_contains_.max) out_.contains.push_back(of_contains_);
  }
  return std::move(out_);
}

Result<void> KeywordReader::read_keyword(const std::string& keyword, const JsonTree& value) {
  // Clients without a value write null; unknown keywords do not restrict anything.
  const bool is_absent = value.is(JsonTree::Kind::kNull) && keyword != "const";
  if (is_absent || is_group(keyword)) return {};
  const auto keyword_reader = keywords().find(keyword);
  return keyword_reader != keywords().end() ? (this->*keyword_reader->second)(keyword, value)
                                            : Result<void>();
}

/// Allows only these values. Next to others both must hold; values are compared when sets are
/// joined.
void KeywordReader::narrow_to(std::vector<const JsonTree*> values) {
  Conjunct some;
  some.values = std::move(values);
  const auto both = merged(out_, some);
  if (both) {
    out_ = *both;
  } else {
    out_.types = 0;
  }
}

Result<void> KeywordReader::read_const(const std::string&, const JsonTree& value) {
  narrow_to({&value});
  return {};
}

Result<void> KeywordReader::read_enum(const std::string& keyword, const JsonTree& value) {
  if (!value.is(JsonTree::Kind::kArray)) return bad(keyword, "expected an array");
  std::vector<const JsonTree*> values;
  for (const JsonTree& item : value.items) values.push_back(&item);
  narrow_to(std::move(values));
  return {};
}

Result<void> KeywordReader::read_nullable(const std::string& keyword, const JsonTree& value) {
  if (!value.is(JsonTree::Kind::kBoolean)) return bad(keyword, "expected true or false");
  return {};
}

Result<void> KeywordReader::read_type(const std::string&, const JsonTree& value) {
  std::vector<const JsonTree*> names;
  if (value.is(JsonTree::Kind::kArray)) {
    for (const JsonTree& item : value.items) names.push_back(&item);
    if (names.empty()) return {};
  } else {
    names.push_back(&value);
  }
  std::uint8_t allowed_types = 0;
  for (const JsonTree* name : names) {
    const bool is_text = name->is(JsonTree::Kind::kString);
    std::uint8_t types = is_text ? types_named(name->text) : std::uint8_t{0};
    if (name->is(JsonTree::Kind::kNull)) types = kTypeNull;
    if (types == 0) {
      return bad("type",
                 "expected null, boolean, integer, number, string, array, object or a "
                 "list of them");
    }
    allowed_types |= types;
  }
  out_.types &= allowed_types;
  return {};
}

Result<void> KeywordReader::read_pattern(const std::string& keyword, const JsonTree& value) {
  if (!value.is(JsonTree::Kind::kString)) return bad(keyword, "expected a regular expression");
  out_.patterns.insert(value.text);
  return {};
}

Result<void> KeywordReader::read_format(const std::string&, const JsonTree& value) {
  if (!value.is(JsonTree::Kind::kString)) return bad("format", "expected a name");
  const std::string& name = value.text;
  if (const IntegerFormat* limits = integer_format(name)) {
    out_.number_format = true;
    out_.lower = greater_bound(out_.lower, Bound{*Decimal::parse(limits->min), false});
    out_.upper = lesser_bound(out_.upper, Bound{*Decimal::parse(limits->max), false});
    return {};
  }
  if (format_pattern(name).empty()) return {};  // an annotation
  const JsonTree* pattern = tree_.find_set("pattern");
  out_.formats.insert(pattern == nullptr ? name : name + "\n" + pattern->text);
  return {};
}

Result<void> KeywordReader::read_inclusive_bound(const std::string& keyword,
                                                 const JsonTree& value) {
  // Draft 4: exclusiveMinimum is a boolean next to minimum.
  const bool lower = keyword == "minimum";
  const JsonTree* flag = tree_.find(lower ? "exclusiveMinimum" : "exclusiveMaximum");
  return read_bound(keyword, value, lower,
                    flag != nullptr && flag->is(JsonTree::Kind::kBoolean) && flag->boolean);
}

Result<void> KeywordReader::read_exclusive_bound(const std::string& keyword,
                                                 const JsonTree& value) {
  if (value.is(JsonTree::Kind::kBoolean)) return {};
  return read_bound(keyword, value, keyword == "exclusiveMinimum", true);
}

Result<void> KeywordReader::read_multiple(const std::string& keyword, const JsonTree& value) {
  const auto step = Decimal::parse(value.text);
  const bool good = value.is(JsonTree::Kind::kNumber) && step && !step->negative;
  if (!good || step->is_zero()) return bad(keyword, "expected a number over 0");
  out_.steps.push_back(*step);
  return {};
}

Result<void> KeywordReader::read_bound(const std::string& keyword, const JsonTree& value,
                                       bool lower, bool exclusive) {
  const auto number = Decimal::parse(value.text);  // also of a text: "5" means 5
  const bool is_text = value.is(JsonTree::Kind::kString);
  const bool good = value.is(JsonTree::Kind::kNumber) || (is_text && number);
  if (!good) return bad(keyword, "expected a number");
  if (!number) {
    return unsupported(keyword, "its exponent is beyond " + std::to_string(Decimal::kExponentMax));
  }
  const Bound bound{*number, exclusive};
  if (lower) {
    out_.lower = greater_bound(out_.lower, bound);
  } else {
    out_.upper = lesser_bound(out_.upper, bound);
  }
  return {};
}

Result<void> KeywordReader::read_properties(const std::string& keyword, const JsonTree& value) {
  HOLDFAST_CHECKED(read_named(keyword, value, object_.properties));
  for (std::size_t i = 0; i < value.names.size(); ++i) {
    const JsonTree* flag = value.items[i].find("required");
    const bool is_required = flag != nullptr && flag->is(JsonTree::Kind::kBoolean) && flag->boolean;
    if (is_required) require(value.names[i]);
  }
  return {};
}

void KeywordReader::require(const std::string& name) {
  if (!out_.is_required(name)) out_.required.push_back(name);
}

Result<void> KeywordReader::read_pattern_properties(const std::string& keyword,
                                                    const JsonTree& value) {
  return read_named(keyword, value, object_.patterns);
}

Result<void> KeywordReader::read_additional_properties(const std::string& keyword,
                                                       const JsonTree& value) {
  HOLDFAST_TRY(object_.additional, subschema(keyword, value));
  return {};
}

Result<void> KeywordReader::read_property_names(const std::string& keyword, const JsonTree& value) {
  HOLDFAST_TRY(const SchemaId id, subschema(keyword, value));
  out_.names = reader_.set_of({id});
  return {};
}

Result<void> KeywordReader::read_required(const std::string& keyword, const JsonTree& value) {
  if (value.is(JsonTree::Kind::kBoolean)) return {};  // draft 3: belongs to the enclosing object
  if (!value.is(JsonTree::Kind::kArray)) return bad(keyword, "expected an array of names");
  for (const JsonTree& name : value.items) {
    if (!name.is(JsonTree::Kind::kString)) return bad(keyword, "expected an array of names");
    require(name.text);
  }
  return {};
}

Result<void> KeywordReader::read_items(const std::string& keyword, const JsonTree& value) {
  if (value.is(JsonTree::Kind::kArray)) return read_list(keyword, value, array_.prefix);
  HOLDFAST_TRY(array_.items, subschema(keyword, value));
  return {};
}

Result<void> KeywordReader::read_prefix_items(const std::string& keyword, const JsonTree& value) {
  return read_list(keyword, value, array_.prefix);
}

/// Applies only next to a list of items, whose rest the keyword describes.
Result<void> KeywordReader::read_additional_items(const std::string& keyword,
                                                  const JsonTree& value) {
  const JsonTree* items = tree_.find("items");
  if (items == nullptr || !items->is(JsonTree::Kind::kArray)) return {};
  HOLDFAST_TRY(array_.items, subschema(keyword, value));
  return {};
}

Result<void> KeywordReader::read_unique_items(const std::string& keyword, const JsonTree& value) {
  if (!value.is(JsonTree::Kind::kBoolean)) return bad(keyword, "expected true or false");
  out_.unique_items = value.boolean;
  return {};
}

Result<void> KeywordReader::read_contains(const std::string& keyword, const JsonTree& value) {
  HOLDFAST_TRY(contains_, subschema(keyword, value));
  return {};
}

Result<void> KeywordReader::read_min_contains(const std::string& keyword, const JsonTree& value) {
  HOLDFAST_TRY(of_contains_.min, count(keyword, value));
  return {};
}

Result<void> KeywordReader::read_max_contains(const std::string& keyword, const JsonTree& value) {
  HOLDFAST_TRY(of_contains_.max, count(keyword, value));
  return {};
}

Result<void> KeywordReader::read_named(const std::string& keyword, const JsonTree& value,
                                       std::vector<std::pair<std::string, SchemaId>>& out) {
  // PHP writes an empty object as an empty list.
  const bool is_empty = value.is(JsonTree::Kind::kArray) && value.items.empty();
  if (!value.is(JsonTree::Kind::kObject) && !is_empty) {
    return bad(keyword, "expected an object of schemas");
  }
  for (std::size_t i = 0; i < value.names.size(); ++i) {
    const std::string& name = value.names[i];
    HOLDFAST_TRY(const SchemaId id,
                 subschema(keyword + "/" + escaped_pointer(name), value.items[i]));
    out.emplace_back(name, id);
  }
  return {};
}

Result<void> KeywordReader::read_list(const std::string& keyword, const JsonTree& value,
                                      std::vector<SchemaId>& out) {
  if (!value.is(JsonTree::Kind::kArray)) return bad(keyword, "expected an array of schemas");
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    HOLDFAST_TRY(const SchemaId id, subschema(keyword + "/" + std::to_string(i), value.items[i]));
    out.push_back(id);
  }
  return {};
}

Result<SchemaId> KeywordReader::subschema(const std::string& path, const JsonTree& value) {
  if (!is_schema(value)) {
    return schema_error(Errc::kInvalidRequest, path.substr(0, path.find('/')),
                        pointer_ + "/" + path, "expected a schema: an object, true or false");
  }
  return reader_.intern(value, pointer_ + "/" + path, base_);
}

Result<std::uint32_t> KeywordReader::count(const std::string& keyword,
                                           const JsonTree& value) const {
  const auto number = Decimal::parse(value.text);  // also of a text: "5" means 5
  if (!number || number->negative || !number->is_integer()) {
    return bad(keyword, "expected an integer of at least 0");
  }
  if (number->integer.size() > 9) return std::uint32_t{1'000'000'000};
  return static_cast<std::uint32_t>(number->integer.empty() ? 0 : std::stoul(number->integer));
}

}  // namespace holdfast::grammar
