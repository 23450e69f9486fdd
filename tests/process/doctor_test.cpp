// Goal: whatever is wrong with a deployment, doctor names it, with what was expected and what to
// do, and fails; where nothing is wrong it fails nothing. Method: faults planted one by one into
// real state directories, with and without a daemon; the machine's own faults (swap, limits of
// memory, stolen time) in a made-up /proc and /sys.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/process/test_server.h"

namespace holdfast::process::doctor_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json check_named(const json& document, const std::string& what, const std::string& level) {
  for (const json& check : document.at("checks")) {
    if (check.at("what").get<std::string>().find(what) != std::string::npos &&
        check.at("level") == level) {
      return check;
    }
  }
  return nullptr;
}

class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root() + "/proc/self");
    fs::create_directories(root() + "/proc/sys/vm");
    fs::create_directories(root() + "/sys/kernel/mm/transparent_hugepage");
    put("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\nSwapTotal: 0 kB\n");
    put("/proc/stat", "cpu 100 0 100 800 0 0 0 0 0 0\n");
    put("/proc/cpuinfo", "processor: 0\nflags\t\t: fpu avx2\n");
    put("/proc/sys/vm/overcommit_memory", "0\n");
    put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  }
  std::string state() const { return dir_.path() + "/state"; }
  std::string root() const { return dir_.path() + "/root"; }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }

  json examine(std::vector<std::string> more = {}, const std::string& program = "holdfast") const {
    std::vector<std::string> args = {program,  "--json", "--state", state(),
                                     "doctor", "--root", root()};
    args.insert(args.end(), more.begin(), more.end());
    if (more.empty()) args.insert(args.end(), {"--http", "none"});
    const Ended ended = run_program(args);
    const json document = json::parse(ended.out, nullptr, false);
    EXPECT_TRUE(document.is_object()) << ended.out << ended.err;
    EXPECT_EQ(ended.code, document.value("ok", false) ? 0 : 1);
    return document;
  }
  /// Expects the check, at this level, with these words in its finding and in its advice.
  static void expect(const json& document, const std::string& level, const std::string& what,
                     const std::string& found, const std::string& advice) {
    const json check = check_named(document, what, level);
    ASSERT_FALSE(check.is_null()) << level << " " << what << " is not in " << document.dump(1);
    EXPECT_NE(check["found"].get<std::string>().find(found), std::string::npos) << check;
    EXPECT_NE(check["do"].get<std::string>().find(advice), std::string::npos) << check;
    EXPECT_NE(check["expected"], "");
  }
  void serve_once(const std::string& model) const {
    fs::create_directories(state());
    chmod(state().c_str(), 0700);  // as serve makes it
    TestServer server(state());
    ASSERT_TRUE(server.start({"--model", "m=" + model, "--engine", "fake"})) << server.errors();
    ASSERT_EQ(server.stop(), 0);
  }
  void sql(const std::string& statement) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((state() + "/control.db").c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db, statement.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_close(db);
  }

  TempDir dir_;
};

TEST_F(Doctor, Doctor_WhenNothingIsWrong_ReportsNoFailure) {
  const json before = examine();
  EXPECT_EQ(before["failed"], 0) << before;
  serve_once(demo_model());
  const json after = examine();
  EXPECT_EQ(after["failed"], 0) << after;
  EXPECT_FALSE(check_named(after, "model m", "ok").is_null()) << after;
  EXPECT_FALSE(check_named(after, "database", "ok").is_null());
  EXPECT_FALSE(check_named(after, "sync time", "ok").is_null() &&
               check_named(after, "sync time", "warn").is_null());
  TestServer server(state());
  ASSERT_TRUE(server.start({"--engine", "fake"})) << server.errors();
  const json served = examine();
  EXPECT_EQ(served["failed"], 0) << served;
  EXPECT_FALSE(check_named(served, "daemon", "ok").is_null()) << served;
  const Ended people = run_program({"holdfast", "--state", state(), "doctor", "--root", root()});
  EXPECT_NE(people.out.find("\nok    file system: "), std::string::npos) << people.out;
  EXPECT_NE(people.out.find(" checks, "), std::string::npos);
  ASSERT_EQ(server.stop(), 0);
  for (const auto& entry : fs::directory_iterator(state())) {
    EXPECT_EQ(entry.path().string().find("doctor"), std::string::npos) << "left behind";
  }
}

