#include "bench/device_probe_run/run.h"

#include <algorithm>
#include <cstdio>

namespace holdfast::bench::probe {
namespace {

double now_s() {
  return static_cast<double>(now_us()) / 1e6;
}

}  // namespace

Run::Run(Card& card, Report& report, const Options& options, std::string record)
    : card(card), report(report), options(options), record_(std::move(record)), start_s_(now_s()) {}

std::size_t Run::units() const {
  return std::max<std::size_t>(1, card.device().compute_units);
}

double Run::seconds_left() const {
  return options.seconds - (now_s() - start_s_);
}

void Run::fact(const std::string& name, const std::string& value) {
  std::fprintf(stderr, "  %-44s %s\n", name.c_str(), value.c_str());
  report.fact(name, value);
}

void Run::write_record() {
  if (record_.empty()) return;
  const Result<void> written = write_report(report, record_);
  if (!written) std::fprintf(stderr, "bench: %s\n", written.error().what.c_str());
}

bool Run::has_time(const std::string& name) {
  if (seconds_left() > 0) return true;
  std::fprintf(stderr, "  %-44s left out: the time is over\n", name.c_str());
  report.skip(name, "the time of --seconds was over");
  return false;
}

/// The failure's text; empty: none.
std::string Run::run_item(const std::function<void()>& item) {
  card.forget();
  item();
  card.finish();
  const std::string failed = card.error();
  if (!failed.empty()) card.reopen();
  write_record();
  return failed;
}

bool Run::attempt(const std::string& name, const std::function<void()>& item) {
  if (!has_time(name)) return false;
  const std::string failed = run_item(item);
  if (failed.empty()) return true;
  std::fprintf(stderr, "  %-44s FAILED: %s\n", name.c_str(), failed.c_str());
  report.problem(name + ": " + failed);
  write_record();
  return false;
}

bool Run::find_out(const std::string& name, const std::function<void()>& item) {
  if (!has_time(name)) return false;
  const std::string failed = run_item(item);
  fact(name, failed.empty() ? "yes" : "no: " + failed);
  return failed.empty();
}

bool Run::attempt_ptx(const std::string& name, const std::function<void()>& item) {
  if (card.takes_ptx()) return attempt(name, item);
  report.skip(name, "needs PTX, which this compiler does not take");
  std::fprintf(stderr, "  %-44s skipped: needs PTX\n", name.c_str());
  return false;
}

}  // namespace holdfast::bench::probe
