#pragma once
// The standby of a simulation: the real follower over the lying disk of its machine, behind a link
// to the primary and calls of the record that may fail in every way.

#include <functional>
#include <optional>
#include <string>

#include "control/replication/follower.h"
#include "tests/simulation/lib/network.h"
#include "tests/simulation/lib/sim_record.h"
#include "tests/simulation/lib/sim_state_files.h"

namespace holdfast::simulation {

class StandbyNode final : public Endpoint {
 public:
  struct Seat {
    SimDisk* disk = nullptr;
    SimRecord* record = nullptr;
    std::string url;
    const std::int64_t* record_cut_until_us = nullptr;
    std::function<Listener*(const std::string& url)> find;  // the daemon of that machine
    std::function<void(const replication::StandbyEnd&)> promoted;
    std::function<void(const std::string& why)> failed;  // its own disk
  };
  StandbyNode(World& world, Network& network, SimStateFiles& files)
      : world_(world), network_(network), files_(files) {}
  void sit_down(Seat seat) { seat_ = std::move(seat); }

  void start(const std::string& state_dir, const replication::Record& record);
  void stop();
  bool runs() const { return follower_.has_value(); }
  bool is_complete() const { return follower_ && follower_->note().complete; }
  PeerId connection() const { return connection_; }

  void on_connected(PeerId connection) override;
  void on_lost(PeerId connection) override;
  void on_message(PeerId connection, wire::Message& message) override;

 private:
  void look();
  void tick();
  void after(const Result<void>& done);
  void find_primary();

  World& world_;
  Network& network_;
  SimStateFiles& files_;
  Seat seat_;
  std::optional<SimRecordCalls> calls_;
  std::optional<replication::Follower> follower_;
  std::string connected_to_;
  PeerId connection_ = 0;
  std::uint64_t life_ = 0;
};

}  // namespace holdfast::simulation
