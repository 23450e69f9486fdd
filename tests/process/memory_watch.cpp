#include "tests/process/memory_watch.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "shared/base/host_memory.h"

namespace holdfast::process {
namespace {

using nlohmann::json;

/// Sum of the rows of `reservations`.
std::int64_t reserved_in_database(const std::string& state) {
  sqlite3* db = nullptr;
  std::int64_t sum = -1;
  const std::string path = "file:" + state + "/control.db?mode=ro";
  if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr) ==
      SQLITE_OK) {
    sqlite3_busy_timeout(db, 2000);
    sqlite3_exec(
        db, "SELECT coalesce(sum(bytes), 0) FROM reservations",
        [](void* out, int, char** values, char**) {
          *static_cast<std::int64_t*>(out) = std::atoll(values[0]);
          return 0;
        },
        &sum, nullptr);
  }
  sqlite3_close(db);
  return sum;
}

bool move_to(const std::string& folder) {
  std::ofstream procs(folder + "/cgroup.procs");
  procs << getpid() << std::endl;
  return procs.good();
}

}  // namespace

json ask(client::Client& client, const char* verb, const json& args) {
  const auto answer = client.op(client::AllTenants::local(), verb, args.dump());
  const auto* text = std::get_if<std::string>(&answer);
  return text == nullptr ? json::object() : json::parse(*text);
}

json ask(client::Client& client, const char* verb) {
  return ask(client, verb, json::object());
}

MemoryWatch::MemoryWatch(const TestServer& server, std::int64_t reservable)
    : server_(server), client_(server.operator_client()), reservable_(reservable) {}

void MemoryWatch::look() {
  const json status = ask(*client_, "status");
  std::int64_t sum = 0;
  loads_ = 0;
  for (const json& model : status.value("models", json::array())) {
    for (const json& load : model["loads"]) {
      sum += load["reserved_bytes"].get<std::int64_t>();
      ++loads_;
    }
  }
  for (const json& device : status.value("devices", json::array())) {
    EXPECT_LE(device["reserved_bytes"].get<std::int64_t>(), reservable_) << device;
  }
  most_ = std::max({most_, sum, reserved_in_database(server_.state())});
  EXPECT_LE(most_, reservable_) << status.dump(1);
  const MemoryPool machine = host_memory_pools().at(0);
  least_available_ = std::min(least_available_, 100 * static_cast<double>(machine.available) /
                                                    static_cast<double>(machine.total));
}

void MemoryWatch::look_for(int ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < until) {
    look();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void MemoryWatch::look_until_quiet() {
  for (int i = 0; i < 3000; ++i) {
    look();
    bool busy = false;
    const json models = ask(*client_, "models.list");
    for (const json& model : models.value("models", json::array())) {
      for (const json& load : model["loads"]) busy = busy || load["state"] != "ready";
    }
    if (!busy && loads_ > 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ADD_FAILURE() << "loads go on and on " << server_.errors();
}

LimitedGroup::LimitedGroup(std::int64_t limit) {
  const std::string name = "holdfast-test-" + std::to_string(getpid());
  const auto fits = [&](const std::string& mount, const char* file) {
    const std::string folder = mount + "/" + name;
    if (mkdir(folder.c_str(), 0700) != 0) return false;
    std::ofstream(folder + file) << limit;
    std::int64_t is = 0;
    std::ifstream(folder + file) >> is;
    // The kernel rounds to pages.
    if (limit - is < 1 << 20 && is <= limit) return folder_ = folder, true;
    rmdir(folder.c_str());
    return false;
  };
  (void)(fits("/sys/fs/cgroup/memory", "/memory.limit_in_bytes") ||
         fits("/sys/fs/cgroup", "/memory.max"));
}

LimitedGroup::~LimitedGroup() {
  leave();
  for (int i = 0; i < 100 && !folder_.empty() && rmdir(folder_.c_str()) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool LimitedGroup::enter() {
  std::ifstream cgroup_file("/proc/self/cgroup");
  const bool v1 = folder_.find("/memory/") != std::string::npos;
  for (std::string line; std::getline(cgroup_file, line);) {
    if (v1 && line.find(":memory:") != std::string::npos) {
      home_ = "/sys/fs/cgroup/memory" + line.substr(line.rfind(':') + 1);
    } else if (!v1 && line.starts_with("0::")) {
      home_ = "/sys/fs/cgroup" + line.substr(3);
    }
  }
  return move_to(folder_);
}

void LimitedGroup::leave() {
  if (!home_.empty()) move_to(home_);
  home_.clear();
}

std::int64_t LimitedGroup::killed() const {
  for (const char* file : {"/memory.oom_control", "/memory.events"}) {
    std::ifstream lines(folder_ + file);
    std::string name;
    for (std::int64_t count = 0; lines >> name >> count;) {
      if (name == "oom_kill") return count;
    }
  }
  return -1;
}

}  // namespace holdfast::process
