// Goal: bench/device_probe finds what a device does, goes on where it lacks something, and says
// what it left out. Never: that a figure is good. Method: a quick run of the portable cases on
// PoCL.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/bench/run_bench.h"

namespace holdfast::bench::device_probe_test {
namespace {

using nlohmann::json;

bool is_built() {
  return std::filesystem::exists(std::string(HOLDFAST_BIN_DIR) + "/holdfast-bench-device-probe");
}

TEST(BenchDeviceProbe, DeviceProbe_InAQuickRun_MeasuresPortableCasesAndSaysWhatItLeftOut) {
  if (!is_built()) GTEST_SKIP() << "built without OpenCL";
  int status = -1;
  const json report = run_bench("holdfast-bench-device-probe",
                                "--quick --only facts,launch,ceilings,bits", &status);
  ASSERT_TRUE(report.is_object());
  if (!report["machine"].contains("device")) GTEST_SKIP() << report["problems"].dump();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(report["problems"], json::array()) << report["problems"].dump();
  EXPECT_EQ(report["machine"]["local_argument.48"], "yes");
  EXPECT_GT(figure(report, "launch.round_trip"), 0);
  EXPECT_GT(figure(report, "ceilings.copy"), 0);
  EXPECT_GT(figure(report, "ceilings.read_plain_4"), 0);
  EXPECT_EQ(figure(report, "bits.models_like_one"), 1);
  const bool has_ptx = !report["skipped"].contains("bulk_copy");
  for (const char* name : {"wgmma", "ceilings.ring_32", "bits.normal", "bits.s8"}) {
    EXPECT_EQ(report["skipped"].contains(name), !has_ptx) << name;
  }
}

TEST(BenchDeviceProbe, DeviceProbe_OfPortableKernels_FindsTheHostsResults) {
  if (!is_built()) GTEST_SKIP() << "built without OpenCL";
  int status = -1;
  const json report = run_bench("holdfast-bench-device-probe", "--quick --only kernels", &status);
  ASSERT_TRUE(report.is_object());
  if (!report["machine"].contains("mode")) GTEST_SKIP() << report["problems"].dump();
  EXPECT_EQ(status, 0) << report["problems"].dump();
  for (const char* name : {"present_1", "ahead_4", "ahead_8", "present_8"}) {
    const std::string kernel = std::string("kernels.256x2048.") + name;
    EXPECT_LT(figure(report, kernel + ".error"), 1e-3);
    EXPECT_GT(figure(report, kernel + ".us"), 0);
  }
  const json& facts = report["machine"];
  EXPECT_EQ(facts["hash.kernels.256x2048.present_1"], facts["hash.kernels.256x2048.ahead_8"]);
}

}  // namespace
}  // namespace holdfast::bench::device_probe_test
