// Goal: the daemon's copy for an operator elsewhere is read by ranges inside of it alone, has the
// hash that it says, is gone when nobody reads it, and is refused where the disk has no space.
// Method: OutgoingCopy on a real store, with the time and the answers in the test's hand.
#include "control/daemon/outgoing_copy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "control/store/store.h"
#include "shared/huggingface/sha256.h"
#include "tests/process/test_server.h"

namespace holdfast::daemon::outgoing_copy_test {
namespace {

using nlohmann::json;

constexpr std::int64_t kRange = 4096;
constexpr const char* kFirst = "aaaaaaaaaaaaaaaa";
constexpr const char* kSecond = "bbbbbbbbbbbbbbbb";

class OutgoingCopyTest : public testing::Test {
 protected:
  OutgoingCopyTest() {
    store::OpenOptions open;
    open.state_dir = dir.path();
    store = std::move(store::Store::open(open)).value();
    OutgoingCopyOptions options;
    options.state_dir = dir.path();
    options.range_bytes_max = kRange;
    options.wake = [] {};
    options.send = [this](core::PeerId, const wire::Message& message) {
      answers.push_back(std::get<wire::OpResult>(message));
    };
    copy = std::make_unique<OutgoingCopy>(std::move(options), *store);
  }

  /// The answer to a verb, which may need steps.
  wire::OpResult ask(const std::string& verb, json args, std::int64_t free_min = 0) {
    wire::Op op;
    op.verb = verb;
    op.args = args.dump();
    answers.clear();
    copy->ask(1, op, free_min, now_us);
    for (int i = 0; i < 2'000 && answers.empty(); ++i) {
      copy->step(now_us);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(answers.size(), 1u) << verb;
    return answers.empty() ? wire::OpResult{} : answers.front();
  }
  json ready(const char* id) {
    for (int i = 0; i < 2'000; ++i) {
      const wire::OpResult answer = ask("db.copy", {{"copy", id}});
      EXPECT_TRUE(answer.ok) << answer.refusal.message;
      json document = json::parse(answer.result, nullptr, false);
      if (!answer.ok || document["state"] == "ready") return document;
      copy->step(now_us);
    }
    return {};
  }
  Errc code_of(const std::string& verb, const json& args, std::int64_t free_min = 0) {
    const wire::OpResult answer = ask(verb, args, free_min);
    EXPECT_FALSE(answer.ok) << answer.result;
    return answer.refusal.code;
  }

  const process::TempDir dir;
  std::unique_ptr<store::Store> store;
  std::vector<wire::OpResult> answers;
  std::unique_ptr<OutgoingCopy> copy;
  std::int64_t now_us = 1'000'000;
};

TEST_F(OutgoingCopyTest, Copy_ReadByRanges_HasTheHashThatItSays) {
  const json facts = ready(kFirst);
  const std::int64_t bytes = facts["bytes"];
  huggingface::Sha256 sha;
  for (std::int64_t at = 0; at < bytes; at += kRange) {
    const wire::OpResult answer =
        ask("db.copy_range",
            {{"copy", kFirst}, {"offset", at}, {"bytes", std::min(kRange, bytes - at)}});
    ASSERT_TRUE(answer.ok) << answer.refusal.message;
    sha.add(answer.bytes.data(), answer.bytes.size());
  }
  EXPECT_EQ(sha.end_hex(), facts["sha256"]);
  EXPECT_EQ(facts["done_bytes"], bytes);
  EXPECT_FALSE(std::filesystem::exists(store::outgoing_path(dir.path()))) << "it has no name";
  EXPECT_TRUE(ask("db.copy_end", {{"copy", kFirst}}).ok);
  EXPECT_EQ(code_of("db.copy_range", {{"copy", kFirst}, {"offset", 0}, {"bytes", 1}}),
            Errc::kNotFound);
}

TEST_F(OutgoingCopyTest, Range_OutsideOfTheCopy_IsRefused) {
  const std::int64_t bytes = ready(kFirst)["bytes"];
  const std::int64_t most = INT64_MAX;
  for (const auto& [offset, count] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0},
                                                          {0, -1},
                                                          {-1, 1},
                                                          {0, kRange + 1},
                                                          {bytes, 1},
                                                          {bytes - 1, 2},
                                                          {most, 1},
                                                          {most, most}}) {
    EXPECT_EQ(code_of("db.copy_range", {{"copy", kFirst}, {"offset", offset}, {"bytes", count}}),
              Errc::kUsage)
        << offset << " " << count;
  }
  EXPECT_EQ(code_of("db.copy_range", {{"copy", kSecond}, {"offset", 0}, {"bytes", 1}}),
            Errc::kNotFound);
  for (const json& id : {json(), json(7), json("short"), json("../aaaaaaaaaaaaaaaaaa")}) {
    EXPECT_EQ(code_of("db.copy", {{"copy", id}}), Errc::kUsage) << id;
  }
}

TEST_F(OutgoingCopyTest, Copy_WhoseReaderIsSilent_MakesWayForAnotherAndThenGoes) {
  ready(kFirst);
  now_us += OutgoingCopy::kReplaceUs - 1;
  EXPECT_EQ(code_of("db.copy", {{"copy", kSecond}}), Errc::kConflict);
  now_us += 1;
  ready(kSecond);
  EXPECT_EQ(code_of("db.copy_range", {{"copy", kFirst}, {"offset", 0}, {"bytes", 1}}),
            Errc::kNotFound);
  now_us += OutgoingCopy::kIdleUs;
  EXPECT_TRUE(ask("db.copy_range", {{"copy", kSecond}, {"offset", 0}, {"bytes", 1}}).ok);
  now_us += OutgoingCopy::kIdleUs + 1;
  copy->step(now_us);
  EXPECT_EQ(code_of("db.copy_range", {{"copy", kSecond}, {"offset", 0}, {"bytes", 1}}),
            Errc::kNotFound);
}

TEST_F(OutgoingCopyTest, Copy_WithoutSpaceOnTheDisk_IsRefusedBeforeItBegins) {
  const wire::OpResult refused = ask("db.copy", {{"copy", kFirst}}, INT64_MAX / 2);
  EXPECT_FALSE(refused.ok);
  EXPECT_EQ(refused.refusal.code, Errc::kDiskFull);
  EXPECT_NE(refused.refusal.message.find(dir.path()), std::string::npos);
  EXPECT_FALSE(copy->is_copying());
  ready(kFirst);
}

}  // namespace
}  // namespace holdfast::daemon::outgoing_copy_test
