// Goal: a name server that does not answer holds no caller for longer than a limit and takes few
// threads, and names that are answered are found meanwhile. Method: the look-up over a resolver
// that hangs until it is released, then over the system's.
#include "control/gateway/common/name_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace holdfast::test::name_lookup_test {
namespace {

using gateway::NameLookup;
using gateway::NamesFound;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A resolver that hangs for every name that begins with "dead". Threads that are left behind
/// outlive it.
struct Server {
  std::promise<void> wakes;
  std::shared_future<void> awake = wakes.get_future().share();
  std::shared_ptr<std::atomic<int>> lookups = std::make_shared<std::atomic<int>>(0);
  NameLookup::Resolver resolver() {
    return [awake = awake, lookups = lookups](const std::string& host) {
      ++*lookups;
      if (host.starts_with("dead")) awake.wait();
      return NamesFound{{"192.0.2.7"}, {}};
    };
  }
};

TEST(NameLookup, DnsLookup_WhenServerHangs_TimesOutAndResolvesOtherNames) {
  Server server;
  NameLookup lookup(server.resolver());
  const auto begin = steady_clock::now();
  const NamesFound dead = lookup.find("dead.example", milliseconds(200));
  const auto took = steady_clock::now() - begin;
  EXPECT_TRUE(dead.addresses.empty());
  EXPECT_NE(dead.error.find("took too long"), std::string::npos) << dead.error;
  EXPECT_GE(took, milliseconds(200));
  EXPECT_LT(took, milliseconds(5'000));
  EXPECT_EQ(lookup.find("good.example", milliseconds(5'000)).addresses.size(), 1u);
  // The same name is still being looked up, and a second caller does not wait for it again.
  const auto again = steady_clock::now();
  EXPECT_FALSE(lookup.find("dead.example", milliseconds(200)).error.empty());
  EXPECT_LT(steady_clock::now() - again, milliseconds(150));
  EXPECT_EQ(*server.lookups, 2);
  server.wakes.set_value();
  NamesFound found;
  for (int i = 0; i < 100 && found.addresses.empty(); ++i) {
    found = lookup.find("dead.example", milliseconds(5'000));
  }
  EXPECT_EQ(found.addresses, std::vector<std::string>{"192.0.2.7"}) << "the server is back";
}

TEST(NameLookup, DnsLookup_WhenServerHangs_BoundsItsThreads) {
  Server server;
  NameLookup lookup(server.resolver());
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    const NamesFound found = lookup.find("dead" + std::to_string(i), milliseconds(1));
    refused += found.error.find("too many names") != std::string::npos;
  }
  EXPECT_EQ(refused, 40 - NameLookup::kThreadsMax);
  server.wakes.set_value();
  NamesFound found;
  for (int i = 0; i < 1000 && found.addresses.empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    found = lookup.find("dead-again", milliseconds(5'000));
  }
  EXPECT_EQ(found.addresses.size(), 1u) << "their room is free again";
}

TEST(NameLookup, DnsLookup_WhenStopIsRequested_EndsTheWait) {
  Server server;
  NameLookup lookup(server.resolver());
  const auto begin = steady_clock::now();
  EXPECT_FALSE(lookup.find("dead", milliseconds(60'000), [] { return true; }).error.empty());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(10'000));
  server.wakes.set_value();
}

TEST(NameLookup, SystemResolver_WithLocalhost_ReturnsLoopback) {
  const NamesFound here = gateway::name_lookup().find("localhost", milliseconds(10'000));
  EXPECT_TRUE(std::any_of(here.addresses.begin(), here.addresses.end(), [](const auto& a) {
    return a == "127.0.0.1" || a == "::1";
  })) << here.error;
  EXPECT_EQ(gateway::name_lookup().find("::1", milliseconds(10'000)).addresses,
            std::vector<std::string>{"::1"});
}

}  // namespace
}  // namespace holdfast::test::name_lookup_test
