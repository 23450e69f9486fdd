#pragma once
// A client of a simulation: submits, repeats what was not answered, streams, cancels, vanishes and
// resumes where it was. It checks what it gets as an SDK would: no gap, nothing twice, one FIN.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/lib/auditor.h"
#include "tests/simulation/lib/network.h"

namespace holdfast::simulation {

class ClientNode final : public Endpoint {
 public:
  ClientNode(World& world, Network& network, Auditor& auditor,
             const std::vector<SimRequest>& requests)
      : world_(world), network_(network), auditor_(auditor), requests_(requests) {}

  void add(int request) { tasks_[request]; }
  void start();
  void vanish(std::int64_t us);
  bool done() const;
  /// The tasks that are not done, for a report.
  std::string open_tasks() const;

  void on_connected(PeerId connection) override;
  void on_lost(PeerId connection) override;
  void on_message(PeerId connection, wire::Message& message) override;

 private:
  enum class State : std::uint8_t { kNotYet, kSubmitted, kAccepted, kAttached, kFin, kGivenUp };
  struct Task {
    State state = State::kNotYet;
    std::uint64_t tag = 0;                        // of the submission or the stream that is open
    std::vector<std::int64_t> got, at, credited;  // per choice: ever, on this stream, credit sent
    std::int64_t window = 0;
    std::uint64_t round = 0;    // of submissions: only the newest one is waited for
    std::uint64_t fin_tag = 0;  // of the stream that had the last FIN
    bool again = false;         // it has had one FIN and wants another
    bool received = false;      // on the open stream
    bool cancel_requested = false, replayed = false, was_sent = false, foreign_sent = false;
  };
  enum class Operation : std::uint8_t { kSubmit, kAttach, kCancel, kForeign };

  const SimRequest& request(int index) const { return requests_[static_cast<std::size_t>(index)]; }
  std::uint64_t ask(int index, Operation what);
  void submit(int index);
  void attach(int index);
  void cancel(int index);
  void accepted(int index, const wire::Accepted& m);
  void refused(int index, Operation operation, const wire::Refused& m);
  void event(int index, const wire::Event& m);
  void credit(int index, const wire::Event& m);
  void fin(int index, const wire::Fin& m);
  void ask_for_others(int index);
  void check_id(int index, const std::string& id);
  void send(wire::Message message);

  World& world_;
  Network& network_;
  Auditor& auditor_;
  const std::vector<SimRequest>& requests_;
  std::map<int, Task> tasks_;
  std::map<std::uint64_t, std::pair<int, Operation>> tags_;  // of this connection
  std::uint64_t last_tag_ = 0;
  PeerId connection_ = 0;
  std::int64_t away_until_us_ = 0;
};

}  // namespace holdfast::simulation
