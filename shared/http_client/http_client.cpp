#include "shared/http_client/http_client.h"

#include <curl/curl.h>

#include <memory>
#include <utility>

#include "shared/base/ascii.h"
#include "shared/base/url.h"
#include "shared/base/version.h"

namespace holdfast::http {
namespace {

constexpr long kRedirectsMax = 8;
constexpr std::size_t kHeaderBytesMax = 64 * 1024;

struct EasyDelete {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct ListDelete {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// One exchange: what libcurl's callbacks need.
class Exchange {
 public:
  explicit Exchange(const Request& request) : request_(request) {}

  std::variant<Head, Failure> run() {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    easy_.reset(started == CURLE_OK ? curl_easy_init() : nullptr);
    if (easy_ == nullptr) return Failure{Trouble::kNoConnection, "libcurl does not start"};
    set_target();
    set_headers();
    set_times();
    set_callbacks();
    const CURLcode rc = curl_easy_perform(easy_.get());
    if (!ended_ && rc == CURLE_OK) ended_ = !tell_head();
    if (ended_) return Failure{Trouble::kEnded, "ended by its reader"};
    if (rc == CURLE_OK) return std::move(head_);
    return Failure{trouble_of(rc), why_[0] != '\0' ? why_ : curl_easy_strerror(rc)};
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(easy_.get(), option, value);
  }

  void set_target() {
    const bool local = is_loopback_url(request_.url);
    const char* schemes = request_.plain_http || local ? "http,https" : "https";
    set(CURLOPT_URL, request_.url.c_str());  // libcurl copies texts
    set(CURLOPT_PROTOCOLS_STR, schemes);
    set(CURLOPT_REDIR_PROTOCOLS_STR, schemes);
    set(CURLOPT_FOLLOWLOCATION, request_.follow_redirects ? 1L : 0L);
    set(CURLOPT_MAXREDIRS, kRedirectsMax);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    if (local) set(CURLOPT_NOPROXY, "*");
    if (!request_.ca_file.empty()) set(CURLOPT_CAINFO, request_.ca_file.c_str());
    if (request_.from > 0) set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(request_.from));
    if (request_.rate_bytes_s > 0) {
      set(CURLOPT_MAX_RECV_SPEED_LARGE, static_cast<curl_off_t>(request_.rate_bytes_s));
    }
    if (request_.method != "GET") set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    if (request_.body.empty() && request_.method != "POST") return;
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(CURLOPT_POSTFIELDS, request_.body.c_str());
  }

  void add_header(const std::string& header) {
    list_.reset(curl_slist_append(list_.release(), header.c_str()));
  }

  void set_headers() {
    const std::string agent = std::string("holdfast/") + kVersion;
    set(CURLOPT_USERAGENT, agent.c_str());
    if (!request_.body.empty()) add_header("Content-Type: application/json");
    for (const std::string& header : request_.headers) add_header(header);
    set(CURLOPT_HTTPHEADER, list_.get());
  }

  void set_times() {
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(request_.timeout.count()));
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    if (request_.silence.count() == 0) return;
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request_.silence.count()));
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

  /// Takes one line of a head. A status line begins another: that of a redirect's target, or of the
  /// answer after a 100.
  static std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& self = *static_cast<Exchange*>(user);
    const std::string_view line(bytes, size * count);
    self.header_bytes_ += line.size();
    if (self.header_bytes_ > kHeaderBytesMax) return 0;
    if (line.starts_with("HTTP/")) self.head_.headers.clear();
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return line.size();
    self.head_.headers[lower_ascii(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    return line.size();
  }

  /// Tells the head if it was not told. False: the exchange ends.
  bool tell_head() {
    if (std::exchange(head_told_, true)) return true;
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    head_.status = static_cast<int>(status);
    return !request_.on_head || request_.on_head(head_);
  }

  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& self = *static_cast<Exchange*>(user);
    const std::string_view part(bytes, size * count);
    self.ended_ = !self.tell_head() || (self.request_.on_bytes && !self.request_.on_bytes(part));
    return self.ended_ ? 0 : part.size();  // another number ends the transfer
  }

  static int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& self = *static_cast<Exchange*>(user);
    self.ended_ = self.ended_ || (self.request_.stopping && self.request_.stopping());
    return self.ended_ ? 1 : 0;
  }

  static Trouble trouble_of(CURLcode rc) {
    switch (rc) {
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
        return Trouble::kNoConnection;
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        return Trouble::kUntrusted;
      case CURLE_SSL_CONNECT_ERROR:
        return Trouble::kTls;
      case CURLE_OPERATION_TIMEDOUT:
        return Trouble::kTimeout;
      default:
        return Trouble::kBroken;
    }
  }

  const Request& request_;
  std::unique_ptr<curl_slist, ListDelete> list_;
  std::unique_ptr<CURL, EasyDelete> easy_;
  char why_[CURL_ERROR_SIZE] = "";
  Head head_;
  std::size_t header_bytes_ = 0;
  bool head_told_ = false;
  bool ended_ = false;
};

}  // namespace

std::string Head::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

std::variant<Head, Failure> send(const Request& request) {
  return Exchange(request).run();
}

std::string without_query(const std::string& url) {
  return url.substr(0, url.find_first_of("?#"));
}

}  // namespace holdfast::http
