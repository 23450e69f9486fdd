#pragma once
// A small cluster in one process: the real machine over the real store, a scripted worker and a
// scripted client, one seed for everything that varies. The daemon may die around a commit.

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "control/core/machine.h"
#include "tests/store/temp_state.h"

namespace holdfast::store {

/// The model's token at this index: a pure function, as the numerics contract promises.
core::TokenId token_at(std::uint64_t seed, std::int32_t choice, std::int64_t index);

class ScriptedCluster {
 public:
  struct ClientRequest {  // a request of the client
    std::string id;
    std::uint64_t seed = 0;
    std::int32_t n = 1;
    std::int64_t tokens = 0;
    bool cancel = false;
  };
  ScriptedCluster(std::uint64_t seed, std::string dir);

  void add_request(const ClientRequest& request);
  /// Makes one random event happen: work, a crash, a disconnect, time.
  void tick();
  /// Runs without accidents until every request has ended. Returns false after `ticks`.
  bool settle(int ticks);
  /// Returns an empty text, or the first fault of a client or the database.
  std::string audit();

 private:
  struct Active {
    core::Fence fence;
    std::string load_id;
    std::uint64_t seed = 0;
    std::int64_t acked = 0;
    std::int64_t made = 0;  // the ring has [acked, made)
    std::int64_t sent = 0;
    std::int64_t max_tokens = 0;
    bool held = true;  // not adopted or dispatched on this connection yet
  };
  struct Worker {
    core::PeerId peer = 0;
    int incarnation = 0;
    std::map<std::string, wire::LoadedModel> loads;
    std::map<std::pair<std::string, std::int32_t>, Active> active;
  };
  struct Client {
    ClientRequest request;
    bool accepted = false;
    bool cancelled = false;
    bool fin = false;
    wire::RequestInfo info;
    std::vector<std::vector<core::TokenId>> got;
  };

  void start_daemon();
  void kill_daemon();
  void kill_worker();
  void connect_worker();
  void step(core::Event event);
  void group(bool may_die);
  void deliver(const core::Outgoing& out);
  void to_worker(const wire::Message& message);
  void to_client(const wire::Message& message);
  void client_event(const core::SendEvent& event);
  void work();
  void ask();  // the client submits, attaches and cancels what is still to do
  wire::Hello hello() const;
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  core::Now now() const { return {now_us_, 1'700'000'000'000 + now_us_ / 1000}; }

  std::mt19937_64 random_;
  std::string dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<core::Machine> machine_;
  core::Effects pending_;
  std::int64_t now_us_ = 1'000'000;
  core::PeerId last_peer_ = 10;
  core::PeerId client_peer_ = 0;
  core::PeerId helper_ = 0;
  std::uint64_t tag_ = 0;
  Worker worker_;
  std::vector<Client> clients_;
  std::set<std::size_t> attached_;  // clients with a stream on this connection
  std::map<std::uint64_t, std::size_t> tags_;
  std::string fault_;
};

}  // namespace holdfast::store
