#include "control/gateway/common/blame.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/await.h"
#include "control/gateway/common/object_pages.h"
#include "shared/base/clock.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"

namespace holdfast::gateway {
namespace {

using nlohmann::json;

const client::AllTenants kAllTenants = client::AllTenants::local();  // deaths belong to no tenant
constexpr std::int64_t kSettleMs = 1'000;
constexpr std::int64_t kBlameTtlMs = 31LL * 24 * 3'600'000;  // longer than any batch is open
constexpr int kTries = 5;

std::int64_t count_of(const json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

}  // namespace

Blame::Blame(ObjectStore& object_store, std::string dir)
    : object_store_(object_store), dir_(std::move(dir)) {
  auto journal = TouchJournal::create(dir_);
  if (journal) {
    journal_ = std::move(journal).value();
  } else {
    log::warn("deaths of gateways are blamed on nothing", {{"why", journal.error().what}});
  }
}

/// Stores one death; tries again if another gateway writes at the same moment.
bool Blame::write_down(const Touched& touched) {
  for (int i = 0; i < kTries; ++i) {
    const auto found = await<ObjectStore::Found>([&](auto done) {
      object_store_.get(kAllTenants, kBlameKind, touched.item, std::move(done));
    });
    const auto* stored = std::get_if<ObjectStore::Found>(&found);
    if (stored == nullptr) return false;
    const json before = *stored ? try_parse_json<json>((*stored)->body) : json::object();
    Deaths deaths{count_of(before, "crashes"), count_of(before, "deaths")};
    ++deaths.all;
    deaths.crashes += touched.guilty ? 1 : 0;
    ObjectChange change;
    change.kind = kBlameKind;
    change.id = touched.item;
    change.version = *stored ? (*stored)->version : 0;
    change.body = json{{"crashes", deaths.crashes}, {"deaths", deaths.all}}.dump();
    change.expires_ms = system_clock().wall_ms() + kBlameTtlMs;
    const auto put = await<ObjectStore::Put>(
        [&](auto done) { object_store_.put(kAllTenants, change, std::move(done)); });
    const auto* failure = std::get_if<client::Failure>(&put);
    if (failure == nullptr) {
      log::warn("a gateway ended over an item", {{"item", touched.item},
                                                 {"crashed", touched.guilty ? "yes" : "no"},
                                                 {"deaths", deaths.all}});
      return true;
    }
    if (failure->code != Errc::kConflict) return false;
  }
  return false;
}

bool Blame::read_all() {
  std::map<std::string, Deaths> deaths_by_item;
  const auto add = [&](const std::vector<StoredObject>& objects) {
    for (const StoredObject& stored : objects) {
      const json body = try_parse_json<json>(stored.body);
      if (!body.is_object()) continue;
      deaths_by_item[stored.id] = {count_of(body, "crashes"), count_of(body, "deaths")};
    }
    return true;
  };
  constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
  if (!each_page(object_store_, kBlameKind, Order::kNewestFirst, kAll, add)) return false;
  const std::lock_guard lock(mutex_);
  deaths_by_item_ = std::move(deaths_by_item);
  return true;
}

bool Blame::settle() {
  const std::lock_guard settling(settling_);
  const std::int64_t now = system_clock().monotonic_us() / 1000;
  if (settled_ms_ > 0 && now - settled_ms_ < kSettleMs) return true;
  for (const auto& left : find_left_touches(dir_)) {
    for (const Touched& touched : left->items()) {
      if (!write_down(touched)) return false;
    }
    left->remove();
  }
  if (!read_all()) return false;
  settled_ms_ = now;
  return true;
}

bool Blame::is_poison(const std::string& item) {
  const std::lock_guard lock(mutex_);
  const auto found = deaths_by_item_.find(item);
  return found != deaths_by_item_.end() &&
         (found->second.crashes >= kCrashesMax || found->second.all >= kDeathsMax);
}

TouchJournal::Touch Blame::touch(const std::string& item) {
  return journal_ == nullptr ? TouchJournal::Touch() : journal_->touch(item);
}

TouchJournal::Touch touch(Blame* blame, const std::string& item) {
  return blame == nullptr ? TouchJournal::Touch() : blame->touch(item);
}

bool is_poison(Blame* blame, const std::string& item) {
  return blame != nullptr && blame->is_poison(item);
}

wire::Refusal poison_refusal(const std::string& what) {
  wire::Refusal refusal;
  refusal.code = Errc::kQuarantined;
  refusal.message = what + " ended the processes that worked on it and is not tried again";
  return refusal;
}

}  // namespace holdfast::gateway
