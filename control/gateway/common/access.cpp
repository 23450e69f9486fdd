#include "control/gateway/common/access.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "control/gateway/http/errors.h"
#include "shared/base/clock.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/client/api_key.h"

namespace holdfast::gateway {
namespace {

// A request is not judged by a list of keys that is older than this.
constexpr std::int64_t kFreshUs = 1'000'000;

/// Returns KEY of "Authorization: Bearer KEY" or of Anthropic's "x-api-key: KEY"; empty without
/// one.
std::string key_of(const Request& request) {
  if (const std::string* header = request.header("Authorization")) {
    constexpr std::string_view kBearer = "Bearer ";
    const std::string_view text = *header;
    if (text.size() > kBearer.size() &&
        equal_ignoring_case(text.substr(0, kBearer.size()), kBearer)) {
      return std::string(text.substr(kBearer.size()));
    }
  }
  const std::string* header = request.header("x-api-key");
  return header == nullptr ? std::string() : *header;
}

/// Returns the hash of the request's key; empty without a key.
std::string hash_of(const Request& request) {
  const std::string key = key_of(request);
  return key.empty() ? std::string() : client::hash_api_key(key);
}

client::Role role_of(const std::string& name) {
  if (name == "operator") return client::Role::kOperator;
  return name == "metrics" ? client::Role::kMetrics : client::Role::kClient;
}

ApiKey api_key(const std::string& id, const nlohmann::json& body) {
  ApiKey key;
  key.id = id;
  key.name = body.value("name", id);
  if (key.name.empty()) key.name = id;
  const auto limit = [&](const char* name) -> std::optional<std::int64_t> {
    const std::int64_t value = body.value(name, std::int64_t{0});
    return value > 0 ? std::optional(value) : std::nullopt;
  };
  key.max_requests = limit("max_requests");
  key.requests_per_minute = limit("requests_per_minute");
  return key;
}

Response unauthorized(const std::string& message) {
  wire::Refusal refusal;
  refusal.code = Errc::kUnauthorized;
  refusal.message = message;
  Response response = error_response(refusal);
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

void Access::read_page(std::shared_ptr<Keys> keys, std::int64_t from, bool any) {
  ObjectListQuery query;
  query.kind = client::kKeyKind;
  query.newest_first = false;
  query.from = from;
  query.limit = 1000;
  const auto self = shared_from_this();
  object_store_.list(client::AllTenants::local(), query,
                     [self, keys, any](client::Answer<ObjectStore::Page> answer) {
                       const auto* page = std::get_if<ObjectStore::Page>(&answer);
                       if (page == nullptr) return self->end_read(false);
                       for (const StoredObject& stored : page->objects) add_key(stored, *keys);
                       const bool some = any || !page->objects.empty();
                       if (page->more) return self->read_page(keys, page->objects.back().seq, some);
                       self->replace_keys(std::move(*keys), some);
                       self->end_read(true);
                     });
}

/// Adds a stored key unless it was revoked.
void Access::add_key(const StoredObject& stored, Keys& keys) {
  const auto body = try_parse_json<nlohmann::json>(stored.body);
  if (!body.is_object() || body.value("revoked_ms", std::int64_t{0}) > 0) return;
  Key key;
  key.principal = {{body.value("tenant", "default"), stored.id, role_of(body.value("role", ""))},
                   api_key(stored.id, body)};
  if (body.value("priority", "") == "interactive") key.principal.may_be_interactive = true;
  key.expires_ms = body.value("expires_ms", std::int64_t{0});
  keys[body.value("hash", "")] = std::move(key);
}

void Access::replace_keys(Keys keys, bool any) {
  const std::lock_guard lock(mutex_);
  if (!keys_loaded_ && !any) {
    log::info("no API key exists: this user and root may do everything at a loopback address",
              {{"loopback", loopback_ ? "yes" : "no"}});
  }
  keys_ = std::move(keys);
  any_ = any;
}

void Access::end_read(bool read) {
  Works works;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    if (read) {
      keys_loaded_ = true;
      keys_as_of_us_ = reading_us_;
    }
    works.swap(waiting_);
    if (read) {
      waiting_.swap(later_);
      more = !waiting_.empty();
    } else {
      // The daemon is unreachable: no request waits a second time.
      works.insert(works.end(), later_.begin(), later_.end());
      later_.clear();
    }
  }
  if (more) begin_read();
  for (const auto& work : works) work();
}

bool Access::may_be_keyless() const {
  const std::lock_guard lock(mutex_);
  return !keys_loaded_ || (!any_ && loopback_);
}

void Access::begin_read() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(reading_, true)) return;
    reading_us_ = system_clock().monotonic_us();
  }
  read_page(std::make_shared<Keys>(), 0, false);
}

/// True if the known keys are new enough for a request with this key that arrived then. An unknown
/// key may have been made since the last read, so it is refused only after a read that began later.
bool Access::judges(const std::string& hash, std::int64_t arrived_us) const {
  if (!keys_loaded_) return false;
  const bool is_new = !hash.empty() && !keys_.contains(hash);
  return keys_as_of_us_ >= (is_new ? arrived_us : arrived_us - kFreshUs);
}

bool Access::ready(const Request& request, std::function<void()> work) {
  const std::string hash = hash_of(request);
  const std::int64_t arrived_us = request.arrived_us;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    waits = !judges(hash, arrived_us);
    if (!waits && keys_as_of_us_ > arrived_us - kFreshUs / 2) return true;
    const bool too_late = reading_ && reading_us_ < arrived_us;
    if (waits) (too_late ? later_ : waiting_).push_back(std::move(work));
  }
  begin_read();  // also before any request has to wait for it
  return !waits;
}

void Access::refresh() {
  begin_read();
}

bool Access::keyless() const {
  const std::lock_guard lock(mutex_);
  return keys_loaded_ && loopback_ && !any_;
}

std::optional<Response> Access::refuse_peer(const Request& request) const {
  if (users_ == nullptr) return std::nullopt;
  return refuse_other_user(users_->find(request.ends), geteuid());
}

std::variant<Principal, Response> Access::check(const Request& request) {
  const std::string hash = hash_of(request);
  std::unique_lock lock(mutex_);
  if (!judges(hash, request.arrived_us)) {
    wire::Refusal refusal;
    refusal.code = Errc::kUnreachable;
    refusal.message =
        "the keys cannot be read now: the daemon does not answer, and nobody is let in by keys "
        "that may have been revoked";
    refusal.retry_after_ms = 1000;
    return error_response(refusal);
  }
  if (any_) return check_key(hash);
  if (!loopback_) {
    return unauthorized(
        "this address is open to other machines and no key exists; make one with `holdfast keys "
        "create NAME`");
  }
  lock.unlock();
  if (auto refused = refuse_peer(request)) return std::move(*refused);
  return Principal::local();
}

std::variant<Principal, Response> Access::check_key(const std::string& hash) const {
  if (hash.empty()) {
    return unauthorized("a key is wanted: Authorization: Bearer KEY (or x-api-key: KEY)");
  }
  const auto found = keys_.find(hash);
  if (found == keys_.end()) return unauthorized("the key is not known, or was revoked");
  const std::int64_t expires_ms = found->second.expires_ms;
  if (expires_ms > 0 && system_clock().wall_ms() >= expires_ms) {
    return unauthorized("the key's time is over");
  }
  return found->second.principal;
}

}  // namespace holdfast::gateway
