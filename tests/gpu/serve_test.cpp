// Goal: a model on a device is served like any other: concurrent streams, a worker that is killed
// during them, the same text afterwards; a device that is too small is refused with numbers.
// Method: `holdfast serve --device` as real processes, with the demo model; the CLI's own verbs.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/gpu/test_device.h"
#include "tests/process/test_server.h"
#include "worker/backend/api/opencl.h"

namespace holdfast::serve_test {
namespace {

using process::StreamResult;
using process::TestServer;

constexpr std::uint64_t kStreams = 16;
constexpr std::int64_t kTokens = 40;

/// Runs all streams at once, each with a seed of its own. `disturb`, if given, is called in their
/// middle.
std::vector<StreamResult> all_streams(TestServer& server, const std::function<void()>& disturb) {
  std::atomic<bool> disturbed{!disturb};
  std::vector<std::future<StreamResult>> streams;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    streams.push_back(std::async(std::launch::async, [&server, &disturb, &disturbed, i] {
      const auto client = server.client();
      const std::string prompt = "O Romeo, wherefore art thou " + std::to_string(i % 5);
      return process::submit_and_stream(*client, process::make_submit(prompt, kTokens, 100 + i),
                                        [&](std::size_t tokens) {
                                          if (tokens >= 10 && !disturbed.exchange(true)) disturb();
                                        });
    }));
  }
  std::vector<StreamResult> results;
  for (auto& stream : streams) results.push_back(stream.get());
  EXPECT_TRUE(disturbed);
  return results;
}

void expect_same(const TestServer& server, const std::vector<StreamResult>& quiet,
                 const std::vector<StreamResult>& results) {
  for (std::size_t i = 0; i < kStreams; ++i) {
    EXPECT_EQ(quiet[i].failure, "") << server.errors();
    EXPECT_EQ(results[i].failure, "") << server.errors();
    EXPECT_EQ(quiet[i].ids.size(), static_cast<std::size_t>(kTokens));
    EXPECT_EQ(results[i].ids, quiet[i].ids) << i;
    EXPECT_EQ(results[i].text, quiet[i].text) << i;
  }
}

TEST(GpuServe, Streams_WhenTheWorkerOfADeviceIsKilled_GiveTheSameText) {
  HOLDFAST_NEEDS_DEVICE();
  const process::TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--device", gpu::device(), "--model", "demo=" + process::demo_model()}))
      << server.errors();
  const std::vector<StreamResult> quiet = all_streams(server, {});
  const std::vector<StreamResult> results =
      all_streams(server, [&] { EXPECT_TRUE(server.kill_child("worker-0")); });
  expect_same(server, quiet, results);
  EXPECT_GE(server.restarts_of("worker-0"), 1);
  const auto workers = nlohmann::json::parse(server.cli({"--json", "workers", "list"}).out);
  const nlohmann::json& worker = workers.at("workers").at(0);
  EXPECT_EQ(worker.at("device"), gpu::device());
  EXPECT_NE(worker.at("kernels").get<std::string>().find("sub-groups"), std::string::npos);
  EXPECT_GT(worker.at("memory_total").get<std::int64_t>(), 0);
  // The device finds a few candidates, unless a row needs more than them.
  const auto client = server.client();
  wire::Submit top_k_submit = process::make_submit("But soft, what light", kTokens, 7);
  top_k_submit.sampling.top_k = 20;
  top_k_submit.sampling.top_p = 0.9f;
  const StreamResult found = process::submit_and_stream(*client, top_k_submit);
  top_k_submit.sampling.logprobs = 0;
  const StreamResult read = process::submit_and_stream(*client, top_k_submit);
  EXPECT_EQ(found.failure + read.failure, "");
  EXPECT_EQ(found.ids.size(), static_cast<std::size_t>(kTokens));
  EXPECT_EQ(found.ids, read.ids);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

// A launch fails in the middle of a step: the worker reports it and ends, its requests continue,
// and none of them is blamed. Uses kernels that multiply bytes.
TEST(GpuServe, Streams_WhenTheDeviceFails_GiveTheSameText) {
  HOLDFAST_NEEDS_DEVICE();
  const process::TempDir dir;
  const std::string file = dir.path() + "/fail";
  setenv("OPENCL_LAYERS", HOLDFAST_BUILD_DIR "/tests/libgpu_failing_layer.so", 1);
  setenv("HOLDFAST_TEST_DEVICE_FAILS", file.c_str(), 1);
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--device", gpu::device(), "--kernels", "t2", "--workers", "2",
                            "--model", "demo=" + process::demo_model()}))
      << server.errors();
  unsetenv("OPENCL_LAYERS");
  unsetenv("HOLDFAST_TEST_DEVICE_FAILS");
  const std::vector<StreamResult> quiet = all_streams(server, {});
  const std::vector<StreamResult> results =
      all_streams(server, [&] { std::ofstream(file) << "now"; });
  expect_same(server, quiet, results);
  EXPECT_FALSE(std::filesystem::exists(file));
  const auto restarts = [&] {
    return server.restarts_of("worker-0") + server.restarts_of("worker-1");
  };
  for (int i = 0; i < 1000 && restarts() == 0; ++i) {  // the other worker may be done long before
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(restarts(), 1);
  EXPECT_NE(server.errors().find("CL_OUT_OF_RESOURCES"), std::string::npos) << server.errors();
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

// The layers that fit run on the device, the others on the processor; nothing else differs.
TEST(GpuServe, Streams_WithPartialOffloadAndAKilledWorker_GiveTheSameText) {
  HOLDFAST_NEEDS_DEVICE();
  const process::TempDir dir;
  TestServer server(dir.path() + "/state");
  const std::string device = gpu::device() + "+cpu";
  ASSERT_TRUE(server.start({"--device", device, "--model", "demo=" + process::demo_model()}))
      << server.errors();
  const std::vector<StreamResult> quiet = all_streams(server, {});
  const std::vector<StreamResult> results =
      all_streams(server, [&] { EXPECT_TRUE(server.kill_child("worker-0")); });
  expect_same(server, quiet, results);
  const auto workers = nlohmann::json::parse(server.cli({"--json", "workers", "list"}).out);
  EXPECT_EQ(workers.at("workers").at(0).at("device"), device);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(GpuServe, Logits_OnADevice_NameTheirNumericsClassAndRepeatTheirBits) {
  HOLDFAST_NEEDS_DEVICE();
  const auto logits = [](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"holdfast",
                                     "logits",
                                     process::demo_model(),
                                     "--device",
                                     gpu::device(),
                                     "--tokens",
                                     "300,301,302,303,304,305",
                                     "--positions",
                                     "5"};
    args.insert(args.end(), more.begin(), more.end());
    const process::Ended ended = process::run_program(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.out;
  };
  const std::string best = logits({});
  EXPECT_NE(best.find("\"class\":\"opencl/t"), std::string::npos);
  EXPECT_EQ(logits({"--decode"}), best);
  EXPECT_EQ(logits({"--chunk", "2", "--batch", "3"}), best);
  const std::string floats = logits({"--kernels", "t0"});
  EXPECT_NE(floats.find("\"class\":\"opencl/t0."), std::string::npos);
  EXPECT_EQ(logits({"--kernels", "t0", "--decode"}), floats);
  const std::string bytes = logits({"--kernels", "t2"});
  EXPECT_NE(bytes.find("\"class\":\"opencl/t2."), std::string::npos);
  EXPECT_EQ(logits({"--kernels", "t2", "--decode"}), bytes);
}

TEST(GpuServe, Load_WhenTheDeviceIsTooSmall_IsRefusedWithNumbers) {
  HOLDFAST_NEEDS_DEVICE();
  setenv("HOLDFAST_OPENCL_MEMORY", "1000000", 1);
  const process::Ended refused =
      process::run_program({"holdfast", "logits", process::demo_model(), "--device", gpu::device(),
                            "--tokens", "300", "--positions", "0"});
  unsetenv("HOLDFAST_OPENCL_MEMORY");
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("1000000 are free"), std::string::npos) << refused.err;
}

TEST(GpuServe, TimingLayer_WhenLoaded_WritesKernelTimes) {
  HOLDFAST_NEEDS_DEVICE();
  const process::TempDir dir;
  const std::string table = dir.path() + "/times";
  setenv("OPENCL_LAYERS", HOLDFAST_BUILD_DIR "/libholdfast_device_times.so", 1);
  setenv("HOLDFAST_DEVICE_TIMES", table.c_str(), 1);
  const process::Ended ended =
      process::run_program({"holdfast", "bench", process::demo_model(), "--device", gpu::device(),
                            "-p", "0", "-n", "4"});
  unsetenv("OPENCL_LAYERS");
  unsetenv("HOLDFAST_DEVICE_TIMES");
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string times = process::read_file(table);
  for (const char* what : {"all ms", "attention.", "pair_1.", "best."}) {
    EXPECT_NE(times.find(what), std::string::npos) << what << "\n" << times;
  }
}

TEST(GpuServe, Doctor_WithADevice_NamesIt) {
  HOLDFAST_NEEDS_DEVICE();
  const process::TempDir dir;
  const process::Ended ended =
      process::run_program({"holdfast", "--state", dir.path(), "--json", "doctor"});
  const auto document = nlohmann::json::parse(ended.out);
  std::string found, clblast;
  for (const auto& check : document.at("checks")) {
    if (check.at("what") == "device " + gpu::device()) found = check.at("found");
    if (check.at("what") == "CLBlast") clblast = check.at("found");
  }
  const auto version = opencl::clblast_version();
  EXPECT_EQ(clblast, version.has_value() ? *version : "none; " + version.error().what);
  EXPECT_NE(found.find("tier t"), std::string::npos) << ended.out;
  EXPECT_NE(found.find("sub-groups"), std::string::npos) << found;
  EXPECT_NE(found.find("GB/s"), std::string::npos) << found;
}

}  // namespace
}  // namespace holdfast::serve_test
