#include "control/gateway/webhooks/webhook_sender.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "control/gateway/common/await.h"
#include "control/gateway/common/blame.h"
#include "control/gateway/common/object_pages.h"
#include "control/gateway/responses/response_body.h"
#include "control/gateway/webhooks/webhook_post.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/pull/job.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

const client::AllTenants kAllTenants = client::AllTenants::local();
constexpr std::int64_t kLookMax = 10'000;  // of one kind in one round
constexpr std::int64_t kAgeMaxMs = 72 * 3'600'000;
constexpr std::int64_t kUnknownMs = 3'600'000;
constexpr int kGone = 410;
// Pauses as Standard Webhooks proposes: some attempts within minutes, then for two days.
constexpr std::int64_t kPausesMs[] = {1'000,      5'000,      30'000,    120'000,
                                      600'000,    1'800'000,  7'200'000, 18'000'000,
                                      36'000'000, 50'400'000, 72'000'000};

std::int64_t now_ms() {
  return system_clock().wall_ms();
}

/// Adds up to a tenth at random, so that attempts spread out.
std::int64_t spread(std::int64_t ms) {
  thread_local std::minstd_rand random(std::random_device{}());
  return ms + static_cast<std::int64_t>(random() % static_cast<unsigned>(ms / 10 + 1));
}

std::vector<Header> signed_headers(const WebhookTarget& target, const std::string& id,
                                   const std::string& payload) {
  const std::int64_t now = now_ms();
  std::string signatures;
  for (const WebhookTarget::Secret& secret : target.secrets) {
    if (secret.until_ms > 0 && secret.until_ms <= now) continue;
    const auto one = client::sign_webhook(secret.secret, id, now / 1000, payload);
    if (one) signatures += (signatures.empty() ? "" : " ") + *one;
  }
  return {{"webhook-id", id},
          {"webhook-timestamp", std::to_string(now / 1000)},
          {"webhook-signature", signatures}};
}

/// Returns the item that is blamed when a gateway dies over the delivery.
std::string item_of(const StoredObject& due) {
  return std::string(client::kDueKind) + ":" + due.id;
}

}  // namespace

std::optional<std::int64_t> webhook_pause_ms(std::int64_t attempts) {
  if (attempts < 1 || attempts > std::ssize(kPausesMs)) return std::nullopt;
  return kPausesMs[attempts - 1];
}

WebhookSender::WebhookSender(Context& context, WebhookSenderOptions options)
    : context_(context), options_(options) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this, i] { run(i); });
}

WebhookSender::~WebhookSender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WebhookSender::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

/// Returns false when it is time to stop.
bool WebhookSender::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(options_.look_ms), [&] { return stopping_; });
  return !stopping_;
}

void WebhookSender::run(int number) {
  std::int64_t all_ms = 0;
  while (wait()) {
    if (context_.blame != nullptr && !context_.blame->settle()) continue;
    if (number == 0) watch_responses();
    const bool all = now_ms() - all_ms >= options_.look_at_all_ms;
    if (all) all_ms = now_ms();
    if (number == 0 && all) watch_pulls();
    deliver_due(all);
  }
}

void WebhookSender::watch_responses() {
  each_page(*context_.object_store, kWatchKind, Order::kOldestFirst, kLookMax,
            [&](const std::vector<StoredObject>& watches) {
              for (const StoredObject& watch : watches) {
                if (stopping()) return false;
                look_at(watch);
              }
              return true;
            });
}

