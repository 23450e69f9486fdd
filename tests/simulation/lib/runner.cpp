#include "tests/simulation/lib/runner.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>
#include <string_view>

#include "control/core/transitions.h"
#include "shared/base/check.h"
#include "tests/simulation/lib/planted.h"

namespace holdfast::simulation {
namespace {

double seconds_now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The time of this process: other processes on the machine do not count.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// One process that works through seeds first, first + step, … and tells each in a line.
struct Job {
  pid_t pid = 0;
  int fd = -1;
  std::uint64_t current = 0;  // the seed that it is at; 0 = it has ended
  std::uint64_t step = 1;
  std::string buffer;
};

std::string counts_line(const Counts& c) {
  std::ostringstream out;
  out << "counts " << c.seeds << ' ' << c.requests << ' ' << c.choices << ' ' << c.tokens << ' '
      << c.commits << ' ' << c.events << ' ' << c.simulated_us;
  for (const auto n : c.faults) out << ' ' << n;
  for (const auto n : c.transitions) out << ' ' << n;
  out << '\n';
  return out.str();
}

Counts parse_counts(const std::string& text) {
  std::istringstream in(text);
  Counts c;
  in >> c.seeds >> c.requests >> c.choices >> c.tokens >> c.commits >> c.events >> c.simulated_us;
  for (auto& n : c.faults) in >> n;
  for (std::uint64_t n = 0; in >> n;) c.transitions.push_back(n);
  return c;
}

void say(int fd, const std::string& line) {
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t n = write(fd, line.data() + at, line.size() - at);
    if (n <= 0) _exit(3);
    at += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void work(int fd, std::uint64_t seed, std::uint64_t step, const RunOptions& options) {
  // A planted bug may make CHECK print: that is not news.
  if (options.bug != Bug::kNone && freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
  plant(options.bug);
  const double end = cpu_seconds() + options.cpu_seconds_max;
  for (; seed <= options.last && cpu_seconds() < end; seed += step) {
    say(fd, "begin " + std::to_string(seed) + "\n");
    const Report report = run_seed(seed);
    say(fd, counts_line(report.counts));
    if (report.failure.empty()) continue;
    say(fd, "failed " + report.failure + "\n");
    if (options.stop_at_failure) break;
  }
  say(fd, "end\n");
  _exit(0);
}

void start(Job& job, std::uint64_t seed, const RunOptions& options) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  job.current = seed;
  job.pid = fork();
  CHECK(job.pid >= 0);
  if (job.pid == 0) {
    close(ends[0]);
    work(ends[1], seed, job.step, options);
  }
  close(ends[1]);
  job.fd = ends[0];
}

void line_of(Job& job, const std::string& line, RunResult& result) {
  if (line.rfind("begin ", 0) == 0) {
    job.current = std::strtoull(line.c_str() + 6, nullptr, 10);
  } else if (line.rfind("counts ", 0) == 0) {
    result.counts.add(parse_counts(line.substr(7)));
    ++result.seeds;
  } else if (line.rfind("failed ", 0) == 0) {
    result.failures.push_back({job.current, line.substr(7)});
  } else if (line == "end") {
    job.current = 0;
  }
}

/// Takes a job's output; false when the job has ended for good.
bool take_output(Job& job, const RunOptions& options, RunResult& result) {
  char bytes[65536];
  const ssize_t n = read(job.fd, bytes, sizeof bytes);
  if (n > 0) {
    job.buffer.append(bytes, static_cast<std::size_t>(n));
    for (std::size_t end; (end = job.buffer.find('\n')) != std::string::npos;) {
      line_of(job, job.buffer.substr(0, end), result);
      job.buffer.erase(0, end + 1);
    }
    return true;
  }
  close(job.fd);
  int status = 0;
  CHECK(waitpid(job.pid, &status, 0) == job.pid);
  job.fd = -1;
  if (job.current == 0) return false;
  result.failures.push_back(
      {job.current, "the process ended (signal " +
                        std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : 0) + ")"});
  ++result.seeds;
  if (options.stop_at_failure || job.current + job.step > options.last) return false;
  start(job, job.current + job.step, options);
  return true;
}

}  // namespace

RunResult run_seeds(const RunOptions& options) {
  RunResult result;
  const double begin = seconds_now();
  std::vector<Job> jobs(static_cast<std::size_t>(options.jobs));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].step = options.stride * static_cast<std::uint64_t>(options.jobs);
    start(jobs[i], options.first + i * options.stride, options);
  }
  for (std::size_t open = jobs.size(); open > 0;) {
    std::vector<pollfd> fds;
    for (const Job& job : jobs) fds.push_back({job.fd, POLLIN, 0});
    if (poll(fds.data(), fds.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].fd >= 0 && fds[i].revents != 0 && !take_output(jobs[i], options, result)) --open;
    }
  }
  result.seconds = seconds_now() - begin;
  return result;
}

