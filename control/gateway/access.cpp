#include "control/gateway/access.h"

#include <nlohmann/json.hpp>

#include "control/gateway/errors.h"
#include "shared/base/clock.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/client/api_key.h"

namespace holdfast::gateway {
namespace {

constexpr std::int64_t kFreshMs = 1'000;

std::int64_t steady_ms() {
  return system_clock().monotonic_us() / 1000;
}

/// "Authorization: Bearer KEY", or Anthropic's "x-api-key: KEY"; empty without one.
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
  KeepList query;
  query.kind = client::kKeyKind;
  query.newest_first = false;
  query.from = from;
  query.limit = 1000;
  const auto self = shared_from_this();
  keeper_.list(query, [self, keys, any](client::Answer<Keeper::Page> answer) {
    const auto* page = std::get_if<Keeper::Page>(&answer);
    if (page == nullptr) return self->end_read(false);  // what is known holds
    for (const Kept& kept : page->objects) {
      const auto body = try_parse_json<nlohmann::json>(kept.body);
      if (!body.is_object() || body.value("revoked_ms", std::int64_t{0}) > 0) continue;
      Key key;
      key.principal.tenant = body.value("tenant", "default");
      key.principal.is_operator = body.value("role", "") == "operator";
      key.principal.key = api_key(kept.id, body);
      key.expires_ms = body.value("expires_ms", std::int64_t{0});
      (*keys)[body.value("hash", "")] = std::move(key);
    }
    const bool some = any || !page->objects.empty();
    if (page->more) return self->read_page(keys, page->objects.back().seq, some);
    {
      const std::lock_guard lock(self->mutex_);
      if (!self->known_ && !some) {
        log::info("no API key exists: whoever reaches this address may do everything",
                  {{"loopback", self->loopback_ ? "yes" : "no"}});
      }
      self->keys_ = std::move(*keys);
      self->any_ = some;
    }
    self->end_read(true);
  });
}

void Access::end_read(bool read) {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex_);
    known_ = known_ || read;
    asking_ = false;
    read_ms_ = steady_ms();
    waiting.swap(waiting_);
  }
  for (const auto& work : waiting) work();
}

bool Access::ready(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (known_) return true;
    waiting_.push_back(std::move(work));
  }
  refresh();
  return false;
}

void Access::refresh() {
  {
    const std::lock_guard lock(mutex_);
    if (asking_ || (known_ && steady_ms() - read_ms_ < kFreshMs)) return;
    asking_ = true;
  }
  read_page(std::make_shared<Keys>(), 0, false);
}

std::variant<Principal, Response> Access::check(const Request& request) {
  refresh();
  const std::string key = key_of(request);
  const std::string hash = key.empty() ? std::string() : client::hash_api_key(key);
  const std::lock_guard lock(mutex_);
  if (!known_) {
    wire::Refusal refusal;
    refusal.code = Errc::kUnreachable;
    refusal.message = "the keys were not read yet: the daemon does not answer";
    refusal.retry_after_ms = 1000;
    return error_response(refusal);
  }
  if (!any_ && loopback_) return Principal{};
  if (!any_) {
    return unauthorized(
        "this address is open to other machines and no key exists; make one with `holdfast keys "
        "create NAME`");
  }
  if (key.empty()) {
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
