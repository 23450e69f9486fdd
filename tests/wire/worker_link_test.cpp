// Goal: a worker goes on without a daemon and loses nothing over any number of daemons; it obeys
// the newest epoch only; full rings stop it; draining returns its work. Method: the real link and
// compute threads with the fake engine, a scripted daemon on the other side. The expected output is
// that of a direct run of the same engine.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "scripted_daemon.h"
#include "shared/huggingface/stamp.h"
#include "worker/link/host.h"
#include "worker/link/link.h"

namespace holdfast::worker::worker_link_test {
namespace {

using wire::testing::ScriptedDaemon;
using Ids = std::vector<wire::TokenId>;

constexpr char kOptions[] = R"({"vocab":5000,"context":8192,"slots":4,"step_us":200})";

wire::Load load(const std::string& options = kOptions) {
  wire::Load l;
  l.load_id = "l1";
  l.model_sha = "sha";
  l.options = options;
  return l;
}

wire::Dispatch dispatch(wire::Fence fence, std::int64_t max_tokens, Ids committed = {}) {
  wire::Dispatch d;
  d.request_id = "r";
  d.fence = fence;
  d.load_id = "l1";
  d.model_sha = "sha";
  d.prompt_ids = {5, 6, 7};
  d.committed_ids = std::move(committed);
  d.max_tokens = max_tokens;
  d.sampling.seed = 42;
  return d;
}

/// The ids of an uninterrupted run of the engine.
Ids expected_ids(std::int64_t max_tokens) {
  auto engine = engine::open_fake_engine(kOptions, {}).value();
  engine::SequenceSpec spec;
  const wire::Dispatch d = dispatch({1, 1}, max_tokens);
  spec.key = 1;
  spec.prompt = d.prompt_ids;
  spec.sampling = d.sampling;
  spec.max_tokens = max_tokens;
  EXPECT_TRUE(engine->add(spec).has_value());
  Ids ids;
  while (!engine->idle()) {
    for (const auto& p : engine->step()) ids.insert(ids.end(), p.ids.begin(), p.ids.end());
  }
  return ids;
}

struct WorkerLink : ::testing::Test {
  ScriptedDaemon daemon;
  LinkOptions options;
  std::unique_ptr<Link> link;
  std::thread thread;
  Ids committed;
  bool finished = false;

