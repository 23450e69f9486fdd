// Goal: no order of a small number of events breaks a promise: one request, two workers, one
// restart of the daemon, at most eight deliveries.
// Method: the real machine; every interleaving is walked by depth first search, each from the
// beginning with a machine of its own. A worker's next message follows from what it was sent.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/core/machine.h"

namespace holdfast::simulation::exhaustive_test {
namespace {

using core::PeerId;

constexpr int kDepth = 8;
constexpr std::int64_t kTokens = 2;

core::TokenId token(std::int64_t index) {
  return static_cast<core::TokenId>(100 + index);
}

/// The possible next moves. Each is one delivery.
enum class Move : std::uint8_t { kWork0, kWork1, kLose0, kLose1, kStale0, kStale1, kRestart };
constexpr int kMoves = 7;

/// The smallest cluster: rows stored as a database would, workers that answer at once.
class MinimalCluster {
 public:
  MinimalCluster() { start(1); }
  /// Makes the move; false if it cannot happen now.
  bool move(Move move);
  /// Returns what was broken; empty: nothing.
  std::string verdict();
  bool ended() const { return wire::is_terminal(request_->row.state); }

 private:
  struct Worker {
    PeerId peer = 0;
    int incarnation = 1;
    int losses = 0;
    std::optional<wire::Dispatch> has, had;
    std::int64_t sent = 0;
    std::string load;
  };
  void start(std::uint64_t epoch);
  void connect(int w);
  void lose(int w);
  bool work(int w);
  bool stale(int w);
  void step(const core::Event& event);
  void deliver(const core::Outgoing& out);
  void apply_row(const core::RowChange& row);
  core::Boot database() const;