TEST_F(Doctor, Doctor_WithWrongFileModesOrSettings_ReportsEach) {
  serve_once(demo_model());
  chmod(state().c_str(), 0755);
  fs::create_directories(state() + "/keys");
  chmod((state() + "/keys").c_str(), 0700);
  std::ofstream(state() + "/keys/a.key") << "secret";
  chmod((state() + "/keys/a.key").c_str(), 0644);
  std::ofstream(state() + "/run/supervisor.json") << R"({"pid": 999999999, "children": []})";
  std::ofstream(state() + "/holdfast.conf") << "queue.max_requests = 5\nqueue.old_name = 1\n";
  setenv("HOLDFAST_QUEUE_MAX_NOTHING", "1", 1);
  const json document = examine();
  unsetenv("HOLDFAST_QUEUE_MAX_NOTHING");
  expect(document, "fail", "mode of " + state(), "0755", "chmod 0700");
  expect(document, "fail", "a.key", "0644", "chmod 0600");
  expect(document, "warn", "supervisor", "999999999", "holdfast serve");
  expect(document, "fail", "config file", "line 2", "correct or delete");
  expect(document, "fail", "environment", "HOLDFAST_QUEUE_MAX_NOTHING", "unset");
}

TEST_F(Doctor, Doctor_WhenAModelFileChangedOrIsGone_ReportsIt) {
  const std::string file = dir_.path() + "/m.gguf";
  fs::copy_file(demo_model(), file);
  serve_once(file);
  const auto time = fs::last_write_time(file);
  fs::last_write_time(file, time + std::chrono::seconds(5));
  expect(examine(), "fail", "model m", "was changed", "models add m");
  std::ofstream(file, std::ios::app) << "x";
  expect(examine(), "fail", "model m", "bytes", "models add m");
  fs::remove(file);
  expect(examine(), "fail", "model m", "is not there", "models remove m");
}

