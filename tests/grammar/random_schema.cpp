#include "random_schema.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace holdfast::grammar::tests {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kNames = {"a", "b", "c", "the", "name", "kind", "x\"y", "ü"};
const std::vector<std::string> kWords = {"",    "a",     "ab",  "abc", "cab",       "x1",   "42",
                                         "the", "\"q\"", "é世", "n_1", "line\nend", "abcab"};
const std::vector<std::string> kPatterns = {"^[a-c]+$",    "b",  "^(ab|c)*$", "^x?[0-9]{2}$",
                                            "^[^a]{2,4}$", "\"", "^the|^a"};
const std::vector<std::string> kFormats = {"date", "ipv4", "ipv6", "uuid", "email"};

void count_keywords(const Json& schema, std::map<std::string, int>& histogram) {
  if (schema.is_array()) {
    for (const Json& item : schema) count_keywords(item, histogram);
  }
  if (!schema.is_object()) return;
  for (const auto& [key, value] : schema.items()) {
    ++histogram[key];
    if (key == "enum" || key == "const") continue;
    if (key == "dependentRequired") continue;
    if (key == "properties" || key == "patternProperties" || key == "$defs" ||
        key == "dependentSchemas") {
      for (const auto& [name, inner] : value.items()) count_keywords(inner, histogram);
    } else {
      count_keywords(value, histogram);
    }
  }
}

/// True for the form of generated documents: doubles with a fraction and no exponent, short
/// integers.
bool is_canonical(const Json& value) {
  if (value.is_number_float()) {
    const std::string digits = value.dump();
    const std::size_t point = digits.find('.');
    if (digits.find('e') != std::string::npos || point == std::string::npos) return false;
    return digits.substr(point) != ".0" && digits.size() < 12;
  }
  if (value.is_number()) return value.dump().size() < 15;
  if (!value.is_structured()) return true;
  for (const Json& item : value) {
    if (!is_canonical(item)) return false;
  }
  return true;
}

}  // namespace

std::string RandomSchema::make(int depth, std::map<std::string, int>& histogram) {
  Json root = schema(depth);
  if (!root.is_object()) root = Json::object();
  Json node = {{"type", "object"},
               {"properties", {{"v", scalar()}, {"next", {{"$ref", "#/$defs/node"}}}}},
               {"required", {"v"}},
               {"additionalProperties", false}};
  root["$defs"] = {{"node", node}, {"word", text()}, {"count", number()}};
  count_keywords(root, histogram);
  return root.dump();
}

Json RandomSchema::schema(int depth) {
  if (depth <= 0) return scalar();
  switch (below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return object(depth);
    case 4:
    case 5:
      return array(depth);
    case 6:
    case 7:
      return combination(depth);
    case 8: {
      const std::vector<std::string> refs = {"node", "word", "count"};
      return {{"$ref", "#/$defs/" + refs[below(refs.size())]}};
    }
    case 9:
      return negation(depth);
    case 10:
      return condition(depth);
    default:
      return scalar();
  }
}

Json RandomSchema::scalar() {
  switch (below(9)) {
    case 0:
      return {{"type", "boolean"}};
    case 1:
      return {{"type", "null"}};
    case 2:
      return {{"type", {"integer", "null"}}};
    case 3:
      return {{"enum", {kWords[below(5)] + "!", below(9), nullptr, {below(3)}, "tail"}}};
    case 4:
      return {{"const", value()}};
    case 5:
    case 6:
      return number();
    default:
      return text();
  }
}

Json RandomSchema::number() {
  const auto bound = [this] { return static_cast<int>(below(60)) - 30; };
  const bool integer = below(2) == 0;
  Json out = {{"type", integer ? "integer" : "number"}};
  const int low = bound();
  const int high = low + static_cast<int>(below(40));
  if (below(2) == 0) out[below(2) == 0 ? "minimum" : "exclusiveMinimum"] = low;
  if (below(3) == 0) out[below(2) == 0 ? "maximum" : "exclusiveMaximum"] = high;
  if (!integer && below(4) == 0) out["minimum"] = low + 0.25;
  if (below(4) == 0) out["multipleOf"] = integer ? Json(1 + below(7)) : Json(0.25 * (1 + below(3)));
  return out;
}

Json RandomSchema::text() {
  Json out = {{"type", "string"}};
  switch (below(5)) {
    case 0:
      out["pattern"] = kPatterns[below(kPatterns.size())];
      break;
    case 1:
      out["format"] = kFormats[below(kFormats.size())];
      return out;
    case 2:
      out["minLength"] = below(4);
      break;
    default:
      break;
  }
  if (below(3) == 0) out["maxLength"] = 3 + below(6);
  return out;
}

Json RandomSchema::array(int depth) {
  Json out = {{"type", "array"}};
  if (below(5) == 0) {
    out["items"] = {{"enum", {"p", "q", 1, nullptr}}};
    out["uniqueItems"] = true;
    if (below(2) == 0) out["minItems"] = below(4);
    return out;
  }
  if (below(4) == 0) out["prefixItems"] = {schema(depth - 1), schema(0)};
  out["items"] = below(6) == 0 ? Json(false) : schema(depth - 1);
  if (below(6) == 0) {
    out["items"] = number();
    out["contains"] = {{"type", "integer"}, {"minimum", 3}};
    if (below(2) == 0) out["minContains"] = 1 + below(2);
  }
  if (below(3) == 0) out["minItems"] = below(3);
  if (below(2) == 0) out["maxItems"] = 2 + below(3);
  return out;
}