  std::unique_ptr<core::Machine> machine_;
  core::Now now_{1'000'000, 1'700'000'000'000};
  PeerId last_peer_ = 10;
  Worker workers_[2];
  bool restarted_ = false;
  core::Fence newest_;
  std::string broken_;
  // the database
  std::map<std::string, core::ModelRow> models_;
  std::map<std::string, core::LoadRow> loads_;
  std::optional<core::BootRequest> request_;
  std::vector<core::TokenId> stored_;
};

void MinimalCluster::step(const core::Event& event) {
  core::Effects effects;
  now_.mono_us += 1000;
  machine_->step(event, now_, effects);
  for (const core::RowChange& row : effects.rows) apply_row(row);
  machine_->committed();
  for (const core::Outgoing& out : effects.messages) deliver(out);
}

void MinimalCluster::apply_row(const core::RowChange& row) {
  if (const auto* r = std::get_if<core::PutModel>(&row)) models_[r->row.name] = r->row;
  if (const auto* r = std::get_if<core::PutLoad>(&row)) loads_[r->row.load_id] = r->row;
  if (const auto* r = std::get_if<core::InsertRequest>(&row)) {
    request_.emplace();
    request_->row = r->row;
    request_->sampling = r->payload.sampling;
    request_->prompt_tokens = {1};
    request_->choices.resize(1);
    request_->choices[0].row = r->choices[0];
  }
  if (const auto* r = std::get_if<core::UpdateRequest>(&row)) {
    if (wire::is_terminal(request_->row.state)) broken_ = "a terminal state was written over";
    request_->row.state = r->state;
    request_->row.started_ms = r->started_ms;
    request_->row.numerics_class = r->numerics_class;
  }
  if (const auto* r = std::get_if<core::UpdateChoice>(&row)) request_->choices[0].row = r->row;
  if (const auto* r = std::get_if<core::InsertChunk>(&row)) {
    if (r->start != static_cast<std::int64_t>(stored_.size())) broken_ = "a gap in the chunks";
    stored_.insert(stored_.end(), r->ids.begin(), r->ids.end());
  }
  if (const auto* r = std::get_if<core::BeginAttempt>(&row)) {
    core::BootChoice& choice = request_->choices[0];
    if (choice.has_attempt) broken_ = "two open attempts";
    choice.has_attempt = true;
    choice.fence = r->fence;
    choice.worker_key = r->worker_key;
    choice.incarnation = r->incarnation;
    choice.load_id = r->load_id;
  }
  if (const auto* r = std::get_if<core::EndAttempt>(&row)) {
    if (r->fence == request_->choices[0].fence) request_->choices[0].has_attempt = false;
  }
}

core::Boot MinimalCluster::database() const {
  core::Boot boot;
  boot.last_seq = request_ ? 1 : 0;
  for (const auto& [name, row] : models_) boot.models.push_back(row);
  for (const auto& [id, row] : loads_) {
    if (row.ended_ms == 0) boot.loads.push_back(row);
  }
  if (request_ && !wire::is_terminal(request_->row.state)) {
    boot.requests.push_back(*request_);
    boot.requests[0].choices[0].ids = stored_;
  }
  return boot;
}

void MinimalCluster::start(std::uint64_t epoch) {
  machine_ = std::make_unique<core::Machine>(core::Config{});
  core::Boot boot = database();
  boot.epoch = epoch;
  step(boot);
  if (epoch > 1) return;
  constexpr PeerId kHelper = 1;
  step(core::IngressUp{kHelper});
  core::OpAddModel add;
  add.name = add.path = "m";
  add.load = true;
  step(add);
  core::InspectedEvent inspected;
  inspected.peer = kHelper;
  inspected.inspected.job = 1;
  inspected.inspected.ok = true;
  inspected.inspected.model_sha = "sha";
  inspected.row.context = 64;
  inspected.row.slots = 1;
  inspected.row.pages = 1;
  step(inspected);
  connect(0);
  connect(1);
  core::SubmitEvent submit;
  submit.peer = 2;
  submit.submit.request_id = "r";
  submit.submit.model = "m";
  submit.submit.prompts.resize(1);
  submit.submit.prompts[0].ids = {5};
  submit.submit.max_tokens = kTokens;
  submit.submit.body_hash = "h";
  step(submit);
}

void MinimalCluster::connect(int w) {
  Worker& worker = workers_[w];
  worker.peer = ++last_peer_;
  wire::Hello hello;
  hello.worker_key = "w" + std::to_string(w);
  hello.incarnation = std::to_string(worker.incarnation);
  hello.pid = w * 100 + worker.incarnation;
  if (!worker.load.empty()) {
    wire::LoadedModel model;
    model.load_id = worker.load;
    model.model_sha = "sha";
    model.numerics_class = "c";
    model.state = "ready";
    model.slots = model.pages_total = 1;
    hello.models = {model};
  }
  if (worker.has) {
    hello.active = {{"r", 0, worker.has->fence, 0, worker.sent, worker.sent == kTokens}};
  }
  step(core::FromWorker{worker.peer, hello});
}

void MinimalCluster::deliver(const core::Outgoing& out) {
  const auto to_worker = [&](PeerId peer) -> Worker* {
    for (Worker& worker : workers_) {
      if (worker.peer == peer) return &worker;
    }
    return nullptr;
  };
  if (const auto* d = std::get_if<core::SendDispatch>(&out)) {
    Worker* worker = to_worker(d->to);
    if (d->dispatch.fence <= newest_) broken_ = "a fence that is not newer";
    newest_ = d->dispatch.fence;
    if (worker == nullptr) return;
    worker->had = worker->has;
    worker->has = d->dispatch;
    worker->sent = static_cast<std::int64_t>(d->dispatch.committed_ids.size());
    if (d->dispatch.committed_ids != stored_) broken_ = "a dispatch without what is stored";
    return;
  }
  const auto* m = std::get_if<core::SendMessage>(&out);
  Worker* worker = m == nullptr ? nullptr : to_worker(m->to);
  if (worker == nullptr) return;
  if (const auto* load = std::get_if<wire::Load>(&m->message)) {
    worker->load = load->load_id;
    wire::StateReport report;
    report.model.load_id = load->load_id;
    report.model.model_sha = "sha";
    report.model.numerics_class = "c";
    report.model.state = "ready";
    report.model.slots = report.model.pages_total = 1;
    step(core::FromWorker{worker->peer, report});
  } else if (const auto* adopt = std::get_if<wire::Adopt>(&m->message)) {
    if (adopt->fence <= newest_) broken_ = "an adoption without a newer fence";
    newest_ = adopt->fence;
    worker->had = worker->has;
    worker->has->fence = adopt->fence;
    worker->sent = adopt->ack_upto;
  } else if (std::get_if<wire::Drop>(&m->message) != nullptr ||
             std::get_if<wire::CancelWork>(&m->message) != nullptr) {
    worker->had = worker->has;
    worker->has.reset();
  } else if (const auto* ack = std::get_if<wire::Ack>(&m->message)) {
    for (const wire::AckItem& item : ack->items) {
      if (item.fence != newest_) broken_ = "an ACK under a stale fence";
      if (item.upto > static_cast<std::int64_t>(stored_.size())) broken_ = "an ACK of nothing";
      if (item.finished) worker->has.reset();
    }
  }
}

/// The worker makes one token and sends it.
bool MinimalCluster::work(int w) {
  Worker& worker = workers_[w];
  if (!worker.has || worker.peer == 0 || worker.sent >= kTokens) return false;
  wire::TokenEvent event;
  event.request_id = "r";
  event.fence = worker.has->fence;
  event.start = worker.sent;
  event.ids = {token(worker.sent)};
  if (++worker.sent == kTokens) event.finish = wire::FinishReason::kLength;
  wire::Tokens tokens;
  tokens.events = {event};
  step(core::FromWorker{worker.peer, tokens});
  return true;
}

/// Sends a wrong token under the fence before the current one.
bool MinimalCluster::stale(int w) {
  Worker& worker = workers_[w];
  if (!worker.had || worker.peer == 0 || worker.had->fence == newest_) return false;
  wire::TokenEvent event;
  event.request_id = "r";
  event.fence = worker.had->fence;
  event.start = static_cast<std::int64_t>(stored_.size());
  event.ids = {9999};
  wire::Tokens tokens;
  tokens.events = {event};
  step(core::FromWorker{worker.peer, tokens});
  return true;
}

/// Its connection is lost, then it is back: every second time as a new process without its work.
void MinimalCluster::lose(int w) {
  Worker& worker = workers_[w];
  step(core::PeerGone{worker.peer});
  if (++worker.losses % 2 == 0) {
    worker.has.reset();
    worker.had.reset();
    worker.load.clear();
    ++worker.incarnation;
  }
  connect(w);
}

bool MinimalCluster::move(Move move) {
  switch (move) {
    case Move::kWork0:
    case Move::kWork1:
      return work(move == Move::kWork1);
    case Move::kLose0:
    case Move::kLose1:
      lose(move == Move::kLose1);
      return true;
    case Move::kStale0:
    case Move::kStale1:
      return stale(move == Move::kStale1);
    case Move::kRestart:
      if (restarted_) return false;
      restarted_ = true;
      workers_[0].peer = workers_[1].peer = 0;
      start(2);
      connect(0);
      connect(1);
      return true;
  }
  return false;
}

std::string MinimalCluster::verdict() {
  for (std::size_t i = 0; i < stored_.size(); ++i) {
    if (stored_[i] != token(static_cast<std::int64_t>(i))) broken_ = "a wrong token is stored";
  }
  if (broken_.empty() && wire::is_terminal(request_->row.state) &&
      (request_->row.state != wire::RequestState::kSucceeded ||
       stored_.size() != static_cast<std::size_t>(kTokens))) {
    broken_ = "ended as " + std::string(wire::state_name(request_->row.state));
  }
  return broken_;
}

/// Whatever happened, two workers that work on end the request.
std::string settle(MinimalCluster& cluster) {
  for (int i = 0; i < 4 * kDepth; ++i) {
    const bool any = cluster.move(Move::kWork0) || cluster.move(Move::kWork1);
    if (!any) cluster.move(i % 2 == 0 ? Move::kLose0 : Move::kLose1);
  }
  return cluster.ended() ? cluster.verdict() : "it never ended,";
}

struct Walk {
  std::uint64_t traces = 0, ended = 0;
  std::string broken;
  void from(const std::vector<Move>& path) {
    MinimalCluster cluster;
    bool possible = true;
    for (const Move move : path) possible = cluster.move(move);
    if (!possible || !broken.empty()) return;
    ++traces;
    std::string what = cluster.verdict();
    if (what.empty() && path.size() == kDepth) {
      what = settle(cluster);
      ++ended;
    }
    if (!what.empty()) {
      broken = what + " after";
      for (const Move move : path) broken += " " + std::to_string(static_cast<int>(move));
      return;
    }
    if (path.size() == kDepth) return;
    for (int m = 0; m < kMoves; ++m) {
      std::vector<Move> longer = path;
      longer.push_back(static_cast<Move>(m));
      from(longer);
    }
  }
};

TEST(Exhaustive, Core_InEveryOrderOfEightDeliveries_HoldsItsInvariants) {
  Walk walk;
  walk.from({});
  EXPECT_EQ(walk.broken, "");
  std::printf("%llu orders, %llu to the end\n", static_cast<unsigned long long>(walk.traces),
              static_cast<unsigned long long>(walk.ended));
  EXPECT_GT(walk.traces, 1000u);
}

}  // namespace
}  // namespace holdfast::simulation::exhaustive_test
