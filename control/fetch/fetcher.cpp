#include "control/fetch/fetcher.h"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "shared/base/clock.h"
#include "shared/base/log.h"

namespace holdfast::fetch {
namespace {

constexpr std::chrono::seconds kCallTime{5};
constexpr std::chrono::minutes kAddTime{30};  // the daemon hashes the whole file
constexpr std::chrono::milliseconds kPause{50};

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? "unknown" : id;
}

}  // namespace

Fetcher::~Fetcher() {
  stopping_ = true;
  join_ended(true);
}

void Fetcher::join_ended(bool all) {
  std::erase_if(slots_, [&](const std::unique_ptr<Slot>& slot) {
    if (!all && !slot->ended) return false;
    slot->thread.join();
    return true;
  });
}

bool Fetcher::has(const std::string& id) const {
  return std::ranges::any_of(slots_, [&](const auto& slot) { return slot->id == id; });
}

/// Takes up pulls that are due, while there is room.
void Fetcher::look(PullRows& rows, PullRows& adding) {
  auto open = rows.open_pulls();
  if (!open) return;  // the daemon is down; it will be back
  const std::int64_t now = system_clock().wall_ms();
  for (PullRow& row : *open) {
    if (slots_.size() >= static_cast<std::size_t>(options_.pulls) || stopping_) return;
    if (row.job.next_ms > now || has(row.id)) continue;
    auto slot = std::make_unique<Slot>();
    slot->id = row.id;
    Slot* const mine = slot.get();
    slot->thread = std::thread([this, mine, &rows, &adding, row = std::move(row)]() mutable {
      const PullWorkOptions options{options_.models_dir, options_.run_dir, boot_id_, options_.blobs,
                                    [this] { return stopping_.load(); }};
      work_on_pull(std::move(row), rows, adding, options);
      mine->ended = true;
    });
    slots_.push_back(std::move(slot));
  }
}

Result<void> Fetcher::run() {
  boot_id_ = read_boot_id();
  client::Options quick;
  quick.timeout = kCallTime;
  client::Options patient;
  patient.timeout = kAddTime;
  HOLDFAST_TRY(const auto client, client::Client::connect(options_.endpoint, quick));
  HOLDFAST_TRY(const auto patient_client, client::Client::connect(options_.endpoint, patient));
  PullRows rows(*client), adding(*patient_client);
  auto next = std::chrono::steady_clock::now();
  while (!stopping_) {
    join_ended(false);
    if (std::chrono::steady_clock::now() >= next) {
      look(rows, adding);
      next = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.look_ms);
    }
    std::this_thread::sleep_for(kPause);
  }
  join_ended(true);
  return {};
}

}  // namespace holdfast::fetch