/// Makes the deliveries of a response that has ended, and removes its mark.
void WebhookSender::look_at(const StoredObject& watch) {
  const auto owner = client::Principal::on_behalf_of(watch.owner);
  const std::string item = std::string(kWatchKind) + ":" + watch.id;
  if (is_poison(context_.blame, item)) {
    log::error("the end of a response is not told: gateways crashed over it", {{"item", item}});
    context_.object_store->remove(owner, kWatchKind, watch.id, [](const client::Answer<bool>&) {});
    return;
  }
  const auto answer = await<wire::RequestInfo>(
      [&](auto done) { context_.client.status_async(owner, watch.id, std::move(done)); });
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    // The POST may be under way. A request that never came, or was refused, has no end to tell.
    const bool never = failure->code == Errc::kNotFound && now_ms() - watch.created_ms > kUnknownMs;
    if (!never) return;
  } else {
    const auto touch_guard = touch(context_.blame, item);
    const auto& info = std::get<wire::RequestInfo>(answer);
    if (!wire::is_terminal(info.state)) return;
    const WebhookEvent event{"response." + response_status(info), watch.id, watch.owner,
                             info.finished_ms};
    if (!put_deliveries(*context_.object_store, event)) return;
  }
  (void)await<bool>([&](auto done) {
    context_.object_store->remove(owner, kWatchKind, watch.id, std::move(done));
  });
}

void WebhookSender::watch_pulls() {
  each_page(*context_.object_store, pull::kPullKind, Order::kOldestFirst, kLookMax,
            [&](const std::vector<StoredObject>& rows) {
              for (const StoredObject& row : rows) {
                if (stopping()) return false;
                look_at_pull(row);
              }
              return true;
            });
}

/// Makes the deliveries of a pull that has ended and is not told yet, and writes into its row that
/// it is.
void WebhookSender::look_at_pull(const StoredObject& row) {
  auto job = pull::parse_pull(row.body);
  if (!job || !job->untold || !pull::is_ended(job->state)) return;
  const std::string item = std::string(pull::kPullKind) + ":" + row.id;
  if (is_poison(context_.blame, item)) {
    log::error("the end of a pull is not told: gateways crashed over it", {{"item", item}});
  } else {
    const auto touch_guard = touch(context_.blame, item);
    // The version that the row has at its end is that of this run alone.
    const std::string run = std::to_string(row.created_ms) + "." + std::to_string(row.version);
    const WebhookEvent event{"pull." + std::string(pull::pull_state_name(job->state)), row.id,
                             row.owner, now_ms(), run};
    if (!put_deliveries(*context_.object_store, event)) return;
  }
  job->untold = false;
  ObjectChange change;
  change.kind = pull::kPullKind;
  change.id = row.id;
  change.version = row.version;
  change.body = pull::to_json_text(*job);
  (void)await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(kAllTenants, change, std::move(done)); });
}

/// False for a delivery that waits for its next attempt, or that another sender has.
static bool may_be_sent(const StoredObject& due) {
  const json body = try_parse_json<json>(due.body);
  const std::int64_t now = now_ms();
  return body.is_object() && body.value("next_ms", std::int64_t{0}) <= now &&
         body.value("lease_ms", std::int64_t{0}) <= now;
}

/// Delivers what is due. New deliveries are the newest; those that wait for another attempt are
/// anywhere, so `all` visits every page.
void WebhookSender::deliver_due(bool all) {
  std::optional<std::vector<WebhookTarget>> targets;
  std::int64_t waiting = 0;
  bool whole = all;
  const auto visit = [&](const std::vector<StoredObject>& list) {
    waiting += std::ssize(list);
    for (const StoredObject& due : list) {
      const auto touch_guard = touch(context_.blame, item_of(due));
      if (!may_be_sent(due)) continue;
      if (stopping()) return whole = false;
      if (!targets) targets = read_targets(*context_.object_store);
      if (!targets) return whole = false;
      deliver(due, *targets);
    }
    return all;
  };
  const Order order = all ? Order::kOldestFirst : Order::kNewestFirst;
  whole = each_page(*context_.object_store, client::kDueKind, order, kLookMax, visit) && whole;
  if (whole) context_.webhooks->waiting = waiting;
}

