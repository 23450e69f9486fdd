#include "shared/grammar/schema_refs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "shared/grammar/schema.h"

namespace holdfast::grammar {
namespace {

/// Decodes "%25" and the like of a URI fragment; nullopt if malformed.
std::optional<std::string> percent_decoded(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const std::string digits = text.substr(i + 1, 2);
    const bool good = digits.size() == 2 &&
                      digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    if (!good) return std::nullopt;
    out.push_back(static_cast<char>(std::stoi(digits, nullptr, 16)));
    i += 2;
  }
  return out;
}

/// Decodes one step of a JSON pointer: ~1 is '/', ~0 is '~'.
std::string unescaped_pointer(const std::string& step) {
  std::string out;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const bool escape = step[i] == '~' && i + 1 < step.size();
    if (escape && step[i + 1] == '1') {
      out.push_back('/');
      ++i;
    } else if (escape && step[i + 1] == '0') {
      out.push_back('~');
      ++i;
    } else {
      out.push_back(step[i]);
    }
  }
  return out;
}

const JsonTree* item_at(const JsonTree& list, const std::string& step) {
  const bool digits =
      !step.empty() && step.size() < 9 && step.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t index = digits ? std::stoul(step) : list.items.size();
  return index < list.items.size() ? &list.items[index] : nullptr;
}

bool has_scheme(const std::string& uri) {
  const std::size_t colon = uri.find(':');
  return colon != std::string::npos && colon < uri.find_first_of("/?#");
}

/// Resolves by RFC 3986, without dot segments, which schemas do not use.
std::string resolved(const std::string& base, const std::string& ref) {
  if (ref.empty()) return base;
  if (has_scheme(ref)) return ref;
  const std::size_t authority = base.find("://");
  const std::size_t path =
      authority == std::string::npos ? std::string::npos : base.find('/', authority + 3);
  if (ref[0] == '/') return base.substr(0, path) + ref;
  const std::size_t slash = base.rfind('/');
  const bool has_path = path != std::string::npos && slash >= path;
  if (authority != std::string::npos && !has_path) return base + "/" + ref;
  return slash == std::string::npos ? ref : base.substr(0, slash + 1) + ref;
}

const std::string* text_of(const JsonTree& tree, const char* keyword) {
  const JsonTree* value = tree.find(keyword);
  const bool is_text = value != nullptr && value->is(JsonTree::Kind::kString);
  return is_text ? &value->text : nullptr;
}

/// Returns the URI that makes a schema a resource.
std::optional<std::string> resource_id(const JsonTree& tree) {
  const std::string* id = text_of(tree, "$id");
  if (id == nullptr || id->empty() || (*id)[0] == '#') return std::nullopt;
  return id->substr(0, id->find('#'));
}

}  // namespace

BaseId SchemaRefs::add_document(const JsonTree& root) {
  const auto base = static_cast<BaseId>(resources_.size());
  const std::uint32_t document = documents_++;
  resources_.push_back({&root, resource_id(root).value_or(""), document, {}, {}});
  by_uri_.emplace(std::pair(document, resources_[base].uri), base);
  scan(root, base, false);
  return base;
}

/// Returns the resource that a schema begins with its id, `base` if it begins none.
BaseId SchemaRefs::base_of(const JsonTree& tree, BaseId base) {
  const auto id = resource_id(tree);
  if (!id || &tree == resources_[base].root) return base;
  const std::string uri = resolved(resources_[base].uri, *id);
  const std::uint32_t document = resources_[base].document;
  const auto fresh = static_cast<BaseId>(resources_.size());
  if (!by_uri_.emplace(std::pair(document, uri), fresh).second) return base;
  resources_.push_back({&tree, uri, document, {}, {}});
  return fresh;
}

/// Reads ids and anchors. `is_map`: the members are names with schemas, as in "properties".
void SchemaRefs::scan(const JsonTree& tree, BaseId base, bool is_map) {
  static const std::set<std::string> maps = {"properties",  "patternProperties", "$defs",
                                             "definitions", "dependentSchemas",  "dependencies"};
  static const std::set<std::string> values = {"enum", "const", "default", "examples", "example"};
  const bool is_schema = tree.is(JsonTree::Kind::kObject) && !is_map;
  if (is_schema) {
    base = base_of(tree, base);
    note_anchors(tree, base);
  }
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    const bool named = is_schema && i < tree.names.size();
    if (named && values.count(tree.names[i]) != 0) continue;
    scan(tree.items[i], base, named && maps.count(tree.names[i]) != 0);
  }
}