Json RandomSchema::object(int depth) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const std::string& name : kNames) {
    if (below(3) != 0) continue;
    properties[name] = schema(depth - 1);
    if (below(2) == 0) required.push_back(name);
  }
  Json out = {{"type", "object"}};
  const std::size_t n = properties.size();
  if (n > 0) out["properties"] = properties;
  if (!required.empty()) out["required"] = required;
  const bool has_patterns = below(5) == 0;
  if (has_patterns) out["patternProperties"] = {{"^n_", schema(0)}, {"_s$", schema(0)}};
  out["additionalProperties"] = below(2) == 0 ? Json(false) : schema(depth - 2);
  if (below(6) == 0) out["maxProperties"] = required.size() + below(3);
  if (below(6) == 0) out["minProperties"] = below(n + 1);
  if (below(8) == 0) out["propertyNames"] = {{"maxLength", 4}};
  return out;
}

Json RandomSchema::combination(int depth) {
  switch (below(4)) {
    case 0:
      return {{"anyOf", {schema(depth - 1), schema(depth - 1), scalar()}}};
    case 1: {
      Json low = number();
      Json high = number();
      return {{"allOf", {low, high, {{"type", {"integer", "number", "string"}}}}}};
    }
    case 2: {
      const auto branch = [&](const std::string& kind) {
        return Json{{"type", "object"},
                    {"properties", {{"kind", {{"const", kind}}}, {"name", schema(depth - 1)}}},
                    {"required", {"kind"}},
                    {"additionalProperties", false}};
      };
      return {{"oneOf", {branch("p"), branch("q"), {{"type", "null"}}}}};
    }
    default: {
      const auto part = [&](const std::string& name) {
        return Json{{"type", "object"},
                    {"properties", {{name, schema(depth - 1)}}},
                    {"required", {name}},
                    {"additionalProperties", true}};
      };
      return {{"allOf", {part("a"), part(below(3) == 0 ? "a" : "b")}}};
    }
  }
}

/// A schema with a part that must not hold and one that must.
Json RandomSchema::negation(int depth) {
  switch (below(8)) {
    case 0:
      return {{"type", "string"}, {"maxLength", 9}, {"not", text()}};
    case 1:
      return {{"type", {"string", "null"}}, {"not", {{"enum", {"", "the", nullptr, 3}}}}};
    case 2:
      return {{"type", "number"}, {"not", number()}};
    case 3:
      return {{"type", {"number", "boolean"}}, {"not", {{"enum", {below(9), -2.5, 7, false}}}}};
    case 4: {
      Json out = object(depth);
      out["not"] = {{"required", {kNames[below(3)]}}};
      return out;
    }
    case 5: {
      Json out = object(depth);
      out["not"] = {{"properties", {{kNames[below(3)], schema(depth - 2)}}}};
      return out;
    }
    case 6: {
      Json out = array(depth);
      out["not"] = below(2) == 0 ? Json{{"contains", scalar()}} : Json{{"items", scalar()}};
      return out;
    }
    default:
      return {{"oneOf", {number(), number(), text()}}};
  }
}

/// A condition on one property, and what follows from it.
Json RandomSchema::condition(int depth) {
  Json out = object(depth);
  out["properties"]["kind"] = {{"enum", {"p", "q", 1}}};
  switch (below(4)) {
    case 0:
      out["dependentRequired"] = {{"a", {"b"}}};
      return out;
    case 1:
      out["dependentSchemas"] = {{"kind", {{"required", {"a"}}}}};
      return out;
    case 2:
      out["if"] = {{"required", {"a"}}};
      break;
    default:
      out["if"] = {{"properties", {{"kind", {{"const", "p"}}}}}, {"required", {"kind"}}};
  }
  if (below(4) != 0) out["then"] = {{"required", {"b"}}};
  if (below(2) == 0)
    out["else"] = {{"properties", {{"name", schema(depth - 2)}}}, {"additionalProperties", true}};
  return out;
}

Json RandomSchema::value() {
  switch (below(7)) {
    case 0:
      return nullptr;
    case 1:
      return below(2) == 0;
    case 2:
      return static_cast<int>(below(50)) - 25;
    case 3:
      return static_cast<int>(below(50)) - 24.75;
    case 4:
      return Json::array({1, "a"});
    default:
      return kWords[below(kWords.size())];
  }
}

void RandomSchema::change(Json& at, int depth) {
  if (at.is_structured() && !at.empty() && below(4) != 0 && depth < 6) {
    auto inner = at.begin();
    std::advance(inner, static_cast<long>(below(at.size())));
    return change(*inner, depth + 1);
  }
  if (at.is_array() && below(2) == 0) {
    if (!at.empty() && below(2) == 0) {
      at.erase(below(at.size()));
    } else {
      at.push_back(at.empty() || below(2) == 0 ? value() : at[below(at.size())]);
    }
  } else if (at.is_object() && below(3) != 0) {
    if (!at.empty() && below(2) == 0) {
      auto member = at.begin();
      std::advance(member, static_cast<long>(below(at.size())));
      at.erase(member);
    } else {
      const std::vector<std::string> names = {"zz", "n_1", "q_s", "n_s", "longer"};
      const std::string name = names[below(names.size())];
      if (!at.contains(name)) at[name] = value();
    }
  } else {
    at = value();
  }
}

std::string RandomSchema::mutate(const std::string& text) {
  Json document = Json::parse(text);
  for (std::uint64_t n = 1 + below(2); n > 0; --n) change(document, 0);
  return is_canonical(document) ? document.dump() : "";
}

}  // namespace holdfast::grammar::tests
