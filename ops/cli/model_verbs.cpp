// Verbs that make one model file from another.

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/verb_functions.h"
#include "ops/model_tools/convert.h"
#include "ops/model_tools/quantize.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/interrupt.h"
#include "ops/terminal/output.h"
#include "shared/base/processors.h"

namespace holdfast::cli {
namespace {

/// Draws "\r 43% of 1.2 GiB" on a terminal, nothing elsewhere; once for each percent.
class Bar {
 public:
  void operator()(std::uint64_t done, std::uint64_t total) {
    const std::uint64_t percent = total == 0 ? 100 : done * 100 / total;
    if (percent == last_percent_ || isatty(STDERR_FILENO) != 1) return;
    last_percent_ = percent;
    std::fprintf(stderr, "\r\033[K%3.0f%% of %s", static_cast<double>(percent),
                 human_bytes(static_cast<double>(total)).c_str());
    if (done == total) std::fprintf(stderr, "\r\033[K");
  }

 private:
  std::uint64_t last_percent_ = ~std::uint64_t{0};
};

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& line : warnings) {
    std::fprintf(stderr, "holdfast: warning: %s\n", line.c_str());
  }
}

std::string quantized_text(const Quantized& q, const std::string& out) {
  char size[128];
  const double bits = 8.0 * static_cast<double>(q.bytes_out) /
                      static_cast<double>(std::max<std::uint64_t>(q.weights, 1));
  std::snprintf(size, sizeof size, "%s of %s, %.2f bits a weight",
                human_bytes(static_cast<double>(q.bytes_out)).c_str(),
                human_bytes(static_cast<double>(q.bytes_in)).c_str(), bits);
  std::string text = "wrote " + out + ": " + q.type + ", " + size + "\n";
  for (const auto& [type, n] : q.tensors) {
    text += "  " + type + std::string(type.size() < 8 ? 8 - type.size() : 1, ' ') +
            std::to_string(n) + " tensors\n";
  }
  return text;
}

std::int32_t threads_of(const Call& call) {
  return static_cast<std::int32_t>(call.integer("threads", usable_processors()));
}

}  // namespace

int quantize_model(const Call& call) {
  const QuantizeCall job{call.text("IN"), call.text("OUT"), call.text("TYPE"), threads_of(call)};
  const InterruptGuard guard;
  Bar bar;
  const auto made = quantize_file(
      job, [&](std::uint64_t done, std::uint64_t total) { bar(done, total); },
      [] { return check_interrupt("quantize"); });
  if (!made) return report_error(call, made.error());
  const Quantized& q = made.value();
  warn(q.warnings);
  if (call.json) {
    print_document(call, {{"file", job.out},
                          {"type", q.type},
                          {"bytes_in", q.bytes_in},
                          {"bytes_out", q.bytes_out},
                          {"weights", q.weights},
                          {"tensors", q.tensors},
                          {"warnings", q.warnings}});
    return kExitDone;
  }
  std::fputs(quantized_text(q, job.out).c_str(), stdout);
  return kExitDone;
}

int convert(const Call& call) {
  ConvertCall job;
  job.in = call.text("IN");
  job.out = call.text("OUT");
  const InterruptGuard guard;
  Bar bar;
  const auto made = convert_model(
      job, [&](std::uint64_t done, std::uint64_t total) { bar(done, total); },
      [] { return check_interrupt("convert"); });
  if (!made) return report_error(call, made.error());
  warn(made.value().warnings);
  if (call.json) {
    print_document(call, {{"out", job.out},
                          {"form", made.value().to_folder ? "folder" : "gguf"},
                          {"tensors", made.value().tensors},
                          {"bytes", made.value().bytes},
                          {"warnings", made.value().warnings}});
    return kExitDone;
  }
  std::printf("wrote %s: %llu tensors, %s\n", job.out.c_str(),
              static_cast<unsigned long long>(made.value().tensors),
              human_bytes(static_cast<double>(made.value().bytes)).c_str());
  return kExitDone;
}

}  // namespace holdfast::cli
