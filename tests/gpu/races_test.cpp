// Goal: kernels are right on devices whose items run concurrently. Data that one item writes and
// another one reads has a barrier in between, every item of a group meets the same barriers, and
// nothing is touched outside its buffer. PoCL shows none of this: its items run one after the
// other.
// Method: Oclgrind (Debian's oclgrind), which simulates each item and reports what it sees. It is
// slow, so models are tiny; HOLDFAST_TEST_FULL=1 takes every architecture and KV type.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tests/gpu/architectures.h"
#include "tests/gpu/test_device.h"
#include "worker/backend/opencl/device/devices.h"
#include "worker/backend/opencl/device/programs.h"
#include "worker/backend/opencl/device/queue.h"

namespace holdfast::races_test {
namespace {

using backend::Wants;

namespace fs = std::filesystem;

constexpr std::size_t kReportMost = 8000;
constexpr const char* kSimulator = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";

/// Makes the simulator the only device of this process; the loader reads this at its first use.
bool use_simulator() {
  if (!fs::exists(kSimulator)) return false;
  const fs::path folder = HOLDFAST_BUILD_DIR "/oclgrind";
  fs::create_directories(folder);
  std::ofstream(folder / "oclgrind.icd") << kSimulator << "\n";
  const std::pair<const char*, std::string> settings[] = {
      {"OCL_ICD_VENDORS", folder.string()},
      {"OCLGRIND_DATA_RACES", "1"},
      {"OCLGRIND_CHECK_API", "1"},
      {"OCLGRIND_MAX_ERRORS", "10000000"},
      {"OCLGRIND_GLOBAL_MEM_SIZE", "1073741824"},
      {"OCLGRIND_NUM_THREADS", "2"},
  };
  for (const auto& [name, value] : settings) setenv(name, value.c_str(), 1);
  return true;
}

/// True for a report of what attention does on purpose: groups whose queries share keys and values
/// all write the same bytes into a page, each before it reads them there. If the bytes differed,
/// the simulator would report two writes.
bool is_meant(const std::string& report) {
  if (report.find("Read-write data race at global memory") == std::string::npos) return false;
  if (report.find("Kernel: attention\n") == std::string::npos) return false;
  static const std::regex group("Group\\(([0-9,]+)\\)");
  static const std::regex page("input.cl:\n\t  [^\n]*(page|scales_of|\\*p << 16)");
  std::set<std::string> groups;
  for (std::sregex_iterator i(report.begin(), report.end(), group), end; i != end; ++i) {
    groups.insert((*i)[1]);
  }
  const auto pages = std::sregex_iterator(report.begin(), report.end(), page);
  return groups.size() == 2 && std::distance(pages, std::sregex_iterator()) == 2;
}

/// Text that the simulator has written to the standard error since the last call.
std::string reported() {
  const std::string all = testing::internal::GetCapturedStderr();
  testing::internal::CaptureStderr();
  std::string text;
  for (std::size_t at = 0, end = 0; at < all.size(); at = end) {
    end = std::min(all.find("\n\n", at), all.size() - 1) + 1;
    const std::string report = all.substr(at, end - at);
    if (!is_meant(report) && report != "\n") text += report;
    if (text.size() > kReportMost) break;
  }
  return text.substr(0, kReportMost);
}

struct Case {
  std::string architecture, type, kv, tier;
  std::uint64_t seed;  // 4: sizes that fill neither blocks nor panels
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << test_name(c.architecture) << "_" << c.type << "_" << c.kv << "_" << c.tier;
}

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"llama", "q8_0", "f16", "t0", 0},
      {"llama", "q8_0", "f16", "t3", 0},
  };
  if (std::getenv("HOLDFAST_TEST_FULL") == nullptr) return all;
  all.push_back({"qwen2moe", "q4_k_m", "int8", "t2", 0});
  for (const std::string& architecture : gpu::architectures()) {
    all.push_back({architecture, "f32", "f32", "t0", 4});
    all.push_back({architecture, "q8_0", "f16", "t2", 0});
  }
  for (const char* kv : {"bf16", "int8", "fp8"}) all.push_back({"gemma2", "q4_0", kv, "t0", 0});
  return all;
}

