// Goal: bench/peers compares two engines as it says: pairs of both, ratios of ours over the peer's,
// all samples in the record; a peer that fails is named and no figure is made up. Method: the small
// demo model against a shell command that claims rates.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::peers_test {
namespace {

using nlohmann::json;

const std::string kSmall = "--pairs 3 --prompt 16 --decode 4 --streams 2 --context 8 --threads 1 ";

TEST(BenchPeers, PeersBench_WithAPeerCommand_ReportsRatiosOfOursOverTheirs) {
  int status = -1;
  const json report =
      run_bench("holdfast-bench-peers",
                kSmall +
                    "--note rival --peer-cmd 'echo noise; echo \"{\\\"prefill_tok_s\\\": 2,"
                    " \\\"decode_tok_s\\\": {streams}.5}\"'",
                &status);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(status, 0) << report.dump();
  EXPECT_EQ(report["machine"]["peer"], "rival");
  EXPECT_EQ(report["machine"]["class"].get<std::string>().rfind("cpu/", 0), 0u);
  EXPECT_EQ(figure(report, "prefill.theirs"), 2);
  EXPECT_EQ(figure(report, "decode.theirs"), 2.5);  // {streams} was filled in
  for (const json& one : report["figures"]) {
    const std::string name = one["name"];
    if (name != "prefill.ratio" && name != "decode.ratio") continue;
    ASSERT_EQ(one["samples"].size(), 3u);
    const std::string part = name.substr(0, name.find('.'));
    EXPECT_NEAR(one["value"].get<double>(),
                figure(report, part + ".ours") / figure(report, part + ".theirs"),
                one["value"].get<double>() * 1e-3);
  }
}

TEST(BenchPeers, PeersBench_WhenThePeerFails_ReportsAProblem) {
  for (const std::string peer : {"exit 3", "echo nothing"}) {
    int status = 0;
    const json report =
        run_bench("holdfast-bench-peers", kSmall + "--peer-cmd '" + peer + "'", &status);
    EXPECT_NE(status, 0);
    ASSERT_EQ(report["problems"].size(), 1u);
    EXPECT_EQ(report["figures"].size(), 0u);
  }
}

}  // namespace
}  // namespace holdfast::bench::peers_test