  void start_worker() {
    options.endpoint = daemon.endpoint();
    options.engine = "fake";
    link = std::make_unique<Link>(options, [](const wire::Load& l, const Progress& progress) {
      engine::EngineOptions o;
      o.progress = progress;
      const auto checked = check_model_file(l);
      if (!checked.has_value()) return Result<std::unique_ptr<engine::Engine>>(checked.error());
      return engine::open_fake_engine(l.options, o);
    });
    thread = std::thread([this] { EXPECT_TRUE(link->run().has_value()); });
  }
  void TearDown() override {
    if (!thread.joinable()) return;
    daemon.stop();
    link->request_stop();
    thread.join();
  }
  wire::Hello greet(std::uint64_t epoch) {
    wire::Hello hello = daemon.find<wire::Hello>();
    daemon.send(wire::Welcome{epoch, "w1"});
    return hello;
  }
  wire::LoadedModel load_model(const wire::Load& l) {
    daemon.send(l);
    for (;;) {
      const wire::LoadedModel model = daemon.find<wire::StateReport>().model;
      if (model.state == "ready" || model.state == "failed" || model.state.empty()) return model;
    }
  }
  void start_with_model() {
    start_worker();
    greet(1);
    ASSERT_EQ(load_model(load()).state, "ready");
  }
  /// Takes tokens by the daemon's rule and acknowledges them.
  void commit(const wire::Tokens& tokens, wire::Fence fence, bool acknowledge = true) {
    for (const wire::TokenEvent& e : tokens.events) {
      ASSERT_EQ(e.fence, fence);
      ASSERT_EQ(e.start, static_cast<std::int64_t>(committed.size())) << "gap or repeat";
      committed.insert(committed.end(), e.ids.begin(), e.ids.end());
      finished = finished || e.finish != wire::FinishReason::kNone;
      if (!acknowledge) continue;
      daemon.send(wire::Ack{{{e.request_id, e.choice, fence,
                              static_cast<std::int64_t>(committed.size()), finished}}});
    }
  }
};

TEST_F(WorkerLink, Dispatch_WhenRepeated_RunsOnce) {
  start_with_model();
  daemon.send(dispatch({1, 1}, 50));
  daemon.send(dispatch({1, 1}, 50));  // a repeat
  while (!finished) commit(daemon.find<wire::Tokens>(), {1, 1});
  EXPECT_EQ(committed, expected_ids(50));
}

/// A daemon that gave the worker up and hears it again on the same connection asks for a HELLO: the
/// worker reports its work, and sends it again under the fence that it is adopted with.
TEST_F(WorkerLink, Worker_WhenHelloIsRequestedAgain_ReportsWorkAndAwaitsAdoption) {
  start_with_model();
  daemon.send(dispatch({1, 1}, 400));
  commit(daemon.find<wire::Tokens>(), {1, 1});
  daemon.send(wire::Welcome{1, "w1", true});
  const wire::Hello hello = daemon.find<wire::Hello>();
  ASSERT_EQ(hello.models.size(), 1u);
  EXPECT_GT(hello.started_ticks, 0);
  ASSERT_EQ(hello.active.size(), 1u);
  EXPECT_EQ(hello.active[0].fence, (wire::Fence{1, 1}));
  daemon.send(wire::Welcome{1, "w1"});
  const auto upto = static_cast<std::int64_t>(committed.size());
  daemon.send(wire::Adopt{hello.active[0].request_id, 0, {1, 2}, upto});
  while (!finished) commit(daemon.find<wire::Tokens>(), {1, 2});
  EXPECT_EQ(committed, expected_ids(400));
}

TEST_F(WorkerLink, Worker_WhenDaemonRestarts_ContinuesAndResendsUncommitted) {
  start_with_model();
  daemon.send(dispatch({1, 1}, 400));
  commit(daemon.find<wire::Tokens>(), {1, 1});
  daemon.find<wire::Tokens>();  // arrives, but is not committed before the daemon dies
  daemon.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  daemon.start();
  const wire::Hello hello = greet(2);
  ASSERT_EQ(hello.models.size(), 1u);
  EXPECT_EQ(hello.models[0].state, "ready");
  EXPECT_EQ(hello.last_epoch, 1u);
  ASSERT_EQ(hello.active.size(), 1u);
  EXPECT_LE(hello.active[0].first_unacked, static_cast<std::int64_t>(committed.size()));
  EXPECT_GT(hello.active[0].next_index, static_cast<std::int64_t>(committed.size()))
      << "it went on alone";
  daemon.send(wire::Adopt{"r", 0, {2, 1}, static_cast<std::int64_t>(committed.size())});
  while (!finished) commit(daemon.find<wire::Tokens>(), {2, 1});
  EXPECT_EQ(committed, expected_ids(400));
}

TEST_F(WorkerLink, Drop_AfterReconnect_ForgetsTheSequence) {
  start_with_model();
  daemon.send(dispatch({1, 1}, 4000));
  daemon.find<wire::Tokens>();
  daemon.stop();
  daemon.start();
  EXPECT_EQ(greet(2).active.size(), 1u);
  daemon.send(wire::Drop{"r", 0, "cancelled meanwhile"});
  while (daemon.find<wire::WorkerStats>().running != 0) {
  }
  daemon.stop();
  daemon.start();
  EXPECT_TRUE(greet(3).active.empty());
}

TEST_F(WorkerLink, TokenRing_WhenFull_PausesTheSequence) {
  options.ring_tokens = 32;
  start_with_model();
  daemon.send(dispatch({1, 1}, 1000));
  while (committed.size() < 32) commit(daemon.find<wire::Tokens>(), {1, 1}, false);
  std::uint64_t tokens = 0;
  for (;;) {  // until the count stands still
    const std::uint64_t now = daemon.find<wire::WorkerStats>().tokens;
    if (now == tokens && tokens > 0) break;
    tokens = now;
  }
  EXPECT_LT(tokens, 32u + 100u) << "the ring's limit and what was on its way";
  daemon.stop();  // a new daemon sees all of it: nothing was dropped
  daemon.start();
  greet(2);
  committed.clear();
  daemon.send(wire::Adopt{"r", 0, {2, 1}, 0});
  while (!finished) commit(daemon.find<wire::Tokens>(), {2, 1});
  EXPECT_EQ(committed, expected_ids(1000));
}

TEST_F(WorkerLink, Daemon_WhenEpochIsOlder_IsRefused) {
  start_worker();
  greet(7);
  ASSERT_EQ(load_model(load()).state, "ready");
  wire::Dispatch old = dispatch({6, 9}, 10);  // of an older epoch than the WELCOME
  old.request_id = "old";
  daemon.send(old);
  daemon.send(dispatch({7, 1}, 4000));
  commit(daemon.find<wire::Tokens>(), {7, 1});
  daemon.stop();
  daemon.start();
  greet(6);
  daemon.send(wire::Drop{"r", 0, "not yours to say"});
  const wire::Hello hello = daemon.find<wire::Hello>();
  EXPECT_EQ(hello.last_epoch, 7u);
  EXPECT_EQ(hello.active.size(), 1u) << "the work is kept for the true daemon";
}

TEST_F(WorkerLink, Dispatch_WithNewerFence_RestampsTheRing) {
  start_with_model();
  daemon.send(dispatch({1, 1}, 200));
  commit(daemon.find<wire::Tokens>(), {1, 1}, false);
  daemon.send(dispatch({1, 2}, 200, committed));
  wire::Tokens tokens = daemon.find<wire::Tokens>();
  while (tokens.events.at(0).fence != wire::Fence{1, 2}) tokens = daemon.find<wire::Tokens>();
  commit(tokens, {1, 2});
  while (!finished) commit(daemon.find<wire::Tokens>(), {1, 2});
  EXPECT_EQ(committed, expected_ids(200));
}

TEST_F(WorkerLink, Dispatch_WhenItCannotRun_IsReturnedOrEnded) {
  start_with_model();
  wire::Dispatch d = dispatch({1, 1}, 10);
  d.load_id = "other";
  daemon.send(d);
  EXPECT_NE(daemon.find<wire::Returned>().reason.find("not on this worker"), std::string::npos);
  d = dispatch({1, 2}, 10);
  d.model_sha = "other";
  daemon.send(d);
  EXPECT_NE(daemon.find<wire::Returned>().reason.find("another model"), std::string::npos);
  d = dispatch({1, 3}, 10);
  d.prompt_ids = {999'999};
  daemon.send(d);
  const wire::Tokens tokens = daemon.find<wire::Tokens>();
  EXPECT_EQ(tokens.events.at(0).error_code, "invalid_request");
  for (int choice = 0; choice < 5; ++choice) {  // the load has four slots
    d = dispatch({1, 4}, 8000);
    d.request_id = "many";
    d.choice = choice;
    daemon.send(d);
  }
  const auto returned = daemon.find<wire::Returned>();
  EXPECT_EQ(returned.request_id, "many");
  EXPECT_NE(returned.reason.find("rate_limited"), std::string::npos);
}

TEST_F(WorkerLink, Load_WhenItFailsOrIsUnloaded_ReportsItsState) {
  start_worker();
  greet(1);
  wire::LoadedModel model = load_model(load(R"({"fail_load":"weights missing"})"));
  EXPECT_EQ(model.state, "failed");
  EXPECT_NE(model.reason.find("weights missing"), std::string::npos);
  wire::Load missing = load();
  missing.path = "/tmp/holdfast-no-such-model.gguf";
  model = load_model(missing);
  EXPECT_EQ(model.reason.substr(0, 3), "io:") << model.reason;
  ASSERT_EQ(load_model(load()).state, "ready");
  daemon.send(dispatch({1, 1}, 8000));
  daemon.find<wire::Tokens>();
  daemon.send(wire::Unload{"l1"});
  EXPECT_EQ(daemon.find<wire::Returned>().fence, (wire::Fence{1, 1}));
  EXPECT_EQ(daemon.find<wire::StateReport>().model.state, "unloaded");
}

TEST_F(WorkerLink, Drain_WhenTimeEnds_ReturnsUnfinishedWork) {
  options.drain_ms = 50;
  start_with_model();
  daemon.send(dispatch({1, 1}, 8000));
  commit(daemon.find<wire::Tokens>(), {1, 1});
  link->request_stop();
  daemon.find<wire::Drain>();
  wire::Dispatch late = dispatch({1, 2}, 10);
  late.choice = 1;
  daemon.send(late);
  bool refused = false;
  bool work_returned = false;
  while (!refused || !work_returned) {
    const auto returned = daemon.find<wire::Returned>();
    ASSERT_FALSE(returned.request_id.empty());
    (returned.choice == 1 ? refused : work_returned) = true;
  }
  daemon.find<wire::Drained>();
  thread.join();
}

TEST_F(WorkerLink, OrphanedWorker_WhenIdle_Exits) {
  options.orphan_ms = 100;
  start_with_model();
  daemon.send(dispatch({1, 1}, 300));
  daemon.find<wire::Tokens>();
  daemon.stop();
  thread.join();  // ends by itself, after its work
}

TEST(ModelFile, ModelFile_WhenChangedWithSameSizeAndTime_IsRefused) {
  const std::string path = ::testing::TempDir() + "holdfast-model-file";
  std::ofstream(path) << "12345";
  wire::Load l;
  l.path = path;
  EXPECT_TRUE(check_model_file(l).has_value());
  l.size = 4;
  EXPECT_EQ(check_model_file(l).error().code, Errc::kFileInvalid);
  l.size = 5;
  l.mtime_ns = 1;
  EXPECT_NE(check_model_file(l).error().what.find("changed"), std::string::npos);
  // Another content with the same size and mtime: only the hash shows it, and it is checked where
  // the file's place or ctime differs.
  l.mtime_ns = huggingface::stamp_of(path)->mtime_ns;
  l.model_sha = *huggingface::sha256_of(path);
  l.identity = "another place";
  ASSERT_TRUE(check_model_file(l).has_value());
  const huggingface::Stamp before = *check_model_file(l);
  EXPECT_TRUE(check_unchanged(l, before).has_value());
  const auto time = std::filesystem::last_write_time(path);
  std::ofstream(path) << "54321";
  std::filesystem::last_write_time(path, time);
  ASSERT_EQ(huggingface::stamp_of(path)->mtime_ns, l.mtime_ns);
  l.identity = before.identity;
  ASSERT_FALSE(check_model_file(l).has_value());
  EXPECT_NE(check_model_file(l).error().what.find("other content"), std::string::npos);
  EXPECT_EQ(check_unchanged(l, before).error().code, Errc::kFileInvalid);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_NE(check_model_file(l).error().what.find("empty"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_EQ(check_model_file(l).error().code, Errc::kIo);
}

}  // namespace
}  // namespace holdfast::worker::worker_link_test
