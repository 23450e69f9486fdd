// Goal: over real processes, whatever is over a bound gets its typed refusal with the numbers that
// help, and none of it reaches a worker; requests within the bounds are served at the same time.
// Method: a server with every kind of bound set; a generated mix of requests, each of which is over
// a given bound by a given amount; afterwards the attempts in the database.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <random>

#include "tests/process/test_server.h"

namespace holdfast::process::limits_test {
namespace {

struct Case {
  const char* knob;
  Errc code;
  std::int64_t bound;
  void (*exceed)(wire::Submit& submit, std::int64_t by);
};

void longer_prompt(wire::Submit& s, std::int64_t tokens) {
  s.prompts[0].ids = std::vector<wire::TokenId>(static_cast<std::size_t>(tokens), 300);
}
void more_tokens(wire::Submit& s, std::int64_t tokens) {
  s.max_tokens = tokens;
}
void more_prompts(wire::Submit& s, std::int64_t prompts) {
  s.prompts.resize(static_cast<std::size_t>(prompts), s.prompts[0]);
}
void more_choices(wire::Submit& s, std::int64_t n) {
  s.n = static_cast<std::int32_t>(n);
}
void more_meta(wire::Submit& s, std::int64_t bytes) {
  s.meta = std::string(static_cast<std::size_t>(bytes), 'x');
}
void as_poor_with_prompt(wire::Submit& s, std::int64_t tokens) {
  s.tenant = "poor";
  longer_prompt(s, tokens);
}
void as_poor_with_tokens(wire::Submit& s, std::int64_t tokens) {
  s.tenant = "poor";
  more_tokens(s, tokens);
}

const Case kCases[] = {
    {"request.max_prompt_tokens", Errc::kContextExceeded, 120, longer_prompt},
    {"request.max_output_tokens", Errc::kContextExceeded, 200, more_tokens},
    {"request.max_prompts", Errc::kInvalidRequest, 4, more_prompts},
    {"request.max_choices", Errc::kInvalidRequest, 12, more_choices},
    {"request.max_meta_bytes", Errc::kInvalidRequest, 500, more_meta},
    {"tenant.poor.max_prompt_tokens", Errc::kContextExceeded, 20, as_poor_with_prompt},
    {"tenant.poor.max_output_tokens", Errc::kContextExceeded, 10, as_poor_with_tokens},
    {"model.demo.max_output_tokens", Errc::kContextExceeded, 190, more_tokens},
};

std::int64_t count(const std::string& state, const std::string& sql) {
  sqlite3* db = nullptr;
  sqlite3_stmt* statement = nullptr;
  std::int64_t value = -1;
  sqlite3_open_v2((state + "/control.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  sqlite3_busy_timeout(db, 5000);
  if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    value = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return value;
}

/// A request that is within every bound: 8 tokens of prompt, 4 more.
wire::Submit small(int number) {
  wire::Submit submit = make_submit("", 4, static_cast<std::uint64_t>(number));
  submit.prompts[0] = {};
  longer_prompt(submit, 8);
  submit.request_id = "within-" + std::to_string(number);
  return submit;
}

TEST(Limits, Request_WhenOverALimit_IsRefusedAndNeverRuns) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  std::vector<std::string> flags = {
      "--model",  "demo=" + demo_model(),       "--engine", "fake",
      "--config", "tenant.full.max_requests=3", "--config", "tenant.full.max_running=1"};
  for (const Case& c : kCases) {
    flags.insert(flags.end(), {"--config", std::string(c.knob) + "=" + std::to_string(c.bound)});
  }
  ASSERT_TRUE(server.start(flags)) << server.errors();
  const auto client = server.client();
  std::mt19937 random(5);
  std::map<std::string, int> refused;
  for (int i = 0; i < 400; ++i) {
    wire::Submit submit = small(i);
    const bool over = random() % 4 != 0;
    const Case& c = kCases[random() % std::size(kCases)];
    const std::int64_t by = over ? c.bound + 1 + static_cast<std::int64_t>(random() % 40) : 0;
    if (over) {
      submit.request_id = "over-" + std::to_string(i);
      c.exceed(submit, by);
    }
    const auto answer = client->submit(client::Principal::local(submit.tenant), submit);
    const auto* failure = std::get_if<client::Failure>(&answer);
    ASSERT_EQ(failure != nullptr, over) << c.knob << " by " << by;
    if (!over) continue;
    ++refused[c.knob];
    EXPECT_EQ(failure->code, c.code) << failure->message;
    EXPECT_EQ(failure->needed, by) << failure->message;
    EXPECT_LE(failure->largest, c.bound);
    EXPECT_NE(failure->message.find(" is " + std::to_string(failure->largest)), std::string::npos)
        << failure->message;
  }
  // Sends more at once than the tenant may have: three get in, the rest is told when to retry.
  int in = 0, full = 0;
  for (int i = 0; i < 40; ++i) {
    wire::Submit submit = small(1000 + i);
    submit.request_id = "full-" + std::to_string(i);
    submit.max_tokens = 100;
    const auto answer = client->submit(client::Principal::local("full"), std::move(submit));
    if (const auto* failure = std::get_if<client::Failure>(&answer)) {
      ++full;
      EXPECT_EQ(failure->code, Errc::kQueueFull);
      EXPECT_EQ(failure->largest, 3);
      EXPECT_GT(failure->retry_after_ms, 0);
    } else {
      ++in;
    }
  }
  EXPECT_GE(in, 3);
  EXPECT_EQ(count(server.state(), "SELECT count(*) FROM requests WHERE id LIKE 'full-%'"), in);
  EXPECT_EQ(in + full, 40);
  EXPECT_EQ(refused.size(), std::size(kCases)) << "every bound was exceeded";
  EXPECT_EQ(count(server.state(), "SELECT count(*) FROM requests WHERE id LIKE 'over-%'"), 0);
  EXPECT_EQ(count(server.state(),
                  "SELECT count(*) FROM attempts JOIN requests USING (seq) WHERE id LIKE 'over-%'"),
            0);
  EXPECT_GT(count(server.state(), "SELECT count(*) FROM requests WHERE id LIKE 'within-%'"), 50);
}

}  // namespace
}  // namespace holdfast::process::limits_test