/// The faults in [first, last) that were hit fewer than `least` times.
static std::string missing_faults(const Counts& counts, std::size_t first, std::size_t last,
                                  std::uint64_t least) {
  std::string missing;
  for (std::size_t i = first; i < last; ++i) {
    // A switch-over is not reached yet: docs/lab/2026-11-29-pairs-in-the-simulator.md.
    if (counts.faults[i] >= least || i == static_cast<std::size_t>(Fault::kSwitchedOver)) continue;
    missing += "  fault \"" + std::string(fault_name(static_cast<Fault>(i))) +
               "\": " + std::to_string(counts.faults[i]) + "\n";
  }
  return missing;
}

std::string missing_cluster_coverage(const Counts& counts, std::uint64_t least) {
  return missing_faults(counts, static_cast<std::size_t>(Fault::kTakenOver), kFaultCount, least);
}

std::string missing_coverage(const Counts& counts, std::uint64_t least) {
  std::string missing =
      missing_faults(counts, 0, static_cast<std::size_t>(Fault::kTakenOver), least);
  const auto transitions = core::request_transitions();
  for (std::size_t i = 0; i < transitions.size(); ++i) {
    const std::uint64_t n = i < counts.transitions.size() ? counts.transitions[i] : 0;
    if (n >= least) continue;
    missing += "  transition " + std::string(wire::state_name(transitions[i].from)) + " x " +
               std::string(core::change_name(transitions[i].change)) + ": " + std::to_string(n) +
               "\n";
  }
  return missing;
}

std::string coverage_table(const Counts& counts) {
  std::ostringstream out;
  out << counts.seeds << " seeds, " << counts.requests << " requests, " << counts.choices
      << " choices, " << counts.tokens << " tokens made, " << counts.commits << " commits, "
      << counts.simulated_us / 3'600'000'000 << " simulated hours\n";
  for (std::size_t i = 0; i < kFaultCount; ++i) {
    out << "  " << counts.faults[i] << "  " << fault_name(static_cast<Fault>(i)) << "\n";
  }
  const auto transitions = core::request_transitions();
  for (std::size_t i = 0; i < transitions.size() && i < counts.transitions.size(); ++i) {
    out << "  " << counts.transitions[i] << "  " << wire::state_name(transitions[i].from) << " x "
        << core::change_name(transitions[i].change) << " -> " << wire::state_name(transitions[i].to)
        << "\n";
  }
  return out.str();
}

namespace {

Bug bug_named(std::string_view name) {
  for (const BugInfo& info : planted_bugs()) {
    if (info.name == name) return info.bug;
  }
  return Bug::kNone;
}

int show_one(std::uint64_t seed, Bug bug, bool verbose) {
  plant(bug);
  const Report report = run_seed(seed, verbose);
  for (const std::string& line : report.last_lines) std::printf("%s\n", line.c_str());
  std::printf("seed %llu trace %016llx %s\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(report.hash),
              report.failure.empty() ? "ok" : report.failure.c_str());
  return report.failure.empty() ? 0 : 1;
}

}  // namespace

int command_line(int argc, char** argv, bool has_bugs) {
  RunOptions options;
  bool one = false;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--verbose") {
      verbose = true;
      continue;
    }
    if (name == "--stop") {
      options.stop_at_failure = true;
      continue;
    }
    if (i + 1 == argc) return 2;
    char* rest = argv[++i];
    if (name == "--seed") {
      one = true;
      options.first = options.last = std::strtoull(rest, &rest, 10);
    } else if (name == "--seeds") {
      options.first = std::strtoull(rest, &rest, 10);
      if (std::strncmp(rest, "..", 2) != 0) return 2;
      options.last = std::strtoull(rest + 2, nullptr, 10);
    } else if (name == "--jobs") {
      options.jobs = std::max(1, std::atoi(rest));
    } else if (name == "--bug" && has_bugs) {
      options.bug = bug_named(rest);
      if (options.bug == Bug::kNone) return 2;
    } else {
      return 2;
    }
  }
  if (one) return show_one(options.first, options.bug, verbose);
  const RunResult result = run_seeds(options);
  std::printf("%s", coverage_table(result.counts).c_str());
  for (const SeedFailure& f : result.failures) {
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(f.seed), f.what.c_str());
  }
  std::printf("%zu failures in %llu seeds, %.1f s\n", result.failures.size(),
              static_cast<unsigned long long>(result.seeds), result.seconds);
  return result.failures.empty() ? 0 : 1;
}

}  // namespace holdfast::simulation
