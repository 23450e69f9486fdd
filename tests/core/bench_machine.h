#pragma once
// Test bench of the machine: events go in by hand, effects come out and are looked at. No I/O.

#include <functional>
#include <string>
#include <vector>

#include "control/core/machine.h"

namespace holdfast::core {

struct Bench {
  explicit Bench(Config config = {}) : machine(config) {}

  Machine machine;
  Now now{1'000'000, 1'700'000'000'000};
  std::vector<RowChange> rows;                // all so far
  std::vector<Outgoing> sent;                 // of the last step
  Durability durability = Durability::kNone;  // of the last step
  std::vector<Note> notes;
  bool stop = false;
  std::function<void(const Event&, const Effects&)> watch;  // called with every step

  static constexpr PeerId kHelper = 900;
  static constexpr PeerId kOperator = 901;
  static constexpr PeerId kClient = 1;

  void step(Event event);
  void advance_ms(std::int64_t ms);  // moves the clock and lets due timers fire
  void boot(Boot event = {}, std::uint64_t epoch = 1);

  /// Registers model "m" (context, slots, pages as given) and connects a helper.
  void add_model(std::int64_t context = 1024, std::int32_t slots = 4, std::int32_t pages = 64,
                 bool load = true, const std::string& name = "m", std::int64_t weights = 1000);
  /// A worker's HELLO, without loads.
  wire::Hello hello(const std::string& key, const std::string& incarnation = "i1");
  /// Sends the HELLO of a worker and answers LOADs with ready.
  void connect_worker(PeerId peer, const std::string& key, const std::string& numerics = "class-a");
  /// Answers every LOAD sent in the last step with STATE ready.
  void make_ready(PeerId peer, const std::string& numerics = "class-a", std::int32_t slots = 4,
                  std::int32_t pages = 64);

  /// Answers the one UNLOAD sent to `peer` in the last step; CHECKs that there is one.
  void unloaded(PeerId peer);

  wire::Submit submission(const std::string& id, std::int64_t max_tokens = 8,
                          std::int64_t prompt = 4);
  /// A submission with text, which a helper must prepare.
  wire::Submit text_submission(const std::string& id);
  void submit(wire::Submit submit, PeerId peer = kClient);
  void tokens(PeerId worker, const wire::Dispatch& d, std::int64_t start, std::vector<TokenId> ids,
              FinishReason finish = FinishReason::kNone);

  /// Lets the worker give the choice up with an error.
  void fail(PeerId worker, const wire::Dispatch& d, const std::string& code = "internal",
            const std::string& error = "NaN");

  /// Messages of type M to `peer` (0 = anybody) in the last step.
  template <class M>
  std::vector<M> messages(PeerId peer = 0) const {
    std::vector<M> out;
    for (const Outgoing& o : sent) {
      const auto* s = std::get_if<SendMessage>(&o);
      if (s == nullptr || (peer != 0 && s->to != peer)) continue;
      if (const auto* m = std::get_if<M>(&s->message)) out.push_back(*m);
    }
    return out;
  }
  std::vector<wire::Dispatch> dispatches(PeerId peer = 0) const;
  std::vector<SendEvent> events(PeerId peer = 0) const;
  /// The only dispatch of the last step.
  wire::Dispatch dispatch(PeerId peer = 0) const;

  template <class Row>
  std::vector<Row> written() const {
    std::vector<Row> out;
    for (const RowChange& r : rows) {
      if (const auto* row = std::get_if<Row>(&r)) out.push_back(*row);
    }
    return out;
  }
  /// Committed ids of a choice, from the rows: fails the test's CHECK if they leave a gap or
  /// repeat.
  std::vector<TokenId> stored_ids(const std::string& id, std::int32_t choice = 0) const;
  RequestState state(const std::string& id);
  /// The content of a database for a new process, after all rows so far.
  Boot database() const;
};

/// Entry of a worker's HELLO for model "m", ready, of class "class-a", with 4 slots and 64 pages.
wire::LoadedModel ready_model(const std::string& load_id);

}  // namespace holdfast::core
