#include "bench/lib/stats.h"

#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "shared/base/clock.h"

namespace holdfast::bench {
namespace {

std::string proc(pid_t pid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

std::string name_of_filesystem(const std::string& dir) {
  struct statfs fs {};
  if (statfs(dir.c_str(), &fs) != 0) return "unknown";
  switch (static_cast<unsigned long>(fs.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794c7630:
      return "overlayfs";
    default:
      return "type " + std::to_string(fs.f_type);
  }
}

constexpr int kDraws = 2'000;

std::vector<double> drawn_again(const std::vector<double>& values, std::mt19937& random) {
  std::vector<double> drawn;
  for (std::size_t i = 0; i < values.size(); ++i) {
    drawn.push_back(values[random() % values.size()]);
  }
  return drawn;
}

Interval middle(std::vector<double> found) {
  std::sort(found.begin(), found.end());
  return {found[kDraws / 40], found[kDraws - kDraws / 40 - 1]};
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Interval median_interval(const std::vector<double>& values) {
  return ratio_interval(values, {1});
}

Interval ratio_interval(const std::vector<double>& over, const std::vector<double>& under) {
  if (over.empty() || under.empty()) return {};
  std::mt19937 random(1);
  std::vector<double> found;
  for (int i = 0; i < kDraws; ++i) {
    const double top = median(drawn_again(over, random));
    found.push_back(top / median(drawn_again(under, random)));
  }
  return middle(std::move(found));
}

Summary summarize(std::vector<double> values) {
  Summary s;
  s.n = values.size();
  if (values.empty()) return s;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(s.n)));
    return values[std::clamp<std::size_t>(rank, 1, s.n) - 1];
  };
  s.min = values.front();
  s.p50 = at(0.50);
  s.p95 = at(0.95);
  s.p99 = at(0.99);
  s.max = values.back();
  for (const double v : values) s.mean += v / static_cast<double>(s.n);
  return s;
}

double slope(const std::vector<std::pair<double, double>>& points) {
  double x_mean = 0;
  double y_mean = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& [x, y] : points) {
    x_mean += x / n;
    y_mean += y / n;
  }
  double xy = 0;
  double xx = 0;
  for (const auto& [x, y] : points) {
    xy += (x - x_mean) * (y - y_mean);
    xx += (x - x_mean) * (x - x_mean);
  }
  return xx == 0 ? 0 : xy / xx;
}

CpuTicks read_cpu_ticks() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;  // "cpu": user nice system idle iowait irq softirq steal
  CpuTicks ticks;
  std::int64_t value = 0;
  for (int column = 0; column < 8 && file >> value; ++column) {
    ticks.total += value;
    if (column == 3 || column == 4) ticks.idle += value;
    if (column == 7) ticks.steal = value;
  }
  return ticks;
}

double steal_percent(const CpuTicks& from, const CpuTicks& to) {
  const auto total = static_cast<double>(to.total - from.total);
  return total == 0 ? 0 : 100.0 * static_cast<double>(to.steal - from.steal) / total;
}

double busy_percent(const CpuTicks& from, const CpuTicks& to) {
  const auto total = static_cast<double>(to.total - from.total);
  return total == 0 ? 0 : 100.0 - 100.0 * static_cast<double>(to.idle - from.idle) / total;
}

std::int64_t rss_bytes(pid_t pid) {
  std::ifstream file(proc(pid, "statm"));
  std::int64_t size = 0;
  std::int64_t resident = 0;
  if (!(file >> size >> resident)) return -1;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int64_t open_descriptors(pid_t pid) {
  std::error_code gone;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator it(proc(pid, "fd"), gone), end; !gone && it != end;
       it.increment(gone)) {
    ++count;
  }
  return gone ? -1 : count;
}

std::int64_t cpu_ms(pid_t pid) {
  std::ifstream file(proc(pid, "stat"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream rest(text.substr(name_end + 1));
  std::string skip;
  for (int i = 0; i < 11; ++i) rest >> skip;
  std::int64_t user = 0;
  std::int64_t system = 0;
  rest >> user >> system;
  return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

std::int64_t now_us() {
  return system_clock().monotonic_us();
}

std::int64_t wall_ms() {
  return system_clock().wall_ms();
}

void sleep_ms(double ms) {
  if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

MachineFacts read_machine(const std::string& dir) {
  MachineFacts facts;
  std::ifstream cpu("/proc/cpuinfo");
  for (std::string line; std::getline(cpu, line);) {
    if (line.rfind("processor", 0) == 0) ++facts.processors;
    if (line.rfind("model name", 0) == 0) facts.processor = line.substr(line.find(':') + 2);
  }
  std::ifstream memory("/proc/meminfo");
  std::string key;
  memory >> key >> facts.memory_bytes;
  facts.memory_bytes *= 1024;
  utsname kernel{};
  if (uname(&kernel) == 0) facts.kernel = std::string(kernel.sysname) + " " + kernel.release;
  facts.filesystem = name_of_filesystem(dir);
  return facts;
}

}  // namespace holdfast::bench