void SchemaRefs::note_anchors(const JsonTree& tree, BaseId base) {
  const SchemaTarget here = {&tree, base};
  Resource& resource = resources_[base];
  if (const std::string* name = text_of(tree, "$anchor")) resource.anchors.emplace(*name, here);
  if (const std::string* name = text_of(tree, "$dynamicAnchor")) {
    resource.anchors.emplace(*name, here);
    resource.dynamic_anchors.emplace(*name, here);
  }
  for (const char* keyword : {"$id", "id"}) {  // drafts 4 to 7 write an anchor this way
    const std::string* id = text_of(tree, keyword);
    if (id != nullptr && id->size() > 1 && (*id)[0] == '#') {
      resource.anchors.emplace(id->substr(1), here);
    }
  }
}

BaseId SchemaRefs::inside(const JsonTree& tree, BaseId outer) const {
  if (!tree.is(JsonTree::Kind::kObject)) return outer;
  const auto id = resource_id(tree);
  if (!id || &tree == resources_[outer].root) return outer;
  const BaseId* base = by_uri(resolved(resources_[outer].uri, *id), outer);
  return base == nullptr ? outer : *base;
}

const BaseId* SchemaRefs::by_uri(const std::string& uri, BaseId base) const {
  const auto at = by_uri_.find(std::pair(resources_[base].document, uri));
  return at == by_uri_.end() ? nullptr : &at->second;
}

SchemaTarget SchemaRefs::follow(BaseId base, const std::string& pointer) const {
  const JsonTree* at = resources_[base].root;
  std::size_t begin = 0;
  while (at != nullptr && begin < pointer.size()) {
    const std::size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    const std::string step = unescaped_pointer(pointer.substr(begin + 1, end - begin - 1));
    begin = end;
    at = at->is(JsonTree::Kind::kArray) ? item_at(*at, step) : at->find(step);
    if (at != nullptr) base = inside(*at, base);
  }
  return {at, base};
}

Result<SchemaTarget> SchemaRefs::find(const std::string& ref, BaseId base,
                                      const std::string& keyword,
                                      const std::string& pointer) const {
  const std::size_t hash = std::min(ref.find('#'), ref.size());
  const BaseId* resource = &base;
  if (hash > 0) resource = by_uri(resolved(resources_[base].uri, ref.substr(0, hash)), base);
  const auto fragment = percent_decoded(ref.substr(std::min(hash + 1, ref.size())));
  if (resource == nullptr || !fragment) {
    return schema_error(Errc::kUnsupported, keyword, pointer,
                        "'" + ref + "' leads out of the schema; expected '#' and a JSON pointer");
  }
  SchemaTarget target;
  if (fragment->empty() || (*fragment)[0] == '/') {
    target = follow(*resource, *fragment);
  } else if (const auto at = resources_[*resource].anchors.find(*fragment);
             at != resources_[*resource].anchors.end()) {
    target = at->second;
  }
  if (target.tree == nullptr || !is_schema(*target.tree)) {
    return schema_error(Errc::kInvalidRequest, keyword, pointer,
                        "there is no schema at '" + ref + "'");
  }
  return target;
}

Result<SchemaTarget> SchemaRefs::find_dynamic(const std::string& ref, BaseId base,
                                              const std::string& pointer) const {
  const std::size_t hash = ref.find('#');
  const std::string name = hash == std::string::npos ? "" : ref.substr(hash + 1);
  const std::uint32_t document = resources_[base].document;
  const auto others = std::count_if(resources_.begin(), resources_.end(), [&](const Resource& r) {
    return r.document == document && r.dynamic_anchors.count(name) != 0;
  });
  if (others > 1) {
    return schema_error(
        Errc::kUnsupported, "$dynamicRef", pointer,
        "more than one schema with an \"$id\" has the dynamic anchor '" + name + "'; use $ref");
  }
  return find(ref, base, "$dynamicRef", pointer);
}

}  // namespace holdfast::grammar
