#include "tests/simulation/lib/sim_record.h"

#include <utility>

#include "shared/base/check.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kTimeoutUs = 1'500'000;  // of a call that nobody answers

using replication::Record;
using replication::RecordAnswer;

Error unreachable(const char* why) {
  return {Errc::kUnreachable, std::string("the simulated record: ") + why};
}

/// The record as one call sees it: its first read happened earlier.
class CallStore final : public replication::RecordStore {
 public:
  /// `abandoned`: its caller is gone, so that nobody reads again where the write finds another
  /// version.
  CallStore(SimRecord& record, std::optional<Versioned> read, bool answer_lost, bool abandoned)
      : record_(record), read_(std::move(read)), answer_lost_(answer_lost), abandoned_(abandoned) {}
  Result<Versioned> read() override {
    if (!read_ || (abandoned_ && was_read_)) return unreachable("no answer");
    was_read_ = true;
    return std::exchange(*read_, record_.now());
  }
  Result<bool> write(const Record& record, std::int64_t version) override {
    const bool written = record_.write(record, version);
    if (answer_lost_) return unreachable("the answer is lost");
    return written;
  }

 private:
  SimRecord& record_;
  std::optional<Versioned> read_;
  bool answer_lost_, abandoned_;
  bool was_read_ = false;
};

}  // namespace

bool SimRecord::write(const Record& record, std::int64_t version) {
  if (version != now_.version) {
    world_.hit(Fault::kRecordConflict);
    return false;
  }
  now_ = {record, version + 1};
  world_.trace(5, record.term, static_cast<std::uint64_t>(version), record.in_step.size());
  world_.say([&] {
    return "the record: term " + std::to_string(record.term) + " primary " + record.primary +
           " in step " + record.in_step;
  });
  return true;
}

SimRecordCalls::~SimRecordCalls() {
  if (under_way_) under_way_->orphan = true;
}

void SimRecord::sent(const std::shared_ptr<Call>& call) {
  std::erase_if(calls_, [](const auto& old) { return old.expired(); });
  calls_.push_back(call);
}

void SimRecord::lose_calls_of(const std::string& owner) {
  for (const auto& call : calls_) {
    const auto on_its_way = call.lock();
    if (on_its_way && on_its_way->owner == owner) on_its_way->lost = true;
  }
}

void SimRecordCalls::start(Call call) {
  CHECK(under_way_ == nullptr);
  under_way_ = std::make_shared<SimRecord::Call>();
  under_way_->owner = owner_;
  under_way_->run = std::move(call);
  record_.sent(under_way_);
  const std::int64_t most_us = world_.swarm.record_delay_us;
  const std::int64_t read_us = world_.random.between(100, most_us);
  const std::int64_t write_us = read_us + world_.random.between(100, most_us);
  // An event outlives this object: it may use it only while somebody waits.
  world_.after(read_us, [this, mine = under_way_] {
    if (!mine->orphan && !mine->lost && reachable()) mine->read = record_.now();
  });
  SimRecord& record = record_;
  World& world = world_;
  world_.after(write_us, [this, mine = under_way_, &record, &world] {
    if (mine->lost) return;
    if (!mine->orphan && !reachable()) mine->read.reset();
    const bool answer_lost = world.accident(world.swarm.record_answer_lost);
    if (answer_lost) world.hit(Fault::kRecordAnswerLost);
    CallStore store(record, mine->read, answer_lost, mine->orphan);
    RecordAnswer answer{RecordAnswer::Outcome::kUnreachable, {}, "the simulated record: too late"};
    if (mine->read && world.accident(world.swarm.record_late)) {
      // Its caller is told that nobody answered, and it arrives after that.
      world.hit(Fault::kRecordLate);
      world.after(world.random.between(1, 2000) * kMs, [mine, &record] {
        CallStore late(record, mine->read, false, true);
        if (!mine->lost) (void)mine->run(late);
      });
    } else {
      answer = mine->run(store);
    }
    if (mine->orphan) return;
    const bool none = answer.outcome == RecordAnswer::Outcome::kUnreachable;
    if (none) world.hit(Fault::kRecordUnreachable);
    mine->answer = std::move(answer);
    const std::int64_t late_us = none ? kTimeoutUs : world.swarm.record_delay_us;
    world.after(world.random.between(100, late_us), [this, mine] {
      if (mine->orphan) return;
      const auto answered = answered_;  // which may end this object
      answered();
    });
  });
}

std::optional<RecordAnswer> SimRecordCalls::take() {
  if (!under_way_ || !under_way_->answer) return std::nullopt;
  std::optional<RecordAnswer> answer = std::move(under_way_->answer);
  under_way_->orphan = true;  // its owner may be gone before the word that it is answered
  under_way_.reset();
  return answer;
}

}  // namespace holdfast::simulation