TEST_F(Doctor, Doctor_WithADamagedOrForeignDatabase_ReportsIt) {
  serve_once(demo_model());
  sql("INSERT INTO epochs(epoch, started_ms, pid, program)"
      " VALUES (99, 4102444800000, 1, 'x')");  // the year 2100
  expect(examine(), "fail", "clock", "before the newest row", "set the clock");
  sql("DELETE FROM epochs WHERE epoch = 99; PRAGMA user_version = 77");
  expect(examine(), "fail", "database", "version 77", "newer holdfast");
  sql("PRAGMA user_version = 2; PRAGMA application_id = 1");
  expect(examine(), "fail", "database", "application id 1", "restore");
  sql("PRAGMA application_id = 1212568404; CREATE TABLE filler (x); "
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
      "INSERT INTO filler SELECT randomblob(1000) FROM n; PRAGMA wal_checkpoint(TRUNCATE)");
  const auto size = fs::file_size(state() + "/control.db");
  std::fstream damaged(state() + "/control.db", std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(static_cast<std::streamoff>(size / 2 / 4096 * 4096));
  damaged << std::string(4096, 'x');
  damaged.close();
  expect(examine(), "fail", "database", "", "restore");
  std::ofstream(state() + "/control.db") << "this was a database";
  expect(examine(), "fail", "database", "", "restore");
}

TEST_F(Doctor, Doctor_OnABadlyConfiguredMachine_WarnsOfEachCause) {
  put("/proc/meminfo",
      "MemTotal: 8388608 kB\nMemAvailable: 102400 kB\nSwapTotal: 4194304 kB\nSwapFree: 1048576 kB\n"
      "CommitLimit: 2000000 kB\nCommitted_AS: 1000000 kB\n");
  put("/proc/sys/vm/overcommit_memory", "2\n");
  put("/proc/stat", "cpu 100 0 100 600 0 0 0 200 0 0\n");
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  json document = examine();
  expect(document, "warn", "swap", "3.0 GiB of 4.0 GiB", "swapoff");
  expect(document, "warn", "overcommit", "mode 2", "overcommit_memory=0");
  expect(document, "warn", "stolen processor time", "20.0 %", "dedicated");
  expect(document, "warn", "huge pages", "never", "echo madvise");
  expect(document, "warn", "memory", "100.0 MiB available", "unload");
  put("/proc/self/cgroup", "0::/service/holdfast\n");
  put("/sys/fs/cgroup/service/memory.max", "2147483648\n");
  put("/sys/fs/cgroup/service/holdfast/memory.max", "max\n");
  expect(examine(), "warn", "memory", "limited to 2.0 GiB", "unload");
  put("/proc/pressure/memory",
      "some avg10=40.00 avg60=0 avg300=0 total=1\nfull avg10=12.50 avg60=0 avg300=0 total=1\n");
  expect(examine(), "warn", "memory", "waited for memory 12.5 %", "nothing is loaded");
  put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64\n");
  setenv("OCL_ICD_VENDORS", root().c_str(), 1);  // whatever GPU this machine has
  expect(examine(), "warn", "NVIDIA GPU", "does not know", "/etc/OpenCL/vendors/nvidia.icd");
  unsetenv("OCL_ICD_VENDORS");
  const Ended limited =
      run_program({"/bin/bash", "-c",
                   "ulimit -n 200; exec '" HOLDFAST_BIN_DIR "/holdfast' --json --state '" +
                       state() + "' doctor"});
  expect(json::parse(limited.out, nullptr, false), "warn", "open files", "200", "LimitNOFILE");
}

TEST_F(Doctor, Doctor_WithMixedVersionsOrAPortInUse_ReportsThem) {
  const std::string bin = dir_.path() + "/bin";
  fs::create_directories(bin);
  fs::copy_file(HOLDFAST_BIN_DIR "/holdfast", bin + "/holdfast");
  std::ofstream(bin + "/holdfastd") << "#!/bin/sh\necho holdfastd 0.0.9\n";
  chmod((bin + "/holdfastd").c_str(), 0755);
  fs::create_symlink(HOLDFAST_BIN_DIR "/holdfast-worker", bin + "/holdfast-worker");
  fs::create_symlink(HOLDFAST_BIN_DIR "/holdfast-gateway", bin + "/holdfast-gateway");
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length);
  const std::string port = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const json document = examine({"--http", port}, bin + "/holdfast");
  close(taken);
  expect(document, "fail", "holdfastd", "holdfastd 0.0.9", "one version");
  expect(document, "fail", "holdfast-ingress", "cannot be executed", "one folder");
  EXPECT_TRUE(check_named(document, "holdfast-worker", "fail").is_null());
  expect(document, "fail", "HTTP port", "", "--http");
}

TEST_F(Doctor, Doctor_WhileTheDaemonRuns_ReportsItsQueueConfigAndDisk) {
  TestServer server(state());
  ASSERT_TRUE(server.start({"--model", "m=" + demo_model(), "--engine", "fake", "--threads", "64"}))
      << server.errors();
  ASSERT_EQ(server.cli({"config", "set", "link.high_water=99"}).code, 0);
  ASSERT_EQ(server.cli({"config", "set", "storage.min_free_bytes=1099511627776"}).code, 0);
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  const json document = examine();
  expect(document, "warn", "daemon, config", "link.high_water", "restart");
  expect(document, "warn", "daemon, queue", "paused", "queue resume");
  expect(document, "fail", "disk space", "free", "free some space");
  expect(document, "warn", "cores", "64 compute threads", "--threads");
  expect(document, "warn", "cores", "gets the time of 2.5", "--threads");
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::doctor_test
