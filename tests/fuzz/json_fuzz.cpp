// Goal: the bounded JSON reader accepts what a parser takes and nothing beyond its limits, and the
// document that it builds can be written and read again; so can those of the small codecs of a
// request's parts. Method: the first byte selects bytes as they are or JSON that json_maker.h makes
// of them.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "control/gateway/http/body_budget.h"
#include "control/gateway/http/http_types.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/sse.h"
#include "shared/base/base64.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"
#include "tests/fuzz/body_members.h"

namespace {

using namespace holdfast;
using json = nlohmann::ordered_json;

constexpr JsonLimits kSmall{1'000, 6, 8, 60, 40};

int depth_of(const json& value) {
  if (!value.is_structured()) return 0;
  int deepest = 0;
  for (const json& item : value) deepest = std::max(deepest, depth_of(item));
  return deepest + 1;
}

std::size_t values_of(const json& value) {
  std::size_t sum = 1;
  if (value.is_structured()) {
    for (const json& item : value) sum += values_of(item);
  }
  return sum;
}

void check_text(std::string_view text, const JsonLimits& limits) {
  const Result<JsonSize> size = measure_json(text, limits);
  if (!size) CHECK(!size.error().what.empty());
  const Result<json> read = parse_json<json>(text, limits);
  CHECK(read.has_value() == !try_parse_json<json>(text, limits).is_discarded());
  if (!read) {
    CHECK(!read.error().what.empty() && is_valid_utf8(read.error().what));
    CHECK(read.error().what.size() <= 400);
    return;
  }
  CHECK(size.has_value() && is_json(text, limits));
  // An empty list or object counts as one with one value in it.
  CHECK(depth_of(*read) == size->depth && depth_of(*read) <= limits.depth_max);
  CHECK(values_of(*read) <= size->values && size->values <= limits.values_max);
  const std::string written = read->dump();
  const Result<json> again = parse_json<json>(written);
  CHECK(again.has_value() && *again == *read && again->dump() == written);
}

/// Checks that the first member of a name is found without building the rest.
void check_member(std::string_view text) {
  const auto found = find_text_member(text, "model");
  const json read = try_parse_json<json>(text);
  if (!read.is_object() || !read.contains("model") || !read["model"].is_string()) return;
  CHECK(found.has_value());
}

void check_budget(std::string_view text) {
  gateway::BodyBudget budget;
  budget.take(json{{"text", std::string(text.substr(0, 20))}});
  for (int i = 0; i < 3; ++i) {
    const auto opened = budget.open(text, 2);
    if (!opened) {
      CHECK(!opened.error().what.empty());
      continue;
    }
    CHECK(depth_of(*opened) <= kBodyLimits.depth_max - 2);
    (void)budget.make(*opened);
  }
}

void check_codecs(const std::string& text) {
  CHECK(from_base64(to_base64(text)) == text);
  if (const auto bytes = from_base64(text)) CHECK(from_base64(to_base64(*bytes)) == *bytes);
  for (const bool form : {false, true}) {
    const auto decoded = gateway::percent_decode(text, form);
    CHECK(!decoded || decoded->size() <= text.size());
  }
  if (const auto id = gateway::parse_event_id(text)) {
    CHECK(gateway::is_request_id(id->request_id));
    const auto again = gateway::parse_event_id(gateway::format_event_id(*id));
    CHECK(again && again->request_id == id->request_id && again->sent == id->sent);
  }
  if (const auto indexes = gateway::parse_indexes(text)) CHECK(!indexes->empty());
  if (!is_valid_utf8(text)) return;
  std::string quoted;
  gateway::append_json_string(quoted, text);
  const json read = try_parse_json<json>(quoted);
  CHECK(read.is_string() && read.get<std::string>() == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  std::string text;
  if (choices.likely(3)) {
    text = choices.rest();
    check_codecs(text);
  } else {
    const fuzz::BodyForm& form = choices.from(fuzz::kForms);
    fuzz::JsonMaker(choices, form.members, &text).value(6);
  }
  check_text(text, kDocumentLimits);
  check_text(text, kBodyLimits);
  check_text(text, kSmall);
  check_member(text);
  check_budget(text);
  return 0;
}
