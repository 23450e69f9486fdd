#include "control/fetch/session.h"

#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "shared/base/environment.h"
#include "shared/base/json_text.h"

namespace holdfast::fetch {
namespace {

constexpr std::size_t kTokenBytesMax = 64 * 1024;
constexpr std::chrono::seconds kSilence{30};
constexpr int kOk = 200, kPartial = 206, kUnauthorizedStatus = 401, kForbidden = 403,
              kNotFoundStatus = 404, kNoSuchRange = 416, kTooMany = 429, kServerFault = 500;

/// "https://HOST:PORT" of a URL.
std::string base_of(const std::string& url) {
  const std::size_t slashes = url.find("://");
  if (slashes == std::string::npos) return url;
  return url.substr(0, url.find_first_of("/?#", slashes + 3));
}

/// True if the URL is below the base: the same host, not one that begins alike.
bool is_below(const std::string& url, const std::string& base) {
  return !base.empty() && url.starts_with(base) &&
         (url.size() == base.size() || url[base.size()] == '/' || url[base.size()] == '?');
}

/// The value of a challenge's parameter: Bearer realm="…",service="…",scope="…".
std::string parameter(const std::string& challenge, const std::string& name) {
  const std::size_t at = challenge.find(name + "=\"");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 2;
  return challenge.substr(begin, challenge.find('"', begin) - begin);
}

/// The text with what a query may not have as %XX.
std::string percent_encoded(const std::string& text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out.push_back(static_cast<char>(c));
    } else {
      out += {'%', kDigits[c >> 4], kDigits[c & 15]};
    }
  }
  return out;
}

/// The error of a status other than success.
Error error_of(const http::Head& head, const std::string& url) {
  const std::string what =
      "GET " + http::without_query(url) + ": status " + std::to_string(head.status);
  switch (head.status) {
    case kUnauthorizedStatus:
    case kForbidden:
      return {Errc::kUnauthorized,
              what +
                  ": access is not allowed; a hub's model may want its terms accepted and a "
                  "token in HF_TOKEN where `holdfast serve` runs"};
    case kNotFoundStatus:
      return {Errc::kNotFound, what + ": there is no such repository, revision or file"};
    case kNoSuchRange:
      return {Errc::kConflict, what + ": the file is shorter than what was read of it"};
    case kTooMany:
      return {Errc::kRateLimited, what + ": too many requests"};
    default:
      break;
  }
  if (head.status >= kServerFault) return {Errc::kUnreachable, what};
  return {Errc::kInvalidRequest, what + ", expected 200"};
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.pop_back();
  }
  return line;
}

std::string token_of_environment() {
  if (std::string token = environment("HF_TOKEN"); !token.empty()) return token;
  if (const std::string path = environment("HF_TOKEN_PATH"); !path.empty()) return first_line(path);
  if (const std::string home = environment("HF_HOME"); !home.empty()) {
    return first_line(home + "/token");
  }
  const std::string home = environment("HOME");
  return home.empty() ? std::string() : first_line(home + "/.cache/huggingface/token");
}

}  // namespace

Session::Options options_of_environment(const std::string& hub) {
  Session::Options options;
  options.token = token_of_environment();
  options.token_base = hub;
  const std::string offline = environment("HF_HUB_OFFLINE");
  options.offline = !offline.empty() && offline != "0";
  return options;
}

