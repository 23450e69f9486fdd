#include "ops/remote/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "shared/base/version.h"

namespace holdfast::remote {
namespace {

constexpr long kConnectMs = 10'000;
constexpr int kRedirectFrom = 300, kRedirectTo = 400, kOk = 200;
constexpr std::size_t kHeaderBytesMax = 64 * 1024;

struct EasyDelete {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDelete {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

/// One exchange: what libcurl's callbacks need.
class Exchange {
 public:
  Exchange(const Address& address, const HttpCall& call) : address_(address), call_(call) {}

  Result<HttpReply> run() {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    easy_.reset(started == CURLE_OK ? curl_easy_init() : nullptr);
    if (easy_ == nullptr) return Error{Errc::kInternal, "libcurl does not start"};
    add_headers();
    set_target();
    set_times();
    set_callbacks();
    const CURLcode rc = curl_easy_perform(easy_.get());
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    reply_.status = static_cast<int>(status);
    if (rc != CURLE_OK) return failure(rc);
    return is_redirect() ? Result<HttpReply>(redirected()) : Result<HttpReply>(std::move(reply_));
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(easy_.get(), option, value);
  }

  void add_header(const std::string& header) {
    list_.reset(curl_slist_append(list_.release(), header.c_str()));
  }

  void add_headers() {
    if (!address_.key.empty()) add_header("Authorization: Bearer " + address_.key);
    if (!call_.body.empty()) add_header("Content-Type: application/json");
    for (const std::string& header : call_.headers) add_header(header);
    set(CURLOPT_HTTPHEADER, list_.get());
  }

  void set_target() {
    const std::string url = address_.url + call_.path;
    set(CURLOPT_URL, url.c_str());  // libcurl copies it
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_CUSTOMREQUEST, call_.method.c_str());
    if (!call_.body.empty() || call_.method == "POST") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call_.body.size()));
      set(CURLOPT_POSTFIELDS, call_.body.c_str());
    }
    const std::string agent = std::string("holdfast/") + kVersion;
    set(CURLOPT_USERAGENT, agent.c_str());
    if (is_loopback(address_.url)) set(CURLOPT_NOPROXY, "*");
    if (!address_.ca_file.empty()) set(CURLOPT_CAINFO, address_.ca_file.c_str());
  }

  void set_times() {
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(call_.timeout.count()));
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    if (call_.silence.count() == 0) return;
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(call_.silence.count()));
  }

  void set_callbacks() {
    set(CURLOPT_ERRORBUFFER, why_);
    set(CURLOPT_HEADERFUNCTION, &Exchange::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Exchange::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_XFERINFOFUNCTION, &Exchange::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
  }

  /// Takes one line of a head. A status line begins another: that of the answer after a 100.
  static std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& self = *static_cast<Exchange*>(user);
    const std::string line(bytes, size * count);
    self.header_bytes_ += line.size();
    if (self.header_bytes_ > kHeaderBytesMax) return 0;
    if (line.starts_with("HTTP/")) self.reply_.headers.clear();
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return size * count;
    self.reply_.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    return size * count;
  }

  /// True if the answer is events that the caller reads as they come.
  bool is_stream() {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return call_.stream && status == kOk &&
           reply_.header("content-type").starts_with("text/event-stream");
  }

  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& self = *static_cast<Exchange*>(user);
    const std::string_view part(bytes, size * count);
    if (self.is_stream()) {
      self.reply_.streamed = true;
      self.ended_ = !self.call_.stream(part);
      return self.ended_ ? 0 : part.size();  // another number ends the transfer
    }
    self.too_long_ = self.reply_.body.size() + part.size() > kAnswerBytesMax;
    if (self.too_long_) return 0;
    self.reply_.body += part;
    return part.size();
  }

  static int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& self = *static_cast<Exchange*>(user);
    self.ended_ = self.ended_ || (self.call_.stopping && self.call_.stopping());
    return self.ended_ ? 1 : 0;
  }

  bool is_redirect() const { return reply_.status >= kRedirectFrom && reply_.status < kRedirectTo; }

  Error redirected() const {
    const std::string target = reply_.header("location");
    return {Errc::kInvalidRequest,
            address_.url + ": answers with a redirect" +
                (target.empty() ? std::string() : " to " + target) +
                ", which is not followed: the key must not go to another place; expected the "
                "gateway itself: name it in HOLDFAST_URL"};
  }

  Error failure(CURLcode rc) const {
    const std::string reason = why_[0] != '\0' ? why_ : curl_easy_strerror(rc);
    if (too_long_) {
      return {Errc::kInvalidRequest, address_.url + call_.path + ": the answer has more than " +
                                         std::to_string(kAnswerBytesMax) + " bytes"};
    }
    if (ended_) return {Errc::kCancelled, address_.url + ": ended by its reader"};
    switch (rc) {
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
        return {Errc::kUnreachable, address_.url + " does not answer: " + reason +
                                        "; is `holdfast serve --http` running there?"};
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        return {Errc::kUnreachable, address_.url + " cannot be trusted: " + reason +
                                        "; HOLDFAST_CA_FILE names a file of authorities"};
      case CURLE_SSL_CONNECT_ERROR:
        return {Errc::kUnreachable,
                address_.url + " does not speak TLS as expected: " + reason + "; is it http://?"};
      case CURLE_OPERATION_TIMEDOUT:
        return {Errc::kTimeout, address_.url + " does not answer in time: " + reason};
      default:
        return {Errc::kIo, address_.url + ": " + reason};
    }
  }

  const Address& address_;
  const HttpCall& call_;
  std::unique_ptr<curl_slist, ListDelete> list_;
  std::unique_ptr<CURL, EasyDelete> easy_;
  char why_[CURL_ERROR_SIZE] = "";
  HttpReply reply_;
  std::size_t header_bytes_ = 0;
  bool ended_ = false;
  bool too_long_ = false;
};

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Result<HttpReply> exchange(const Address& address, const HttpCall& call) {
  return Exchange(address, call).run();
}

}  // namespace holdfast::remote
