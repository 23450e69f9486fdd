#pragma once
// Base of the stories: what the machine does, to the last field, as somebody has read it and found
// right. After a change that is meant, HOLDFAST_UPDATE_STORIES=1 writes the stories anew: then the
// difference is to be read like code.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/core/bench_machine.h"
#include "tests/core/count_text.h"
#include "tests/core/row_text.h"

namespace holdfast::core {

inline constexpr PeerId kW1 = 101;
inline constexpr PeerId kW2 = 102;
inline constexpr PeerId kClient = Bench::kClient;
inline constexpr PeerId kOther = 2;
inline constexpr PeerId kHelper = Bench::kHelper;
inline constexpr PeerId kOperator = Bench::kOperator;

/// Records what comes out of each step of a machine and compares it, at the end, with
/// tests/core/stories/NAME OF THE TEST.txt.
class Story : public testing::Test {
 public:
  Bench bench;

  explicit Story(Config config = {}) : bench(config) { listen(bench); }

  /// A heading, for the reader.
  void tell(const std::string& what) { text_ += "\n# " + what + "\n"; }
  void write(const std::string& line) { text_ += line + "\n"; }

  void listen(Bench& to) {
    to.watch = [this, &to](const Event&, const Effects& effects) { record(to, effects); };
  }

  void TearDown() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    const std::string path =
        std::string(HOLDFAST_SOURCE_DIR) + "/tests/core/stories/" + info->name() + ".txt";
    if (std::getenv("HOLDFAST_UPDATE_STORIES") != nullptr) {
      std::ofstream(path) << text_;
      return;
    }
    std::ifstream file(path);
    std::stringstream expected;
    expected << file.rdbuf();
    compare(expected.str(), path);
  }

  // ---- what stories have in common

  void start(std::int32_t slots = 4) {
    tell("start, a model, a worker");
    bench.boot();
    bench.add_model(1024, slots);
    bench.step(FromWorker{kW1, bench.hello("w1")});
    bench.make_ready(kW1, "class-a", slots);
  }
  void report(const std::string& load_id, const std::string& state, const std::string& reason = "",
              double progress = 0) {
    wire::StateReport r;
    r.model.load_id = load_id;
    r.model.model_sha = "sha-m";
    r.model.numerics_class = state == "ready" ? "class-a" : "";
    r.model.state = state;
    r.model.slots = 3;
    r.model.pages_total = 50;
    r.model.context = 512;
    r.model.reason = reason;
    r.model.progress = progress;
    r.model.memory.total = 1'000'000;
    r.model.memory.free = 900'000;
    r.model.memory.taken = 60'000;
    bench.step(FromWorker{kW1, r});
  }
  void attach(const std::string& id, std::vector<std::int64_t> from, std::int64_t window = 100,
              std::uint64_t tag = 70, PeerId peer = kClient) {
    wire::Attach m;
    m.tag = tag;
    m.request_id = id;
    m.from = std::move(from);
    m.window = window;
    bench.step(FromClient{peer, m});
  }
  void cancel(const std::string& id) { bench.step(FromClient{kClient, wire::Cancel{71, id, {}}}); }
  void ask(const std::string& id) {
    bench.step(FromClient{kClient, wire::StatusQuery{72, id, {}, {}}});
  }
  void operate(const char* verb, const std::string& name = "m") {
    bench.step(OpModel{kOperator, 5, verb, name});
  }
  void fail(PeerId worker, const wire::Dispatch& d, const std::string& code) {
    bench.fail(worker, d, code, "said the worker");
  }

 private:
  void record(Bench& of, const Effects& e) {
    static const char* const kNames[] = {"", " NORMAL", " FULL"};
    text_ += "--- " + std::to_string(of.now.mono_us) + " us" +
             kNames[static_cast<int>(e.durability)] + (e.stop ? " STOP" : "") + "\n";
    for (const RowChange& row : e.rows) write(change_text(row));
    for (const Outgoing& out : e.messages) write(outgoing_text(out));
    for (const Note& note : e.notes) {
      TextVisitor v;
      for (const auto& [name, value] : note.fields) v(name, value);
      write(std::string(note.alarm ? "ALARM " : "note ") + note.event + ":" + v.str());
    }
    const auto next = of.machine.next_deadline_us();
    const UsageTracker& usage = of.machine.lifecycle().requests().usage();
    TextVisitor v;
    v("next", next);
    v("queued", of.machine.lifecycle().queued_choices());
    v("running", usage.all().running);
    v("live", usage.all().requests);
    v("bytes", usage.all().bytes);
    v("pages", usage.all().pages);
    v("preparing", of.machine.jobs().size());
    v("streams", of.machine.streams().size());
    v("helpers", of.machine.jobs().helpers());
    if (v.str() != last_) write("=" + v.str());
    last_ = v.str();
    auto counts = counts_of(of.machine, of.now);
    if (const std::string changes = count_changes(counts_, counts); !changes.empty()) {
      write("counted" + changes);
    }
    counts_ = std::move(counts);
  }

  /// The first lines that differ, so that a failure can be read.
  void compare(const std::string& expected, const std::string& path) const {
    if (expected == text_) return;
    std::istringstream a(expected), b(text_);
    std::string was, is;
    for (int line = 1;; ++line) {
      const bool more_a = static_cast<bool>(std::getline(a, was));
      const bool more_b = static_cast<bool>(std::getline(b, is));
      if (more_a && more_b && was == is) continue;
      ADD_FAILURE() << path << ":" << line << "\nwas: " << (more_a ? was : "(the end)")
                    << "\nis:  " << (more_b ? is : "(the end)")
                    << "\nIf that is meant: HOLDFAST_UPDATE_STORIES=1, and read the difference.";
      return;
    }
  }

  std::string text_;
  std::string last_;
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace holdfast::core
