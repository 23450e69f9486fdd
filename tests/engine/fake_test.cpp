// Goal: the fake engine does what its options say, so that a test that asks for a failure gets that
// failure and no other; and it keeps the promise that others are tested with: the same tokens in
// any company, after any interruption.
// Method: options in, tokens and typed errors out; faults in a forked child, whose end is examined.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/token_stamp.h"
#include "worker/engine/fake_options.h"

namespace holdfast::engine::fake_test {
namespace {

SequenceSpec spec(SequenceKey key, std::int64_t max_tokens = 32) {
  SequenceSpec s;
  s.key = key;
  s.prompt = {5, 6, static_cast<TokenId>(7 + key)};
  s.max_tokens = max_tokens;
  s.sampling.seed = key;
  return s;
}

std::unique_ptr<Engine> open(const std::string& options) {
  auto engine = open_fake_engine(options, {});
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().what);
  return std::move(engine).value();
}

std::vector<TokenId> run(Engine& engine, SequenceKey key) {
  std::vector<TokenId> ids;
  for (int i = 0; i < 10'000 && !engine.idle(); ++i) {
    for (const Produced& p : engine.step()) {
      if (p.key == key) ids.insert(ids.end(), p.ids.begin(), p.ids.end());
    }
  }
  return ids;
}

/// The end of a child that loads and runs one request: a wait status.
int end_of_child(const std::string& options) {
  const pid_t pid = fork();
  if (pid == 0) {
    auto engine = open_fake_engine(options, {});
    if (engine) {
      (void)(*engine)->add(spec(1));
      (void)run(**engine, 1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

/// The number of the load that fails in a fresh count of five, 0 if none does.
int loads_until_failure(int nth) {
  const pid_t pid = fork();
  if (pid == 0) {
    // Loads of the parent before the fork count too.
    const int before = fake_loads_so_far();
    const std::string options = R"({"fail_load_nth":)" + std::to_string(before + nth) + "}";
    for (int load = 1; load <= 5; ++load) {
      if (!open_fake_engine(options, {})) _exit(load);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FakeEngine, Tokens_WhenCrowdedOrResumed_DependOnTheRequestAlone) {
  auto alone = open("{}");
  ASSERT_TRUE(alone->add(spec(3)));
  const auto expected = run(*alone, 3);
  ASSERT_EQ(expected.size(), 32U);
  // In company, with too few pages for all, so that sequences are preempted; and resumed from
  // committed ids.
  auto crowded = open(R"({"slots":8,"pages":2,"prefill_chunk":2})");
  for (SequenceKey key = 1; key <= 6; ++key) ASSERT_TRUE(crowded->add(spec(key)));
  EXPECT_EQ(run(*crowded, 3), expected);
  auto resumed = open(R"({"step_us":1,"step_us_per_1k_context":1000})");
  SequenceSpec half = spec(3);
  half.committed.assign(expected.begin(), expected.begin() + 16);
  ASSERT_TRUE(resumed->add(half));
  EXPECT_EQ(run(*resumed, 3), std::vector<TokenId>(expected.begin() + 16, expected.end()));
}

TEST(FakeEngine, Fault_WhenItsTriggerIsReached_EndsTheProcessAsConfigured) {
  EXPECT_EQ(end_of_child("{}"), 0);
  const int aborted = end_of_child(R"({"crash_on_step":3})");
  EXPECT_TRUE(WIFSIGNALED(aborted) && WTERMSIG(aborted) == SIGABRT);
  const int segv = end_of_child(R"({"crash_on_prompt_token":8,"crash":"segv"})");
  EXPECT_TRUE(WIFSIGNALED(segv) && WTERMSIG(segv) == SIGSEGV);
  const int killed = end_of_child(R"({"crash_on_step":1,"crash":"kill"})");
  EXPECT_TRUE(WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL);
  const int exited = end_of_child(R"({"crash_on_step":32,"crash":"exit:7"})");
  EXPECT_TRUE(WIFEXITED(exited) && WEXITSTATUS(exited) == 7);
  // One step too late, another prompt: nothing happens.
  EXPECT_EQ(end_of_child(R"({"crash_on_step":33})"), 0);
  EXPECT_EQ(end_of_child(R"({"crash_on_prompt_token":9})"), 0);
}

TEST(FakeEngine, Hang_WhenItsStepIsReached_NeverReturns) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    auto engine = open(R"({"crash_on_step":1,"crash":"hang"})");
    (void)engine->add(spec(1));
    (void)!write(ends[1], "in", 2);
    (void)engine->step();
    _exit(0);
  }
  char text[2];
  ASSERT_EQ(read(ends[0], text, 2), 2);
  usleep(20'000);
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(FakeEngine, Load_WhenConfiguredToFail_Fails) {
  EXPECT_EQ(open_fake_engine(R"({"fail_load":"weights missing"})", {}).error().code,
            Errc::kModelFailed);
  EXPECT_TRUE(open_fake_engine(R"({"fail_load":false})", {}));
  // The count is the process's: a child that has loaded nothing yet tells which of its loads fail.
  EXPECT_EQ(loads_until_failure(2), 2);
  EXPECT_EQ(loads_until_failure(4), 4);
  EXPECT_EQ(loads_until_failure(100), 0);  // not among its five
}

TEST(FakeEngine, Load_WhenLargerThanItsDevice_IsRefused) {
  const FakeDevice small = parse_fake_device(R"({"name":"gpu-a","memory_bytes":1000})").value();
  EXPECT_EQ(small.name, "gpu-a");
  EXPECT_TRUE(open_fake_engine(R"({"memory_bytes":1000})", {}, small));
  EXPECT_EQ(open_fake_engine(R"({"memory_bytes":1001})", {}, small).error().code,
            Errc::kMemoryExhausted);
  EXPECT_EQ(parse_fake_device(R"({"speed":2})").value().speed, 2);
  for (const char* bad : {"7", R"({"speed":0})", R"({"memory_bytes":-1})", R"({"name":3})"}) {
    EXPECT_FALSE(parse_fake_device(bad)) << bad;
  }
}

TEST(FakeEngine, Options_WhenInvalid_AreRefused) {
  for (const char* bad : {"[]", "{", R"({"vocab":"many"})", R"({"crash":"explode"})",
                          R"({"crash":"exit:256"})", R"({"crash":"exit:"})", R"({"slots":0})"}) {
    const auto engine = open_fake_engine(bad, {});
    ASSERT_FALSE(engine) << bad;
    EXPECT_EQ(engine.error().code, Errc::kInvalidRequest) << bad;
  }
  EXPECT_EQ(parse_fake_options(R"({"crash":"oom"})", {}).value().crash.kind,
            FakeFault::Kind::kOutOfMemory);
}

TEST(FakeEngine, StampIds_WhenRead_GiveTheirAge) {
  EXPECT_EQ(stamp_age_us(stamp_id(5'000), 5'400), 400);
  // Over the end of the counter.
  const std::int64_t late = kStampMask - 10;
  EXPECT_EQ(stamp_age_us(stamp_id(late), late + 100), 100);
  auto engine = open(R"({"stamp_ids":true})");
  SequenceSpec s = spec(1, 4);
  s.sampling.ignore_eos = true;
  ASSERT_TRUE(engine->add(s));
  const auto ids = run(*engine, 1);
  ASSERT_EQ(ids.size(), 4U);
  for (std::size_t i = 1; i < ids.size(); ++i) {
    EXPECT_LT(stamp_age_us(ids[i - 1], ids[i]), 60'000'000);  // in order, within this test
  }
}

}  // namespace
}  // namespace holdfast::engine::fake_test
