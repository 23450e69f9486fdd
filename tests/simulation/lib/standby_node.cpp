#include "tests/simulation/lib/standby_node.h"

#include <utility>

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kLookUs = 50 * kMs;  // the longest wait of its loop

}  // namespace

void StandbyNode::start(const std::string& state_dir, const replication::Record& record) {
  ++life_;
  calls_.emplace(world_, *seat_.record, seat_.url, *seat_.record_cut_until_us, [this] { tick(); });
  replication::FollowerOptions options;
  options.state_dir = state_dir;
  options.url = seat_.url;
  options.primary = record.primary;
  options.term = record.term;
  options.record = &*calls_;
  follower_.emplace(
      std::move(options),
      [this](const wire::Message& message) {
        if (connection_ != 0) network_.send_to_daemon(connection_, message);
      },
      world_.now_us, files_);
  find_primary();
  look();
}

void StandbyNode::stop() {
  ++life_;
  follower_.reset();
  calls_.reset();
  network_.give_up(this);
  network_.cut(std::exchange(connection_, 0), world_.random.between(0, 100) * kMs, -1);
}

void StandbyNode::find_primary() {
  if (connection_ != 0) network_.cut(std::exchange(connection_, 0), 0, -1);
  connected_to_ = follower_->primary();
  network_.connect_to(this, Role::kStandby, seat_.find(connected_to_));
}

void StandbyNode::look() {
  const std::uint64_t life = life_;
  world_.after(kLookUs, [this, life] {
    if (life != life_) return;
    look();
    tick();
  });
}

void StandbyNode::tick() {
  if (follower_) after(follower_->tick(world_.now_us));
}

/// Goes on after a message or a look: promoted, failed, or with another primary.
void StandbyNode::after(const Result<void>& done) {
  if (!done) return seat_.failed(done.error().what);
  if (follower_->end().promoted) return seat_.promoted(replication::StandbyEnd(follower_->end()));
  if (follower_->primary() != connected_to_) find_primary();
}

void StandbyNode::on_connected(PeerId connection) {
  if (!follower_) return network_.cut(connection, 0, -1);
  connection_ = connection;
  follower_->connected(world_.now_us);
  tick();
}

void StandbyNode::on_lost(PeerId connection) {
  if (connection != connection_ || !follower_) return;
  connection_ = 0;
  network_.connect_to(this, Role::kStandby, seat_.find(connected_to_));
}

void StandbyNode::on_message(PeerId connection, wire::Message& message) {
  const auto* ship = std::get_if<wire::Ship>(&message);
  if (connection != connection_ || !follower_ || ship == nullptr) return;
  if (world_.accident(world_.swarm.standby_dies_in_write)) {
    seat_.disk->die_after(world_.random.between(1, 10));
  }
  const Result<void> taken = follower_->take(*ship, world_.now_us);
  seat_.disk->die_after(0);
  const std::uint64_t life = life_;
  after(taken);
  if (life == life_) tick();
}

}  // namespace holdfast::simulation
