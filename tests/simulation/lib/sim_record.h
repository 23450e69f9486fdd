#pragma once
// The record of who is the primary, as machines reach it: calls take their time, may not arrive, or
// have their answers lost after they were carried out. Between the read and the write of a call
// others may change the record, and a call goes on when the process that made it is gone.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/replication/record_calls.h"
#include "tests/simulation/lib/world.h"

namespace holdfast::simulation {

/// The register with its compare-and-swap.
class SimRecord {
 public:
  using Versioned = replication::RecordStore::Versioned;
  explicit SimRecord(World& world) : world_(world) {}

  const Versioned& now() const { return now_; }
  /// Writes if the record has that version still.
  bool write(const replication::Record& record, std::int64_t version);
  /// The record is out of reach until then.
  void set_away(std::int64_t until_us) { away_until_us_ = until_us; }
  bool is_away() const { return world_.now_us < away_until_us_; }

  /// One call on its way.
  struct Call {
    std::string owner;
    replication::RecordCalls::Call run;
    bool lost = false;    // before it is carried out
    bool orphan = false;  // nobody waits for its answer
    std::optional<Versioned> read;
    std::optional<replication::RecordAnswer> answer;
  };
  void sent(const std::shared_ptr<Call>& call);
  /// Nothing is carried out any more that this machine asked.
  void lose_calls_of(const std::string& owner);

 private:
  World& world_;
  Versioned now_;
  std::int64_t away_until_us_ = 0;
  std::vector<std::weak_ptr<Call>> calls_;
};

/// The calls of one process.
class SimRecordCalls final : public replication::RecordCalls {
 public:
  SimRecordCalls(World& world, SimRecord& record, std::string owner,
                 const std::int64_t& cut_until_us, std::function<void()> answered)
      : world_(world),
        record_(record),
        owner_(std::move(owner)),
        cut_until_us_(cut_until_us),
        answered_(std::move(answered)) {}
  ~SimRecordCalls() override;

  void start(Call call) override;
  bool under_way() const override { return under_way_ != nullptr; }
  std::optional<replication::RecordAnswer> take() override;

 private:
  bool reachable() const { return !record_.is_away() && world_.now_us >= cut_until_us_; }

  World& world_;
  SimRecord& record_;
  const std::string owner_;
  const std::int64_t& cut_until_us_;  // of the machine, which outlives the process
  std::function<void()> answered_;
  std::shared_ptr<SimRecord::Call> under_way_;
};

}  // namespace holdfast::simulation