/// Stores the delivery. Returns false if another sender was quicker or it cannot be stored.
bool WebhookSender::put_due(const StoredObject& due, const json& body) {
  ObjectChange change;
  change.kind = client::kDueKind;
  change.id = due.id;
  change.version = due.version;
  change.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto put = await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(kAllTenants, change, std::move(done)); });
  return std::holds_alternative<ObjectStore::Put>(put);
}

/// Ends a delivery, told or given up. It is stored for a while, for people.
void WebhookSender::end(const StoredObject& due, json body, const char* state) {
  body["state"] = state;
  body["ended_ms"] = now_ms();
  ObjectChange change;
  change.kind = client::kDoneKind;
  change.id = due.id;
  change.expires_ms = now_ms() + options_.done_ttl_ms;
  change.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto owner = client::Principal::on_behalf_of(due.owner);
  const auto put = await<ObjectStore::Put>(
      [&](auto done) { context_.object_store->put(owner, change, std::move(done)); });
  if (!std::holds_alternative<ObjectStore::Put>(put)) return;  // its lease ends: it is sent again
  (void)await<bool>([&](auto done) {
    context_.object_store->remove(owner, client::kDueKind, due.id, std::move(done));
  });
}

void WebhookSender::deliver(const StoredObject& due, const std::vector<WebhookTarget>& targets) {
  if (is_poison(context_.blame, item_of(due))) {
    ++context_.webhooks->given_up;
    return end(due, json{{"last", poison_refusal("the delivery").message}}, "failed");
  }
  json body = try_parse_json<json>(due.body);
  body["lease_ms"] = now_ms() + options_.lease_ms;
  if (!put_due(due, body)) return;
  StoredObject leased = due;
  ++leased.version;
  const std::string webhook = body.value("webhook", "");
  const auto target = std::find_if(targets.begin(), targets.end(),
                                   [&](const WebhookTarget& t) { return t.id == webhook; });
  if (target == targets.end()) {
    body["last"] = "the webhook was deleted";
    return end(leased, std::move(body), "failed");
  }
  auto touch_guard = touch(context_.blame, item_of(due));
  WebhookPost post;
  post.may_be_private = target->may_be_private;
  post.body = body.value("payload", "");
  post.stopping = [this] { return stopping(); };
  post.headers = signed_headers(*target, due.id, post.body);
  WebhookAnswer answer;
  if (auto url = client::parse_webhook_url(target->url)) {
    post.url = std::move(*url);
    touch_guard = {};  // not while the target answers
    answer = send_webhook(post);
  } else {
    answer.error = url.error().what;
  }
  crash_point(CrashPoint::kGatewayHookSent);
  body["lease_ms"] = 0;
  if (answer.status == 0 && stopping()) {  // broken off by us: the next sender tries
    (void)put_due(leased, body);
    return;
  }
  note_answer(leased, std::move(body), answer);
}

void WebhookSender::note_answer(const StoredObject& leased, json body,
                                const WebhookAnswer& answer) {
  const std::int64_t attempts = body.value("attempts", std::int64_t{0}) + 1;
  body["attempts"] = attempts;
  body["last"] = answer.status != 0 ? std::to_string(answer.status) : answer.error;
  if (answer.status >= 200 && answer.status < 300) {
    ++context_.webhooks->delivered;
    return end(leased, std::move(body), "delivered");
  }
  const auto pause = webhook_pause_ms(attempts);
  log::warn("webhook not delivered", {{"delivery", leased.id},
                                      {"webhook", body.value("webhook", "")},
                                      {"attempt", attempts},
                                      {"why", body["last"].get<std::string>()}});
  if (answer.status == kGone || !pause || now_ms() - leased.created_ms > kAgeMaxMs) {
    ++context_.webhooks->given_up;
    return end(leased, std::move(body), "failed");
  }
  ++context_.webhooks->tries_failed;
  body["next_ms"] = now_ms() + spread(*pause);
  (void)put_due(leased, body);
}

}  // namespace holdfast::gateway
