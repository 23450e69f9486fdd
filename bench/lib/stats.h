#pragma once
// Numbers of a run: order statistics, slopes, and what /proc says about the machine and a process.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::bench {

struct Summary {
  std::size_t n = 0;
  double min = 0, p50 = 0, p95 = 0, p99 = 0, max = 0, mean = 0;
};
/// Nearest-rank percentiles. All zero for no values.
Summary summarize(std::vector<double> values);

/// The middle value, or the mean of the middle two; 0 for none.
double median(std::vector<double> values);

/// The middle 95 % of the medians of resamples with replacement; the same numbers each time. {0, 0}
/// for no values.
struct Interval {
  double low = 0, high = 0;
};
Interval median_interval(const std::vector<double>& values);
/// The same for median(over) / median(under), each resampled on its own.
Interval ratio_interval(const std::vector<double>& over, const std::vector<double>& under);

/// Least-squares slope of y over x; 0 for fewer than two points or one x.
double slope(const std::vector<std::pair<double, double>>& points);

/// The machine's processor time since its start, in ticks, summed over the processors.
struct CpuTicks {
  std::int64_t total = 0, idle = 0, steal = 0;
};
CpuTicks read_cpu_ticks();
double steal_percent(const CpuTicks& from, const CpuTicks& to);
double busy_percent(const CpuTicks& from, const CpuTicks& to);

/// Values of a process; -1 where it has ended.
std::int64_t rss_bytes(pid_t pid);
std::int64_t open_descriptors(pid_t pid);
/// User and system time of all threads in milliseconds.
std::int64_t cpu_ms(pid_t pid);

std::int64_t now_us();   // monotonic
std::int64_t wall_ms();  // Unix
void sleep_ms(double ms);

/// Facts about the machine for a record: no names of hosts or users, no paths.
struct MachineFacts {
  std::string processor, kernel, filesystem;
  int processors = 0;
  std::int64_t memory_bytes = 0;
};
MachineFacts read_machine(const std::string& dir);

}  // namespace holdfast::bench
