#include "shared/base/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shared/base/readable.h"

namespace holdfast {
namespace {

Error beyond(const std::string& what, std::size_t at) {
  return {Errc::kInvalidRequest, what + ", at byte " + std::to_string(at)};
}

/// Counts brackets and commas outside of strings. Until the first syntax error that is exactly what
/// a parser builds, and there the parser stops.
class Measure {
 public:
  explicit Measure(const JsonLimits& limits) : limits_(limits) {}

  /// Returns false if a bound is exceeded, which `problem` then names.
  bool feed(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return true;
    }
    switch (c) {
      case '"':
        in_string_ = true;
        return true;
      case '{':
      case '[':
        return open(c == '{');
      case '}':
      case ']':
        if (!levels_.empty()) levels_.pop_back();
        return true;
      case ',':
        return next();
      default:
        return true;
    }
  }
  JsonSize size;
  std::string problem;

 private:
  struct Level {
    bool is_object;
    std::size_t members;
  };
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool one_more() {
    if (++size.values <= limits_.values_max) return true;
    return fail("too large: more than " + std::to_string(limits_.values_max) + " values");
  }
  bool open(bool is_object) {
    levels_.push_back({is_object, 1});
    size.depth = std::max(size.depth, static_cast<int>(levels_.size()));
    if (size.depth > limits_.depth_max) {
      return fail("nested deeper than " + std::to_string(limits_.depth_max) + " levels");
    }
    return one_more();  // the first element, if there is one
  }
  bool next() {
    if (!one_more()) return false;
    if (levels_.empty() || !levels_.back().is_object) return true;
    std::size_t& members = levels_.back().members;
    compares_ += members++;
    size.members = std::max(size.members, members);
    if (members > limits_.members_max) {
      return fail("too large: an object has more than " + std::to_string(limits_.members_max) +
                  " members");
    }
    if (compares_ <= limits_.compares_max) return true;
    return fail("too large: too many objects of many members");
  }

  const JsonLimits& limits_;
  std::vector<Level> levels_;
  std::size_t compares_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

constexpr std::size_t kWordsMax = 300;

/// Returns "[json.exception.parse_error.101] parse error at line 1, column 2: …" without its
/// number. The library repeats the whole token, which may be as long as the text and end inside a
/// character.
std::string words_of(const std::exception& e) {
  const std::string what = e.what();
  const std::size_t bracket = what.find("] ");
  return readable(std::string_view(what).substr(bracket == std::string::npos ? 0 : bracket + 2),
                  kWordsMax);
}

/// Stops at the member of the outermost object that has the name.
class MemberFinder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit MemberFinder(std::string_view name) : name_(name) {}
  std::optional<std::string> found;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& text) override {
    if (depth_ != 1 || !key_matches_) return true;
    found = std::move(text);
    return false;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool key(string_t& name) override {
    key_matches_ = depth_ == 1 && name == name_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    // An array on the outside has no members.
    return ++depth_ > 1;
  }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    key_matches_ = false;
    return true;
  }
  const std::string_view name_;
  std::size_t depth_ = 0;
  bool key_matches_ = false;
};

}  // namespace

Result<JsonSize> measure_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return Error{Errc::kInvalidRequest, "too large: " + std::to_string(text.size()) +
                                            " bytes, at most " + std::to_string(limits.bytes_max) +
                                            " are taken"};
  }
  Measure measure(limits);
  measure.size.values = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!measure.feed(text[at])) return beyond(measure.problem, at);
  }
  return measure.size;
}

template <class Json>
Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  HOLDFAST_TRY(const JsonSize size, measure_json(text, limits));
  (void)size;
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& e) {
    return Error{Errc::kInvalidRequest, "not JSON: " + words_of(e)};
  }
}

template <class Json>
Json try_parse_json(std::string_view text, const JsonLimits& limits) {
  if (!measure_json(text, limits)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

bool is_json(std::string_view text, const JsonLimits& limits) {
  return measure_json(text, limits).has_value() && nlohmann::json::accept(text);
}

std::optional<std::string> find_text_member(std::string_view text, std::string_view name) {
  MemberFinder finder(name);
  (void)nlohmann::json::sax_parse(text, &finder, nlohmann::json::input_format_t::json,
                                  /*strict=*/false);
  return std::move(finder.found);
}

template Result<nlohmann::json> parse_json(std::string_view, const JsonLimits&);
template Result<nlohmann::ordered_json> parse_json(std::string_view, const JsonLimits&);
template nlohmann::json try_parse_json(std::string_view, const JsonLimits&);
template nlohmann::ordered_json try_parse_json(std::string_view, const JsonLimits&);

}  // namespace holdfast
