#include "bench/matrix_run/runner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/lib/command.h"

namespace holdfast::bench {
namespace {

namespace fs = std::filesystem;

std::string fact(const Report& report, const std::string& name) {
  for (const auto& one : report.facts()) {
    if (one.name == name) return one.value;
  }
  return "";
}

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GB", bytes / 1e9);
  return text;
}

double available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    double kib = 0;
    if (key == "MemAvailable:" && file >> kib) return 1024 * kib;
  }
  return 0;
}

/// Takes the numbers of all cells from the report, which has a record's or this run's.
void learn(const std::vector<Cell>& cells, const Report& report, CellTimeModel& time_model) {
  for (const Cell& cell : cells) {
    const Figure* prefill = report.find(cell.name() + ".prefill");
    const Figure* decode = report.find(cell.name() + ".decode");
    time_model.learn(cell, prefill == nullptr ? 0 : prefill->value,
                     decode == nullptr ? 0 : decode->value);
  }
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t begin = end == std::string::npos ? end : text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, 300);
}

}  // namespace

std::string MatrixRunner::holdfast() const {
  return shell_word(paths_.programs + "/holdfast") + " --json";
}

Result<void> MatrixRunner::resume() {
  if (paths_.record.empty() || !fs::exists(paths_.record)) return {};
  HOLDFAST_TRY(const Report old, read_report(paths_.record));
  const auto refuse = [&](const std::string& what, const std::string& there,
                          const std::string& here) {
    return Error{Errc::kConflict, paths_.record + ": a run with " + what + " \"" + there +
                                      "\", this one has \"" + here +
                                      "\"; name another record or remove this one"};
  };
  if (old.kind() != report_.kind()) return refuse("kind", old.kind(), report_.kind());
  for (const char* name :
       {"build", "processor", "processors", "threads", "kernels", "mode", "contexts"}) {
    if (fact(old, name) != fact(report_, name)) {
      return refuse(name, fact(old, name), fact(report_, name));
    }
  }
  for (const Figure& figure : old.figures()) {
    report_.restore(figure);
    completed_.insert(figure.name.substr(0, figure.name.rfind('.')));
  }
  for (const auto& skipped : old.skipped()) {
    report_.skip(skipped.name, skipped.value);
    completed_.insert(skipped.name);
  }
  return {};
}

Result<void> MatrixRunner::run(const std::vector<Cell>& cells) {
  learn(cells, report_, time_model_);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (completed_.count(cells[i].name()) != 0) continue;
    show_progress(cells, i);
    run_cell(cells[i]);
    completed_.insert(cells[i].name());
    if (!paths_.record.empty()) HOLDFAST_CHECKED(write_report(report_, paths_.record));
  }
  drop_model();
  if (!paths_.record.empty()) HOLDFAST_CHECKED(write_report(report_, paths_.record));
  return {};
}

void MatrixRunner::show_progress(const std::vector<Cell>& cells, std::size_t at) const {
  double seconds = 0;
  std::size_t estimated = 0;
  std::size_t left = 0;
  for (const Cell& cell : cells) {
    if (completed_.count(cell.name()) != 0) continue;
    ++left;
    const auto prefill = time_model_.prefill_seconds(cell);
    const auto decode = time_model_.decode_seconds(cell);
    if (!prefill || !decode) continue;
    ++estimated;
    if (!takes_too_long(prefill)) seconds += *prefill;
    if (!takes_too_long(decode)) seconds += *decode;
  }
  std::string estimate = "time unknown yet";
  if (estimated > 0) {
    const double all = seconds * static_cast<double>(left) / static_cast<double>(estimated);
    estimate = "about " + std::to_string(static_cast<int>(std::ceil(all / 60))) + " min";
  }
  std::fprintf(stderr, "[%zu of %zu] %s; %zu left, %s\n", at + 1, cells.size(),
               cells[at].name().c_str(), left, estimate.c_str());
}

bool MatrixRunner::takes_too_long(const std::optional<double>& seconds) const {
  return seconds && *seconds > limit_s();
}

void MatrixRunner::run_cell(const Cell& cell) {
  const auto skip = [&](const std::string& name, const std::string& reason) {
    std::fprintf(stderr, "  %s skipped: %s\n", name.c_str(), reason.c_str());
    report_.skip(name, reason);
  };
  char text[64];
  std::snprintf(text, sizeof text, "more than %g minutes, by the cells before it",
                options_.minutes);
  if (takes_too_long(time_model_.decode_seconds(cell))) return skip(cell.name(), text);
  const Result<std::string> file = model_file(cell);
  if (!file) return skip(cell.name(), file.error().what);
  if (!fits_memory(cell, *file)) return skip(cell.name(), "more memory than the machine has free");
  time_decode(cell, *file);
  if (!cell.times_prefill()) return;
  if (takes_too_long(time_model_.prefill_seconds(cell)))
    return skip(cell.name() + " prefill", text);
  time_prefill(cell, *file);
}

