// Goal: a node fetches a model's file exactly where placement would load the model if the file were
// there, while that is so, and what it says of it is in the reasons of placement. Method: reports
// and verbs by hand; what the node is told, and texts, are looked at.
#include <gtest/gtest.h>

#include <algorithm>

#include "control/core/fetches.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::fetches_test {
namespace {

using Names = std::vector<std::string>;

struct FetchesTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.add_model();
  }
  /// A node whose worker, with a real engine, is connected; node i of the test.
  void join(int i, bool has_file = false, bool fetches = true) {
    report(i, has_file, fetches);
    wire::Hello hello = bench.hello(name(i) + "/w");
    hello.engine = "model";
    bench.step(FromWorker{static_cast<PeerId>(100 + i), hello});
  }
  void report(int i, bool has_file = false, bool fetches = true,
              const std::vector<FetchReport>& reports = {}, bool leaving = false) {
    NodeReport event;
    event.peer = static_cast<PeerId>(200 + i);
    event.name = name(i);
    event.incarnation = "i";
    event.leaving = leaving;
    event.models.emplace();
    if (has_file) event.models->insert("sha-m");
    if (fetches) event.fetches = reports;
    bench.step(event);
  }
  void set(const std::string& knob, std::int64_t value) {
    bench.step(
        OpConfig{Bench::kOperator, 1, "config.set", "ann", {{knob, std::to_string(value)}}, {}});
  }
  static std::string name(int i) { return "n" + std::to_string(i); }
  const Node& node(int i) const { return bench.machine.nodes().all().at(name(i)); }
  Names lacks(int i) const { return node(i).lacks; }
  std::string why(int i) const {
    for (const auto& verdict :
         bench.machine.placement().survey(bench.machine.registry().models().at("m"))) {
      if (verdict.worker_key == name(i) + "/w") return verdict.why;
    }
    return "";
  }
  /// Failures that the last event made known.
  std::ptrdiff_t alarms() const {
    return std::count_if(bench.notes.begin(), bench.notes.end(), [](const Note& note) {
      return note.alarm && note.event.find("model fetch failed") != std::string::npos;
    });
  }
};

const Names kModel = {"sha-m"};

FetchReport progress(const std::string& state, std::int64_t done, const std::string& error = "") {
  return {"sha-m", "m.gguf", state, "node n2", done, 10, error.empty() ? "" : "file_invalid",
          error};
}

TEST_F(FetchesTest, Node_ThatLacksARequestedModel_FetchesItUntilItHasIt) {
  join(1);
  EXPECT_EQ(lacks(1), kModel);
  report(1, true);
  EXPECT_EQ(lacks(1), Names());
  EXPECT_EQ(bench.messages<wire::Load>(101).size(), 1u) << "and loads it";
}

TEST_F(FetchesTest, Node_ThatCannotOrMustNot_FetchesNothing) {
  join(1, false, false);
  EXPECT_EQ(lacks(1), Names()) << "a program without fetches";
  EXPECT_NE(why(1).find("copy it below one of its roots"), std::string::npos) << why(1);
  report(1);
  EXPECT_EQ(lacks(1), kModel);
  bench.step(OpNode{Bench::kOperator, 1, "n1", true});
  EXPECT_EQ(lacks(1), Names()) << "drained";
  bench.step(OpNode{Bench::kOperator, 1, "n1", false});
  EXPECT_EQ(lacks(1), kModel);
  report(1, false, true, {}, true);
  EXPECT_EQ(lacks(1), Names()) << "leaving";
  report(1);
  EXPECT_EQ(lacks(1), kModel);
  bench.step(PeerGone{201});
  EXPECT_EQ(lacks(1), Names()) << "lost";
}

TEST_F(FetchesTest, Switch_OfTheConfiguration_EndsAndBeginsFetches) {
  join(1);
  set("nodes.fetch", 0);
  EXPECT_EQ(lacks(1), Names());
  EXPECT_NE(why(1).find("copy it below one of its roots"), std::string::npos) << why(1);
  set("nodes.fetch", 1);
  EXPECT_EQ(lacks(1), kModel);
}

TEST_F(FetchesTest, Model_ThatNobodyRequests_IsNotFetched) {
  join(1);
  bench.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  EXPECT_EQ(lacks(1), Names());
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "m"});
  EXPECT_EQ(lacks(1), kModel);
}

TEST_F(FetchesTest, Model_ThatIsTooLargeForAWorker_IsNotFetchedForIt) {
  report(1);
  wire::Hello hello = bench.hello("n1/w");
  hello.engine = "model";
  hello.memory.total = hello.memory.free = 10;
  bench.step(FromWorker{101, hello});
  EXPECT_EQ(lacks(1), Names());
}

TEST_F(FetchesTest, Replicas_BoundTheNodesThatFetch_AndNoneStopsWhatItHasBegun) {
  set("models.replicas", 1);
  join(2);
  EXPECT_EQ(lacks(2), kModel);
  join(1);  // it would come first by its name
  EXPECT_EQ(lacks(2), kModel);
  EXPECT_EQ(lacks(1), Names());
  set("models.replicas", 2);
  EXPECT_EQ(lacks(1), kModel);
  set("models.replicas", 1);
  join(3, true);
  EXPECT_EQ(bench.messages<wire::Load>(103).size(), 1u);
  EXPECT_EQ(lacks(1), Names());
  EXPECT_EQ(lacks(2), Names()) << "the one replica is loaded elsewhere";
}

TEST_F(FetchesTest, Giver_IsANodeThatHasWhatAnotherOneLacks) {
  join(1);
  EXPECT_FALSE(node(1).gives);
  join(2, true);
  EXPECT_TRUE(node(2).gives);
  report(1, true);
  EXPECT_FALSE(node(2).gives);
}

TEST_F(FetchesTest, ReasonOfPlacement_SaysHowFarTheFetchIs) {
  join(1);
  EXPECT_EQ(why(1), "node n1 will fetch it");
  report(1, false, true, {progress("reading", 0)});
  EXPECT_EQ(why(1), "node n1 will fetch it when node n2 has hashed it");
  report(1, false, true, {progress("fetching", 4)});
  EXPECT_EQ(why(1), "node n1 fetches it: 40 % (4 of 10 bytes, from node n2)");
  report(1, false, true, {progress("fetching", 4, "chunk 1 was wrong")});
  EXPECT_EQ(why(1),
            "node n1 fetches it: 40 % (4 of 10 bytes, from node n2); before: chunk 1 was wrong");
  report(1, false, true, {progress("failed", 4, "no space")});
  EXPECT_EQ(why(1), "node n1 cannot fetch it: no space; it tries again");
}

TEST_F(FetchesTest, Failure_OfAFetch_IsToldOnce) {
  join(1);
  report(1, false, true, {progress("fetching", 4, "chunk 1 was wrong")});
  EXPECT_EQ(alarms(), 1);
  report(1, false, true, {progress("fetching", 5, "chunk 1 was wrong")});
  EXPECT_EQ(alarms(), 0);
  report(1, false, true, {progress("failed", 5, "no space")});
  EXPECT_EQ(alarms(), 1);
}

}  // namespace
}  // namespace holdfast::core::fetches_test
