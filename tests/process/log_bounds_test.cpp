// Goal: the logs cannot fill the disk: they have a size bound and a few older files, and what
// strangers can cause is a line a minute with a number. Method: the rotation on files of the test's
// own; a server whose sockets get malformed frames and whose gateway gets invalid keys.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/serve/log_files.h"
#include "shared/base/line_bound.h"
#include "shared/wire/socket.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::log_bounds_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(LineBound, LogLineBound_WithinAMinute_WritesOneLineWithACount) {
  log::LineBound bound;
  constexpr std::int64_t kMinute = log::LineBound::kPeriodUs;
  EXPECT_EQ(bound.count("a", 5).count, 1u);
  for (int i = 0; i < 999; ++i) EXPECT_EQ(bound.count("a", 6 + i).count, 0u);
  EXPECT_EQ(bound.count("b", 7).count, 1u) << "each has its own";
  EXPECT_TRUE(bound.due(kMinute).empty());
  EXPECT_EQ(bound.count("a", kMinute + 5).count, 1000u);
  EXPECT_EQ(bound.count("a", kMinute + 6).count, 0u);
  const auto late = bound.due(2 * kMinute + 10);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].subject, "a");
  EXPECT_EQ(late[0].count, 1u);
  EXPECT_TRUE(bound.due(9 * kMinute).empty()) << "nothing came since";
}

TEST(LineBound, LogLineBound_WithTooManySubjects_CountsThemAsOthers) {
  log::LineBound bound;
  std::uint64_t lines = 0;
  for (int i = 0; i < 10'000; ++i) lines += bound.count(std::to_string(i), 1).count > 0;
  EXPECT_EQ(lines, log::LineBound::kSubjectsMax + 1);
  const auto others = bound.due(2 * log::LineBound::kPeriodUs);
  ASSERT_EQ(others.size(), 1u);
  EXPECT_EQ(others[0].subject, "others");
  EXPECT_EQ(others[0].count, 10'000 - log::LineBound::kSubjectsMax - 1);
}

TEST(LogFiles, LogFile_WhenTooLong_IsRotatedUnderItsWriter) {
  const TempDir dir;
  const std::string path = dir.path() + "/a.log";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const auto write_all = [&](const std::string& text) {
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  const cli::LogBounds bounds{1000, 2};
  write_all(std::string(900, '0'));
  cli::rotate_logs(dir.path(), bounds);
  EXPECT_EQ(fs::file_size(path), 900u) << "not long yet";
  for (const char digit : {'1', '2', '3'}) {
    write_all(std::string(500, digit) + "\n");
    write_all(std::string(600, digit) + "\n");
    cli::rotate_logs(dir.path(), bounds);
    EXPECT_EQ(fs::file_size(path), 0u);
  }
  write_all("last\n");
  close(fd);
  EXPECT_EQ(read_file(path), "last\n") << "it goes on at the beginning";
  EXPECT_EQ(read_file(path + ".1"), std::string(500, '3') + "\n" + std::string(600, '3') + "\n");
  EXPECT_EQ(read_file(path + ".2"), std::string(500, '2') + "\n" + std::string(600, '2') + "\n");
  EXPECT_FALSE(fs::exists(path + ".3"));
  EXPECT_EQ(fs::status(path + ".1").permissions() & fs::perms::others_all, fs::perms::none);
  std::ofstream(path) << std::string(2000, 'x');
  cli::rotate_logs(dir.path(), {1000, 0});
  EXPECT_EQ(fs::file_size(path), 0u);
  EXPECT_EQ(read_file(path + ".1").front(), '3') << "none is kept now";
}

TEST(LogBounds, Serve_WhenALogFileGrows_RotatesIt) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--engine", "fake", "--model", "demo=" + demo_model(), "--log-mib", "1",
                            "--log-files", "1"}))
      << server.errors();
  const std::string log = server.state() + "/logs/gateway.log";
  std::ofstream(log, std::ios::app) << std::string(2 << 20, 'x') << "\n";
  for (int i = 0; i < 100 && fs::file_size(log) > (1 << 20); ++i) usleep(50'000);
  EXPECT_LT(fs::file_size(log), 1u << 20);
  EXPECT_GT(fs::file_size(log + ".1"), 2u << 20);
  EXPECT_EQ(server.cli({"run", "demo", "a", "--max-tokens", "2"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

TEST(LogBounds, Log_WhenStrangersSendGarbage_GetsALineAMinuteWithACount) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--engine", "fake", "--model", "demo=" + demo_model()}))
      << server.errors();
  ASSERT_EQ(server.cli({"keys", "create", "ann"}).code, 0);
  {
    wire::Context context;
    for (int peer = 0; peer < 40; ++peer) {
      auto socket = wire::Socket::open(context, wire::SocketKind::kDealer, {}).value();
      ASSERT_TRUE(socket.connect("ipc://" + server.state() + "/run/clients.sock"));
      for (int sent = 0, tries = 0; sent < 20 && tries < 2000; ++tries) {
        if (socket.send("no frame of ours") == wire::SendStatus::kSent) {
          ++sent;
        } else {
          usleep(1000);
        }
      }
      usleep(2000);
    }
  }
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const auto answer = http_exchange(
        server.url(), http_get_text("/v1/models", {{"Authorization", "Bearer hf_none"}}));
    refused += answer.status == 401;
  }
  EXPECT_GT(refused, 300);
  EXPECT_EQ(server.cli({"status"}).code, 0);
  const auto lines = [](const std::string& path, const std::string& text) {
    const std::string log = read_file(path);
    int found = 0;
    for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  const int malformed = lines(server.state() + "/logs/daemon.log", "malformed messages");
  EXPECT_GE(malformed, 1);
  EXPECT_LE(malformed, 4) << "320 came";
  const int keys = lines(server.state() + "/logs/gateway.log", "keys were refused");
  EXPECT_GE(keys, 1);
  EXPECT_LE(keys, 4);
  EXPECT_NE(read_file(server.state() + "/logs/gateway.log").find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::log_bounds_test
