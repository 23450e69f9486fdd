// Goal: pages of prompts are shared within a tenant, or within the group that tenants were put
// into, and what is shared is counted for that group.
// Method: the machine by events; the scope of each dispatch, from which the shell derives the root
// of its pages, and the counts of the metrics.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::prefix_group_test {
namespace {

constexpr PeerId kWorker = 10;

struct PrefixGroup : ::testing::Test {
  Bench bench;
  int last = 0;
  void SetUp() override {
    bench.boot();
    bench.add_model(1024, 64, 4096);
    bench.connect_worker(kWorker, "w1");
    bench.make_ready(kWorker, "class-a", 64, 4096);
  }
  /// The scope of a request of `tenant`, which ends at once.
  std::string scope_of(const std::string& tenant) {
    const SendDispatch send = of(tenant);
    bench.tokens(kWorker, send.dispatch, 0, {1}, FinishReason::kStop);
    return send.prefix_scope;
  }
  SendDispatch of(const std::string& tenant) {
    wire::Submit submit = bench.submission("r" + std::to_string(++last));
    submit.tenant = tenant;
    bench.submit(submit);
    for (const Outgoing& o : bench.sent) {
      if (const auto* send = std::get_if<SendDispatch>(&o)) return *send;
    }
    ADD_FAILURE() << "nothing was dispatched";
    return {};
  }
  void share(const std::string& tenant, const std::string& group) {
    bench.step(OpConfig{Bench::kOperator,
                        2,
                        "config.set",
                        "ann",
                        {{"tenant." + tenant + ".share_prefixes", group}},
                        {}});
  }
};

TEST_F(PrefixGroup, Scope_WhenNothingIsSaid_IsTheTenants) {
  EXPECT_EQ(scope_of("a"), scope_of("a"));
  EXPECT_NE(scope_of("a"), scope_of("b"));
  EXPECT_EQ(scope_of(""), scope_of("default")) << "without keys there is one group";
}

TEST_F(PrefixGroup, Scope_WhenTenantsNameAGroup_IsTheGroups) {
  share("a", "product");
  share("b", "product");
  EXPECT_EQ(scope_of("a"), scope_of("b"));
  EXPECT_NE(scope_of("a"), scope_of("c"));
  // A tenant gets nowhere by a name that is a group's.
  EXPECT_NE(scope_of("a"), scope_of("product"));
  EXPECT_NE(scope_of("a"), scope_of("group product"));
  share("b", "");
  EXPECT_NE(scope_of("a"), scope_of("b"));
}

TEST_F(PrefixGroup, Scope_WhenAllShare_ExcludesTenantsOfAnotherGroup) {
  share("*", "all");
  share("b", "own");
  EXPECT_EQ(scope_of("a"), scope_of("c"));
  EXPECT_NE(scope_of("a"), scope_of("b"));
}

TEST_F(PrefixGroup, Scope_WhenModelOrClassDiffer_IsAnother) {
  const std::string one = scope_of("a");
  EXPECT_NE(one.find("class-a"), std::string::npos);
  EXPECT_NE(one.find("tenant a"), std::string::npos);
}

TEST_F(PrefixGroup, Cached_WhenAWorkerTellsIt_IsCountedForTheGroup) {
  for (const std::int64_t cached : {std::int64_t{0}, std::int64_t{3}, std::int64_t{99}}) {
    const SendDispatch send = of("a");
    wire::Tokens tokens;
    wire::TokenEvent event;
    event.request_id = send.dispatch.request_id;
    event.fence = send.dispatch.fence;
    event.ids = {1};
    event.cached_tokens = cached;
    tokens.events.push_back(event);
    bench.step(FromWorker{kWorker, tokens});
  }
  const auto& groups = bench.machine.core().stats.prefix_groups;
  ASSERT_EQ(groups.count("tenant a"), 1u);
  EXPECT_EQ(groups.at("tenant a").tokens, 12u);      // three prompts of four tokens
  EXPECT_EQ(groups.at("tenant a").cached, 3u + 4u);  // a worker cannot claim more than there is
}

}  // namespace
}  // namespace holdfast::core::prefix_group_test