class GpuRaces : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the simulator watches memory itself, and is too slow with a second watch";
#endif
    static const bool there = use_simulator();
    if (!there) GTEST_SKIP() << "no simulator of devices: " << kSimulator << " (package oclgrind)";
    device_ = opencl::select_devices(*opencl::system_api().value(), "opencl:0").value()[0];
    ASSERT_NE(device_.name.find("Oclgrind"), std::string::npos) << device_.name;
    testing::internal::CaptureStderr();
    captures_ = true;
  }
  void TearDown() override {
    if (!captures_) return;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
  bool captures_ = false;
  opencl::Device device_;
};

// The simulator finds a planted race.
TEST_F(GpuRaces, Simulator_WhenAKernelRaces_ReportsIt) {
  const opencl::Api& api = *device_.api;
  cl_int status[3] = {};
  const opencl::Context context(
      api, api.clCreateContext(nullptr, 1, &device_.id, nullptr, nullptr, &status[2]));
  ASSERT_EQ(status[2], CL_SUCCESS);
  opencl::Programs programs(device_, context.get());
  const char* source =
      "__kernel void f(__global int* out) {\n"
      "  __local int seen[8];\n"
      "  const int i = get_local_id(0);\n"
      "  seen[i] = i;\n"
      "  out[i] = seen[(i + 1) % 8];\n"
      "}\n";
  const auto program = programs.get("with a race", source, "");
  ASSERT_TRUE(program.has_value()) << program.error().what;
  const auto kernel = programs.kernel(*program, "f");
  ASSERT_TRUE(kernel.has_value());
  opencl::Queue queue(
      api,
      opencl::QueueHandle(api, api.clCreateCommandQueue(context.get(), device_.id, 0, &status[0])),
      0);
  const opencl::MemoryHandle out(
      api, api.clCreateBuffer(context.get(), CL_MEM_READ_WRITE, 32, nullptr, &status[1]));
  ASSERT_EQ(status[0], CL_SUCCESS);
  ASSERT_EQ(status[1], CL_SUCCESS);
  queue.run(*kernel, {1, 1, 8, 1}, out.get());
  queue.finish();
  EXPECT_NE(reported().find("data race"), std::string::npos);
}

class GpuModels : public GpuRaces, public ::testing::WithParamInterface<Case> {};

// A prompt that takes tiles; a token next to a neighbour's few; a token alone after two splits of
// attention; the best and the top logits of rows; a state snapshot, and a sequence that continues
// from it.
TEST_P(GpuModels, Kernels_WhenModelsRun_HaveNoDataRaces) {
  const Case& c = GetParam();
  const FamilyModel m = make_family(c.architecture, c.seed, 36, c.type);
  RunOptions options;
  options.device = "opencl:0";
  options.kv = c.kv;
  options.kernels = c.tier;
  options.context = 640;
  backend::LoadOptions load = load_options(m, options);
  load.limits.pages = 20;
  load.limits.batch_tokens = 40;
  load.limits.states = 3;
  auto executor = backend::load(options.device, m.program, load);
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  EXPECT_EQ(reported(), "") << "while loading";
  const std::int32_t mine[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19}, other[] = {2};
  const std::int32_t* tokens = m.tokens.data();
  const bool causal = m.program.shape.causal;
  std::vector<backend::Batch> steps = {
      {{{tokens, 36, 0, mine, causal ? Wants::logits(1) : Wants::hidden()}}}};
  if (causal) {
    const bool gives_top = (*executor)->capabilities().top_max > 0;
    steps.push_back({{{tokens, 1, 36, mine, Wants::greatest(1)},
                      {tokens, 5, 0, other, gives_top ? Wants::top(3, 2) : Wants::logits(2)}}});
    const bool carries = m.program.shape.attention_step > 0;
    steps[1].segments[1].states.at = 1;
    if (carries) steps[0].segments[0].states.snapshot = backend::StateSnapshot{20, 2};
    steps.push_back({{{tokens, 1, carries ? 20 : 600, mine, Wants::logits(1)}}});
    steps[2].segments[0].states.from = carries ? 2 : -1;
  }
  for (const backend::Batch& step : steps) {
    const auto result = (*executor)->forward(step);
    EXPECT_TRUE(result.has_value()) << result.error().what;
    EXPECT_EQ(reported(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Races, GpuModels, ::testing::ValuesIn(cases()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace holdfast::races_test