Result<http::Head> Session::send(const http::Request& original) {
  http::Request request = original;
  const bool of_hub = is_below(request.url, options_.token_base);
  const bool of_registry = is_below(request.url, registry_base_);
  const std::string& token = of_registry ? registry_token_ : options_.token;
  if ((of_hub || of_registry) && !token.empty()) {
    request.headers.push_back("Authorization: Bearer " + token);
  }
  request.rate_bytes_s = options_.rate_bytes_s;
  request.stopping = options_.stopping;
  int status = 0;
  const auto& on_head = original.on_head;
  const auto& on_bytes = original.on_bytes;
  request.on_head = [&](const http::Head& head) {
    status = head.status;
    const bool success = status == kOk || status == kPartial;
    return !success || !on_head || on_head(head);
  };
  request.on_bytes = [&](std::string_view part) {
    const bool success = status == kOk || status == kPartial;
    return !success || !on_bytes || on_bytes(part);  // the text of an error is read and dropped
  };
  request.follow_redirects = true;
  request.silence = kSilence;
  request.ca_file = environment("SSL_CERT_FILE");
  auto answer = http::send(request);
  if (auto* head = std::get_if<http::Head>(&answer)) return std::move(*head);
  const auto& failure = std::get<http::Failure>(answer);
  // Another try may meet a better network.
  const bool ended = failure.trouble == http::Trouble::kEnded;
  return Error{ended ? Errc::kCancelled : Errc::kUnreachable,
               "GET " + http::without_query(request.url) + ": " + failure.reason};
}

/// Asks the registry's own server for a token without a name, as for public repositories.
Result<void> Session::fetch_token(const std::string& challenge, const std::string& url) {
  const std::string realm = parameter(challenge, "realm");
  if (realm.empty()) {
    return Error{
        Errc::kUnauthorized,
        "GET " + url + ": status 401 and no place to get a token; expected a Bearer realm"};
  }
  std::string query;
  for (const char* name : {"service", "scope"}) {
    const std::string value = parameter(challenge, name);
    if (!value.empty()) {
      query += (query.empty() ? "?" : "&") + std::string(name) + "=" + percent_encoded(value);
    }
  }
  // Not by get(): a server of tokens that wants a token of its own would be asked without end.
  http::Request request;
  request.url = realm + query;
  HOLDFAST_TRY(const std::string text, read(std::move(request), kTokenBytesMax, &Session::send));
  const auto j = try_parse_json<nlohmann::json>(text, kBodyLimits);
  for (const char* name : {"token", "access_token"}) {
    if (!j.is_object() || !j.contains(name) || !j[name].is_string()) continue;
    registry_token_ = j[name].get<std::string>();
    registry_base_ = base_of(url);
    return {};
  }
  return Error{Errc::kUnauthorized, "GET " + realm + ": the answer has no token"};
}

Result<http::Head> Session::get(const http::Request& request) {
  if (options_.offline) {
    return Error{Errc::kUnsupported,
                 "HF_HUB_OFFLINE is set where `holdfast serve` runs: nothing is downloaded"};
  }
  HOLDFAST_TRY(http::Head head, send(request));
  if (head.status == kUnauthorizedStatus && head.header("www-authenticate").starts_with("Bearer")) {
    HOLDFAST_CHECKED(fetch_token(head.header("www-authenticate"), request.url));
    HOLDFAST_TRY(head, send(request));
  }
  if (head.status == kOk || head.status == kPartial) return head;
  return error_of(head, request.url);
}

/// Reads a short answer of what `getter` asks for.
Result<std::string> Session::read(http::Request request, std::size_t bytes_max, Getter getter) {
  std::string body;
  bool too_long = false;
  const std::string url = request.url;
  request.on_bytes = [&](std::string_view part) {
    too_long = body.size() + part.size() > bytes_max;
    if (!too_long) body += part;
    return !too_long;
  };
  const auto head = (this->*getter)(request);
  if (too_long) {
    return Error{Errc::kInvalidRequest, "GET " + http::without_query(url) +
                                            ": the answer has more than " +
                                            std::to_string(bytes_max) + " bytes"};
  }
  if (!head) return head.error();
  if (head->status != kOk) return error_of(*head, url);
  return body;
}

Result<std::string> Session::document(const std::string& url, const std::string& accept,
                                      std::size_t bytes_max) {
  http::Request request;
  request.url = url;
  if (!accept.empty()) request.headers.push_back("Accept: " + accept);
  return read(std::move(request), bytes_max, &Session::get);
}

}  // namespace holdfast::fetch
