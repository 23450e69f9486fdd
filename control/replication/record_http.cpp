#include "control/replication/record_http.h"

#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "shared/base/json_text.h"

namespace holdfast::replication {
namespace {

constexpr std::size_t kAnswerBytesMax = 1 << 20;
constexpr auto kConnect = std::chrono::milliseconds(400);
constexpr auto kTimeout = std::chrono::milliseconds(1'200);

}  // namespace

Result<int> exchange_json(http::Request request, nlohmann::json& body) {
  std::string text;
  request.connect = kConnect;
  request.timeout = kTimeout;
  request.on_bytes = [&](std::string_view bytes) {
    text.append(bytes);
    return text.size() <= kAnswerBytesMax;
  };
  const auto sent = http::send(request);
  if (const auto* failure = std::get_if<http::Failure>(&sent)) {
    return Error{Errc::kUnreachable, request.url + ": " + failure->reason};
  }
  body = try_parse_json<nlohmann::json>(text);
  return std::get<http::Head>(sent).status;
}

}  // namespace holdfast::replication
