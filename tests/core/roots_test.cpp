// Goal: a model's file lies below models.roots, by its name at registration and at each load; what
// the links of the disk say is the reading child's matter (tests/wire/ingress_test).
// Method: a table of paths; the machine by events with the roots set before and after.
#include "shared/base/roots.h"

#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::roots_test {
namespace {

OpConfig roots(const std::string& value) {
  return {Bench::kOperator, 1, "config.set", "ann", {{"models.roots", value}}, {}};
}

TEST(Roots, AllowedByRoots_WhenThePathIsOutside_Refuses) {
  const std::string both = "/models:/srv/more/";
  for (const char* good : {"/models/a.gguf", "/models/deep/er/a.gguf", "/srv/more/a.gguf",
                           "/models/...gguf", "/models//a.gguf"}) {
    EXPECT_TRUE(allowed_by_roots(good, both)) << good;
  }
  for (const char* bad : {"/models", "/models/", "/modelsx/a.gguf", "/model/a.gguf",
                          "models/a.gguf", "/models/../etc/a.gguf", "/models/./a.gguf",
                          "/models/deep/..", "", "/srv/a.gguf", "/srv/more", "/"}) {
    EXPECT_EQ(allowed_by_roots(bad, both).error().code, Errc::kUnauthorized) << bad;
  }
  EXPECT_TRUE(allowed_by_roots("anything/../at/all", ""));
  EXPECT_TRUE(allowed_by_roots("/a.gguf", "/"));
  EXPECT_FALSE(allowed_by_roots("a.gguf", "/"));
}

TEST(Roots, GoodRoots_WhenNotAbsoluteDirectories_Refuses) {
  EXPECT_EQ(split_roots("/a:/b/c"), (std::vector<std::string>{"/a", "/b/c"}));
  EXPECT_TRUE(split_roots("").empty());
  for (const char* good : {"", "/", "/a", "/a/", "/a:/b c"}) EXPECT_TRUE(good_roots(good)) << good;
  for (const char* bad : {"a", "/a:", ":/a", "/a::/b", "/a:b", "/a/..", "/./a", "~"}) {
    EXPECT_EQ(good_roots(bad).error().code, Errc::kUsage) << bad;
  }
}

struct RootsTest : ::testing::Test {
  Bench bench;
  wire::Refusal refusal() {
    for (const Outgoing& o : bench.sent) {
      if (const auto* result = std::get_if<SendOpResult>(&o)) return result->refusal;
    }
    return {};
  }
  void add(const std::string& path) {
    OpAddModel add;
    add.peer = Bench::kOperator;
    add.tag = 9;
    add.name = "m";
    add.path = path;
    add.load = true;
    bench.step(add);
  }
};

TEST_F(RootsTest, ModelRoots_WhenAFileIsOutside_RefuseItsRegistration) {
  bench.boot();
  bench.step(IngressUp{Bench::kHelper});
  bench.step(roots("/srv:/models"));
  EXPECT_EQ(bench.machine.config().model_roots, "/srv:/models");
  add("/etc/shadow");
  EXPECT_EQ(refusal().code, Errc::kUnauthorized);
  EXPECT_NE(refusal().message.find("/srv:/models"), std::string::npos);
  EXPECT_TRUE(bench.messages<wire::Inspect>().empty());
  add("/models/m.gguf");
  ASSERT_EQ(bench.messages<wire::Inspect>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Inspect>()[0].roots, "/srv:/models");
}

// The roots bound operators from the network, so these cannot change them.
TEST_F(RootsTest, ModelRoots_WhenSetOverTheNetwork_DoNotChange) {
  bench.boot();
  bench.step(roots("/srv"));
  const auto version = bench.machine.config_history().config_version().version;
  const auto refused = [&](OpConfig event) {
    event.from_network = true;
    bench.step(event);
    EXPECT_EQ(refusal().code, Errc::kUnauthorized);
    EXPECT_NE(refusal().message.find("models.roots"), std::string::npos);
    EXPECT_EQ(bench.machine.config_history().config_version().version, version);
    EXPECT_EQ(bench.machine.config().model_roots, "/srv");
  };
  refused(roots("/"));
  refused({Bench::kOperator, 1, "config.unset", "ann", {{"models.roots", std::nullopt}}, {}});
  refused({Bench::kOperator, 1, "config.rollback", "ann", {}, 0});
  refused({Bench::kOperator,
           1,
           "config.set",
           "ann",
           {{"queue.max_requests", "7"}, {"models.roots", "/srv:/"}},
           {}});
  OpConfig other{Bench::kOperator, 1, "config.set", "ann", {{"queue.max_requests", "7"}}, {}};
  other.from_network = true;
  bench.step(other);
  EXPECT_EQ(bench.machine.config().queue_max_requests, 7);
  bench.step(roots("/models"));
  EXPECT_EQ(bench.machine.config().model_roots, "/models") << "on the machine they are";
}

TEST_F(RootsTest, ModelRoots_WhenAFileIsOutside_RefuseItsLoad) {
  bench.boot();
  bench.add_model(1024, 4, 64, true, "early");
  bench.connect_worker(101, "w1");
  const auto state = [&](const std::string& name) {
    return bench.machine.registry().models().at(name).row.state;
  };
  EXPECT_EQ(state("early"), ModelState::kReady);
  bench.add_model(1024, 4, 64, false, "late");
  bench.step(roots("/srv"));
  EXPECT_EQ(state("early"), ModelState::kReady) << "what is loaded stays";
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "late"});
  EXPECT_EQ(state("late"), ModelState::kFailed);
  EXPECT_NE(bench.machine.registry().models().at("late").row.reason.find("models.roots (/srv)"),
            std::string::npos);
  EXPECT_TRUE(bench.messages<wire::Load>().empty());
  bench.step(roots("/srv:/models"));
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "late"});
  EXPECT_EQ(bench.messages<wire::Load>().size(), 1u);
}

TEST_F(RootsTest, ModelRoots_AfterARestart_StillHold) {
  bench.boot();
  bench.step(roots("/models"));
  bench.step(roots("../models"));
  EXPECT_EQ(refusal().code, Errc::kInvalidRequest);
  const ConfigVersion& version = bench.machine.config_history().config_version();
  EXPECT_EQ(version.change, "models.roots \"\" -> \"/models\"");
  EXPECT_EQ(version.settings.at("models.roots").value, KnobValue("/models"));
  Bench again;
  again.boot(bench.database(), 2);
  EXPECT_EQ(again.machine.config().model_roots, "/models");
  again.step(OpConfig{Bench::kOperator, 1, "config.rollback", "ann", {}, 0});
  EXPECT_EQ(again.machine.config().model_roots, "");
}

}  // namespace
}  // namespace holdfast::core::roots_test