/// The model file of a cell, made for the first cell that uses it; the previous one is deleted.
Result<std::string> MatrixRunner::model_file(const Cell& cell) {
  if (model_ != cell.model()) {
    drop_model();
    model_ = cell.model();
    model_failure_.clear();
    file_ = paths_.scratch + "/model.gguf";
    std::error_code failed;
    const fs::space_info disk = fs::space(paths_.scratch, failed);
    if (!failed && cell.file_bytes() * 1.1 > static_cast<double>(disk.available)) {
      model_failure_ = "the scratch folder's disk has too little room for " +
                       gigabytes(cell.file_bytes()) + "; name another folder with --dir";
    } else if (const auto made =
                   json_of_command(holdfast() + " synth " + cell.shape.synth + " " +
                                   shell_word(file_) + " --type " + lower(cell.type) + " 2>&1");
               !made) {
      model_failure_ = "no file: " + made.error().what;
    }
  }
  if (!model_failure_.empty()) return Error{Errc::kIo, model_failure_};
  return file_;
}

void MatrixRunner::drop_model() {
  std::error_code ignored;
  if (!file_.empty()) fs::remove(file_, ignored);
  file_.clear();
  model_.clear();
}

/// Uses the envelope that the daemon would reserve: a machine that runs out of memory kills other
/// programs.
bool MatrixRunner::fits_memory(const Cell& cell, const std::string& file) {
  const auto found = json_of_command(holdfast() + " inspect " + shell_word(file) + " --context " +
                                     std::to_string(cell.context + cell.context / 8) +
                                     " --streams " + std::to_string(cell.streams));
  const auto at = nlohmann::json::json_pointer("/memory/kv/f16/total_bytes");
  return found.has_value() && found->contains(at) &&
         found->at(at).get<double>() < 0.95 * available_memory();
}

namespace {
std::string flag(const char* name, std::int64_t value) {
  return std::string(" ") + name + " " + std::to_string(value);
}
}  // namespace

void MatrixRunner::time_prefill(const Cell& cell, const std::string& file) {
  bench(cell, "prefill",
        shell_word(file) + flag("-p", cell.context) + " -n 0" + flag("-r", cell.prefill_samples()));
}

/// Decodes after assumed contexts: to compute them for each of 64 streams would take hours.
void MatrixRunner::time_decode(const Cell& cell, const std::string& file) {
  const std::int64_t grown = std::int64_t{kDecodeSteps} * kDecodeSamples;
  bench(cell, "decode",
        shell_word(file) + " -p 0 --assume-context" + flag("-c", cell.context - grown) +
            flag("-n", kDecodeSteps) + flag("-r", kDecodeSamples) + flag("-b", cell.streams));
}

void MatrixRunner::bench(const Cell& cell, const std::string& what, const std::string& flags) {
  const long seconds = std::max(1L, std::lround(limit_s()));
  std::string command = "timeout --foreground -k 5 " + std::to_string(seconds) + " " + holdfast() +
                        " bench " + flags + flag("-t", options_.threads);
  if (!options_.kernels.empty()) command += " --kernels " + shell_word(options_.kernels);
  const CpuTicks before = read_cpu_ticks();
  const Result<Ended> ended = run_command(command + " 2>&1");
  const double steal = steal_percent(before, read_cpu_ticks());
  if (!ended) return report_.problem(cell.name() + ": " + ended.error().what);
  if (ended->status == 124) {
    return report_.skip(cell.name() + " " + what,
                        "stopped after " + std::to_string(seconds) + " s");
  }
  if (ended->status != 0) {
    return report_.problem(cell.name() + ": " + last_line(ended->out));
  }
  take_figures(cell, what, ended->out, steal);
}

void MatrixRunner::take_figures(const Cell& cell, const std::string& what, const std::string& out,
                                double steal) {
  const nlohmann::json found = last_json(out);
  if (!found.is_object()) return report_.problem(cell.name() + ": " + last_line(out));
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = -1;
  char note[96];
  std::snprintf(note, sizeof note, "%s; steal %.1f %%, load %.1f",
                found.value("kernels", "").c_str(), steal, load);
  auto values = found.value(what + "_samples", std::vector<double>{});
  if (values.empty()) return report_.problem(cell.name() + ": no samples of " + what);
  report_.add_samples(cell.name() + "." + what, std::move(values), "tokens/s", Better::kHigher,
                      std::nullopt, note);
  if (cell.streams == 1 && what == "decode") {
    report_.add(cell.name() + ".of_memory", found.value("stream_percent", 0.0), "%", std::nullopt,
                "weights read a second, of what reading memory alone gives");
  }
  learn({cell}, report_, time_model_);
}

}  // namespace holdfast::bench
