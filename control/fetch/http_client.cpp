#include "control/fetch/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "shared/base/version.h"
#include "shared/pull/source.h"

namespace holdfast::fetch {
namespace {

constexpr long kRedirectsMax = 8;
constexpr long kConnectMs = 15'000;
constexpr long kSilenceS = 30;  // without a byte: the connection is given up

struct EasyDelete {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDelete {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, EasyDelete>;
using List = std::unique_ptr<curl_slist, ListDelete>;

/// One request under way: what libcurl's callbacks need.
struct Transfer {
  const HttpGet& get;
  CURL* easy = nullptr;
  HttpHead head;
  bool head_told = false;
  bool ended_by_us = false;
};

void trim(std::string& text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
}

/// Takes one line of the head. A status line begins another head: that of a redirect's target.
std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string line(bytes, size * count);
  if (line.starts_with("HTTP/")) transfer.head.headers.clear();
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return size * count;
  std::string name = line.substr(0, colon);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string value = line.substr(colon + 1);
  trim(value);
  transfer.head.headers[std::move(name)] = std::move(value);
  return size * count;
}

/// Tells the head if it was not told. False: the request ends.
bool tell_head(Transfer& transfer) {
  if (std::exchange(transfer.head_told, true)) return true;
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  transfer.head.status = static_cast<int>(status);
  return !transfer.get.on_head || transfer.get.on_head(transfer.head);
}

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view part(bytes, size * count);
  const bool goes_on =
      tell_head(transfer) && (!transfer.get.on_bytes || transfer.get.on_bytes(part));
  transfer.ended_by_us = !goes_on;
  return goes_on ? part.size() : 0;  // another number ends the transfer
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.ended_by_us = transfer.get.stopping && transfer.get.stopping();
  return transfer.ended_by_us ? 1 : 0;
}

/// Names schemes that may be used: plain http on this machine alone.
const char* schemes_for(const std::string& url) {
  return pull::is_loopback_url(url) ? "http,https" : "https";
}

void set_options(CURL* easy, Transfer& transfer, curl_slist* headers, const std::string& agent) {
  const HttpGet& get = transfer.get;
  curl_easy_setopt(easy, CURLOPT_URL, get.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, schemes_for(get.url));
  curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, schemes_for(get.url));
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, kRedirectsMax);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSilenceS);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  if (get.from > 0) {
    curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(get.from));
  }
  if (get.rate_bytes_s > 0) {
    curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE, static_cast<curl_off_t>(get.rate_bytes_s));
  }
  // An authority of the environment, as other programs take it.
  if (const char* file = std::getenv("SSL_CERT_FILE")) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, file);
  }
}

/// The host of a URL, for messages: a URL may have a secret in its query.
std::string without_query(const std::string& url) {
  return url.substr(0, url.find_first_of("?#"));
}

}  // namespace

std::string HttpHead::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Result<HttpHead> http_get(const HttpGet& get) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  const Easy easy(started == CURLE_OK ? curl_easy_init() : nullptr);
  if (easy == nullptr) return Error{Errc::kInternal, "libcurl does not start"};
  curl_slist* list = nullptr;
  for (const std::string& header : get.headers) list = curl_slist_append(list, header.c_str());
  const List headers(list);
  const std::string agent = std::string("holdfast/") + std::string(kVersion);
  Transfer transfer{get, easy.get(), {}, false, false};
  char why[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, why);
  set_options(easy.get(), transfer, headers.get(), agent);
  const CURLcode rc = curl_easy_perform(easy.get());
  if (transfer.ended_by_us) return Error{Errc::kCancelled, "ended by its reader"};
  if (rc == CURLE_OK && !tell_head(transfer)) {
    return Error{Errc::kCancelled, "ended by its reader"};
  }
  if (rc == CURLE_OK) return transfer.head;
  const std::string reason = why[0] != '\0' ? why : curl_easy_strerror(rc);
  return Error{Errc::kUnreachable, "GET " + without_query(get.url) + ": " + reason};
}

Result<HttpDocument> http_document(HttpGet get, std::size_t bytes_max) {
  HttpDocument document;
  bool too_long = false;
  get.on_bytes = [&](std::string_view part) {
    too_long = document.body.size() + part.size() > bytes_max;
    if (!too_long) document.body += part;
    return !too_long;
  };
  auto head = http_get(get);
  if (too_long) {
    return Error{Errc::kInvalidRequest, "GET " + without_query(get.url) +
                                            ": the answer has more than " +
                                            std::to_string(bytes_max) + " bytes"};
  }
  if (!head) return head.error();
  document.head = std::move(*head);
  return document;
}

}  // namespace holdfast::fetch
