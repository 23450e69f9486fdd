#include "shared/grammar/json_tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "shared/base/json_text.h"
#include "shared/grammar/decimal.h"
#include "shared/grammar/nfa.h"

namespace holdfast::grammar {
namespace {

using nlohmann::json;

class Handler {
 public:
  explicit Handler(std::uint32_t depth_max) : depth_max_(depth_max) {}

  bool null() { return add({}); }
  bool boolean(bool value) {
    JsonTree tree;
    tree.kind = JsonTree::Kind::kBoolean;
    tree.boolean = value;
    return add(std::move(tree));
  }
  bool number_integer(json::number_integer_t value) { return number(std::to_string(value)); }
  bool number_unsigned(json::number_unsigned_t value) { return number(std::to_string(value)); }
  bool number_float(json::number_float_t, const std::string& digits) { return number(digits); }
  bool string(std::string& value) {
    JsonTree tree;
    tree.kind = JsonTree::Kind::kString;
    tree.text = std::move(value);
    return add(std::move(tree));
  }
  bool binary(json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(JsonTree::Kind::kObject); }
  bool start_array(std::size_t) { return open(JsonTree::Kind::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (!names_.back().insert(name).second) return fail("the name \"" + name + "\" is there twice");
    open_.back().names.push_back(std::move(name));
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) {
    return fail("not JSON at byte " + std::to_string(at));
  }

  JsonTree& tree() { return tree_; }
  const std::string& error() const { return error_; }

 private:
  bool fail(std::string error) {
    if (error_.empty()) error_ = std::move(error);
    return false;
  }
  bool number(std::string digits) {
    JsonTree tree;
    tree.kind = JsonTree::Kind::kNumber;
    tree.text = std::move(digits);
    return add(std::move(tree));
  }
  bool add(JsonTree tree) {
    (open_.empty() ? tree_ : open_.back().items.emplace_back()) = std::move(tree);
    return true;
  }
  bool open(JsonTree::Kind kind) {
    if (open_.size() >= depth_max_) {
      return fail("it nests deeper than " + std::to_string(depth_max_));
    }
    open_.emplace_back();
    open_.back().kind = kind;
    names_.emplace_back();
    return true;
  }
  bool close() {
    JsonTree tree = std::move(open_.back());
    open_.pop_back();
    names_.pop_back();
    return add(std::move(tree));
  }

  std::uint32_t depth_max_;
  std::vector<JsonTree> open_;
  std::vector<std::set<std::string>> names_;
  JsonTree tree_;
  std::string error_;
};

void append_canonical(const JsonTree& tree, bool sorted, std::string& out) {
  switch (tree.kind) {
    case JsonTree::Kind::kNull:
      out += "null";
      return;
    case JsonTree::Kind::kBoolean:
      out += tree.boolean ? "true" : "false";
      return;
    case JsonTree::Kind::kNumber: {
      const auto number = Decimal::parse(tree.text);
      out += number ? number->str() : tree.text;
      return;
    }
    case JsonTree::Kind::kString:
      out += '"' + json_escaped(tree.text) + '"';
      return;
    case JsonTree::Kind::kArray:
      out += '[';
      for (const JsonTree& item : tree.items) {
        if (out.back() != '[') out += ',';
        append_canonical(item, sorted, out);
      }
      out += ']';
      return;
    case JsonTree::Kind::kObject:
      break;
  }
  std::vector<std::size_t> order(tree.names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (sorted) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return tree.names[a] < tree.names[b]; });
  }
  out += '{';
  for (const std::size_t i : order) {
    if (i != order.front()) out += ',';
    out += '"' + json_escaped(tree.names[i]) + "\":";
    append_canonical(tree.items[i], sorted, out);
  }
  out += '}';
}

}  // namespace

const JsonTree* JsonTree::find(std::string_view name) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return &items[i];
  }
  return nullptr;
}

const JsonTree* JsonTree::find_set(std::string_view name) const {
  const JsonTree* member = find(name);
  return member == nullptr || member->is(Kind::kNull) ? nullptr : member;
}

Result<JsonTree> parse_json_tree(std::string_view text, std::uint32_t depth_max) {
  // These bound members and values; the handler bounds the depth.
  JsonLimits limits = kBodyLimits;
  limits.depth_max = static_cast<int>(depth_max) + 1;
  const Result<JsonSize> size = measure_json(text, limits);
  if (!size) return Error{Errc::kInvalidRequest, size.error().what};
  Handler handler(depth_max);
  if (!json::sax_parse(text, &handler) || !handler.error().empty()) {
    return Error{Errc::kInvalidRequest, handler.error().empty() ? "not JSON" : handler.error()};
  }
  return std::move(handler.tree());
}

std::string canonical_json(const JsonTree& tree, bool sorted) {
  std::string out;
  append_canonical(tree, sorted, out);
  return out;
}

}  // namespace holdfast::grammar
